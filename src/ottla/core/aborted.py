"""The aborted transactions of a partition."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class AbortedSpan(NamedTuple):
    """An aborted transaction; `last_offset` is its marker's.

    `last_stable_offset` is that of the partition after the marker: no transaction below it was open any more.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def overlapping(
    spans: Iterable[AbortedSpan], start_offset: int, end_offset: int
) -> list[AbortedSpan]:
    """The spans that overlap a range of offsets; `spans` are in the order of their markers."""
    found = []
    for span in spans:
        if span.last_offset >= start_offset and span.first_offset < end_offset:
            found.append(span)
        # A transaction that ended later was open then, so it begins at the last stable offset or above.
        if span.last_stable_offset >= end_offset:
            break
    return found
