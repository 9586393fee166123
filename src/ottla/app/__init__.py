"""Kafka in an application: listeners, templates, retries and dead letters, over the client's public API.

Belongs here: what `from ottla.app import …` offers, and one folder for each part of it. `declarations/` turns what
users write into data, `delivery/` decides without IO, `listening/` runs consumers and commits, `letters/` has retry
topics and dead letters, `outbox/` the part in a database. Anything that knows the broker does not belong here: an app
works with every Kafka cluster.

Names are imported on first use; __init__.pyi has them for type checkers.
"""

from __future__ import annotations

_HOMES = {
    "application": "App",
    "declarations.annotations": (
        "Arrow Depends Header Headers Key Offset Partition Record Timestamp To Topic Value"
    ),
    "declarations.compiled_handler": "Acknowledgement",
    "declarations.listener": "Listener",
    "declarations.retries": "Retry every",
    "declared_topics": "DeclaredTopic",
    "errors": "BatchItemError HandlerTimeoutError ResultError StartError UnreadableRecordError",
    "letters.letter": "DeadLetter",
    "template": "CollectedRecord",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _HOME_OF:
        raise AttributeError(f"module 'ottla.app' has no attribute {name!r}")
    value = getattr(import_module(f"ottla.app.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__doc__"]
