"""The memory engine's store: partitions, claims and the catalog."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from ottla.config.topic import TopicConfig
from ottla.histogram import Histogram
from ottla.model import topic_id_text
from ottla.ports import (
    Catalog,
    CatalogConflictError,
    Clock,
    DamagedError,
    Follower,
    JsonValue,
    LogDir,
    PartitionLog,
    PartitionRef,
    StorageError,
    UnclaimedLog,
    monotonic_ms,
)
from ottla.storage.memory.log import MemoryLog
from ottla.storage.memory.segments import Budget, MemoryPartition, MemorySegment

DEFAULT_MAX_BYTES: Final = 1024 * 1024 * 1024


class MemoryCatalog:
    """Implements Catalog."""

    def __init__(self) -> None:
        self._entries: dict[str, JsonValue] = {}
        self._revision = 0
        self._follower: Follower | None = None

    @property
    def revision(self) -> int:
        return self._revision

    def entries(self) -> Mapping[str, JsonValue]:
        return MappingProxyType(self._entries)

    def follow(self, follower: Follower) -> None:
        self._follower = follower

    def commit(self, changes: Mapping[str, JsonValue], expected_revision: int) -> int:
        if expected_revision != self._revision:
            raise CatalogConflictError(
                f"the catalog is at revision {self._revision}, not {expected_revision}"
            )
        # Through JSON: callers keep no reference to stored values, and other engines can store the same ones.
        stored = json.loads(json.dumps(dict(changes)))
        for key, value in stored.items():
            if value is None:
                self._entries.pop(key, None)
            else:
                self._entries[key] = value
        self._revision += 1
        if self._follower is not None:
            self._follower(self._revision, stored)
        return self._revision


class MemoryStore:
    """Implements LogStore."""

    def __init__(self, *, clock: Clock, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self._clock = clock
        self._cluster_id = topic_id_text(uuid.uuid4())
        self._budget = Budget(max_bytes)
        self._catalog = MemoryCatalog()
        self._epoch = 1
        self._partitions: dict[tuple[str, int], MemoryPartition] = {}
        self._logs: dict[tuple[str, int], MemoryLog] = {}
        self._closed = False
        self._syncs = Histogram()  # nothing ever reaches a disk

    @property
    def cluster_id(self) -> str:
        return self._cluster_id

    @property
    def catalog(self) -> Catalog:
        return self._catalog

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError("the memory engine is closed")

    def epoch_of(self, ref: PartitionRef) -> int:
        log = self._logs.get((ref.topic, ref.partition))
        if log is not None and log.ref == ref:
            return log.epoch
        return self._next_epoch(ref)

    def _next_epoch(self, ref: PartitionRef) -> int:
        partition = self._partitions.get((ref.topic, ref.partition))
        claimed = partition is not None and partition.ref == ref and partition.epoch == self._epoch
        return self._epoch + 1 if claimed else self._epoch

    def raise_epochs(self, refs: Iterable[PartitionRef]) -> None:
        self._check_open()
        self._epoch += 1  # one counter for all of them

    def claim(self, ref: PartitionRef, config: TopicConfig) -> MemoryLog:
        self._check_open()
        key = (ref.topic, ref.partition)
        earlier = self._logs.pop(key, None)
        if earlier is not None:
            earlier.fence()
        partition = self._partitions.get(key)
        if partition is not None and partition.ref != ref:
            self._drop(partition)
            partition = None
        self._epoch = self._next_epoch(ref)
        if partition is None:
            first = MemorySegment(0, monotonic_ms(self._clock), 0, self._clock.now_ms())
            partition = MemoryPartition(ref, [first], [0])
            self._partitions[key] = partition
        partition.epoch = self._epoch
        log = MemoryLog(partition, self._epoch, config, self._clock, self._budget, self._release)
        self._logs[key] = log
        return log

    def _release(self, log: MemoryLog) -> None:
        self._logs.pop((log.ref.topic, log.ref.partition), None)

    def _drop(self, partition: MemoryPartition) -> None:
        self._budget.used_bytes -= sum(segment.cost_bytes for segment in partition.segments)
        self._budget.used_bytes -= sum(len(data) for data in partition.snapshots.values())
        del self._partitions[partition.ref.topic, partition.ref.partition]

    def delete(self, ref: PartitionRef) -> None:
        self._check_open()
        key = (ref.topic, ref.partition)
        partition = self._partitions.get(key)
        if partition is None or partition.ref != ref:
            return
        log = self._logs.pop(key, None)
        if log is not None:
            log.fence()
        self._drop(partition)

    def sync_deletions(self) -> None:
        """Nothing here survives the process."""

    def partitions(self) -> Sequence[PartitionRef]:
        return [partition.ref for partition in self._partitions.values()]

    def offline(self) -> Mapping[PartitionRef, StorageError]:
        return {}

    def condemn(self, ref: PartitionRef, error: DamagedError) -> None:
        """Does nothing: the caller will find the damage again."""

    def has_data(self, ref: PartitionRef) -> bool:
        partition = self._partitions.get((ref.topic, ref.partition))
        return partition is not None and partition.ref == ref

    def unclaimed(
        self, refs: Iterable[PartitionRef]
    ) -> Mapping[PartitionRef, UnclaimedLog | StorageError]:
        found: dict[PartitionRef, UnclaimedLog | StorageError] = {}
        for ref in refs:
            key = (ref.topic, ref.partition)
            partition = self._partitions.get(key)
            if key in self._logs or partition is None or partition.ref != ref:
                continue
            segments = partition.segments
            found[ref] = UnclaimedLog(
                sum(segment.size_bytes for segment in segments),
                segments[0].max_timestamp_ms,
                partition.start_offset,
                segments[-1].end_offset,
            )
        return found

    def log_dirs(self) -> Sequence[LogDir]:
        sizes = {
            key: sum(segment.size_bytes for segment in partition.segments)
            for key, partition in self._partitions.items()
        }
        usable_bytes = self._budget.max_bytes - self._budget.used_bytes
        return [LogDir("memory", self._budget.max_bytes, usable_bytes, sizes)]

    @property
    def syncs(self) -> Histogram:
        return self._syncs

    def trim_all(self, starts: Mapping[PartitionLog, int]) -> Sequence[StorageError | None]:
        failed: list[StorageError | None] = []
        for log, start_offset in starts.items():
            try:
                log.trim(start_offset)
            except StorageError as error:
                failed.append(error)
            else:
                failed.append(None)
        return failed

    def tick(self, now_ms: int) -> None:
        """Nothing is ever due."""

    def close(self) -> None:
        for log in list(self._logs.values()):
            log.close()
        self._closed = True
