"""Pipelines of Spark's `format("ottla")`, as they show in a cluster: their ids, groups and markers (ADR 0030)."""
