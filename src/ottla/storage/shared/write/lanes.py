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

    def _choose(self, log: Writer, before: Lane | None, size_bytes: int) -> Lane:
        if log.ref.topic in INTERNAL_TOPICS:
            return self._inline
        if before is self._objects:
            return self._objects
        inline = self._inline
        if inline.open_bytes + size_bytes <= self._options.inline_flush_bytes:
            return inline
        if self._objects.is_slow:
            unsettled_bytes = self._metrics.inline.unsettled_bytes
            if unsettled_bytes + size_bytes <= self._options.inline_unsettled_bytes:
                return inline
        return self._objects

    async def drain(self) -> None:
        """Returns when everything appended so far is settled."""
        await asyncio.gather(self._inline.drain(), self._objects.drain())
