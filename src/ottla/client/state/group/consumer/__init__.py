"""A member of a group that follows the protocol of KIP-848, without IO.

`membership` has its states and what errors of heartbeats mean, `reconciliation` the way from the partitions that it has
to the target that the coordinator gave it, `heartbeat_fields` what a heartbeat contains.
"""
