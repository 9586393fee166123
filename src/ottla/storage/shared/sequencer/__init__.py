"""The sequencer: sessions of brokers, claims of partitions, and the order of what is appended to them.

`sequencer.py` is the interface, `records.py` what goes over it. `postgres/` has it in PostgreSQL, `memory.py` in this
process. `tests/storage/shared` holds both to the same answers.
"""
