"""The group protocol of KIP-848: the coordinator gives each member a target, and heartbeats are the only requests.

`member` is what the consumer polls; `heartbeat` sends ConsumerGroupHeartbeat; `reconciler` takes partitions over and
gives them up, in poll.
"""
