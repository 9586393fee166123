"""Log compaction at work: one log at a time, the dirtiest first, in slices between which requests are served."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar

from ottla.broker.node import Node
from ottla.broker.partitions.shard import Shard
from ottla.broker.partitions.work_rounds import WorkRounds
from ottla.core.compaction import (
    Aborted,
    Cleanable,
    Cleaning,
    KeptBatch,
    LastOffsets,
    LastOfProducer,
    cleanable,
    first_dirty_offset,
    group_segments,
    is_overdue,
    last_of_producers,
)
from ottla.events import EventLog
from ottla.ports import (
    Buffer,
    Clock,
    DamagedError,
    Extent,
    FencedError,
    PartitionLog,
    PartitionRef,
    SegmentInfo,
    StorageError,
)
from ottla.ports.futures import settled, when_read
from ottla.records.batch import (
    DEFAULT_LIMIT_BYTES,
    RECORDS_AT_ONCE,
    BatchHeader,
    crc_matches,
    read_header,
    split_batches,
)
from ottla.records.errors import CorruptRecordsError, TooLargeError

logger = EventLog(__name__)

REST_SECONDS: Final = 15.0
KEPT_COMPACTIONS: Final = 50
# Of compacted topics, this many partitions that are unused or led elsewhere are passed over at once.
PARTITIONS_PER_STEP: Final = 256

READ_BYTES: Final = 128 * 1024
# The length of a slice, for which requests may have to wait; one batch is never divided.
SLICE_SECONDS: Final = 0.001
# A batch that is larger, or decompresses to more, is cleaned on a thread.
CLEANED_AT_ONCE_BYTES: Final = 1 << 20

T = TypeVar("T")


class DirtyLog(NamedTuple):
    shard: Shard
    cleanable: Cleanable


class Compaction(NamedTuple):
    """A log that was compacted."""

    ref: PartitionRef
    at_ms: int
    seconds: float
    end_offset: int
    dirty_keys: int
    bytes_before: int
    bytes_after: int


class CleanerPace:
    """Shares the loop with requests, and obeys log.cleaner.io.max.bytes.per.second."""

    def __init__(self, max_bytes_per_second: float, clock: Clock) -> None:
        self._max_bytes_per_second = max_bytes_per_second
        self._clock = clock
        self._began = clock.monotonic_seconds()
        self._slice_began = self._began
        self._bytes = 0

    def moved(self, size_bytes: int) -> None:
        """Counts bytes that were read or written."""
        self._bytes += size_bytes

    async def rest(self) -> None:
        """Lets the loop serve requests if the slice is over; waits if the cleaner was too fast."""
        now = self._clock.monotonic_seconds()
        ahead_seconds = self._bytes / self._max_bytes_per_second - (now - self._began)
        if ahead_seconds <= 0 and now - self._slice_began < SLICE_SECONDS:
            return
        await asyncio.sleep(max(ahead_seconds, 0))
        self._slice_began = self._clock.monotonic_seconds()


class Compactor:
    """Cleans the compacted logs that a node leads."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._clock = node.cluster.clock
        self._resting: dict[PartitionRef, float] = {}  # until when, after storage trouble
        self._cleaning = asyncio.Lock()  # a log has one replacement at a time
        self.rounds = WorkRounds(self._clock)
        self.cleaning_ref: PartitionRef | None = None
        """The log that is cleaned now."""
        self.compactions: deque[Compaction] = deque(maxlen=KEPT_COMPACTIONS)

    async def run(self) -> None:
        """Cleans for ever, and pauses when nothing is dirty enough."""
        while True:
            await asyncio.sleep(max(self._node.options.config.log_cleaner_backoff_ms, 1) / 1000)
            try:
                await self.clean_all()
            except Exception as error:
                logger.bug("compaction_failed", "compaction failed: this is a bug", error)

    async def clean_all(self) -> None:
        """Cleans until no log is dirty enough; a second caller waits for the first."""
        async with self._cleaning:
            with self.rounds.round():
                while await self.clean_dirtiest():
                    pass

    async def clean_dirtiest(self) -> bool:
        """Cleans the log with the largest dirty share; False if there was none to clean."""
        dirtiest: DirtyLog | None = None
        for shard in self._compacted_shards():
            if shard is None:
                await asyncio.sleep(0)
                continue
            try:
                found = await self._look_at(shard)
            except (StorageError, CorruptRecordsError) as error:
                self._leave_alone(shard, error)
                continue
            if found is not None and (
                dirtiest is None or found.dirty_ratio > dirtiest.cleanable.dirty_ratio
            ):
                dirtiest = DirtyLog(shard, found)
            await asyncio.sleep(0)
        if dirtiest is None:
            return False
        ref = self.cleaning_ref = dirtiest.shard.log.ref
        try:
            return await self._clean(dirtiest)
        except FencedError:
            # Another node leads it now, or it was claimed again: the next round has its new shard.
            logger.info(
                "compaction_given_up",
                "partition %(topic)s-%(partition)d: the compaction was given up",
                topic=ref.topic,
                partition=ref.partition,
            )
            assert self._node.partitions.shard(ref.topic, ref.partition) is not dirtiest.shard
        except (StorageError, CorruptRecordsError) as error:
            self._leave_alone(dirtiest.shard, error)
        except Exception as error:
            # Otherwise it would be the dirtiest in every round, and no other log would be cleaned.
            logger.bug(
                "compaction_impossible",
                "partition %(topic)s-%(partition)d cannot be compacted",
                error,
                topic=ref.topic,
                partition=ref.partition,
            )
            self._node.partitions.uncleanable[ref] = dirtiest.shard.log.epoch
        finally:
            self.cleaning_ref = None
        # It must not hold up other dirty logs.
        return True

    def _leave_alone(self, shard: Shard, error: StorageError | CorruptRecordsError) -> None:
        """Does not clean a log for some time, or never; clients go on using it, because the rest may be undamaged."""
        log = shard.log
        if not log.is_open:
            shard.fail(error)
            self._rest(log.ref)
        elif isinstance(error, DamagedError | CorruptRecordsError):
            logger.error(
                "partition_uncleanable",
                "partition %(topic)s-%(partition)d is not compacted any more, because it is damaged: %(reason)s",
                topic=log.ref.topic,
                partition=log.ref.partition,
                reason=str(error),
            )
            self._node.partitions.uncleanable[log.ref] = log.epoch
        else:
            logger.warning(
                "compaction_postponed",
                "partition %(topic)s-%(partition)d is not compacted now: %(reason)s",
                topic=log.ref.topic,
                partition=log.ref.partition,
                reason=str(error),
            )
            self._rest(log.ref)

    def is_resting(self, ref: PartitionRef) -> bool:
        """Whether the log is left alone for now, after storage trouble."""
        return self._clock.monotonic_seconds() < self._resting.get(ref, 0.0)

    def _rest(self, ref: PartitionRef) -> None:
        self._resting[ref] = self._clock.monotonic_seconds() + REST_SECONDS

    def _compacted_shards(self) -> Iterator[Shard | None]:
        """The partitions that may be cleaned; None where requests should be served first."""
        number = 0
        for topic in list(self._node.cluster.catalog.topics.values()):
            if not self._node.options.topic_config(topic).compacts:
                continue
            for partition in range(topic.partition_count):
                number += 1
                if not number % PARTITIONS_PER_STEP:
                    yield None
                # Most of the fifty partitions of an internal topic are never used: they stay unclaimed.
                if not self._node.partitions.leads_records_of(topic, partition):
                    continue
                shard = self._node.partitions.shard(topic.name, partition)
                if isinstance(shard, Shard) and self._may_clean(shard.log):
                    yield shard

    def _may_clean(self, log: PartitionLog) -> bool:
        return self._node.partitions.uncleanable.get(log.ref) != log.epoch and not self.is_resting(
            log.ref
        )

    async def _look_at(self, shard: Shard) -> Cleanable | None:
        """The part of a log that may be cleaned; None if it is not dirty enough."""
        log, config = shard.log, shard.config
        now_ms = self._node.cluster.clock.now_ms()
        found = cleanable_part(shard, now_ms)
        overdue = config.max_compaction_lag_ms <= now_ms and await _is_overdue(
            shard, log.segments()[:-1], found.first_dirty_offset, now_ms
        )
        return found if found.is_due(config.min_cleanable_dirty_ratio, overdue) else None

    async def _clean(self, dirty: DirtyLog) -> bool:
        """Cleans one log; False if its segments were deleted meanwhile."""
        shard, extent = dirty
        log, config = shard.log, shard.config
        now_ms = self._node.cluster.clock.now_ms()
        pace = CleanerPace(
            self._node.options.config.log_cleaner_io_max_bytes_per_second, self._clock
        )
        began, size_bytes = self._clock.monotonic_seconds(), log.size_bytes
        aborted = await self._find_aborted(shard, extent, pace)
        offsets = await self._map_keys(shard, extent, aborted, pace)
        cleaning = Cleaning(offsets, aborted, extent.end_offset, now_ms, config.delete_retention_ms)
        groups = group_segments(
            [segment for segment in log.segments() if segment.base_offset < offsets.end_offset],
            config.segment_bytes,
            config.segment_index_bytes,
            config.index_interval_bytes,
        )
        for group in groups:
            if not await self._rewrite(shard, group, cleaning, pace):
                return False
        await settled(log.save_cleaned_offset(offsets.end_offset))
        seconds = self._clock.monotonic_seconds() - began
        self.compactions.append(
            Compaction(
                log.ref,
                at_ms=self._clock.now_ms(),
                seconds=seconds,
                end_offset=offsets.end_offset,
                dirty_keys=len(offsets.by_key),
                bytes_before=size_bytes,
                bytes_after=log.size_bytes,
            )
        )
        logger.info(
            "partition_compacted",
            "partition %(topic)s-%(partition)d: compacted up to %(offset)d in %(seconds).3f s, "
            "%(keys)d keys were dirty, %(bytes_before)d bytes are now %(bytes)d",
            topic=log.ref.topic,
            partition=log.ref.partition,
            offset=offsets.end_offset,
            seconds=round(seconds, 3),
            keys=len(offsets.by_key),
            bytes_before=size_bytes,
            bytes=log.size_bytes,
        )
        return True

    async def _find_aborted(self, shard: Shard, extent: Cleanable, pace: CleanerPace) -> Aborted:
        aborted = Aborted()
        offset = shard.log.start_offset
        # A transaction that began below the last stable offset has its marker below the high watermark.
        while offset < extent.end_offset or aborted.has_open:
            chunk = await _scan(shard, offset, shard.partition.high_watermark)
            if not chunk:
                break
            offset = aborted.see(chunk)
            await pace.rest()
        return aborted

    async def _map_keys(
        self, shard: Shard, extent: Cleanable, aborted: Aborted, pace: CleanerPace
    ) -> LastOffsets:
        limit_bytes = self._node.options.config.log_cleaner_dedupe_buffer_size
        offsets = LastOffsets(limit_bytes, extent.first_dirty_offset)
        offset = extent.first_dirty_offset
        while offset < extent.end_offset:
            chunk = await _scan(shard, offset, extent.end_offset)
            if not chunk:
                break
            for position, header in split_batches(chunk):
                add = partial(_add, offsets, chunk, position, header, aborted)
                if not await self._read_batch(header, add):
                    return offsets
                offset = header.last_offset + 1
                await pace.rest()
            pace.moved(len(chunk))
            await pace.rest()
        offsets.seen_up_to(extent.end_offset)
        return offsets

    async def _rewrite(
        self, shard: Shard, group: Sequence[SegmentInfo], cleaning: Cleaning, pace: CleanerPace
    ) -> bool:
        """Replaces neighbouring segments by one with the records that stay."""
        producers = last_of_producers(shard.partition.producers)
        replacement = shard.log.begin_replacement([segment.base_offset for segment in group])
        try:
            offset, end_offset = group[0].base_offset, group[-1].end_offset
            while offset < end_offset:
                chunk = memoryview(await _scan(shard, offset, end_offset))
                if not chunk:
                    break
                kept: list[KeptBatch] = []
                kept_bytes = 0
                for position, header in split_batches(chunk):
                    keep = partial(_keep, cleaning, chunk, position, header, producers)
                    batch = await self._read_batch(header, keep)
                    if batch is not None:
                        kept.append(batch)
                        kept_bytes += len(batch.data)
                    offset = header.last_offset + 1
                    await pace.rest()
                pace.moved(len(chunk) + kept_bytes)
                await pace.rest()
                if kept:
                    replacement.append(b"".join(batch.data for batch in kept), _extents(kept))
            await settled(replacement.flush())
            return await settled(replacement.commit())
        finally:
            replacement.abandon()

    async def _read_batch(self, header: BatchHeader, read: Callable[[int], T]) -> T:
        """Calls `read` with the most bytes to which a batch may decompress; returns its result.

        It runs on a thread if that takes long: only the cleaner uses the objects on which it works.
        """
        if (
            header.size_bytes <= CLEANED_AT_ONCE_BYTES
            and header.record_count <= 2 * RECORDS_AT_ONCE
        ):
            try:
                return read(CLEANED_AT_ONCE_BYTES)
            except TooLargeError:
                pass
        return await self._node.cluster.share.elsewhere(read, DEFAULT_LIMIT_BYTES)


