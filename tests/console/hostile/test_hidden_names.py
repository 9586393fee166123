"""What a user may not see is in no sentence and in no sum."""

from __future__ import annotations

from ottla.client.admin_model.groups import GroupState, GroupType
from ottla.console.cluster.snapshot import (
    ClusterSnapshot,
    ClusterTotals,
    GroupSnapshot,
    Part,
    PartProblem,
)
from ottla.console.cluster.snapshot_part import part_of
from ottla.model import TopicPartition


def snapshot_of(group: GroupSnapshot, *problems: PartProblem) -> ClusterSnapshot:
    return ClusterSnapshot(
        version=1,
        at_ms=1,
        cluster_id="c",
        controller_id=1,
        brokers={},
        topics={},
        groups={group.group_id: group},
        transactions={},
        totals=ClusterTotals(),
        part_problems=problems,
    )


def group_of(*topics: str) -> GroupSnapshot:
    return GroupSnapshot(
        group_id="readers",
        protocol_type="consumer",
        state=GroupState.STABLE,
        type=GroupType.CLASSIC,
        committed={TopicPartition(each, 0): 1 for each in topics},
        lags=dict.fromkeys(topics, 1),
        records_per_second=700.0,
    )


def seen_part(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    return part_of(snapshot, lambda name: name == "open", lambda _: True, lambda _: False)


def test_errors_of_the_cluster_name_nothing_that_is_hidden() -> None:
    told = PartProblem(Part.COMMITTED_OFFSETS, "group secret-readers: COORDINATOR_LOAD", 1)
    disks = PartProblem(Part.LOG_DIRS, "broker 1: KAFKA_STORAGE_ERROR", 1)
    part = seen_part(snapshot_of(group_of("open"), told, disks))
    assert [each.part for each in part.part_problems] == [told.part, disks.part]
    assert "secret" not in str(part.problems)
    assert "KAFKA_STORAGE_ERROR" in str(part.problems)


def test_the_rate_of_a_group_is_not_told_to_who_sees_only_some_of_its_topics() -> None:
    part = seen_part(snapshot_of(group_of("open", "secret")))
    assert part.groups["readers"].records_per_second is None
    assert part.totals.consumed_per_second is None
    whole = seen_part(snapshot_of(group_of("open")))
    assert whole.groups["readers"].records_per_second == 700.0
