"""The sequencer in PostgreSQL: `postgres_sequencer.py` calls the functions of `sql/functions`, one round trip each.

`schema.py` makes and upgrades the tables, `connections.py` keeps connections, `database_url.py` says to what. Brokers
change nothing but through those functions, so no code path can write around the fence.
"""
