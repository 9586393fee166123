"""The batches of one partition within a flush."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from ottla.core.aborted import AbortedSpan
from ottla.ports import Buffer, Extent, PartitionRef, StorageError
from ottla.storage.shared.engine_metrics import LaneMetrics
from ottla.storage.shared.log.runs import Run
from ottla.storage.shared.read.block import Block
from ottla.storage.shared.run_headers import add_run_headers
from ottla.storage.shared.run_spans import encode_spans
from ottla.storage.shared.sequencer.records import PartAppend
from ottla.storage.shared_future import unwatched_future


class Writer(Protocol):
    """The log of a part."""

    @property
    def ref(self) -> PartitionRef: ...

    @property
    def partition_id(self) -> int: ...

    @property
    def epoch(self) -> int: ...

    @property
    def lost(self) -> StorageError | None:
        """Why nothing more can be written under this claim."""
        ...

    def part_settled(self, part: Part) -> None:
        """A part is durable, and all parts before it."""
        ...

    def lose(self, error: StorageError) -> None:
        """The claim is over; what was not sent yet fails."""
        ...


class Part:
    """It grows until its flush is sealed; `settled` is done when it is durable, or failed."""

    __slots__ = (
        "_headers",
        "_is_durable",
        "_metrics",
        "after",
        "base_offset",
        "began",
        "block",
        "is_open",
        "log",
        "run",
        "settled",
        "spans",
    )

    def __init__(
        self,
        log: Writer,
        base_offset: int,
        written_ms: int,
        begins_segment: bool,
        metrics: LaneMetrics,
    ) -> None:
        self.log = log
        self.base_offset = base_offset
        self.settled = unwatched_future()
        self.is_open = True
        # What has to be settled before this part is committed: the last part in another lane.
        self.after: asyncio.Future[None] | None = None
        self.began = self.settled.get_loop().time()
        self.spans: list[AbortedSpan] = []
        self.block = Block(base_offset, base_offset)
        self.block.is_settled = False
        self._headers = bytearray()
        self.run = Run(
            base_offset=base_offset,
            end_offset=base_offset,
            size_bytes=0,
            max_timestamp_ms=-1,
            written_ms=written_ms,
            headers=self._headers,
            begins_segment=begins_segment,
            first_timestamp_ms=-1,
        )
        self._metrics = metrics

    @property
    def size_bytes(self) -> int:
        return self.run.size_bytes

    def add(self, data: bytes, extents: Sequence[Extent]) -> None:
        """Adds whole batches, which lie back to back."""
        assert self.is_open
        run = self.run
        if not run.size_bytes:
            run.first_timestamp_ms = extents[0].max_timestamp_ms
        self.block.add(data, extents)
        add_run_headers(self._headers, data, extents)
        run.end_offset = extents[-1].last_offset + 1
        run.size_bytes += len(data)
        run.max_timestamp_ms = max(
            run.max_timestamp_ms, max(extent.max_timestamp_ms for extent in extents)
        )
        self._metrics.unsettled_bytes += len(data)

    def to_append(self, object_id: int | None, position: int, data: Buffer | None) -> PartAppend:
        """What the sequencer gets; the data if it is not in an object."""
        run = self.run
        start = run.base_offset if run.begins_segment else None
        return PartAppend(
            partition_id=self.log.partition_id,
            epoch=self.log.epoch,
            base_offset=self.base_offset,
            end_offset=run.end_offset,
            object_id=object_id,
            position=position,
            size_bytes=run.size_bytes,
            max_timestamp_ms=run.max_timestamp_ms,
            headers=bytes(self._headers),
            aborted=encode_spans(self.spans, start),
            data=None if data is None else bytes(data),
        )

    def settle(self) -> None:
        """It is durable."""
        self._end()
        self.log.part_settled(self)
        self.settled.set_result(None)

    def fail(self, error: StorageError) -> None:
        """It is not known to be durable: the claim is over."""
        self._end()
        self.log.lose(error)
        self.settled.set_exception(type(error)(*error.args))

    def _end(self) -> None:
        assert not self.settled.done()
        self.is_open = False
        self.block.is_settled = True
        self._metrics.unsettled_bytes -= self.run.size_bytes
