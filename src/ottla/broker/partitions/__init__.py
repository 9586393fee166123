"""Partitions that a node leads: opening and replaying them, appending, reading for fetches, compaction.

The rules are those of `ottla.core`; the bytes are kept by a storage engine.
"""
