"""Metrics of a broker in Prometheus' format, and the HTTP listener that serves them."""
