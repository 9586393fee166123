"""How far a streaming query may read next."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from ottla.model import TopicPartition
from ottla.spark.source.stream_offsets import (
    FoundPartitions,
    Pacing,
    SourceOffset,
    available,
    begin_of,
    continued,
    gone,
    is_same,
    lag,
    limited,
    new_partitions,
    offset_count,
    ranges,
    shrunk,
    up_to,
)

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
IDS = {"t": "id-t", "u": "id-u"}
PARTITIONS = [TopicPartition(topic, number) for topic in "tu" for number in range(4)]
OFFSETS = st.dictionaries(st.sampled_from(PARTITIONS), st.integers(0, 5000), min_size=1)


@st.composite
def spans(draw: st.DrawFn) -> tuple[SourceOffset, SourceOffset]:
    """A start, and an end that has partitions which the start lacks."""
    starts = draw(OFFSETS)
    sizes = draw(st.dictionaries(st.sampled_from(PARTITIONS), st.integers(0, 5000)))
    new = {each: draw(st.integers(0, 9)) for each in sizes if each not in starts}
    ends = {
        **starts,
        **{each: starts.get(each, new.get(each, 0)) + size for each, size in sizes.items()},
    }
    return SourceOffset(starts, IDS), SourceOffset(ends, IDS, new=new)


@given(spans(), st.integers(1, 12_000))
def test_a_limit_is_kept_unless_each_partition_has_just_one(
    span: tuple[SourceOffset, SourceOffset], limit: int
) -> None:
    start, end = span
    total, busy = offset_count(start, end), len(ranges(start, end))
    short = limited(start, end, limit)
    assert offset_count(start, short) == min(total, max(limit, busy))
    assert short.offsets.keys() == end.offsets.keys()
    for each in ranges(start, end):
        # Nobody starves, and nobody reads past the end.
        assert each.start_offset < short.offsets[each.partition] <= each.end_offset


@given(spans(), st.integers(1, 12_000))
def test_a_limit_is_shared_in_proportion(
    span: tuple[SourceOffset, SourceOffset], limit: int
) -> None:
    start, end = span
    busy = ranges(start, end)
    total = sum(each.size for each in busy)
    assume(len(busy) < limit < total)
    short = limited(start, end, limit)
    for each in busy:
        share = short.offsets[each.partition] - each.start_offset
        fair = 1 + (limit - len(busy)) * (each.size - 1) / (total - len(busy))
        assert fair - 1 < share < fair + 1


@given(spans(), st.integers(1, 500))
def test_limited_reading_gets_everywhere_and_then_stays(
    span: tuple[SourceOffset, SourceOffset], limit: int
) -> None:
    start, end = span
    seen: dict[TopicPartition, int] = {}
    for _ in range(offset_count(start, end) + 2):
        target = up_to(start, end)
        if is_same(start, target):
            break
        step = limited(start, target, limit)
        for each in ranges(start, step):
            seen[each.partition] = seen.get(each.partition, 0) + each.size
        start = replace(step, new={})
    assert start.offsets == end.offsets
    assert sum(seen.values()) == offset_count(*span)


def test_nothing_new_is_the_same_position() -> None:
    start = SourceOffset({T0: 5}, IDS)
    found = FoundPartitions((T0,), {"t": "id-t"})
    end, losses = available(start, found, {T0: 5}, {})
    assert is_same(start, end)
    assert losses == ()


def test_a_new_partition_begins_at_its_first_record() -> None:
    start = SourceOffset({T0: 5}, {"t": "id-t"})
    found = FoundPartitions((T0, T1), {"t": "id-t"})
    assert new_partitions(start, found) == [T1]
    end, losses = available(start, found, {T0: 6, T1: 3}, {T1: 0})
    assert losses == ()
    assert [tuple(each) for each in ranges(start, end)] == [(T0, 5, 6), (T1, 0, 3)]
    assert new_partitions(end, found) == []


def test_a_new_partition_that_lost_records_already_is_reported() -> None:
    start = SourceOffset({T0: 5}, {"t": "id-t"})
    end, losses = available(start, FoundPartitions((T0, T1), IDS), {T0: 5, T1: 9}, {T1: 4})
    assert losses == ("t-1 is new and starts at 4 instead of 0",)
    assert begin_of(start, end, T1) == 4


def test_a_partition_that_is_gone_is_reported_and_read_on_when_it_comes_back() -> None:
    start = SourceOffset({T0: 5, U0: 1}, IDS)
    lacking = FoundPartitions((T0,), {"t": "id-t"})
    assert gone(start, lacking) == [U0]
    end, losses = available(start, lacking, {T0: 7}, {})
    assert losses == ("u-0 is gone",)
    assert end.offsets == {T0: 7, U0: 1}
    assert ranges(start, end) == [(T0, 5, 7)]
    assert is_same(end, available(end, lacking, {T0: 7}, {}).end)
    # The same topic, and another one of its name.
    back = FoundPartitions((T0, U0), IDS)
    assert new_partitions(end, back) == []
    again, losses = available(end, back, {T0: 7, U0: 4}, {})
    assert losses == ()
    assert ranges(end, again) == [(U0, 1, 4)]
    other = FoundPartitions((T0, U0), {**IDS, "u": "other"})
    assert gone(end, other) == []
    again, losses = available(end, other, {T0: 7, U0: 4}, {U0: 0})
    assert losses == ("topic u was deleted and created again",)
    assert ranges(end, again) == [(U0, 0, 4)]


def test_a_query_that_begins_behind_the_end_is_not_told_that_it_has_read() -> None:
    at = {T0: 9}
    losses = available(SourceOffset(at, begin=at), FoundPartitions((T0,), {}), {T0: 3}, {}).losses
    assert losses == ("t-0 ends at 3, and startingOffsets say 9",)


def test_a_topic_that_was_made_again_is_reported_and_read_from_its_begin() -> None:
    start = SourceOffset({T0: 5, T1: 9}, {"t": "old"})
    found = FoundPartitions((T0,), {"t": "new"})
    end, losses = available(start, found, {T0: 5}, {T0: 0})
    assert losses == ("topic t was deleted and created again",)
    # The end is where the former topic had been read to, and yet there is something to read.
    assert not is_same(start, end)
    assert [tuple(each) for each in ranges(start, end)] == [(T0, 0, 5)]
    assert is_same(end, available(end, found, {T0: 5}, {}).end)


def test_a_partition_that_ends_before_what_was_read_is_reported() -> None:
    start = SourceOffset({T0: 5}, {"t": "id-t"})
    found = FoundPartitions((T0,), {"t": "id-t"})
    assert shrunk(start, found, {T0: 4}) == [T0]
    end, losses = available(start, found, {T0: 4}, {})
    assert losses == ("t-0 ends at 4, and it was read up to 5",)
    assert ranges(start, end) == []


def test_a_checkpoint_of_another_cluster_is_reported() -> None:
    start = SourceOffset({T0: 5}, {}, cluster="a")
    losses = available(start, FoundPartitions((T0,), {}, "b"), {T0: 5}, {}).losses
    assert losses == ("the checkpoint is of cluster a, and this is cluster b",)
    assert available(start, FoundPartitions((T0,), {}, "a"), {T0: 5}, {}).losses == ()
    assert (
        available(replace(start, cluster=None), FoundPartitions((T0,), {}, "b"), {T0: 5}, {}).losses
        == ()
    )


def test_a_target_is_kept_although_more_comes() -> None:
    start = SourceOffset({T0: 0}, IDS)
    target = SourceOffset({T0: 10, T1: 4}, IDS, new={T1: 2})
    middle = limited(start, up_to(start, target), 6)
    assert middle.new == {T1: 2}
    assert up_to(middle, target).new == {}
    assert is_same(replace(target, new={}), up_to(target, target))


def test_a_micro_batch_waits_for_enough_records_or_long_enough() -> None:
    pacing = Pacing(100, 1000)
    due = [pacing.is_due(count, ms) for count, ms in [(99, 999), (100, 0), (0, 1000), (99, 1000)]]
    assert due == [False, True, True, True]


def test_a_pipeline_goes_on_where_its_group_is() -> None:
    assert continued({T0: 7, T1: None}, {T0: 0, T1: 3}) == {T0: 7, T1: 3}


def test_the_lag_is_what_is_behind_each_position() -> None:
    end = SourceOffset({T0: 5, T1: 8})
    latest = SourceOffset({T0: 9, T1: 8, U0: 4}, new={U0: 1})
    assert lag(end, latest) == {T0: 4, T1: 0, U0: 3}


def test_the_first_micro_batch_remembers_where_it_begins() -> None:
    at = {TopicPartition("t", 0): 5, TopicPartition("t", 1): 7}
    initial = SourceOffset(at, begin=at)
    assert initial.is_initial
    assert SourceOffset.from_json(initial.to_json()) == initial
    found = FoundPartitions(tuple(at), {})
    latest = {TopicPartition("t", 0): 50, TopicPartition("t", 1): 7}
    first, _ = available(initial, found, latest, {})
    assert not first.is_initial
    # The query starts again, and `latest` has moved meanwhile.
    moved = {TopicPartition("t", 0): 60, TopicPartition("t", 1): 70}
    again = SourceOffset(moved, begin=moved)
    for start in (initial, again):
        (todo,) = ranges(start, SourceOffset.from_json(first.to_json()))
        assert (todo.start_offset, todo.end_offset) == (5, 50)
    second, _ = available(first, found, moved, {})
    assert second.begin == {}
    assert [each.start_offset for each in ranges(first, second)] == [50, 7]
    # Nothing new is still nothing new, and a target is one of the first micro-batch once.
    assert is_same(initial, available(initial, found, at, {})[0])
    assert up_to(initial, first).begin == at
    assert up_to(first, first).begin == {}
