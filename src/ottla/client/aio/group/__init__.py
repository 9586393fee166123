"""A consumer's membership in its group, on asyncio: finding the coordinator, rebalances, heartbeats, committed offsets.

`group.py` is what the consumer sees. `classic/` implements the classic protocol: join, sync, heartbeat, leave. The
modules beside it do not depend on the protocol: `coordinator`, `offset_commit`, `commits`, `auto_commit`,
`offset_fetch`, `rebalance_listener`, `subscribed_topics`. Another protocol is a folder beside `classic/` and a line in
`protocols.py`.
"""
