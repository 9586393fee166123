"""What a broker counts and measures, in Prometheus' format, and the HTTP listener that shows it."""
