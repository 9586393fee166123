"""The lane of large flushes: their data goes into an object first, several at a time; commits follow in order."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

from ottla.ports import StorageError
from ottla.storage.shared.engine_metrics import LaneMetrics
from ottla.storage.shared.options import SharedOptions
from ottla.storage.shared.write.commits import Commits, Placed
from ottla.storage.shared.write.part import Part, Writer
from ottla.storage.shared.write.uploads import ObjectRun, Uploaded, Uploads


@dataclass
class _Flush:
    began: float
    parts: dict[int, Part] = field(default_factory=dict)  # by partition id
    size_bytes: int = 0
    # The parts that are stored, in the order of their runs in the object.
    stored: list[Part] = field(default_factory=list)
    upload: asyncio.Task[Uploaded | None] | None = None


class ObjectsLane:
    """A flush is sealed when it is old or large enough; parts of sealed flushes are committed in their order."""

    def __init__(
        self, uploads: Uploads, commits: Commits, options: SharedOptions, metrics: LaneMetrics
    ) -> None:
        self._uploads = uploads
        self._commits = commits
        self._options = options
        self.metrics = metrics
        self._open: _Flush | None = None
        self._sealed: deque[_Flush] = deque()
        self._running: asyncio.Task[None] | None = None

    @property
    def is_slow(self) -> bool:
        return self._uploads.is_slow

    def begin(self, log: Writer, base_offset: int, now_ms: int, begins_segment: bool) -> Part:
        """A part at the end of a log; the caller adds batches in the same turn."""
        if self._open is not None and log.partition_id in self._open.parts:
            self._seal(self._open)
        flush = self._open
        if flush is None:
            loop = asyncio.get_running_loop()
            flush = self._open = _Flush(loop.time())
            loop.call_later(self._options.objects_linger_seconds, self._seal, flush)
        part = Part(log, base_offset, now_ms, begins_segment, self.metrics)
        flush.parts[log.partition_id] = part
        return part

    def grown(self, size_bytes: int) -> None:
        flush = self._open
        assert flush is not None
        before = flush.size_bytes
        flush.size_bytes += size_bytes
        if before < self._options.objects_flush_bytes <= flush.size_bytes:
            # At the end of the turn: an aborted transaction may still be noted in it.
            asyncio.get_running_loop().call_soon(self._seal, flush)

    async def drain(self) -> None:
        """Returns when everything appended so far is settled."""
        if self._open is not None:
            self._seal(self._open)
        while self._running is not None:
            await asyncio.wait([self._running])

    def _seal(self, flush: _Flush) -> None:
        if self._open is not flush:
            return
        self._open = None
        loop = asyncio.get_running_loop()
        for part in flush.parts.values():
            part.is_open = False
        self.metrics.wait_seconds.observe(loop.time() - flush.began)
        self.metrics.flush_bytes.observe(flush.size_bytes)
        flush.upload = loop.create_task(self._upload(flush))
        self._sealed.append(flush)
        if self._running is None:
            self._running = loop.create_task(self._run())

    async def _upload(self, flush: _Flush) -> Uploaded | None:
        flush.stored = [part for part in flush.parts.values() if part.log.lost is None]
        if not flush.stored:
            return None
        return await self._uploads.upload(
            [
                ObjectRun(
                    part.log.partition_id,
                    part.base_offset,
                    part.run.end_offset,
                    tuple(part.block.chunks),
                )
                for part in flush.stored
            ]
        )

    async def _run(self) -> None:
        try:
            while self._sealed:
                flush = self._sealed[0]
                assert flush.upload is not None
                await asyncio.wait([flush.upload])
                await self._commit(flush, flush.upload)
                self._sealed.popleft()
        finally:
            self._running = None

    async def _commit(self, flush: _Flush, upload: asyncio.Task[Uploaded | None]) -> None:
        """Commits what is stored of a flush; each part after those of its partition in the other lane."""
        failure = upload.exception()
        uploaded = None if failure is not None else upload.result()
        waits = [
            part.after
            for part in flush.parts.values()
            if part.after is not None and not part.after.done()
        ]
        if waits:
            await asyncio.wait(waits)
        positions: dict[Part, int] = {}
        if uploaded is not None:
            positions = dict(zip(flush.stored, uploaded.positions, strict=True))
        placed: list[Placed] = []
        for part in flush.parts.values():
            lost = part.log.lost
            if lost is not None:
                part.fail(lost)
            elif uploaded is None or part not in positions:
                part.fail(_error_of(failure))
            else:
                object_id = uploaded.object.object_id
                placed.append(Placed(part, part.to_append(object_id, positions[part], None)))
        if placed:
            assert uploaded is not None
            await self._commits.commit(placed, (uploaded.object,), self.metrics)


def _error_of(failure: BaseException | None) -> StorageError:
    if isinstance(failure, StorageError):
        return type(failure)(*failure.args)
    return StorageError(f"the batches were not stored: {failure}")
