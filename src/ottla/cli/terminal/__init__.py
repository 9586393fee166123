"""The terminal: results, progress, log lines and signals. Nothing here knows of Kafka."""
