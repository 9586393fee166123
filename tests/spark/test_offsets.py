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
    is_same_position,
    latest_available,
    limit_offsets,
    missing_partitions,
    new_partitions,
    offset_count,
    partition_lags,
    ranges_between,
    resume_offsets,
    start_offset_of,
    target_from,
    truncated_partitions,
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
    total, busy = offset_count(start, end), len(ranges_between(start, end))
    short = limit_offsets(start, end, limit)
    assert offset_count(start, short) == min(total, max(limit, busy))
    assert short.offsets.keys() == end.offsets.keys()
    for each in ranges_between(start, end):
        # Nobody starves, and nobody reads past the end.
        assert each.start_offset < short.offsets[each.partition] <= each.end_offset


@given(spans(), st.integers(1, 12_000))
def test_a_limit_is_shared_in_proportion(
    span: tuple[SourceOffset, SourceOffset], limit: int
) -> None:
    start, end = span
    busy = ranges_between(start, end)
    total = sum(each.size for each in busy)
    assume(len(busy) < limit < total)
    short = limit_offsets(start, end, limit)
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
        target = target_from(start, end)
        if is_same_position(start, target):
            break
        step = limit_offsets(start, target, limit)
        for each in ranges_between(start, step):
            seen[each.partition] = seen.get(each.partition, 0) + each.size
        start = replace(step, new={})
    assert start.offsets == end.offsets
    assert sum(seen.values()) == offset_count(*span)


def test_nothing_new_is_the_same_position() -> None:
    start = SourceOffset({T0: 5}, IDS)
    found = FoundPartitions((T0,), {"t": "id-t"})
    end, losses = latest_available(start, found, {T0: 5}, {})
    assert is_same_position(start, end)
    assert losses == ()


def test_a_new_partition_begins_at_its_first_record() -> None:
    start = SourceOffset({T0: 5}, {"t": "id-t"})
    found = FoundPartitions((T0, T1), {"t": "id-t"})
    assert new_partitions(start, found) == [T1]
    end, losses = latest_available(start, found, {T0: 6, T1: 3}, {T1: 0})
    assert losses == ()
    assert [tuple(each) for each in ranges_between(start, end)] == [(T0, 5, 6), (T1, 0, 3)]
    assert new_partitions(end, found) == []


def test_a_new_partition_that_lost_records_already_is_reported() -> None:
    start = SourceOffset({T0: 5}, {"t": "id-t"})
    end, losses = latest_available(start, FoundPartitions((T0, T1), IDS), {T0: 5, T1: 9}, {T1: 4})
    assert losses == ("t-1 is new and starts at 4 instead of 0",)
    assert start_offset_of(start, end, T1) == 4


def test_a_partition_that_is_gone_is_reported_and_read_on_when_it_comes_back() -> None:
    start = SourceOffset({T0: 5, U0: 1}, IDS)
    lacking = FoundPartitions((T0,), {"t": "id-t"})
    assert missing_partitions(start, lacking) == [U0]
    end, losses = latest_available(start, lacking, {T0: 7}, {})
    assert losses == ("u-0 is gone",)
    assert end.offsets == {T0: 7, U0: 1}
    assert ranges_between(start, end) == [(T0, 5, 7)]
    assert is_same_position(end, latest_available(end, lacking, {T0: 7}, {}).end)
    # The same topic, and another one of its name.
    back = FoundPartitions((T0, U0), IDS)
    assert new_partitions(end, back) == []
    again, losses = latest_available(end, back, {T0: 7, U0: 4}, {})
    assert losses == ()
    assert ranges_between(end, again) == [(U0, 1, 4)]
    other = FoundPartitions((T0, U0), {**IDS, "u": "other"})
    assert missing_partitions(end, other) == []
    again, losses = latest_available(end, other, {T0: 7, U0: 4}, {U0: 0})
    assert losses == ("topic u was deleted and created again",)
    assert ranges_between(end, again) == [(U0, 0, 4)]


def test_a_query_that_begins_behind_the_end_is_not_told_that_it_has_read() -> None:
    at = {T0: 9}
    losses = latest_available(
        SourceOffset(at, begin=at), FoundPartitions((T0,), {}), {T0: 3}, {}
    ).losses
    assert losses == ("t-0 ends at 3, and startingOffsets say 9",)


