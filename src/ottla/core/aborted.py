"""Aborted transactions of a partition: what is remembered of them, and which of them a reader is told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class AbortedSpan(NamedTuple):
    """An aborted transaction; `last_offset` is its marker's.

    `last_stable_offset` is what it was once the marker was there: nothing below it was open any more.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def overlapping(
    spans: Iterable[AbortedSpan], start_offset: int, end_offset: int
) -> list[AbortedSpan]:
    """The spans that reach into a range; `spans` come in the order of their markers."""
    found = []
    for span in spans:
        if span.last_offset >= start_offset and span.first_offset < end_offset:
            found.append(span)
        # A transaction that ended later was open then, so it begins at the last stable offset or above.
        if span.last_stable_offset >= end_offset:
            break
    return found
