"""Metrics of the clients, by Kafka's names, and the health report of a consumer."""
