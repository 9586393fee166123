"""What deleting a group, or its offsets, is said to do."""

from __future__ import annotations

from tests.console.overview.test_rules import ORDERS, partition, snapshot, topic

from ottla.console.groups.delete_plans import MAX_SHOWN, group_deletion, offset_deletion
from ottla.model import TopicPartition

CLUSTER = snapshot(topics=[topic(partition())], groups=[])
GONE = TopicPartition("gone", 0)


def test_what_was_not_read_is_counted_where_it_is_known() -> None:
    found = group_deletion("billing", {ORDERS: 60, GONE: 5}, CLUSTER, may_have_hidden=False)
    lines = [(each.topic, each.committed_offset, each.unread_count) for each in found.offsets]
    assert lines == [("gone", 5, None), ("orders", 60, 40)]
    assert (found.partition_count, found.topic_count, found.unread_count) == (2, 2, 40)
    assert any("2 committed offsets are forgotten" in step for step in found.steps)
    assert "40 offsets have not been read." in found.steps
    assert not any("may not see" in step for step in found.steps)


def test_a_fingerprint_stands_for_exactly_these_offsets() -> None:
    def fingerprint(committed: dict[TopicPartition, int]) -> str:
        return group_deletion("g", committed, CLUSTER, may_have_hidden=False).fingerprint

    first = fingerprint({ORDERS: 60, GONE: 5})
    assert fingerprint({GONE: 5, ORDERS: 60}) == first
    assert fingerprint({ORDERS: 60, GONE: 6}) != first
    assert fingerprint({ORDERS: 60}) != first
    assert fingerprint({}) != first


def test_users_who_do_not_see_everything_are_told_so() -> None:
    found = group_deletion("billing", {ORDERS: 60}, CLUSTER, may_have_hidden=True)
    assert "Offsets in topics that you may not see are deleted, too." in found.steps


def test_a_group_with_the_markers_of_a_pipeline_is_not_deleted_without_a_warning() -> None:
    for found in (
        group_deletion("daily.marker", {ORDERS: 60}, CLUSTER, may_have_hidden=False),
        offset_deletion("daily.marker", {ORDERS: 60}, CLUSTER),
    ):
        assert any("the Spark pipeline daily, the pipeline" in step for step in found.steps)


def test_a_group_that_has_committed_nothing_loses_nothing() -> None:
    found = group_deletion("g", {}, CLUSTER, may_have_hidden=False)
    assert (found.offsets, found.unread_count) == ([], 0)
    assert "The group has committed nothing." in found.steps


def test_many_offsets_are_counted_and_not_all_told() -> None:
    committed = {TopicPartition("wide", number): 1 for number in range(MAX_SHOWN + 5)}
    found = offset_deletion("g", committed, CLUSTER)
    assert (len(found.offsets), found.partition_count) == (MAX_SHOWN, MAX_SHOWN + 5)
