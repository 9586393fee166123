"""A consumer's membership in its group, on asyncio: finding the coordinator, rebalances, heartbeats, committed offsets.

`group.py` is what the consumer sees. `classic/` implements the classic protocol: join, sync, heartbeat, leave;
`consumer/` that of KIP-848. The modules beside them do not depend on the protocol: `coordinated_member` has what
members of both do alike. Another protocol is a folder and a line in `protocols.py`.
"""
