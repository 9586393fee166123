"""Partitions that a node leads: opening and replaying them, appending, reading for fetches, compaction.

The rules are in `ottla.core`; a storage engine has the bytes.
"""
