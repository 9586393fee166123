"""A schema registry with Confluent's REST API, over a compacted topic of any Kafka cluster.

In here: the state machine (`state`, `decisions`: pure), its records (`stored_records`), the log that keeps them and the
election of the one writer (`schema_log`, `leadership`), and HTTP (`routes`, `http_server`). What schemas mean and
whether one can read the other's data is in `schemas.compatibility`; a registry's client is in `schemas`.
"""
