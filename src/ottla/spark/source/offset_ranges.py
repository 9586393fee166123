"""Ranges of offsets, and how tasks share them: large ones are split, small ones joined."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

from ottla.model import TopicPartition


class OffsetRange(NamedTuple):
    """The offsets that one task reads of a partition."""

    partition: TopicPartition
    start_offset: int
    end_offset: int

    @property
    def size(self) -> int:
        """The number of offsets; there may be fewer records."""
        return self.end_offset - self.start_offset


class TaskSizes(NamedTuple):
    """The options for the sizes of tasks. If they conflict, the later one wins."""

    min_partitions: int | None = None
    min_records: int | None = None
    max_records: int | None = None


def ranges_by_task(
    ranges: Iterable[OffsetRange], sizes: TaskSizes
) -> list[tuple[OffsetRange, ...]]:
    """The ranges of each task, at most one of a partition."""
    parts = split(ranges, sizes)
    if sizes.min_records is None:
        return [(each,) for each in parts]
    return join_small_ranges(parts, sizes.min_records, sizes.max_records)


def split(ranges: Iterable[OffsetRange], sizes: TaskSizes) -> list[OffsetRange]:
    """The same offsets in ranges of at most `max_records`, and in about `min_partitions` of them or more.

    Empty ranges are left out. Large ones are split first, in proportion to their size, but for the sake of
    `min_partitions` into no parts below `min_records`.
    """
    found = [each for each in ranges if each.size > 0]
    if sizes.max_records is not None:
        found = [
            part for each in found for part in cut_range(each, -(-each.size // sizes.max_records))
        ]
    least = sizes.min_records or 1
    total = sum(each.size for each in found)
    wanted = min(sizes.min_partitions or 1, total // least)
    if _task_count(found, least) >= wanted:
        return found
    whole = [each for each in found if _part_count(each.size, total, wanted) == 1]
    # Ranges that stay whole are not counted, so that the parts of the others have about the same size.
    rest = total - sum(each.size for each in whole)
    left = max(wanted - _task_count(whole, least), 1)
    unsplit = set(whole)
    return [
        part
        for each in found
        for part in cut_range(
            each,
            1 if each in unsplit else min(_part_count(each.size, rest, left), each.size // least),
        )
    ]


_Task = tuple[int, list[int]]
"""How many offsets, and the places of the ranges."""


def join_small_ranges(
    ranges: Sequence[OffsetRange], min_records: int, max_records: int | None
) -> list[tuple[OffsetRange, ...]]:
    """Ranges of fewer than `min_records` together, until each task has at least that many, and at most `max_records`.

    Two tasks that have fewer would have too many together. Those have more ranges than they need that took in what was
    left over. Parts that `max_records` made of a partition never meet: any two of them are more than it allows.
    """
    done: list[_Task] = []
    # The smallest first: what does not fit into it fits into no other.
    growing: list[_Task] = []
    for place, each in enumerate(ranges):
        size, places = each.size, [place]
        if size < min_records and growing and _fits(growing[0][0] + size, max_records):
            more, others = heapq.heappop(growing)
            size, places = size + more, [*others, place]
        heapq.heappush(growing if size < min_records else done, (size, places))
    for size, places in sorted(growing):
        if done and _fits(done[0][0] + size, max_records):
            more, others = heapq.heappop(done)
            size, places = size + more, sorted(others + places)
        heapq.heappush(done, (size, places))
    in_order = sorted(places for _, places in done)
    return [tuple(ranges[place] for place in places) for places in in_order]


def _fits(size: int, max_records: int | None) -> bool:
    return max_records is None or size <= max_records


def cut_range(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    """The range in `parts` pieces whose sizes differ by one at most; empty ones are left out."""
    partition, start, end = whole
    edges = [start + whole.size * part // parts for part in range(parts)] + [end]
    return [
        OffsetRange(partition, first, last)
        for first, last in itertools.pairwise(edges)
        if first < last
    ]


def _task_count(ranges: Iterable[OffsetRange], least: int) -> int:
    """About how many tasks they make: large ones one each, small ones as many as they fill."""
    sizes = [each.size for each in ranges]
    return sum(size >= least for size in sizes) + sum(s for s in sizes if s < least) // least


def _part_count(size: int, total: int, wanted: int) -> int:
    return max(round(Fraction(size * wanted, total)), 1)
