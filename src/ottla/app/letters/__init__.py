"""Retry topics and dead letters: names, headers with a record's history, and tools to look at and replay them."""
