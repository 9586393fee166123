"""What a broker tells beyond Kafka's protocol, for `GET /internals` and the console: its newest events, how long its
loop was held, its storage, cleaner, retention, requests and connections (ADR 0058).

Nothing is computed here unless it is asked for; what has to be noted as it happens is noted where it happens, with a
limit.
"""
