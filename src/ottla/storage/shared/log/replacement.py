"""A segment in the making that will replace others: what compaction has left of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ottla.ports import Buffer, Extent, StorageError
from ottla.storage.shared.log.consolidation import (
    INLINE_BYTES,
    Consolidated,
    consolidate,
    replace_runs,
    segment_write,
    stored_runs,
)
from ottla.storage.shared.log.store_parts import StoreParts
from ottla.storage.shared.sequencer.records import SegmentWrite, WrittenObject
from ottla.storage.shared.write.uploads import ObjectRun, Uploaded

if TYPE_CHECKING:
    from ottla.storage.shared.log.partition_log import SharedLog

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
        start_offset, end_offset = self._start_offset, self._end_offset
        async with log.replacing:
            log.check_open()
            self._end()
            await log.settled_up_to(end_offset)
            # Rows of the tail can be replaced only from the first one on.
            if not await consolidate(log, self._parts, start_offset):
                return False
            old = log.runs.between(start_offset, end_offset)
            if old is None:
                return False
            written_ms = max(run.written_ms for run in old)
            made = [
                Consolidated(
                    base_offset=piece.base_offset,
                    end_offset=piece.end_offset,
                    begins_segment=number == 0,
                    written_ms=written_ms,
                    chunks=piece.chunks,
                    extents=piece.extents,
                )
                for number, piece in enumerate(self._pieces)
            ]
            writes, objects = self._writes(made)
            if not await replace_runs(log, start_offset, end_offset, writes, objects):
                # The claim is over, or the old segments are gone; or an earlier try has made it.
                await log.reload_runs()
                return False
            log.compacted(start_offset, end_offset, stored_runs(writes, made))
            return True

    def _writes(
        self, made: Sequence[Consolidated]
    ) -> tuple[list[SegmentWrite], list[WrittenObject]]:
        writes: list[SegmentWrite] = []
        objects: list[WrittenObject] = []
        for piece, segment in zip(self._pieces, made, strict=True):
            if piece.upload is None:
                writes.append(segment_write(self._log, segment, None, 0))
                continue
            written, (position,) = piece.upload.result()
            objects.append(written)
            writes.append(segment_write(self._log, segment, written.object_id, position))
        return writes, objects

    def abandon(self) -> None:
        if not self._is_over:
            self._end()
            # What was stored has no row: it is collected.
            for piece in self._pieces:
                if piece.upload is not None:
                    piece.upload.cancel()

    def _end(self) -> None:
        self._is_over = True
        if self._log.replacement is self:
            self._log.replacement = None
