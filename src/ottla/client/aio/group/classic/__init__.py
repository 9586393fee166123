"""The classic group protocol: JoinGroup, the leader's assignment, SyncGroup, Heartbeat, LeaveGroup.

`member` is what the consumer polls; `rebalance` leads it from one assignment to the next.
"""
