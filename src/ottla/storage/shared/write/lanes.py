"""Which lane a part goes into."""

from __future__ import annotations

import asyncio

from ottla.core.catalog import INTERNAL_TOPICS
from ottla.storage.shared.engine_metrics import EngineMetrics
from ottla.storage.shared.options import SharedOptions
from ottla.storage.shared.write.inline_lane import InlineLane
from ottla.storage.shared.write.objects_lane import ObjectsLane
from ottla.storage.shared.write.part import Part, Writer

Lane = InlineLane | ObjectsLane


class Lanes:
    """The inline lane for internal topics and small flushes, the objects lane for the others.

    The batches of a partition are settled in their order. From the objects lane it goes back only when nothing of it is
    in flight there; the other way its first part in an object is committed after its last one that was inline.
    """

    def __init__(
        self,
        inline: InlineLane,
        objects: ObjectsLane,
        options: SharedOptions,
        metrics: EngineMetrics,
    ) -> None:
        self._inline = inline
        self._objects = objects
        self._options = options
        self._metrics = metrics

    def begin(
        self,
        log: Writer,
        last: tuple[Lane, Part] | None,
        base_offset: int,
        size_bytes: int,
        now_ms: int,
        begins_segment: bool,
    ) -> tuple[Lane, Part]:
        """The lane and the part for batches at the end of a log; `last` are those of the batches before."""
        before = last if last is not None and not last[1].settled.done() else None
        lane = self._choose(log, None if before is None else before[0], size_bytes)
        part = lane.begin(log, base_offset, now_ms, begins_segment)
        if before is not None and before[0] is not lane:
            part.after = before[1].settled
        return lane, part

    def may_grow(self, log: Writer, lane: Lane, size_bytes: int) -> bool:
        """Whether more batches may go into the open part of a log; else it gets another, perhaps in the other lane."""
        return lane is self._objects or self._goes_inline(log, size_bytes)

    def _choose(self, log: Writer, before: Lane | None, size_bytes: int) -> Lane:
        if before is not self._objects and self._goes_inline(log, size_bytes):
            return self._inline
        return self._inline if log.ref.topic in INTERNAL_TOPICS else self._objects

    def _goes_inline(self, log: Writer, size_bytes: int) -> bool:
        if self._inline.open_bytes + size_bytes <= self._options.inline_flush_bytes:
            return True
        if log.ref.topic in INTERNAL_TOPICS:
            return True
        if not self._objects.is_slow:
            return False
        unsettled_bytes = self._metrics.inline.unsettled_bytes
        return unsettled_bytes + size_bytes <= self._options.inline_unsettled_bytes

    async def drain(self) -> None:
        """Returns when everything appended so far is settled."""
        await asyncio.gather(self._inline.drain(), self._objects.drain())
