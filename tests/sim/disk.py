"""A storage engine with bad days: the memory engine, whose appends fail, or take their time, or are lost in a crash."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from tests.sim.loop import Owner, VirtualLoop
from tests.sim.network import NOBODY
from tests.sim.trace import Trace

from ottla.config.topic import TopicConfig
from ottla.ports import (
    Buffer,
    Clock,
    Extent,
    FencedError,
    JsonValue,
    PartitionRef,
    StorageError,
    StorageFullError,
)
from ottla.storage.memory import MemoryCatalog, MemoryLog, MemoryPartition, MemoryStore


@dataclass(frozen=True)
class DiskWeather:
    """How bad the disk is; the numbers without a unit are probabilities, each for one append or claim."""

    refused: float = 0.0  # an append fails, and nothing was written
    full: float = 0.0
    written: float = 0.0  # an append fails although it was written
    late: float = 0.0  # an append becomes durable later; a crash before may lose it
    late_seconds: tuple[float, float] = (0.001, 2.0)
    late_failed: float = 0.0  # of the late ones, how many fail in the end, and may be lost
    claim_failed: float = 0.0
    catalog_failed: float = 0.0  # a change of the catalog fails, and nothing was changed


FINE = DiskWeather()


class _Unsettled:
    """An append that is not durable yet."""

    def __init__(self, future: asyncio.Future[None], settles_at: float, batch_count: int) -> None:
        self.future = future
        self.settles_at = settles_at
        self.batch_count = batch_count


class FaultyLog:
    """Implements PartitionLog over one of the memory engine's."""

    def __init__(self, inner: MemoryLog, store: FaultyStore, owner: Owner | None) -> None:
        self._inner = inner
        self._store = store
        self.owner = owner
        self._failed = False
        self._unsettled: deque[_Unsettled] = deque()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _check(self) -> None:
        if self.owner is not None and not self.owner.is_alive:
            raise AssertionError(f"a dead node uses {self._inner.ref}")
        if self._failed:
            raise StorageError(f"{self._inner.ref} has to be claimed anew")

    def append(
        self, data: Buffer, extents: Sequence[Extent], expected_end_offset: int
    ) -> asyncio.Future[None] | None:
        self._check()
        weather, rng = self._store.weather, self._store.rng
        drawn = rng.random()
        for fate in ("refused", "full", "written", "late"):
            drawn -= getattr(weather, fate)
            if drawn < 0:
                break
        else:
            fate = ""
        if fate == "refused":
            self._note("fails")
            self._fail(StorageError("nothing was written"))
        if fate == "full":
            self._note("finds no room")
            raise StorageFullError("there is no room")
        self._inner.append(data, extents, expected_end_offset)
        if fate == "written":
            self._note("fails although it was written")
            self._fail(StorageError("written, but who knows"))
        if fate == "late" or self._unsettled:
            return self._settle_later(len(extents))
        return None

    def _note(self, what: str) -> None:
        ref = self._inner.ref
        self._store.trace.note("an append to {}-{} {}", ref.topic, ref.partition, what)

    def _fail(self, error: StorageError) -> None:
        """The log is of no more use, nor is what was on its way to the disk."""
        self._failed = True
        self._end_unsettled(error)
        raise error

    # Appends that become durable later, in their order: a sync makes everything before it durable.

    def _settle_later(self, batch_count: int) -> asyncio.Future[None]:
        store = self._store
        settles_at = store.loop.time() + store.rng.uniform(*store.weather.late_seconds)
        if self._unsettled:
            settles_at = max(settles_at, self._unsettled[-1].settles_at)
        fails = store.rng.random() < store.weather.late_failed
        future: asyncio.Future[None] = store.loop.create_future()
        future.add_done_callback(_retrieve)
        unsettled = _Unsettled(future, settles_at, batch_count)
        self._unsettled.append(unsettled)
        store.loop.call_at(settles_at, self._settle, unsettled, fails, context=NOBODY.context)
        return future

    def _settle(self, unsettled: _Unsettled, fails: bool) -> None:
        if not self._unsettled or unsettled not in self._unsettled:
            return
        if fails:
            self._note("is not known to be durable")
            self._failed = True
            self._lose_some()
            self._end_unsettled(StorageError("the sync failed"))
        else:
            while self._unsettled:
                first = self._unsettled.popleft()
                first.future.set_result(None)
                if first is unsettled:
                    break

    def _end_unsettled(self, error: StorageError) -> None:
        while self._unsettled:
            future = self._unsettled.popleft().future
            if not future.done():
                future.set_exception(error)

    def flush(self) -> asyncio.Future[None] | None:
        self._check()
        if not self._unsettled:
            return None
        flushed: asyncio.Future[None] = self._store.loop.create_future()
        flushed.add_done_callback(_retrieve)

        def follow(last: asyncio.Future[None]) -> None:
            error = last.exception()
            if flushed.done():
                return
            if error is None:
                flushed.set_result(None)
            else:
                flushed.set_exception(error)

        self._unsettled[-1].future.add_done_callback(follow, context=NOBODY.context)
        return flushed

    def roll(self) -> None:
        self._check()
        self._inner.roll()

    def read(self, offset: int, max_bytes: int, end_offset: int) -> Buffer:
        self._check()
        return self._inner.read(offset, max_bytes, end_offset)

    def scan(self, offset: int, max_bytes: int, end_offset: int) -> Buffer:
        return self.read(offset, max_bytes, end_offset)

    @property
    def is_open(self) -> bool:
        return not self._failed and self._inner.is_open

    # The end of a claim.

    def fence(self) -> None:
        """Somebody else has claimed it; what was written stays."""
        self._failed = True
        self._end_unsettled(FencedError(f"{self._inner.ref} was claimed anew"))

    def crash(self) -> None:
        """The node has died."""
        self._failed = True
        self._lose_some()
        self._unsettled.clear()

    def _lose_some(self) -> None:
        """Of what was not durable, some is lost, from the end."""
        at_risk = sum(unsettled.batch_count for unsettled in self._unsettled)
        lost = self._store.rng.randint(0, at_risk)
        if lost:
            self._note(f"is lost: {lost} batches of the {at_risk} that were not durable yet")
            cut_tail(self._inner._partition, lost)


