"""What an Ottla broker tells beyond Kafka's protocol (ADR 0058), as the console knows it: one question for all.

`console.internals.latest` is the newest report with the rates since the one before, or None where there is none: other
clusters tell nothing, and a broker that is down neither. `console.events` has the events of the broker's log.
"""
