"""A segment in the making that will replace others: what compaction has left of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ottla.ports import Buffer, Extent, StorageError
from ottla.storage.shared.log.runs import Run
from ottla.storage.shared.log.store_parts import StoreParts
from ottla.storage.shared.run_spans import encode_spans
from ottla.storage.shared.segment_marks import encode_marks
from ottla.storage.shared.sequencer.records import SegmentWrite, WrittenObject
from ottla.storage.shared.write.uploads import ObjectRun, Uploaded

if TYPE_CHECKING:
    from ottla.storage.shared.log.partition_log import SharedLog

# What is smaller is stored with the segment and not in an object.
INLINE_BYTES: Final = 64 * 1024
# A larger segment is stored in several pieces, each as soon as it is full.
PIECE_BYTES: Final = 8 << 20


class _Piece:
    """A part of the new segment, which goes into an object of its own."""

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.end_offset = base_offset
        self.chunks: list[bytes] = []
        self.extents: list[Extent] = []
        self.size_bytes = 0
        self.max_timestamp_ms = -1
        self.upload: asyncio.Task[Uploaded] | None = None


class SharedReplacement:
    """Implements Replacement."""

    def __init__(
        self, log: SharedLog, parts: StoreParts, start_offset: int, end_offset: int
    ) -> None:
        self._log = log
        self._parts = parts
        self._start_offset = start_offset
        self._end_offset = end_offset
        self._next_offset = start_offset
        self._pieces = [_Piece(start_offset)]
        self._written_ms = max(
            (run.written_ms for run in log.runs.between(start_offset, end_offset) or ()), default=-1
        )
        self._is_over = False

    def append(self, data: Buffer, extents: Sequence[Extent]) -> None:
        self._log.check_open()
        if (
            self._is_over
            or extents[0].base_offset < self._next_offset
            or extents[-1].last_offset >= self._end_offset
        ):
            raise ValueError(f"{extents} cannot replace what is in {self._log.ref}")
        piece = self._pieces[-1]
        if piece.size_bytes >= PIECE_BYTES:
            piece.end_offset = extents[0].base_offset
            self._begin_upload(piece)
            piece = _Piece(extents[0].base_offset)
            self._pieces.append(piece)
        piece.chunks.append(bytes(data))
        piece.extents += extents
        piece.size_bytes += len(data)
        piece.max_timestamp_ms = max(
            piece.max_timestamp_ms, max(extent.max_timestamp_ms for extent in extents)
        )
        self._next_offset = extents[-1].last_offset + 1

    def _begin_upload(self, piece: _Piece) -> None:
        run = ObjectRun(
            self._log.partition_id, piece.base_offset, piece.end_offset, tuple(piece.chunks)
        )
        piece.upload = asyncio.get_running_loop().create_task(self._parts.uploads.upload([run]))
        piece.upload.add_done_callback(lambda done: done.cancelled() or done.exception())

    def flush(self) -> asyncio.Future[None]:
        self._log.check_open()
        last = self._pieces[-1]
        last.end_offset = self._end_offset
        if last.upload is None and last.size_bytes >= INLINE_BYTES:
            self._begin_upload(last)
        return asyncio.ensure_future(self._flush())

    async def _flush(self) -> None:
        uploads = [piece.upload for piece in self._pieces if piece.upload is not None]
        if uploads:
            await asyncio.wait(uploads)
        for upload in uploads:
            error = upload.exception()
            if error is not None:
                raise StorageError(f"a compacted segment was not stored: {error}") from error

    def commit(self) -> asyncio.Future[bool]:
        self._log.check_open()
        if any(piece.upload is not None and not piece.upload.done() for piece in self._pieces):
            raise ValueError(f"the replacement in {self._log.ref} was not flushed")
        return asyncio.ensure_future(self._commit())

    async def _commit(self) -> bool:
        log = self._log
        async with log.replacing:
            log.check_open()
            self._is_over = True
            log.replacement = None
            if log.runs.between(self._start_offset, self._end_offset) is None:
                return False
            writes, objects = self._writes()
            accepted = await log.retried(
                lambda: self._parts.sequencer.replace(
                    log.partition_id,
                    log.epoch,
                    self._start_offset,
                    self._end_offset,
                    writes,
                    objects,
                )
            )
            if not accepted:
                # The claim is over, or the old segments are gone; or an earlier try has made it.
                await log.reload_runs()
                return False
            log.compacted(
                self._start_offset,
                self._end_offset,
                [
                    Run(
                        base_offset=write.base_offset,
                        end_offset=write.end_offset,
                        size_bytes=write.size_bytes,
                        max_timestamp_ms=write.max_timestamp_ms,
                        written_ms=self._written_ms,
                        headers=None,
                        begins_segment=number == 0,
                        first_timestamp_ms=write.max_timestamp_ms,
                    )
                    for number, write in enumerate(writes)
                ],
            )
            return True

    def _writes(self) -> tuple[list[SegmentWrite], list[WrittenObject]]:
        writes: list[SegmentWrite] = []
        objects: list[WrittenObject] = []
        for number, piece in enumerate(self._pieces):
            object_id, position, data = None, 0, None
            if piece.upload is None:
                data = b"".join(piece.chunks)
            else:
                uploaded = piece.upload.result()
                objects.append(uploaded.object)
                object_id, (position,) = uploaded.object.object_id, uploaded.positions
            spans = self._log.aborted_between(piece.base_offset, piece.end_offset)
            writes.append(
                SegmentWrite(
                    base_offset=piece.base_offset,
                    end_offset=piece.end_offset,
                    object_id=object_id,
                    position=position,
                    size_bytes=piece.size_bytes,
                    max_timestamp_ms=piece.max_timestamp_ms,
                    marks=encode_marks(piece.extents),
                    aborted=encode_spans(spans, piece.base_offset if number == 0 else None),
                    data=data,
                )
            )
        return writes, objects

    def abandon(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._log.replacement = None
            # What was stored has no row: it is collected.
            for piece in self._pieces:
                if piece.upload is not None:
                    piece.upload.cancel()
