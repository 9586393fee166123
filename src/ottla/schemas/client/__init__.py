"""The client of schema registries: requests without IO, and a blocking and an asyncio client over them.

`operations` has the requests, the caches and the answers as generators that yield `Send` and `Pause`; `blocking` and
`aio` do what they yield. Not in here: what serializers make of schemas.
"""