def _retrieve(future: asyncio.Future[None]) -> None:
    """Nobody has to look at the outcome."""
    if not future.cancelled():
        future.exception()


def cut_tail(partition: MemoryPartition, batch_count: int) -> None:
    """Removes the last batches, as a crash does that comes before the disk has them."""
    for _ in range(batch_count):
        while not partition.segments[-1].batches:
            partition.segments.pop()
            partition.bases.pop()
        segment = partition.segments[-1]
        for column in (segment.batches, segment.last_offsets, segment.timestamps_ms, segment.ends):
            cast(list[Any], column).pop()
        last_offsets = segment.last_offsets
        segment.end_offset = last_offsets[-1] + 1 if last_offsets else segment.base_offset
        segment.max_timestamp_ms = max(segment.timestamps_ms, default=-1)
    end_offset = partition.segments[-1].end_offset
    kept = [span for span in partition.segments[-1].aborted if span.last_offset < end_offset]
    partition.segments[-1].aborted[:] = kept
    partition.epochs = [epoch for epoch in partition.epochs if epoch.start_offset < end_offset]
    for offset in [offset for offset in partition.snapshot_offsets if offset > end_offset]:
        partition.snapshot_offsets.remove(offset)
        del partition.snapshots[offset]


class FaultyCatalog(MemoryCatalog):
    """The catalog of the memory engine."""

    def __init__(self, store: FaultyStore) -> None:
        super().__init__()
        self._store = store

    def commit(self, changes: Mapping[str, JsonValue], expected_revision: int) -> int:
        store = self._store
        if store.weather.catalog_failed and store.rng.random() < store.weather.catalog_failed:
            store.trace.note("the catalog does not take {}", sorted(changes))
            raise StorageError("not now")
        return super().commit(changes, expected_revision)


class FaultyStore(MemoryStore):
    """The memory engine; what it keeps outlives the nodes."""

    def __init__(
        self, loop: VirtualLoop, clock: Clock, rng: random.Random, trace: Trace, cluster_id: str
    ) -> None:
        super().__init__(clock=clock)
        self._cluster_id = cluster_id
        self._catalog = FaultyCatalog(self)
        self.loop = loop
        self.rng = rng
        self.trace = trace
        self.weather = FINE
        self.claims: dict[tuple[str, int], FaultyLog] = {}
        self.claimant: Callable[[PartitionRef], Owner | None] = lambda ref: None

    def claim(self, ref: PartitionRef, config: TopicConfig) -> MemoryLog:
        if self.weather.claim_failed and self.rng.random() < self.weather.claim_failed:
            self.trace.note("a claim of {}-{} fails", ref.topic, ref.partition)
            raise StorageError("not now")
        key = (ref.topic, ref.partition)
        earlier = self.claims.get(key)
        if earlier is not None:
            earlier.fence()
        inner = super().claim(ref, config)
        owner = self.claimant(ref)
        log = self.claims[key] = FaultyLog(inner, self, owner)
        self.trace.note(
            "{} claims {}-{}, epoch {}", str(owner), ref.topic, ref.partition, inner.epoch
        )
        return cast(MemoryLog, log)

    def crash(self, owner: Owner) -> None:
        """A node has died: its claims are over."""
        for log in self.claims.values():
            if log.owner is owner:
                log.crash()

    def batches(self, topic: str, partition: int) -> list[bytes]:
        """All that is written to a partition, whoever leads it."""
        found = self._partitions.get((topic, partition))
        return [] if found is None else [batch for kept in found.segments for batch in kept.batches]
