"""What clients count and measure under Kafka's names, and the health report of a consumer."""
