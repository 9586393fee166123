"""The health report of a consumer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.model import TopicPartition


@dataclass(frozen=True)
class ConsumerHealth:
    """The result of `Consumer.health()`; times are None for events that have not happened yet."""

    ok: bool
    reasons: tuple[str, ...] = ()
    """The problems, a sentence each; empty if `ok`."""
    seconds_since_poll: float | None = None
    seconds_since_heartbeat: float | None = None
    """Since the coordinator last answered a heartbeat; None without a group."""
    seconds_since_progress: float | None = None
    """Since a position last moved; None before the first time."""
    seconds_without_broker: float | None = None
    """Since no broker answers; None while one does."""
    lag: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The lag of each assigned partition, where it is known."""
