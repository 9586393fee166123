"""The lane of small flushes: their data goes to the sequencer, which a commit takes some milliseconds."""

from __future__ import annotations

import asyncio

from ottla.storage.shared.engine_metrics import LaneMetrics
from ottla.storage.shared.options import SharedOptions
from ottla.storage.shared.write.commits import Commits, Placed
from ottla.storage.shared.write.part import Part, Writer


class InlineLane:
    """One commit at a time; what is appended meanwhile is the next flush."""

    def __init__(self, commits: Commits, options: SharedOptions, metrics: LaneMetrics) -> None:
        self._commits = commits
        self._options = options
        self.metrics = metrics
        # In the order of appends. A partition has two only where a segment was rolled between them.
        self._parts: list[Part] = []
        self.open_bytes = 0
        self._running: asyncio.Task[None] | None = None

    def begin(self, log: Writer, base_offset: int, now_ms: int, begins_segment: bool) -> Part:
        """A part at the end of a log; the caller adds batches in the same turn."""
        part = Part(log, base_offset, now_ms, begins_segment, self.metrics)
        self._parts.append(part)
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run())
        return part

    def grown(self, size_bytes: int) -> None:
        self.open_bytes += size_bytes

    async def drain(self) -> None:
        """Returns when everything appended so far is settled."""
        while self._running is not None:
            await asyncio.wait([self._running])

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._parts:
                rest_seconds = (
                    self._parts[0].began + self._options.inline_linger_seconds - loop.time()
                )
                if rest_seconds > 0 and self.open_bytes < self._options.inline_flush_bytes:
                    await asyncio.sleep(rest_seconds)
                await self._commit(self._take())
        finally:
            self._running = None

    def _take(self) -> list[Part]:
        """The parts of the next flush: one of each partition, up to the limit of a commit."""
        taken: list[Part] = []
        left: list[Part] = []
        known: set[int] = set()
        size_bytes = 0
        for part in self._parts:
            partition_id = part.log.partition_id
            is_full = (
                bool(taken) and size_bytes + part.size_bytes > self._options.inline_commit_bytes
            )
            # Later parts of a partition wait with its first that waits.
            if partition_id in known or is_full:
                left.append(part)
            else:
                taken.append(part)
                size_bytes += part.size_bytes
            known.add(partition_id)
        self._parts = left
        self.open_bytes = sum(part.size_bytes for part in left)
        return taken

    async def _commit(self, parts: list[Part]) -> None:
        now = asyncio.get_running_loop().time()
        placed: list[Placed] = []
        for part in parts:
            part.is_open = False
            lost = part.log.lost
            if lost is not None:
                part.fail(lost)
                continue
            placed.append(Placed(part, part.to_append(None, 0, part.block.join())))
        if not placed:
            return
        self.metrics.wait_seconds.observe(now - placed[0].part.began)
        self.metrics.flush_bytes.observe(sum(each.part.size_bytes for each in placed))
        await self._commits.commit(placed, (), self.metrics)
