"""Kafka's semantics as pure state machines: no IO, clock, randomness, threads or asyncio."""
