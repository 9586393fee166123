"""Rows of topics and partitions, why last stable offsets stand, configs, plans of changes.

What only decides is here and does no IO; the API asks the cluster. Records are in `api/records`.
"""
