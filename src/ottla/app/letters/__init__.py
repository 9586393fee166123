"""Retry topics and dead letters: their names, the headers with a record's history, and tools to look at and replay them."""
