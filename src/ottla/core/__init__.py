"""Kafka's semantics as pure state machines: no IO, clock, randomness, threads or asyncio.

Outcomes are types. A decision returns a named type for each possible outcome, such as
`Append | AlreadyAppended | Refused`. `Refused` (`outcomes.py`) is the only way to say no; it has the client's error.
A check, which only permits or refuses, returns `Refused | None`: None permits. `ErrorCode.NONE` is a number of the
wire format and does not occur in core, except in `error_of`, with which handlers write an outcome into a response.

The rules of a request are in the module of its name: `produce` (what may be appended), `fetch` (what may be read),
`group/` and `txn/` (coordinators), `catalog` (topics). `partition` and `producer_state` hold the state of a partition.
"""
