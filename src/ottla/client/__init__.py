"""Talking to a Kafka cluster from Python."""
