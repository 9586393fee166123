"""Ranges of offsets are split without losing any."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from ottla.model import TopicPartition
from ottla.spark.ranges import OffsetRange, cut, split

SIZES = st.lists(st.integers(0, 10_000), max_size=8)


def of_sizes(sizes: list[int]) -> list[OffsetRange]:
    return [
        OffsetRange(TopicPartition("t", number), 7 * number, 7 * number + size)
        for number, size in enumerate(sizes)
    ]


def offsets_of(ranges: list[OffsetRange]) -> dict[TopicPartition, list[tuple[int, int]]]:
    found: dict[TopicPartition, list[tuple[int, int]]] = {}
    for partition, start, end in ranges:
        found.setdefault(partition, []).append((start, end))
    return found


@given(SIZES, st.none() | st.integers(1, 64), st.none() | st.integers(1, 2000))
def test_every_offset_is_read_by_exactly_one_task(
    sizes: list[int], min_partitions: int | None, max_records: int | None
) -> None:
    whole = of_sizes(sizes)
    parts = offsets_of(split(whole, min_partitions, max_records))
    assert set(parts) == {each.partition for each in whole if each.size}
    for each in whole:
        pieces = parts.get(each.partition, [])
        edges = [start for start, _ in pieces] + [end for _, end in pieces[-1:]]
        assert all(end == start for (_, end), (start, _) in itertools.pairwise(pieces))
        assert edges == sorted(set(edges))
        if pieces:
            assert (edges[0], edges[-1]) == (each.start_offset, each.end_offset)


@given(SIZES, st.integers(1, 64), st.integers(1, 2000))
def test_no_task_reads_more_than_allowed(
    sizes: list[int], min_partitions: int, max_records: int
) -> None:
    assert all(
        each.size <= max_records for each in split(of_sizes(sizes), min_partitions, max_records)
    )


@given(SIZES, st.integers(1, 64))
def test_the_number_of_tasks_is_about_what_was_asked_for(sizes: list[int], wanted: int) -> None:
    whole = [each for each in of_sizes(sizes) if each.size]
    count = len(split(whole, wanted, None))
    if not whole:
        assert count == 0
    elif len(whole) >= wanted:
        assert count == len(whole)
    elif sum(each.size for each in whole) >= 100 * wanted:
        # Each partition is rounded, by half a task at most.
        assert abs(count - wanted) <= len(whole)


def test_a_partition_without_records_makes_no_task() -> None:
    assert split(of_sizes([0, 0]), 10, None) == []


def test_a_large_partition_is_split_and_small_ones_stay_whole() -> None:
    parts = offsets_of(split(of_sizes([1000, 10]), 5, None))
    assert [len(parts[TopicPartition("t", number)]) for number in (0, 1)] == [4, 1]


@given(st.integers(1, 10_000), st.integers(1, 100))
def test_parts_differ_by_one_offset_at_most(size: int, parts: int) -> None:
    pieces = cut(OffsetRange(TopicPartition("t", 0), 3, 3 + size), parts)
    sizes = [each.size for each in pieces]
    assert sum(sizes) == size
    assert max(sizes) - min(sizes) <= 1
    assert len(pieces) == min(parts, size)
