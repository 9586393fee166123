"""What tests of Kafka programs need: a pytest plugin with a real broker."""
