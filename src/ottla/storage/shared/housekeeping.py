"""Periodic work in the background: consolidation of the tail, merges of small segments, and tasks of the whole cluster.

A round rewrites the oldest rows of several logs into one object. It takes the logs whose rows are old or many, those
with the oldest rows first. What that leaves in small pieces is merged. One broker at a time turns the ring of tail
tables, and one deletes objects that nothing refers to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Final

from ottla.events import EventLog
from ottla.ports import PartitionRef, StorageError
from ottla.storage.shared.collection import collect_garbage
from ottla.storage.shared.log.consolidation import (
    MAX_SEGMENT_BYTES,
    Consolidated,
    Rewrite,
    read_group,
    read_tail,
    rewrite,
)
from ottla.storage.shared.log.partition_log import SharedLog
from ottla.storage.shared.log.runs import Run
from ottla.storage.shared.log.store_parts import StoreParts
from ottla.storage.shared.segment_merging import Piece, pieces_to_merge

logger = EventLog(__name__)

MAX_TAIL_AGE_MS: Final = 60_000
MAX_TAIL_BYTES: Final = 8 << 20
# A log with more rows is due, however small they are.
MAX_TAIL_ROWS: Final = 2_000
LOGS_PER_ROUND: Final = 500
TURN_TASK: Final = "turn_tail"
TURN_PAUSE_MS: Final = 30_000
COLLECT_PAUSE_MS: Final = 60_000
REST_MS: Final = 60_000


class Housekeeping:
    """One round at a time."""

    def __init__(self, parts: StoreParts, logs: Mapping[PartitionRef, SharedLog]) -> None:
        self._parts = parts
        self._logs = logs
        self._running: asyncio.Task[None] | None = None
        self._now_ms = 0
        self._resting: dict[int, int] = {}  # by partition id: until when its tail is left alone
        self._next_turn_ms = 0
        self._next_collection_ms = 0
        self._is_closed = False

    def tick(self, now_ms: int) -> None:
        """Begins a round, unless one runs."""
        self._now_ms = now_ms
        self._resting = {key: until for key, until in self._resting.items() if until > now_ms}
        if self._running is None and not self._is_closed:
            self._running = asyncio.get_running_loop().create_task(self._round(now_ms))

    async def close(self) -> None:
        self._is_closed = True
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])

    async def _round(self, now_ms: int) -> None:
        try:
            await self._parts.uploads.abandon_unused()
            await self._turn_tail(now_ms)
            while await self._consolidate():
                pass
            await self._collect(now_ms)
        except StorageError as error:
            # The next round tries again.
            logger.warning(
                "storage_housekeeping_failed",
                "the tail of the store is not rewritten now: %(reason)s",
                reason=str(error),
            )
        except Exception as error:
            logger.bug("storage_housekeeping_impossible", "the tail cannot be rewritten", error)
        finally:
            self._running = None

    async def _turn_tail(self, now_ms: int) -> None:
        if now_ms < self._next_turn_ms:
            return
        self._next_turn_ms = now_ms + TURN_PAUSE_MS
        parts = self._parts
        if await parts.sequencer.take_task(parts.session.id, TURN_TASK, 2 * TURN_PAUSE_MS):
            await parts.sequencer.turn_tail()

    async def _collect(self, now_ms: int) -> None:
        if now_ms < self._next_collection_ms:
            return
        self._next_collection_ms = now_ms + COLLECT_PAUSE_MS
        parts = self._parts
        parts.metrics.collected_objects += await collect_garbage(
            parts.sequencer, parts.reads.objects, parts.session.id
        )

    async def _consolidate(self) -> bool:
        """Rewrites rows of some logs; whether there may be more."""
        due = sorted(
            (
                (first.written_ms, log.partition_id, log)
                for log in list(self._logs.values())
                if (first := self._first_due(log)) is not None
            ),
        )[:LOGS_PER_ROUND]
        if not due:
            return False
        async with AsyncExitStack() as locked:
            rewrites: list[Rewrite] = []
            room_bytes = MAX_SEGMENT_BYTES
            for _, _, log in due:
                if log.replacing.locked() or not log.is_open:
                    continue
                await locked.enter_async_context(log.replacing)
                segments = await self._read_tail(log, room_bytes)
                if segments:
                    rewrites.append(Rewrite(log, segments))
                    room_bytes -= sum(segment.size_bytes for segment in segments)
                if room_bytes <= 0:
                    break
            accepted = await rewrite(self._parts, rewrites) if rewrites else 0
        self._parts.metrics.consolidated_logs += accepted
        await self._merge([each.log for each in rewrites])
        return accepted > 0 and (room_bytes <= 0 or len(due) == LOGS_PER_ROUND)

    async def _read_tail(self, log: SharedLog, max_bytes: int) -> Sequence[Consolidated]:
        """The oldest rows; a log that cannot be read is left alone for a while, and holds up no other."""
        try:
            return await read_tail(log, log.settled_offset, max_bytes)
        except StorageError as error:
            self._resting[log.partition_id] = self._now_ms + REST_MS
            logger.warning(
                "storage_tail_unreadable",
                "the tail of partition %(topic)s-%(partition)d cannot be rewritten: %(reason)s",
                topic=log.ref.topic,
                partition=log.ref.partition,
                reason=str(error),
            )
            return ()

    async def _merge(self, logs: Sequence[SharedLog]) -> None:
        """Merges small stored segments of logs that have got another one."""
        async with AsyncExitStack() as locked:
            rewrites: list[Rewrite] = []
            room_bytes = MAX_SEGMENT_BYTES
            for log in logs:
                if log.replacement is not None or log.replacing.locked() or not log.is_open:
                    continue
                stored = log.runs.stored()
                found = pieces_to_merge(
                    [Piece(run.size_bytes, run.begins_segment) for run in stored]
                )
                if found is None:
                    continue
                await locked.enter_async_context(log.replacing)
                merged = await read_group(log, stored[found.start : found.stop])
                rewrites.append(Rewrite(log, [merged]))
                room_bytes -= merged.size_bytes
                if room_bytes <= 0:
                    break  # the others come with their next piece
            if rewrites:
                self._parts.metrics.merged_logs += await rewrite(self._parts, rewrites)

    def _first_due(self, log: SharedLog) -> Run | None:
        """The oldest row of the tail of a log that is to be rewritten now."""
        if log.replacement is not None or log.replacing.locked() or not log.is_open:
            return None
        if self._now_ms < self._resting.get(log.partition_id, 0):
            return None
        rows = [run for run in log.runs.rows() if run.end_offset <= log.settled_offset]
        if not rows:
            return None
        is_old = self._parts.clock.now_ms() - rows[0].written_ms >= MAX_TAIL_AGE_MS
        is_large = len(rows) > MAX_TAIL_ROWS or sum(run.size_bytes for run in rows) > MAX_TAIL_BYTES
        return rows[0] if is_old or is_large else None
