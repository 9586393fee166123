"""Rows of the tail become segments: the same batches, in fewer and larger pieces.

A segment of the log is never joined with its neighbours, so that retention and compaction find the same ones. The
batches come from memory where they still are.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.ports import Buffer, Extent, StorageError
from ottla.ports.futures import when_read
from ottla.records.batch import split_batches
from ottla.storage.shared.log.runs import Run
from ottla.storage.shared.log.store_parts import StoreParts
from ottla.storage.shared.retries import until_available
from ottla.storage.shared.run_spans import encode_spans
from ottla.storage.shared.segment_marks import encode_marks
from ottla.storage.shared.sequencer.records import Replacement, SegmentWrite, WrittenObject
from ottla.storage.shared.write.uploads import ObjectRun

if TYPE_CHECKING:
    from ottla.storage.shared.log.partition_log import SharedLog

# What is smaller is stored with the segment and not in an object.
INLINE_BYTES: Final = 64 * 1024
MAX_SEGMENT_BYTES: Final = 64 << 20
_READ_BYTES: Final = 4 << 20


class Consolidated(NamedTuple):
    """A stored segment in the making: neighbouring rows of the tail, and their batches."""

    base_offset: int
    end_offset: int
    begins_segment: bool
    written_ms: int
    chunks: Sequence[Buffer]
    extents: Sequence[Extent]

    @property
    def size_bytes(self) -> int:
        return sum(len(chunk) for chunk in self.chunks)


class Rewrite(NamedTuple):
    """What becomes of the oldest rows of the tail of a log."""

    log: SharedLog
    segments: Sequence[Consolidated]


async def consolidate(log: SharedLog, parts: StoreParts, end_offset: int) -> bool:
    """Rewrites the rows of the tail below an offset, at which a row ends; `log.replacing` is held.

    False if the claim is over, or the rows are not as expected.
    """
    segments = await read_tail(log, end_offset, MAX_SEGMENT_BYTES)
    while segments:
        if not await rewrite(parts, [Rewrite(log, segments)]):
            return False
        segments = await read_tail(log, end_offset, MAX_SEGMENT_BYTES)
    return True


async def read_tail(log: SharedLog, end_offset: int, max_bytes: int) -> list[Consolidated]:
    """Segments of the oldest rows of the tail, up to an offset and a size, at least one if there are rows."""
    made: list[Consolidated] = []
    size_bytes = 0
    for group in _groups_of([run for run in log.runs.rows() if run.end_offset <= end_offset]):
        size_bytes += sum(run.size_bytes for run in group)
        if made and size_bytes > max_bytes:
            break
        made.append(await read_group(log, group))
    return made


async def rewrite(parts: StoreParts, rewrites: Sequence[Rewrite]) -> int:
    """Puts segments in the place of rows, in one object and one step; returns for how many logs that was accepted."""
    rewrites = sorted(rewrites, key=lambda each: each.log.partition_id)
    large = [
        (each.log, segment)
        for each in rewrites
        for segment in each.segments
        if segment.size_bytes >= INLINE_BYTES
    ]
    places: dict[int, tuple[int, int]] = {}
    objects: list[WrittenObject] = []
    if large:
        uploaded = await parts.uploads.upload(
            [
                ObjectRun(log.partition_id, segment.base_offset, segment.end_offset, segment.chunks)
                for log, segment in large
            ]
        )
        objects.append(uploaded.object)
        for (_, segment), position in zip(large, uploaded.positions, strict=True):
            places[id(segment)] = uploaded.object.object_id, position
    writes = [
        [segment_write(each.log, segment, *places.get(id(segment), (None, 0))) for segment in each.segments]
        for each in rewrites
    ]  # fmt: skip
    accepted = await until_available(
        partial(
            parts.sequencer.replace,
            [
                Replacement(
                    each.log.partition_id,
                    each.log.epoch,
                    each.segments[0].base_offset,
                    each.segments[-1].end_offset,
                    written,
                )
                for each, written in zip(rewrites, writes, strict=True)
            ],
            objects,
        ),
        parts.options.write_budget_seconds,
        parts.options,
    )
    for each, written, answer in zip(rewrites, writes, accepted, strict=True):
        if answer:
            each.log.replaced(
                each.segments[0].base_offset,
                each.segments[-1].end_offset,
                stored_runs(written, each.segments),
            )
        else:
            # The claim is over, or an earlier try has made it.
            with suppress(StorageError):
                await each.log.reload_runs()
    return sum(accepted)


def _groups_of(runs: Sequence[Run]) -> list[list[Run]]:
    """Rows of the tail that become one segment each."""
    groups: list[list[Run]] = []
    size_bytes = 0
    for run in runs:
        if not groups or run.begins_segment or size_bytes + run.size_bytes > MAX_SEGMENT_BYTES:
            groups.append([])
            size_bytes = 0
        groups[-1].append(run)
        size_bytes += run.size_bytes
    return groups


async def read_group(log: SharedLog, group: Sequence[Run]) -> Consolidated:
    """The batches of neighbouring runs, as one stored segment."""
    base_offset, end_offset = group[0].base_offset, group[-1].end_offset
    chunks: list[Buffer] = []
    extents: list[Extent] = []
    offset = base_offset
    while offset < end_offset:
        data = await when_read(partial(log.stored_batches, offset, _READ_BYTES, end_offset))
        if not data:
            break
        chunks.append(data)
        extents += [
            Extent(header.base_offset, header.last_offset, header.max_timestamp, header.size_bytes)
            for _, header in split_batches(data)
        ]
        offset = extents[-1].last_offset + 1
    return Consolidated(
        base_offset=base_offset,
        end_offset=end_offset,
        begins_segment=group[0].begins_segment,
        written_ms=max(run.written_ms for run in group),
        chunks=chunks,
        extents=extents,
    )


def segment_write(
    log: SharedLog, segment: Consolidated, object_id: int | None, position: int
) -> SegmentWrite:
    """What the sequencer gets of a segment; its data where it is in no object."""
    spans = log.aborted_between(segment.base_offset, segment.end_offset)
    start = segment.base_offset if segment.begins_segment else None
    return SegmentWrite(
        base_offset=segment.base_offset,
        end_offset=segment.end_offset,
        object_id=object_id,
        position=position,
        size_bytes=segment.size_bytes,
        max_timestamp_ms=max((extent.max_timestamp_ms for extent in segment.extents), default=-1),
        marks=encode_marks(segment.extents),
        aborted=encode_spans(spans, start),
        data=b"".join(segment.chunks) if object_id is None else None,
    )


def stored_runs(writes: Sequence[SegmentWrite], made: Sequence[Consolidated]) -> list[Run]:
    """The runs of a log that these segments are."""
    return [
        Run(
            base_offset=write.base_offset,
            end_offset=write.end_offset,
            size_bytes=write.size_bytes,
            max_timestamp_ms=write.max_timestamp_ms,
            written_ms=each.written_ms,
            headers=None,
            begins_segment=each.begins_segment,
            first_timestamp_ms=each.extents[0].max_timestamp_ms if each.extents else -1,
        )
        for write, each in zip(writes, made, strict=True)
    ]


async def replace_runs(
    log: SharedLog,
    start_offset: int,
    end_offset: int,
    writes: Sequence[SegmentWrite],
    objects: Sequence[WrittenObject],
) -> bool:
    """Has the sequencer put segments in the place of what is between two offsets."""
    replacement = Replacement(log.partition_id, log.epoch, start_offset, end_offset, writes)
    (accepted,) = await log.replace([replacement], objects)
    return bool(accepted)
