"""Putting flushes into objects: in parallel within a limit, hedged, and again under another id if that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.ports import Buffer, StorageError
from ottla.storage.shared.engine_metrics import EngineMetrics
from ottla.storage.shared.errors import ObjectsUnavailableError, SequencerUnavailableError
from ottla.storage.shared.objects.object_format import ObjectWriter
from ottla.storage.shared.objects.objects import Objects
from ottla.storage.shared.objects.recent_latencies import RecentLatencies
from ottla.storage.shared.options import SharedOptions
from ottla.storage.shared.sequencer.records import WrittenObject
from ottla.storage.shared.sequencer.sequencer import Sequencer
from ottla.storage.shared.session import Session

_KEPT_DURATIONS: Final = 64


class ObjectRun(NamedTuple):
    """Batches of a partition that go into an object."""

    partition_id: int
    base_offset: int
    end_offset: int
    parts: Sequence[Buffer]


class Uploaded(NamedTuple):
    """An object, and the positions of its runs."""

    object: WrittenObject
    positions: Sequence[int]


class Uploads:
    """Every object has an id that was reserved before it is put, so that none is lost without a trace."""

    def __init__(
        self,
        sequencer: Sequencer,
        objects: Objects,
        session: Session,
        options: SharedOptions,
        metrics: EngineMetrics,
    ) -> None:
        self._sequencer = sequencer
        self._objects = objects
        self._session = session
        self._options = options
        self._metrics = metrics
        self._slots = asyncio.Semaphore(options.parallel_puts)
        self._durations = RecentLatencies(_KEPT_DURATIONS)
        self._began: dict[int, float] = {}  # of the uploads that run
        self._late: set[asyncio.Task[Uploaded]] = set()
        self._unused: list[int] = []

    @property
    def is_slow(self) -> bool:
        """Whether an upload runs for so long that other data had better not wait for the object store."""
        if not self._began:
            return False
        oldest = next(iter(self._began.values()))
        return asyncio.get_running_loop().time() - oldest > self._options.slow_put_seconds

    async def upload(self, runs: Sequence[ObjectRun]) -> Uploaded:
        """Stores runs in one object. Raises StorageError when the budget has ended."""
        loop = asyncio.get_running_loop()
        async with self._slots:
            number = id(runs)
            began = self._began[number] = loop.time()
            pause_seconds = self._options.first_retry_seconds
            try:
                while True:
                    try:
                        return await self._put_hedged(runs)
                    except (ObjectsUnavailableError, SequencerUnavailableError) as error:
                        self._metrics.failed_puts += 1
                        if loop.time() - began > self._options.write_budget_seconds:
                            raise StorageError(f"the batches were not stored: {error}") from error
                    await asyncio.sleep(pause_seconds)
                    pause_seconds = min(2 * pause_seconds, self._options.last_retry_seconds)
            finally:
                del self._began[number]

    async def _put_hedged(self, runs: Sequence[ObjectRun]) -> Uploaded:
        """Puts an object; if that takes much longer than usual, another one too: the first that is stored counts."""
        first = asyncio.create_task(self._put(runs))
        tasks = {first}
        try:
            await asyncio.wait(tasks, timeout=self._hedge_seconds())
            if not first.done():
                self._metrics.hedged_puts += 1
                tasks.add(asyncio.create_task(self._put(runs)))
            failure: BaseException | None = None
            while tasks:
                done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    failure = task.exception()
                    if failure is None:
                        return task.result()
            assert failure is not None
            raise failure
        finally:
            for task in tasks:
                # It may still be stored: nothing refers to it then, and it is removed.
                self._late.add(task)
                task.add_done_callback(self._note_late)

    def _hedge_seconds(self) -> float:
        median = self._durations.percentile(0.5)
        if median is None:
            return self._options.slow_put_seconds
        return max(self._options.hedge_factor * median, self._options.min_hedge_seconds)

    async def _put(self, runs: Sequence[ObjectRun]) -> Uploaded:
        loop = asyncio.get_running_loop()
        object_id, key = await self._session.reserved_object()
        try:
            writer = ObjectWriter(self._session.cluster_id, object_id)
            positions = [writer.add(*run) for run in runs]
            size_bytes = writer.size_bytes
            began = loop.time()
            await self._objects.put(key, writer.finish())
        except BaseException:
            self._unused.append(object_id)
            raise
        seconds = loop.time() - began
        self._durations.add(seconds)
        self._metrics.put_seconds.observe(seconds)
        return Uploaded(WrittenObject(object_id, size_bytes), positions)

    def _note_late(self, task: asyncio.Task[Uploaded]) -> None:
        self._late.discard(task)
        if not task.cancelled() and task.exception() is None:
            self._unused.append(task.result().object.object_id)

    async def abandon_unused(self) -> None:
        """Tells the sequencer of objects that were perhaps put, and are not needed: they are collected."""
        while self._unused:
            unused = self._unused
            self._unused = []
            try:
                await self._sequencer.abandon_objects(unused)
            except StorageError:
                # At the latest it is found out when the session has ended.
                self._unused = unused
                return

    def close(self) -> None:
        for task in self._late:
            task.cancel()
