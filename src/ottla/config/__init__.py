"""One frozen dataclass per thing configured, with Kafka's option names."""
