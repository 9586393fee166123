"""Reading what is not in the tail cache: rows from the sequencer, ranges of objects, and a small cache of them.

A laggard's reads go through a cache of their own, so that they do not push the newest batches out of the tail cache.
What was fetched stays there for a while, for the caller who makes the call again.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, Final, NoReturn

from ottla.ports import (
    Buffer,
    DamagedError,
    ReadPendingError,
    StorageError,
    StorageUnavailableError,
)
from ottla.storage.shared.engine_metrics import EngineMetrics
from ottla.storage.shared.errors import (
    ObjectMissingError,
    ObjectsUnavailableError,
    SequencerUnavailableError,
)
from ottla.storage.shared.objects.objects import Objects
from ottla.storage.shared.objects.range_cache import ObjectRange, RangeCache, RangeCacheOptions
from ottla.storage.shared.options import SharedOptions
from ottla.storage.shared.read.block import Block, block_of
from ottla.storage.shared.retries import until_available
from ottla.storage.shared.segment_marks import Mark, decode_marks
from ottla.storage.shared.sequencer.records import StoredRun
from ottla.storage.shared.sequencer.sequencer import Sequencer
from ottla.storage.shared_future import SharedFuture, unwatched_future

_AWAITED_SECONDS: Final = 5.0
# A read that finds nothing where there were batches is tried again before that is called damage.
_TRIM_TRIES: Final = 20
_TRIM_SECONDS: Final = 0.05
# The segments of a log whose marks stay in memory.
_MARKS_KEPT: Final = 16


class ColdCache:
    """Blocks of all logs, within a limit: the one that was not used for the longest time goes first.

    A block that a reader waits for stays until it has asked again, for some seconds, even beyond the limit, but not
    beyond twice the limit.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._awaited: dict[tuple[ColdLog, int], float] = {}
        self._blocks: OrderedDict[tuple[ColdLog, int], Block] = OrderedDict()
        self.size_bytes = 0

    def add(self, log: ColdLog, block: Block) -> None:
        self.remove(log, block.base_offset)
        self._blocks[log, block.base_offset] = block
        self.size_bytes += block.size_bytes

    def awaited(self, log: ColdLog, block: Block) -> None:
        """A reader has been told to ask again."""
        until = asyncio.get_running_loop().time() + _AWAITED_SECONDS
        self._awaited[log, block.base_offset] = until

    def used(self, log: ColdLog, block: Block) -> None:
        key = (log, block.base_offset)
        self._blocks.move_to_end(key)
        self._awaited.pop(key, None)

    def make_room(self) -> None:
        """Drops blocks until the limit is kept."""
        if self.size_bytes <= self._max_bytes:
            return
        now = asyncio.get_running_loop().time()
        for key in list(self._blocks):
            is_awaited = self._awaited.get(key, now) > now
            limit_bytes = 2 * self._max_bytes if is_awaited else self._max_bytes
            if self.size_bytes > limit_bytes and len(self._blocks) > 1:
                self.remove(*key)
            if self.size_bytes <= self._max_bytes:
                return

    def remove(self, log: ColdLog, base_offset: int) -> None:
        block = self._blocks.pop((log, base_offset), None)
        if block is not None:
            self.size_bytes -= block.size_bytes
            self._awaited.pop((log, base_offset), None)
            log.dropped(base_offset)


