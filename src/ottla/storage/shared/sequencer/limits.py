"""What callers of a sequencer have to keep to; to break it is a bug of the caller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla.ports import PartitionRef
from ottla.storage.shared.sequencer.records import PartAppend, Replacement, WrittenObject

MAX_CLAIMS: Final = 500
DEFAULT_LEASE_MS: Final = 3000


def check_claim(refs: Sequence[PartitionRef]) -> None:
    assert len(refs) <= MAX_CLAIMS, f"{len(refs)} claims in one call"
    assert len(set(refs)) == len(refs), "a partition is claimed twice in one call"


def check_parts(objects: Sequence[WrittenObject], parts: Sequence[PartAppend]) -> None:
    written = {each.object_id for each in objects}
    for part in parts:
        assert part.base_offset < part.end_offset, f"an empty part: {part[:4]}"
        assert (part.object_id is None) != (part.data is None), (
            f"data in no place, or two: {part[:4]}"
        )
        assert part.object_id is None or part.object_id in written, f"no such object: {part[:4]}"


def check_replacements(
    replacements: Sequence[Replacement], objects: Sequence[WrittenObject]
) -> None:
    written = {each.object_id for each in objects}
    ids = [each.partition_id for each in replacements]
    assert len(set(ids)) == len(ids), "two replacements of a partition in one call"
    for replacement in replacements:
        offset = replacement.start_offset
        for segment in replacement.segments:
            assert offset <= segment.base_offset < segment.end_offset, (
                f"out of order: {segment[:2]}"
            )
            assert segment.object_id is None or segment.object_id in written, "no such object"
            assert (segment.object_id is None) != (segment.data is None), "data in no place, or two"
            offset = segment.end_offset
        assert offset <= replacement.end_offset, f"beyond the end: {replacement[:4]}"
