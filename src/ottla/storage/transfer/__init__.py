"""Data that moves from one storage engine to another while no broker serves it.

Nothing here knows Kafka's rules: batches, snapshots and the catalog are copied as they are.
"""
