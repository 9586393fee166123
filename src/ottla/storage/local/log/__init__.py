"""The log of one partition: its segments, their indexes, snapshots and leader epochs."""
