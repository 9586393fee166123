"""Ottla: exactly-once event streaming for Python and Spark.

import ottla

with ottla.Broker() as broker:
    print(broker.bootstrap_servers)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.version import VERSION

if TYPE_CHECKING:
    from ottla.broker.embedded import Broker
    from ottla.errors import (
        AbortableError,
        ConfigError,
        ErrorCode,
        FatalError,
        IllegalStateError,
        KafkaError,
        OttlaError,
        RetriableError,
    )
    from ottla.model import TopicPartition

__version__ = VERSION

# Imported on first use, so that `import ottla` and the command line start quickly.
_HOMES = {"Broker": "ottla.broker.embedded", "TopicPartition": "ottla.model"}

__all__ = [
    "AbortableError",
    "Broker",
    "ConfigError",
    "ErrorCode",
    "FatalError",
    "IllegalStateError",
    "KafkaError",
    "OttlaError",
    "RetriableError",
    "TopicPartition",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'ottla' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES.get(name, "ottla.errors")), name)
    globals()[name] = value
    return value
