"""Kafka's wire protocol: declared messages, compiled on first use into a codec for each version."""
