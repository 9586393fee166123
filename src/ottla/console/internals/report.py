"""The page of a broker's internals as types; what it lacks is a broker of another version, and an error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Durations:
    """Counts of durations by upper bound; the last count is of what is longer than all bounds."""

    bounds_ms: list[float]
    counts: list[int]
    total_ms: float

    @property
    def count(self) -> int:
        return sum(self.counts)

    def since(self, before: Durations | None) -> Durations:
        """Those that came after an earlier answer of the same process."""
        if before is None or before.bounds_ms != self.bounds_ms:
            return self
        return Durations(
            self.bounds_ms,
            [max(0, now - then) for now, then in zip(self.counts, before.counts, strict=True)],
            max(0.0, self.total_ms - before.total_ms),
        )

    def quantile_ms(self, share: float) -> float | None:
        """The bound below which this share of the durations is: no less than the quantile; None without any."""
        left = share * self.count
        if not left:
            return None
        for bound, count in zip(self.bounds_ms, self.counts, strict=False):
            left -= count
            if left <= 0:
                return bound
        return self.bounds_ms[-1] * 2


@dataclass(frozen=True)
class Hold:
    """How long the loop served nobody, once."""

    at_ms: int
    held_ms: float


@dataclass(frozen=True)
class Loop:
    """The worst hold of each stretch of time of the last hour, and the newest long ones."""

    worst_held_ms: float
    interval_ms: int
    intervals: list[Hold]
    long_hold_ms: int
    long_holds: list[Hold]


@dataclass(frozen=True)
class Disk:
    total_bytes: int
    free_bytes: int


@dataclass(frozen=True)
class TopicStorage:
    """`open_partitions` have been used since the start; the segments are theirs."""

    name: str
    partitions: int
    size_bytes: int
    open_partitions: int
    segments: int


@dataclass(frozen=True)
class Storage:
    """The logs; `topics` are the largest."""

    folder: str | None
    disk: Disk | None
    topic_count: int
    partition_count: int
    size_bytes: int
    topics: list[TopicStorage]
    syncs: Durations


@dataclass(frozen=True)
class PartitionName:
    topic: str
    partition: int


@dataclass(frozen=True)
class Compaction:
    """One that was done."""

    topic: str
    partition: int
    at_ms: int
    took_ms: float
    end_offset: int
    dirty_keys: int
    bytes_before: int
    bytes_after: int


@dataclass(frozen=True)
class CompactedPartition:
    """A log that the cleaner looks after."""

    topic: str
    partition: int
    size_bytes: int
    dirty_bytes: int
    dirty_ratio: float
    min_dirty_ratio: float
    cleaned_offset: int | None
    """Up to where it was compacted; None if it never was."""
    cleanable_to_offset: int
    end_offset: int
    state: str


@dataclass(frozen=True)
class Cleaner:
    """The compaction of a node."""

    is_enabled: bool
    rounds: int
    is_at_work: bool
    last_began_at_ms: int | None
    last_took_ms: float | None
    cleaning: PartitionName | None
    compactions: list[Compaction]
    partitions: list[CompactedPartition]
    uncleanable_count: int
    uncleanable: list[PartitionName]


@dataclass(frozen=True)
class Retention:
    """The deletion of old segments of a node."""

    interval_ms: int
    rounds: int
    is_at_work: bool
    last_began_at_ms: int | None
    last_took_ms: float | None


@dataclass(frozen=True)
class ApiCounts:
    """The requests for one API since the start."""

    api: str
    received: int
    waiting: int
    without_response: int
    errors: Mapping[str, int]
    durations: Durations


@dataclass(frozen=True)
class NodeInternals:
    """One node of the broker."""

    node_id: int
    led_partitions: int
    open_partitions: int
    offline_count: int
    offline: list[PartitionName]
    connections: int
    connections_by_listener: Mapping[str, int]
    connections_accepted: int
    connections_refused: int
    connections_faulted: int
    received_bytes: int
    sent_bytes: int
    cleaner: Cleaner
    retention: Retention
    requests: list[ApiCounts] = field(default_factory=list)


@dataclass(frozen=True)
class BrokerReport:
    """All that the page tells; `instance` is another after each start of the broker."""

    version: str
    instance: str
    cluster_id: str
    started_at_ms: int
    at_ms: int
    loop: Loop
    storage: Storage
    nodes: list[NodeInternals]


@dataclass(frozen=True)
class BrokerEvent:
    """An event of the broker's log; `sentence` is its text, `fields` are what the text is made of."""

    sequence: int
    at_ms: int
    level: str
    name: str | None
    sentence: str
    logger: str
    fields: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)
    trace: str | None = None


@dataclass(frozen=True)
class EventsPage:
    """The events behind a number."""

    instance: str
    newest: int
    events: list[BrokerEvent]
