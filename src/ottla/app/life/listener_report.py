"""What a listener says about itself at one moment; gathered on the app's loop, read on any thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ottla.model import TopicPartition


class Phase(StrEnum):
    """Where a listener is in its life."""

    STARTING = "starting"
    """It has not been assigned partitions yet; other members of the group may have all of them later."""
    RUNNING = "running"
    REBALANCING = "rebalancing"
    PAUSED = "paused"
    """The program has paused it."""
    DRAINING = "draining"
    STOPPED = "stopped"
    FAILED = "failed"


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
    phase: Phase
    partitions: int = 0
    rebalances: int = 0
    lag: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The records behind the listener in each of its partitions, where it is known."""
    stalls: tuple[Stall, ...] = ()
    failure: str | None = None
