"""The engine for several brokers on several machines: PostgreSQL, and an S3-compatible store for large data.

`SharedStore` implements the ports over two small interfaces: a sequencer (`sequencer/`: the order of everything, in
PostgreSQL) and objects (`objects/`: the bytes, in S3 or in PostgreSQL). Each has a fake in memory with the same rules,
for tests and the simulator. Nothing here knows Kafka's semantics.
"""
