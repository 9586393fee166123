"""What a listener says about itself at one moment; gathered on the app's loop, read on any thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.app.listening.listener_health import ListenerStatus
from ottla.model import TopicPartition


@dataclass(frozen=True)
class Stall:
    """A reason why records are not handled; `key` stays the same while the reason lasts, the text has its duration."""

    key: str
    text: str
    is_fatal: bool = False
    """Only a restart of the process would help."""


@dataclass(frozen=True, kw_only=True)
class ListenerReport:
    """A listener at one moment."""

    name: str
    group: str
    status: ListenerStatus
    partitions: int = 0
    rebalances: int = 0
    lag: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The records behind the listener in each of its partitions, where it is known."""
    stalls: tuple[Stall, ...] = ()
    failure: str | None = None
    seconds_without_broker: float = 0.0