class ColdReads:
    """The loads of all logs: a bounded number at a time."""

    def __init__(
        self,
        sequencer: Sequencer,
        objects: Objects,
        options: SharedOptions,
        metrics: EngineMetrics,
    ) -> None:
        self.sequencer = sequencer
        self.objects = objects
        self.options = options
        self.metrics = metrics
        self.cache = ColdCache(options.cold_cache_bytes // 2)
        # Runs of several partitions lie side by side in an object, and are often read together.
        self.ranges = RangeCache(
            objects,
            RangeCacheOptions(
                max_bytes=options.cold_cache_bytes // 2,
                max_flights=options.parallel_reads,
                first_ahead_bytes=options.read_ahead_bytes,
                patience_seconds=options.read_budget_seconds,
            ),
        )
        # More than requests for objects, since runs that several logs wait for are often fetched together.
        self.slots = asyncio.Semaphore(4 * options.parallel_reads)
        self.tasks: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.ranges.close()


class ColdLog:
    """The cached blocks of one log, and the loads that run."""

    def __init__(
        self, partition_id: int, name: str, reads: ColdReads, start_of: Callable[[], int]
    ) -> None:
        """`start_of` says where the log starts now."""
        self._start_of = start_of
        self._partition_id = partition_id
        self._name = name
        self._reads = reads
        self._blocks: dict[int, Block] = {}
        self._bases: list[int] = []
        # By the offset from which they load; those of marks have the complement of the segment's base offset.
        self._loads: dict[int, SharedFuture] = {}
        # Why a load failed, for the call that is made again.
        self._failures: dict[int, StorageError] = {}
        self._marks: dict[int, list[Mark]] = {}  # by the base offset of the segment
        self._generation = 0

    def block_at(self, offset: int, max_bytes: int) -> Block:
        """The block that has an offset, or the gap it lies in. Raises ReadPendingError, or why it cannot be read."""
        number = bisect_right(self._bases, offset) - 1
        if number >= 0:
            block = self._blocks[self._bases[number]]
            if offset < block.end_offset:
                self._reads.cache.used(self, block)
                self._reads.metrics.cold_hits += 1
                return block
        failure = self._failures.pop(offset, None)
        if failure is not None:
            raise failure
        return self._begin(offset, self._keep_blocks(offset, max_bytes))

    def _begin(self, key: int, work: Coroutine[Any, Any, None]) -> NoReturn:
        """Waits for a load, which is begun unless it is under way."""
        load = self._loads.get(key)
        if load is None:
            load = self._loads[key] = unwatched_future()
            task = asyncio.get_running_loop().create_task(self._run(key, work, load))
            self._reads.tasks.add(task)
            task.add_done_callback(self._reads.tasks.discard)
        else:
            work.close()
        raise ReadPendingError(f"{self._name} is read from the store", load)

    def marks_of(self, base_offset: int) -> list[Mark]:
        """The marks of a stored segment. Raises ReadPendingError, or why they cannot be read."""
        known = self._marks.get(base_offset)
        if known is not None:
            return known
        failure = self._failures.pop(~base_offset, None)
        if failure is not None:
            raise failure
        return self._begin(~base_offset, self._keep_marks(base_offset))

    async def _keep_marks(self, base_offset: int) -> None:
        marks = await self._load_marks(base_offset)
        while len(self._marks) >= _MARKS_KEPT:
            del self._marks[next(iter(self._marks))]
        self._marks[base_offset] = marks

    def dropped(self, base_offset: int) -> None:
        """The cache has let go of a block."""
        if self._blocks.pop(base_offset, None) is not None:
            del self._bases[bisect_right(self._bases, base_offset) - 1]

    def forget(self) -> None:
        """Drops everything: batches were replaced, or the claim is over."""
        self._generation += 1
        for base_offset in list(self._bases):
            self._reads.cache.remove(self, base_offset)
        self._failures.clear()
        self._marks.clear()

    async def _run(self, key: int, work: Coroutine[Any, Any, None], load: SharedFuture) -> None:
        try:
            async with self._reads.slots:
                await self._named(work)
        except StorageError as error:
            self._failures[key] = error
        finally:
            del self._loads[key]
            load.set_result(None)

    async def _named(self, work: Coroutine[Any, Any, None]) -> None:
        """Gives failures the name of the partition, and the type that says what a caller may do."""
        try:
            await work
        except (SequencerUnavailableError, ObjectsUnavailableError) as error:
            raise StorageUnavailableError(f"{self._name} cannot be read now: {error}") from error

    async def _keep_blocks(self, offset: int, max_bytes: int) -> None:
        generation = self._generation
        blocks = await self._load(offset, max_bytes)
        if generation == self._generation:
            # What was asked for is used last, and goes last.
            for block in reversed(blocks):
                self._add(block)
            found = self._blocks.get(blocks[0].base_offset) if blocks else None
            if found is not None:
                self._reads.cache.awaited(self, found)
            self._reads.cache.make_room()

    def _add(self, block: Block) -> None:
        # Segments are read in pieces, which may overlap those that were read before.
        first = max(bisect_right(self._bases, block.base_offset) - 1, 0)
        for base_offset in self._bases[first:]:
            if base_offset >= block.end_offset:
                break
            if self._blocks[base_offset].end_offset > block.base_offset:
                self._reads.cache.remove(self, base_offset)
        insort(self._bases, block.base_offset)
        self._blocks[block.base_offset] = block
        self._reads.cache.add(self, block)
        self._reads.metrics.cold_loads += 1
        self._reads.metrics.cold_bytes += block.size_bytes

    async def _load(self, offset: int, max_bytes: int) -> list[Block]:
        try:
            try:
                return await self._load_runs(offset, max_bytes)
            except ObjectMissingError:
                # Between question and request the run may have moved to another object: once.
                return await self._load_runs(offset, max_bytes)
        except ObjectMissingError as error:
            raise DamagedError(f"{self._name} has lost an object: {error}") from error

    async def _load_runs(self, offset: int, max_bytes: int) -> list[Block]:
        reads = self._reads
        budget = reads.options.read_budget_seconds
        wanted_bytes = max(max_bytes, reads.options.read_ahead_bytes)
        generation = self._generation
        for _ in range(_TRIM_TRIES):
            runs = await until_available(
                lambda: reads.sequencer.read_runs(self._partition_id, offset, wanted_bytes),
                budget,
                reads.options,
            )
            if runs:
                break
            # A trim up to the end of the log, or a deletion, of which this process is told in a moment.
            await asyncio.sleep(_TRIM_SECONDS)
            if self._start_of() > offset or self._generation != generation:
                return []
        if not runs:
            raise DamagedError(
                f"{self._name} has no batches at offset {offset}, which were appended"
            )
        blocks: list[Block] = []
        start = offset
        for run in runs:
            if run.end_offset <= start:
                continue
            # What lies between two runs has no batches.
            base_offset = min(start, run.base_offset)
            if run.data is not None or not run.size_bytes:
                blocks.append(block_of(run.data or b"", base_offset, run.end_offset))
            else:
                block = await self._fetch(run, base_offset, start, wanted_bytes)
                blocks.append(block)
                if block.end_offset < run.end_offset:
                    break
            start = run.end_offset
        return blocks

    async def _fetch(
        self, run: StoredRun, base_offset: int, offset: int, wanted_bytes: int
    ) -> Block:
        """The batches of a run in an object; of a large segment those around an offset."""
        end_offset = run.end_offset
        position, size_bytes = 0, run.size_bytes
        if run.flush is None and size_bytes > wanted_bytes:
            marks = await self._load_marks(run.base_offset)
            first = max(bisect_right(marks, offset, key=_offset_of) - 1, 0)
            if marks and first > 0:
                base_offset, position = marks[first].base_offset, marks[first].position
            following = [
                mark for mark in marks[first + 1 :] if mark.position - position >= wanted_bytes
            ]
            size_bytes = run.size_bytes - position
            if following:
                end_offset = following[0].base_offset
                size_bytes = following[0].position - position
        data = await self._get(run, position, size_bytes)
        return block_of(data, base_offset, end_offset)

    async def _get(self, run: StoredRun, position: int, size_bytes: int) -> Buffer:
        reads = self._reads
        key = run.object_key
        if key is None:
            raise DamagedError(
                f"{self._name} at offset {run.base_offset} has neither data nor object"
            )
        wanted = ObjectRange(key, run.position + position, size_bytes)
        return await reads.ranges.fetch(wanted, run.position + run.size_bytes)

    async def _load_marks(self, base_offset: int) -> list[Mark]:
        reads = self._reads
        encoded = await until_available(
            lambda: reads.sequencer.segment_marks(self._partition_id, base_offset),
            reads.options.read_budget_seconds,
            reads.options,
        )
        return decode_marks(encoded or b"")


def _offset_of(mark: Mark) -> int:
    return mark.base_offset
