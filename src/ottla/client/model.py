"""The values that producers and consumers take and return."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self, TypeAlias, overload

from ottla.model import TopicPartition
from ottla.records.record import TimestampType

if TYPE_CHECKING:
    # Python has defaults of type variables from 3.13 on; type checkers know them before.
    from typing_extensions import TypeVar

    K_co = TypeVar("K_co", default=Any, covariant=True)
    V_co = TypeVar("V_co", default=Any, covariant=True)
else:
    from typing import TypeVar

    K_co = TypeVar("K_co", covariant=True)
    V_co = TypeVar("V_co", covariant=True)

Headers = tuple[tuple[str, bytes | None], ...]
"""Names with values, in order; a name may occur more than once."""

HeadersToSend: TypeAlias = Mapping[str, bytes | None] | Sequence[tuple[str, bytes | None]] | None
"""The headers of a record as `send` takes them: a dict, or pairs if a name occurs more than once."""

NO_TIMESTAMP = -1
NO_OFFSET = -1


class VersionRange(NamedTuple):
    """The versions of an API or of a feature that a broker supports, both ends included."""

    min_version: int
    max_version: int


class Node(NamedTuple):
    """A broker and where to reach it."""

    id: int
    host: str
    port: int
    rack: str | None = None


class PartitionInfo(NamedTuple):
    """A partition by the metadata of the cluster."""

    topic: str
    partition: int
    leader: Node | None
    replicas: tuple[Node, ...]
    in_sync_replicas: tuple[Node, ...]
    offline_replicas: tuple[Node, ...] = ()


class ProducerRecord(NamedTuple):
    """A record to send, as interceptors see it: `record._replace(value=…)` makes a changed one."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None


class RecordMetadata(NamedTuple):
    """Where a record was written; `offset` is -1 with acks=0, sizes are -1 for None."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    serialized_key_size: int
    serialized_value_size: int

    @property
    def timestamp(self) -> int:
        """The same as `timestamp_ms`, which programs should use: its name has the unit."""
        return self.timestamp_ms


class ConsumerRecord(NamedTuple, Generic[K_co, V_co]):
    """A record that a consumer has read; `ConsumerRecord[str, Order]` declares the types of key and value."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: TimestampType
    """Whether the producer or the broker has set `timestamp_ms`; equal to Kafka's number, 0 or 1."""
    key: K_co
    value: V_co
    headers: Headers
    leader_epoch: int | None
    serialized_key_size: int
    serialized_value_size: int

    @property
    def timestamp(self) -> int:
        """The same as `timestamp_ms`, which programs should use: its name has the unit."""
        return self.timestamp_ms


def _check_offset(offset: object) -> None:
    if not isinstance(offset, int) or isinstance(offset, bool):
        raise TypeError(f"an offset is a whole number, not {offset!r}")
    if offset < 0:
        raise ValueError(f"an offset cannot be negative: {offset}")


class _Committed(NamedTuple):
    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


class OffsetAndMetadata(_Committed):
    """A committed position: the offset of the next record to read, with metadata of the program."""

    __slots__ = ()

    def __new__(cls, offset: int, metadata: str = "", leader_epoch: int | None = None) -> Self:
        """An offset from 0 on."""
        _check_offset(offset)
        return super().__new__(cls, offset, metadata, leader_epoch)


class OffsetAndTimestamp(NamedTuple):
    """The first record at or after a requested time."""

    offset: int
    timestamp_ms: int
    leader_epoch: int | None = None

    @property
    def timestamp(self) -> int:
        """The same as `timestamp_ms`, which programs should use: its name has the unit."""
        return self.timestamp_ms


class ConsumerGroupMetadata(NamedTuple):
    """The identity of a group member, with which a transaction commits its offsets (KIP-447)."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


@dataclass(frozen=True)
class SubscriptionPattern:
    """A regular expression in RE2's syntax that the broker matches with whole names of topics, for `subscribe`.

    It needs group.protocol=consumer. `re.compile(...)` is matched by the client, with any protocol.
    """

    pattern: str

    def __post_init__(self) -> None:
        if not self.pattern:
            raise ValueError(f"{self.pattern!r} is no pattern: give one, as in 'orders-.*'")

    def __str__(self) -> str:
        return self.pattern


Topics: TypeAlias = Iterable[str] | str | re.Pattern[str] | SubscriptionPattern
"""What `subscribe` takes: names of topics, or a pattern."""


class ConsumerRecords(Sequence[ConsumerRecord[K_co, V_co]]):
    """The records of one poll, partition after partition, each in the order of its log."""

    __slots__ = ("_by_partition", "_flat", "next_offsets")

    def __init__(
        self,
        by_partition: Mapping[TopicPartition, Sequence[ConsumerRecord[K_co, V_co]]] | None = None,
        next_offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
    ) -> None:
        self._by_partition = by_partition or {}
        self.next_offsets: Mapping[TopicPartition, OffsetAndMetadata] = next_offsets or {}
        """The offsets to commit once these records are processed."""
        self._flat: Sequence[ConsumerRecord[K_co, V_co]] | None = None

    def partitions(self) -> list[TopicPartition]:
        """The partitions that have records."""
        return list(self._by_partition)

    def records(self, partition: tuple[str, int] | str) -> Sequence[ConsumerRecord[K_co, V_co]]:
        """The records of a partition, or of all partitions of a topic."""
        if isinstance(partition, str):
            return [record for record in self if record.topic == partition]
        return self._by_partition.get(TopicPartition(*partition), ())

    def count(self, record: object = None) -> int:
        """The number of records, or of those that are equal to `record`."""
        return len(self) if record is None else super().count(record)

    def __iter__(self) -> Iterator[ConsumerRecord[K_co, V_co]]:
        return iter(self._all())

    def __len__(self) -> int:
        return sum(map(len, self._by_partition.values()))

    @overload
    def __getitem__(self, index: int) -> ConsumerRecord[K_co, V_co]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ConsumerRecord[K_co, V_co]]: ...
    def __getitem__(
        self, index: int | slice
    ) -> ConsumerRecord[K_co, V_co] | Sequence[ConsumerRecord[K_co, V_co]]:
        return self._all()[index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConsumerRecords):
            return NotImplemented
        return self._by_partition == other._by_partition

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ConsumerRecords({len(self)} of {len(self._by_partition)} partitions)"

    def _all(self) -> Sequence[ConsumerRecord[K_co, V_co]]:
        """All records in one sequence, which is made when it is first needed."""
        if self._flat is None:
            parts = list(self._by_partition.values())
            # Many polls return records of one partition, which need not be copied.
            self._flat = parts[0] if len(parts) == 1 else [r for part in parts for r in part]
        return self._flat


EMPTY_RECORDS = ConsumerRecords()
"""The result of a poll without records."""
