"""Ranges of offsets, and how they are split into tasks."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

from ottla.model import TopicPartition


class OffsetRange(NamedTuple):
    """What one task reads of a partition."""

    partition: TopicPartition
    start_offset: int
    end_offset: int

    @property
    def size(self) -> int:
        """How many offsets there are; records may be fewer."""
        return self.end_offset - self.start_offset


def split(
    ranges: Iterable[OffsetRange], min_partitions: int | None, max_records: int | None
) -> list[OffsetRange]:
    """The same offsets in ranges of at most `max_records`, and in about `min_partitions` of them or more.

    Empty ranges are left out. Large ones are split first, in proportion to their size.
    """
    found = [each for each in ranges if each.size > 0]
    if max_records is not None:
        found = [part for each in found for part in cut(each, -(-each.size // max_records))]
    if min_partitions is None or len(found) >= min_partitions:
        return found
    total = sum(each.size for each in found)
    whole = [each for each in found if _part_count(each.size, total, min_partitions) == 1]
    # What stays whole counts no more, so that the rest has parts of about the same size.
    rest = total - sum(each.size for each in whole)
    wanted = max(min_partitions - len(whole), 1)
    kept = set(whole)
    return [
        part
        for each in found
        for part in cut(each, 1 if each in kept else _part_count(each.size, rest, wanted))
    ]


def cut(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    """A range in so many parts whose sizes differ by one at most; empty ones are left out."""
    partition, start, end = whole
    edges = [start + whole.size * part // parts for part in range(parts)] + [end]
    return [
        OffsetRange(partition, first, last)
        for first, last in itertools.pairwise(edges)
        if first < last
    ]


def _part_count(size: int, total: int, wanted: int) -> int:
    return max(round(Fraction(size * wanted, total)), 1)
