"""What a terminal shows and sends: results, progress, log lines and signals. Nothing here knows of Kafka."""
