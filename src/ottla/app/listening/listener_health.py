"""How a listener fares: its status, the reason of a stall, and what it has counted."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ottla.client.metrics.health import ConsumerHealth
from ottla.model import TopicPartition


class ListenerStatus(StrEnum):
    """What a listener does."""

    STARTING = "starting"
    RUNNING = "running"
    REBALANCING = "rebalancing"
    PAUSED = "paused"
    STALLED = "stalled"
    DRAINING = "draining"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True)
class PartitionHealth:
    """An assigned partition: what is in hand, and what it waits for."""

    partition: TopicPartition
    unfinished: int
    """Records that were taken and are not finished."""
    first_unfinished: int | None
    """The offset of the first of them."""
    is_full: bool
    """Whether no more records are fetched until some are finished."""
    retry_due_ms: int | None
    """When the first record that waits for its retry may start."""


@dataclass(frozen=True)
class ListenerHealth:
    """The result of `ListenerRun.health()`."""

    listener: str
    status: ListenerStatus
    reasons: tuple[str, ...] = ()
    """Why it is stalled or failed, a sentence each."""
    consumer: ConsumerHealth | None = None
    partitions: tuple[PartitionHealth, ...] = ()

    @property
    def is_ok(self) -> bool:
        """Whether there is nothing to look at."""
        return not self.reasons and self.status not in (
            ListenerStatus.STALLED,
            ListenerStatus.FAILED,
        )

    @property
    def reason(self) -> str | None:
        """The first reason."""
        return self.reasons[0] if self.reasons else None


@dataclass
class ListenerCounters:
    """How many records came to which end, since the start."""

    received: int = 0
    done: int = 0
    filtered: int = 0
    retried: int = 0
    """Attempts that failed and are made again, in place or through a retry topic."""
    dead_letters: int = 0
    ignored: int = 0
    skipped: int = 0
    """Finished before by this group, as the metadata of the committed offset says."""
    commits: int = 0
    transactions_aborted: int = 0
    rebalances: int = 0
