"""Ranges of offsets are split and joined without losing any."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.model import TopicPartition
from ottla.spark.source.offset_ranges import (
    OffsetRange,
    TaskSizes,
    cut_range,
    ranges_by_task,
    split,
)

SIZES = st.lists(st.integers(0, 10_000), max_size=8)
# Small enough that limits meet each other, and parts of a partition.
FEW = st.lists(st.integers(0, 60), max_size=12)
PARTITIONS = st.none() | st.integers(1, 64)


@st.composite
def limits(draw: st.DrawFn) -> TaskSizes:
    """With at most as many at least as at most, as the options have to be."""
    least = draw(st.integers(1, 40))
    most = draw(st.none() | st.integers(least, 80))
    return TaskSizes(draw(PARTITIONS), least, most)


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
    parts = offsets_of(split(whole, TaskSizes(min_partitions, None, max_records)))
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
        each.size <= max_records
        for each in split(of_sizes(sizes), TaskSizes(min_partitions, None, max_records))
    )


@given(SIZES, st.integers(1, 64))
def test_the_number_of_tasks_is_about_what_was_asked_for(sizes: list[int], wanted: int) -> None:
    whole = [each for each in of_sizes(sizes) if each.size]
    count = len(split(whole, TaskSizes(wanted)))
    if not whole:
        assert count == 0
    elif len(whole) >= wanted:
        assert count == len(whole)
    elif sum(each.size for each in whole) >= 100 * wanted:
        # Each partition is rounded, by half a task at most.
        assert abs(count - wanted) <= len(whole)


def test_a_partition_without_records_makes_no_task() -> None:
    assert split(of_sizes([0, 0]), TaskSizes(10)) == []


def test_a_large_partition_is_split_and_small_ones_stay_whole() -> None:
    parts = offsets_of(split(of_sizes([1000, 10]), TaskSizes(5)))
    assert [len(parts[TopicPartition("t", number)]) for number in (0, 1)] == [4, 1]


@given(st.integers(1, 10_000), st.integers(1, 100))
def test_parts_differ_by_one_offset_at_most(size: int, parts: int) -> None:
    pieces = cut_range(OffsetRange(TopicPartition("t", 0), 3, 3 + size), parts)
    sizes = [each.size for each in pieces]
    assert sum(sizes) == size
    assert max(sizes) - min(sizes) <= 1
    assert len(pieces) == min(parts, size)


# Tasks that read several ranges


@given(FEW, limits())
def test_joining_leaves_the_ranges_as_they_are_and_in_their_order(
    sizes: list[int], limits: TaskSizes
) -> None:
    parts = split(of_sizes(sizes), limits)
    found = ranges_by_task(of_sizes(sizes), limits)
    assert sorted(each for task in found for each in task) == parts
    assert all(list(task) == sorted(task) for task in found)
    assert [task[0] for task in found] == sorted(task[0] for task in found)


@given(FEW, limits())
def test_a_task_has_one_range_of_a_partition(sizes: list[int], limits: TaskSizes) -> None:
    for task in ranges_by_task(of_sizes(sizes), limits):
        assert len({each.partition for each in task}) == len(task)


@given(FEW, limits())
def test_a_task_has_too_few_offsets_only_where_any_other_would_have_too_many(
    sizes: list[int], limits: TaskSizes
) -> None:
    _, least, most = limits
    assert least is not None
    counts = sorted(
        sum(each.size for each in task) for task in ranges_by_task(of_sizes(sizes), limits)
    )
    if most is not None:
        assert all(count <= most for count in counts)
    if len(counts) > 1 and counts[0] < least:
        assert most is not None
        assert counts[0] + counts[1] > most


@given(FEW, limits())
def test_tasks_join_no_more_than_they_need(sizes: list[int], limits: TaskSizes) -> None:
    least = limits.min_records
    assert least is not None
    found = ranges_by_task(of_sizes(sizes), limits._replace(max_records=None))
    sufficed = [task for task in found if sum(each.size for each in task[:-1]) >= least]
    # That one has taken in what was left over.
    assert len(sufficed) <= 1
    for task in sufficed:
        assert sum(each.size for each in task if each.size < least) < 3 * least


@given(FEW, limits())
def test_partitions_are_not_split_into_tasks_that_are_too_small(
    sizes: list[int], limits: TaskSizes
) -> None:
    whole = of_sizes(sizes)
    parts = offsets_of(split(whole, limits._replace(max_records=None)))
    for pieces in parts.values():
        if len(pieces) > 1:
            assert all(end - start >= (limits.min_records or 1) for start, end in pieces)


@pytest.mark.parametrize(
    ("sizes", "limits", "expected"),
    [
        ([25, 25, 25, 25], TaskSizes(None, None, None), [[25], [25], [25], [25]]),
        ([25, 25, 25, 25], TaskSizes(None, 1000, None), [[25, 25, 25, 25]]),
        ([25, 25, 25, 25], TaskSizes(None, 50, None), [[25, 25], [25, 25]]),
        # Large ones stay alone, whatever is beside them; the rest goes to the smallest.
        ([600, 5000, 600, 3000], TaskSizes(None, 1000, None), [[600, 600], [5000], [3000]]),
        ([5, 5000, 5, 3000], TaskSizes(None, 1000, None), [[5, 5, 3000], [5000]]),
        ([700, 700, 200], TaskSizes(None, 1000, 1000), [[700, 200], [700]]),
        # Tasks for all cores if there is enough to do for each, and few if there is not.
        ([40, 40], TaskSizes(8, 1000, None), [[40, 40]]),
        ([4000, 4000], TaskSizes(8, 1000, None), [[1000]] * 8),
        ([4000, 40], TaskSizes(8, 1000, None), [[1000, 40]] + [[1000]] * 3),
        ([3, 4, 8000, 5], TaskSizes(4, 1000, None), [[3, 4, 2000, 5]] + [[2000]] * 3),
        ([40, 40], TaskSizes(8, None, None), [[10]] * 8),
        ([], TaskSizes(8, 1000, None), []),
    ],
)
def test_which_ranges_go_together(
    sizes: list[int], limits: TaskSizes, expected: list[list[int]]
) -> None:
    found = [[each.size for each in task] for task in ranges_by_task(of_sizes(sizes), limits)]
    assert found == expected