def cleanable_part(shard: Shard, now_ms: int) -> Cleanable:
    """The part of a log that may be cleaned now, and how much of it was never cleaned."""
    log, config = shard.log, shard.config
    return cleanable(
        log.segments(),
        first_dirty_offset(log.cleaned_offset, log.start_offset, log.end_offset),
        shard.partition.last_stable_offset,
        now_ms,
        config.min_compaction_lag_ms,
    )


def _add(
    offsets: LastOffsets,
    chunk: Buffer,
    position: int,
    header: BatchHeader,
    aborted: Aborted,
    limit_bytes: int,
) -> bool:
    # A damaged key would remove the last record of another key.
    _check(chunk, position, header)
    return offsets.add(chunk, position, header, aborted, limit_bytes)


def _keep(
    cleaning: Cleaning,
    chunk: memoryview,
    position: int,
    header: BatchHeader,
    producers: Mapping[int, LastOfProducer],
    limit_bytes: int,
) -> KeptBatch | None:
    # A rewritten batch gets a new checksum, which must not hide damage.
    _check(chunk, position, header)
    return cleaning.keep(chunk, position, header, producers, limit_bytes)


def _check(chunk: Buffer, position: int, header: BatchHeader) -> None:
    if not crc_matches(chunk, position, header):
        raise DamagedError(f"the batch at offset {header.base_offset} is damaged")


def _extents(kept: Sequence[KeptBatch]) -> list[Extent]:
    return [
        Extent(batch.base_offset, batch.last_offset, batch.max_timestamp_ms, len(batch.data))
        for batch in kept
    ]


async def _scan(shard: Shard, offset: int, end_offset: int, max_bytes: int = READ_BYTES) -> Buffer:
    """As CompactedLog.scan; waits while the engine fetches the batches."""
    return await when_read(partial(shard.log.scan, offset, max_bytes, end_offset))


async def _is_overdue(
    shard: Shard, segments: Sequence[SegmentInfo], dirty_offset: int, now_ms: int
) -> bool:
    """Whether any dirty segment began too long ago."""
    for segment in segments:
        if segment.end_offset > dirty_offset and segment.size_bytes:
            batch = await _scan(shard, segment.base_offset, segment.end_offset, 0)
            if batch and is_overdue(
                read_header(batch, 0).max_timestamp, now_ms, shard.config.max_compaction_lag_ms
            ):
                return True
    return False
