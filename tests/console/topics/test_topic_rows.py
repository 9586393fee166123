"""How the list of topics is filtered and sorted, and what it calls a problem."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from ottla.client.admin_model.groups import GroupState, GroupType
from ottla.console.cluster.snapshot import (
    ClusterSnapshot,
    ClusterTotals,
    GroupSnapshot,
    PartitionSnapshot,
    TopicSettings,
    TopicSnapshot,
)
from ottla.console.topics.topic_problems import LONG_HELD_MS, held_topics, topic_problems
from ottla.console.topics.topic_rows import Sort, TopicTable
from ottla.console.transactions.held import StandingOffset
from ottla.model import TopicPartition

NOW_MS = 1_000_000


def topic(name: str, *, end: int | None = 0, stable: int | None = None, **fields: Any) -> Any:
    """A topic with one partition."""
    place = PartitionSnapshot(name, 0, 1, 1, (1,), (1,), (), 0, end, stable or end, None)
    given = {
        "topic_id": None,
        "is_internal": name.startswith("__"),
        "partitions": (place,),
        "replication_factor": 1,
        "record_count": place.record_count,
        "size_bytes": None,
        "unstable_count": place.unstable_count,
        "offline_count": 0,
        "under_replicated_count": 0,
        "below_min_in_sync_count": 0,
        **fields,
    }
    return TopicSnapshot(name, **given)


def snapshot(*topics: TopicSnapshot, lags: dict[str, dict[str, int]] | None = None) -> Any:
    groups = {
        name: GroupSnapshot(name, "consumer", GroupState.STABLE, GroupType.CLASSIC, {}, some)
        for name, some in (lags or {}).items()
    }
    of_topic: dict[str, tuple[str, ...]] = {}
    for name, some in (lags or {}).items():
        for each in some:
            of_topic[each] = (*of_topic.get(each, ()), name)
    by_name = {each.name: each for each in sorted(topics, key=lambda each: each.name)}
    return ClusterSnapshot(
        1, NOW_MS, None, None, {}, by_name, groups, {}, ClusterTotals(), of_topic
    )


def names(found: list[TopicSnapshot]) -> list[str]:
    return [each.name for each in found]


def test_a_search_finds_parts_of_names_in_any_case_and_internal_topics_only_if_asked() -> None:
    table = TopicTable(
        snapshot(topic("Orders"), topic("orders.dlt"), topic("__orders"), topic("x"))
    )
    assert names(table.found("ORDER", includes_internal=False)) == ["Orders", "orders.dlt"]
    assert "__orders" in names(table.found("ORDER", includes_internal=True))


@pytest.mark.parametrize("is_descending", [False, True])
def test_what_is_not_known_comes_last_in_both_orders(is_descending: bool) -> None:
    table = TopicTable(
        snapshot(topic("a", end=None), topic("b", end=5), topic("c", end=None), topic("d", end=9))
    )
    found = table.found("", includes_internal=False)
    table.sort(found, "records", is_descending=is_descending)
    known = ["d", "b"] if is_descending else ["b", "d"]
    assert names(found) == [*known, "a", "c"]


@pytest.mark.parametrize("by", get_args(Sort))
def test_every_column_sorts(by: Sort) -> None:
    table = TopicTable(snapshot(topic("a"), topic("b", end=3), lags={"g": {"b": 2}}))
    found = table.found("", includes_internal=False)
    table.sort(found, by, is_descending=True)
    assert sorted(names(found)) == ["a", "b"]


def test_the_lag_of_a_topic_is_that_of_all_its_groups_and_unknown_without_any() -> None:
    table = TopicTable(snapshot(topic("a"), topic("b"), lags={"g": {"a": 2}, "h": {"a": 3}}))
    a, b = table.found("", includes_internal=False)
    assert (table.row(a).lag, table.row(a).group_count) == (5, 2)
    assert (table.row(b).lag, table.row(b).group_count) == (None, 0)


def test_counts_are_what_the_filters_show() -> None:
    compact = TopicSettings("compact,delete", None, None, None)
    standing = {TopicPartition("held", 0): StandingOffset(1, NOW_MS - LONG_HELD_MS)}
    table = TopicTable(
        snapshot(
            topic("held", end=5, stable=1),
            topic("empty"),
            topic("offline", offline_count=1, end=3),
            topic("compacted", settings=compact, end=1),
            lags={"g": {"held": 4, "offline": 0}},
        ),
        held_topics(standing, ()),
    )
    found = table.found("", includes_internal=False)
    counts = table.counts(found)
    shown = {
        "all": 4,
        "problems": 2,
        "held": 1,
        "lagging": 1,
        "unread": 2,
        "empty": 1,
        "compacted": 1,
    }
    assert {name: getattr(counts, name) for name in shown} == shown
    table.sort(found, "problems", is_descending=True)
    assert names(found)[:2] == ["offline", "held"], "severe ones first"


def test_a_transaction_that_hangs_is_a_problem_at_once_and_others_after_a_minute() -> None:
    key = TopicPartition("t", 0)
    found = topic("t", end=5, stable=1)

    def kinds(age_ms: int, *hanging: TopicPartition) -> list[str]:
        held = held_topics({key: StandingOffset(1, NOW_MS - age_ms)}, hanging)
        return [each.kind for each in topic_problems(found, held["t"], NOW_MS)]

    assert kinds(LONG_HELD_MS - 1) == []
    assert kinds(LONG_HELD_MS) == ["held up"]
    assert kinds(0, key) == ["hanging transaction"]
    # It was found to hang before its transaction ended.
    assert held_topics({}, [key]) == {}


def test_every_lack_of_replicas_is_told_apart() -> None:
    found = topic("t", offline_count=1, under_replicated_count=2, below_min_in_sync_count=1)
    problems = topic_problems(found, None, NOW_MS)
    assert [each.kind for each in problems] == [
        "offline",
        "below min in-sync",
        "under-replicated",
    ]
    assert [each.is_severe for each in problems] == [True, True, False]
