"""Whether a consumer is well, and if not, why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.model import TopicPartition


@dataclass(frozen=True)
class ConsumerHealth:
    """What `Consumer.health()` found; times are None for what has not happened yet."""

    ok: bool
    reasons: tuple[str, ...] = ()
    """What is wrong, a sentence each; empty if all is well."""
    seconds_since_poll: float | None = None
    seconds_since_heartbeat: float | None = None
    """Since the coordinator answered a heartbeat; None without a group."""
    seconds_since_progress: float | None = None
    """Since any position moved; None before the first time."""
    seconds_without_broker: float | None = None
    """Since brokers could be asked last; None while one answers."""
    lag: Mapping[TopicPartition, int] = field(default_factory=dict)
    """How many offsets each assigned partition has left, where that is known."""