def test_a_topic_that_was_made_again_is_reported_and_read_from_its_begin() -> None:
    start = SourceOffset({T0: 5, T1: 9}, {"t": "old"})
    found = FoundPartitions((T0,), {"t": "new"})
    end, losses = latest_available(start, found, {T0: 5}, {T0: 0})
    assert losses == ("topic t was deleted and created again",)
    # The end is where the former topic had been read to, and yet there is something to read.
    assert not is_same_position(start, end)
    assert [tuple(each) for each in ranges_between(start, end)] == [(T0, 0, 5)]
    assert is_same_position(end, latest_available(end, found, {T0: 5}, {}).end)


def test_a_partition_that_ends_before_what_was_read_is_reported() -> None:
    start = SourceOffset({T0: 5}, {"t": "id-t"})
    found = FoundPartitions((T0,), {"t": "id-t"})
    assert truncated_partitions(start, found, {T0: 4}) == [T0]
    end, losses = latest_available(start, found, {T0: 4}, {})
    assert losses == ("t-0 ends at 4, and it was read up to 5",)
    assert ranges_between(start, end) == []


def test_a_checkpoint_of_another_cluster_is_reported() -> None:
    start = SourceOffset({T0: 5}, {}, cluster="a")
    losses = latest_available(start, FoundPartitions((T0,), {}, "b"), {T0: 5}, {}).losses
    assert losses == ("the checkpoint is of cluster a, and this is cluster b",)
    assert latest_available(start, FoundPartitions((T0,), {}, "a"), {T0: 5}, {}).losses == ()
    assert (
        latest_available(
            replace(start, cluster=None), FoundPartitions((T0,), {}, "b"), {T0: 5}, {}
        ).losses
        == ()
    )


def test_a_target_is_kept_although_more_comes() -> None:
    start = SourceOffset({T0: 0}, IDS)
    target = SourceOffset({T0: 10, T1: 4}, IDS, new={T1: 2})
    middle = limit_offsets(start, target_from(start, target), 6)
    assert middle.new == {T1: 2}
    assert target_from(middle, target).new == {}
    assert is_same_position(replace(target, new={}), target_from(target, target))


def test_a_micro_batch_waits_for_enough_records_or_long_enough() -> None:
    pacing = Pacing(100, 1000)
    due = [pacing.is_due(count, ms) for count, ms in [(99, 999), (100, 0), (0, 1000), (99, 1000)]]
    assert due == [False, True, True, True]


def test_a_pipeline_goes_on_where_its_group_is() -> None:
    assert resume_offsets({T0: 7, T1: None}, {T0: 0, T1: 3}) == {T0: 7, T1: 3}


def test_the_lag_is_what_is_behind_each_position() -> None:
    end = SourceOffset({T0: 5, T1: 8})
    latest = SourceOffset({T0: 9, T1: 8, U0: 4}, new={U0: 1})
    assert partition_lags(end, latest) == {T0: 4, T1: 0, U0: 3}


def test_the_first_micro_batch_remembers_where_it_begins() -> None:
    at = {TopicPartition("t", 0): 5, TopicPartition("t", 1): 7}
    initial = SourceOffset(at, begin=at)
    assert initial.is_initial
    assert SourceOffset.from_json(initial.to_json()) == initial
    found = FoundPartitions(tuple(at), {})
    latest = {TopicPartition("t", 0): 50, TopicPartition("t", 1): 7}
    first, _ = latest_available(initial, found, latest, {})
    assert not first.is_initial
    # The query starts again, and `latest` has moved meanwhile.
    moved = {TopicPartition("t", 0): 60, TopicPartition("t", 1): 70}
    again = SourceOffset(moved, begin=moved)
    for start in (initial, again):
        (todo,) = ranges_between(start, SourceOffset.from_json(first.to_json()))
        assert (todo.start_offset, todo.end_offset) == (5, 50)
    second, _ = latest_available(first, found, moved, {})
    assert second.begin == {}
    assert [each.start_offset for each in ranges_between(first, second)] == [50, 7]
    # Nothing new is still nothing new, and a target is one of the first micro-batch once.
    assert is_same_position(initial, latest_available(initial, found, at, {})[0])
    assert target_from(initial, first).begin == at
    assert target_from(first, first).begin == {}
