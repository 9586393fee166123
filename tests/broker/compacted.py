"""A compacted partition with its cleaner and a clock to move, and what readers make of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple

from tests.storage.batches import SteppingClock

from ottla.broker.clock import SystemIds
from ottla.broker.cluster import Cluster
from ottla.broker.node import Node
from ottla.broker.partitions.compactor import Compactor
from ottla.broker.partitions.replay import Replay
from ottla.broker.partitions.shard import Shard
from ottla.config.broker import BrokerConfig
from ottla.core.catalog import NewTopic, Topic
from ottla.core.compaction import Aborted
from ottla.core.partition import Partition
from ottla.ports import Extent, LogStore, PartitionLog, Snapshot
from ottla.records.batch import BatchFlag, BatchHeader, build_batch, read_batch, read_header
from ottla.records.batch import split_batches as split
from ottla.records.compression import Codec
from ottla.records.control import MarkerType, build_marker_batch
from ottla.records.record import Record

END = 2**62
RETENTION_MS = 1000
TOPIC = "orders"


class Producer(NamedTuple):
    producer_id: int = -1
    epoch: int = -1
    sequence: int = -1
    flags: BatchFlag = BatchFlag.NONE


NOBODY = Producer()


class CompactedLog:
    """One partition of a node; the cleaner runs only when it is told to."""

    def __init__(
        self,
        store: LogStore,
        clock: SteppingClock,
        options: Mapping[str, str] | None = None,
        **broker_options: object,
    ) -> None:
        self.clock = clock
        self.store = store
        names = {name.replace("_", "."): value for name, value in broker_options.items()}
        self.node = Node(Cluster(store, clock, SystemIds()), BrokerConfig.read(names))
        self.node.cluster.join(self.node)
        config = {
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "0",
            "delete.retention.ms": str(RETENTION_MS),
            **(options or {}),
        }
        self.compactor = Compactor(self.node)
        self._config = config
        self._create(TOPIC)

    def _create(self, topic: str) -> None:
        self.topic = topic
        if topic in self.node.cluster.catalog.topics:
            return  # made before the store was closed, or before a crash
        (made,) = self.node.topics.create([NewTopic(topic, 1, 1, {}, self._config)])
        assert isinstance(made, Topic), made

    def beside(self, topic: str) -> CompactedLog:
        """Another topic of the same node."""
        other = copy(self)
        other._create(topic)
        return other

    @property
    def shard(self) -> Shard:
        shard = self.node.partitions.shard(self.topic, 0)
        assert isinstance(shard, Shard)
        return shard

    def append(
        self,
        *pairs: tuple[bytes | None, bytes | None],
        producer: Producer = NOBODY,
        codec: Codec = Codec.NONE,
        timestamp_ms: int | None = None,
    ) -> list[Record]:
        """Appends one batch with these keys and values, past every check."""
        base_offset = self.shard.partition.end_offset
        now_ms = self.clock.now_ms() if timestamp_ms is None else timestamp_ms
        records = [
            Record(base_offset + number, now_ms + number, key, value, (("h", b"%d" % number),))
            for number, (key, value) in enumerate(pairs)
        ]
        self.append_batch(
            build_batch(
                records,
                base_offset=base_offset,
                leader_epoch=self.shard.log.epoch,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                base_sequence=producer.sequence,
                flags=producer.flags,
                codec=codec,
            )
        )
        return records

    def end_transaction(self, producer: Producer, outcome: MarkerType) -> int:
        offset = self.shard.partition.end_offset
        self.append_batch(
            build_marker_batch(
                outcome,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                coordinator_epoch=0,
                timestamp_ms=self.clock.now_ms(),
                base_offset=offset,
                leader_epoch=self.shard.log.epoch,
            )
        )
        return offset

    def append_batch(self, data: bytes) -> None:
        shard = self.shard
        header = read_header(data, 0)
        extent = Extent(header.base_offset, header.last_offset, header.max_timestamp, len(data))
        shard.log.append(data, [extent], shard.partition.end_offset)
        shard.partition.apply(header, header.base_offset, data, self.clock.now_ms())
        shard.partition.advance_high_watermark(shard.partition.end_offset)

    def roll(self) -> None:
        self.shard.roll()

    def clean(self) -> bool:
        """Lets the cleaner clean one log."""
        return asyncio.run(self.compactor.clean_dirtiest())

    def clean_all(self) -> None:
        self.roll()
        while self.clean():
            pass

    def claim_anew(self) -> None:
        self.node.partitions.discard(self.shard)

    # What is there.

    def chunks(self) -> list[bytes]:
        found = []
        offset = self.shard.log.start_offset
        while chunk := bytes(self.shard.log.read(offset, 200, END)):
            found.append(chunk)
            offset = split(chunk)[-1][1].last_offset + 1
        return found

    def headers(self) -> list[BatchHeader]:
        return [header for chunk in self.chunks() for _, header in split(chunk)]

    def records(self) -> list[Record]:
        """Every record of data, whatever became of its transaction."""
        start = self.shard.log.start_offset
        return [
            record
            for chunk in self.chunks()
            for position, header in split(chunk)
            if not header.is_control
            for record in read_batch(chunk, position)
            if record.offset >= start
        ]

    def committed(self) -> list[Record]:
        """What a read_committed consumer gets."""
        aborted = Aborted()
        for chunk in self.chunks():
            aborted.see(chunk)
        start, stable = self.shard.log.start_offset, self.shard.partition.last_stable_offset
        return [
            record
            for chunk in self.chunks()
            for position, header in split(chunk)
            if not header.is_control
            and not (
                header.is_transactional and aborted.has(header.producer_id, header.base_offset)
            )
            for record in read_batch(chunk, position)
            if start <= record.offset < stable
        ]

    def replayed(self) -> Partition:
        """The state that the log alone gives, without a snapshot."""
        log = self.shard.log
        made = Replay(WithoutSnapshots(log), self.clock.now_ms())
        while not made.is_over:
            made.advance(7)
        return made.partition


class WithoutSnapshots:
    """A log whose state nobody has saved."""

    def __init__(self, log: PartitionLog) -> None:
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def snapshots(self) -> Iterator[Snapshot]:
        return iter(())


def pairs(records: Sequence[Record]) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in records]
