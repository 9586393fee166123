"""Writes topics: tasks encode rows, the driver commits each micro-batch in one transaction, with a marker.

`writers` and `batch_writer` are Spark's way in, `low_latency_engine` is that of a Pipeline. `commit_planner` makes the
`commit_plan`, `commit_decision` decides on it, `micro_batch_commit` carries it out.
"""
