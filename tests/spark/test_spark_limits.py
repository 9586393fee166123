"""What options say about starts and ends, as offsets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import ConfigError
from ottla.model import TopicPartition
from ottla.spark.source.limits import (
    EARLIEST,
    LATEST,
    AtOffsets,
    AtTimes,
    Everywhere,
    Limit,
    NoRecordAtTimeError,
    check_found,
    check_partitions,
    lookups,
    resolve,
)

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
PARTITIONS = st.sets(
    st.builds(TopicPartition, st.sampled_from("tu"), st.integers(0, 3)), min_size=1
)


@given(PARTITIONS, st.data())
def test_what_is_asked_for_is_what_the_answer_needs(
    partitions: set[TopicPartition], data: st.DataObject
) -> None:
    numbers = st.fixed_dictionaries({each: st.integers(-2, 50) for each in sorted(partitions)})
    times = st.fixed_dictionaries({each: st.integers(0, 50) for each in sorted(partitions)})
    limit: Limit = data.draw(
        st.builds(Everywhere, st.integers(-2, 50))
        | st.builds(AtOffsets, numbers)
        | st.builds(AtTimes, times)
    )
    asked = lookups(limit, partitions)
    answers = {each: data.draw(st.none() | st.integers(100, 200)) for each in asked}
    offsets = resolve(limit, partitions, answers)
    assert offsets.keys() == partitions
    for each, offset in offsets.items():
        if isinstance(limit, AtOffsets) and limit.offsets[each] >= 0:
            assert each not in asked
            assert offset == limit.offsets[each]
        else:
            assert offset == answers[each]


def test_an_offset_zero_is_an_offset() -> None:
    limit = AtOffsets({P0: 0, P1: EARLIEST})
    assert lookups(limit, [P0, P1]) == {P1: EARLIEST}
    assert resolve(limit, [P0, P1], {P1: 7}) == {P0: 0, P1: 7}


def test_offsets_name_exactly_what_is_read() -> None:
    for limit in (AtOffsets({P0: 5}), AtTimes({P0: 5})):
        check_partitions("starting", limit, [P0])
        with pytest.raises(ConfigError, match="t-1 must be named too"):
            check_partitions("starting", limit, [P0, P1])
        with pytest.raises(ConfigError, match="t-0 are not read"):
            check_partitions("starting", limit, [P1])
    check_partitions("starting", Everywhere(LATEST), [P0, P1])


def test_a_time_without_records_behind_it_is_told() -> None:
    check_found({P0: 3})
    with pytest.raises(NoRecordAtTimeError, match="No record of t-1 is as young"):
        check_found({P0: 3, P1: None})
