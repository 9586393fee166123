"""Group coordination: pure state machines over the events of a `__consumer_offsets` partition.

Here: the machine, its requests, events and records, and committed offsets. Each protocol has a room of its own:
`classic`, and `consumer` (KIP-848).
"""
