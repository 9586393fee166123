"""Rates: of what is written, read and stored, from answers that come at any time."""

from __future__ import annotations

from ottla.console.cluster.moving_offsets import (
    HOT_SECONDS,
    WRITE_WINDOW_SECONDS,
    EndOffsets,
    GroupOffsets,
    GrowingLogs,
)
from ottla.model import TopicPartition

ONE, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)


def test_a_topic_that_was_told_once_has_no_rate() -> None:
    ends = EndOffsets()
    ends.add({ONE: 5}, 0)
    assert ends.rates() == {}
    ends.add({ONE: 5}, 2)
    assert ends.rates() == {"orders": 0.0}


def test_each_partition_is_compared_with_its_own_last_answer() -> None:
    ends = EndOffsets()
    ends.add({ONE: 0, OTHER: 0}, 0)
    ends.add({ONE: 10}, 2)
    assert ends.rates() == {"orders": 5.0}
    # The other one was idle, and was not asked in between.
    ends.add({ONE: 20, OTHER: 40}, 4)
    assert ends.rates() == {"orders": 5.0 + 10.0}


def test_a_topic_that_is_written_now_and_then_has_a_steady_rate() -> None:
    ends = EndOffsets()
    for second in range(0, 41, 2):
        # A transaction of 20 records each five seconds; the end is asked for each two.
        ends.add({ONE: second // 5 * 20}, second)
        rate = ends.rates().get("orders")
        assert second < 10 or (rate is not None and 2 <= rate <= 7), (second, rate)


def test_a_topic_that_is_not_written_any_more_has_no_rate_after_a_window() -> None:
    ends = EndOffsets()
    ends.add({ONE: 0}, 0)
    ends.add({ONE: 100}, 2)
    ends.add({ONE: 100}, 2 + WRITE_WINDOW_SECONDS / 2)
    assert 0 < ends.rates()["orders"] < 50
    ends.add({ONE: 100}, 2 + WRITE_WINDOW_SECONDS)
    assert ends.rates() == {"orders": 0.0}


def test_a_partition_that_was_asked_long_ago_has_the_rate_of_now() -> None:
    ends = EndOffsets()
    ends.add({ONE: 0}, 0)
    ends.add({ONE: 100}, 600)
    ends.add({ONE: 200}, 602)
    assert ends.rates() == {"orders": 50.0}


def test_an_end_that_goes_back_is_no_negative_rate() -> None:
    ends = EndOffsets()
    ends.add({ONE: 100}, 0)
    ends.add({ONE: 200}, 2)
    ends.add({ONE: 3}, 4)
    assert ends.rates() == {"orders": 0.0}
    assert ends.offsets[ONE] == 3
    ends.add({ONE: 5}, 6)
    assert ends.rates() == {"orders": 1.0}


def test_a_topic_under_a_name_of_before_begins_anew() -> None:
    ends = EndOffsets()
    ends.add({ONE: 100}, 0)
    ends.add({ONE: 200}, 2)
    ends.forget({"orders"})
    assert (ends.offsets, ends.rates(), ends.hot(2)) == ({}, {}, [])
    ends.add({ONE: 1000}, 4)
    assert ends.rates() == {}


def test_what_moved_lately_is_hot() -> None:
    ends = EndOffsets()
    ends.add({ONE: 0, OTHER: 0}, 0)
    ends.add({ONE: 1, OTHER: 0}, 1)
    assert ends.hot(1 + HOT_SECONDS) == [ONE]
    assert ends.hot(2 + HOT_SECONDS) == []


def test_a_partition_without_a_leader_has_no_rate() -> None:
    ends = EndOffsets()
    ends.add({ONE: 0}, 0)
    ends.add({ONE: 10}, 1)
    ends.stand_still([ONE])
    assert ends.rates() == {"orders": 0.0}
    assert ends.hot(1) == []


def commit(groups: GroupOffsets, offset: int, at: float, *, has_members: bool = True) -> None:
    groups.add("billing", {ONE: offset}, at, has_members=has_members)


def test_a_group_that_commits_now_and_then_has_a_steady_rate() -> None:
    groups = GroupOffsets()
    for second in range(0, 41, 2):
        # It commits 50 records each five seconds, and is asked each two.
        commit(groups, second // 5 * 50, second)
        rate = groups.rates().get("billing")
        assert second < 12 or (rate is not None and 6 <= rate <= 14), (second, rate)


def test_offsets_that_are_set_are_not_read() -> None:
    groups = GroupOffsets()
    commit(groups, 0, 0)
    commit(groups, 1_000_000, 2, has_members=False)
    assert groups.rates() == {"billing": 0.0}
    commit(groups, 10, 4)
    assert groups.rates() == {"billing": 0.0}


def test_groups_that_are_gone_are_forgotten() -> None:
    groups = GroupOffsets()
    commit(groups, 0, 0)
    groups.keep_only({})
    assert (groups.committed, groups.rates(), groups.is_hot("billing", 1)) == ({}, {}, False)


def test_a_log_that_was_cleaned_up_has_no_growth() -> None:
    logs = GrowingLogs()
    logs.add({"orders": 100, "clicks": 100}, 0)
    logs.add({"orders": 300, "clicks": 50}, 2)
    assert logs.rates == {"orders": 100.0}
    logs.forget({"orders"})
    logs.add({"orders": 500, "clicks": 50}, 4)
    assert logs.rates == {"clicks": 0.0}
