"""What needs attention: each rule finds what it is for, and nothing where nothing is wrong."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ottla.client.admin_model.groups import GroupState, GroupType
from ottla.client.admin_model.transactions import ProducerState, TransactionState
from ottla.console.apps.letter_counts import ErrorCount, LetterCounts
from ottla.console.attention.rules import (
    GROWING_LAG,
    GROWING_POINTS,
    LONG_TRANSACTION_MS,
    REPEATED_REBALANCES,
    UNREAD_MS,
    VERY_LONG_TRANSACTION_MS,
    lag_growth,
    worries_of,
)
from ottla.console.attention.worries import (
    MAX_OF_KIND,
    AttentionFacts,
    Kind,
    Place,
    Severity,
    Worry,
)
from ottla.console.cluster.snapshot import (
    BrokerSnapshot,
    ClusterSnapshot,
    ClusterTotals,
    GroupSnapshot,
    LogDirSnapshot,
    Part,
    PartitionSnapshot,
    PartProblem,
    TopicSettings,
    TopicSnapshot,
    TransactionSnapshot,
    is_below_min_in_sync,
)
from ottla.console.groups.standing import STUCK_MS, StandingGroup, is_held_up
from ottla.console.transactions.held import StandingOffset
from ottla.console.transactions.watch import OpenOnPartitions
from ottla.inspection.transactions import PartitionTransaction
from ottla.model import TopicPartition

NOW = 10_000_000
ORDERS = TopicPartition("orders", 0)


def partition(
    topic: str = "orders",
    number: int = 0,
    *,
    leader: int | None = 1,
    replicas: tuple[int, ...] = (1,),
    in_sync: tuple[int, ...] = (1,),
    end: int = 100,
    stable: int | None = None,
) -> PartitionSnapshot:
    return PartitionSnapshot(
        topic,
        number,
        leader,
        0,
        replicas,
        in_sync,
        (),
        0,
        end,
        end if stable is None else stable,
        1_000,
    )


def topic(*partitions: PartitionSnapshot, written: float = 0.0, least: int = 1) -> TopicSnapshot:
    return TopicSnapshot(
        name=partitions[0].topic,
        topic_id=None,
        is_internal=False,
        partitions=partitions,
        replication_factor=max(len(each.replicas) for each in partitions),
        record_count=0,
        size_bytes=0,
        unstable_count=sum(each.unstable_count for each in partitions),
        offline_count=sum(each.leader_id is None for each in partitions),
        under_replicated_count=sum(each.is_under_replicated for each in partitions),
        below_min_in_sync_count=sum(is_below_min_in_sync(each, least) for each in partitions),
        settings=TopicSettings("delete", None, None, least),
        records_per_second=written,
    )


def group(
    committed: int,
    *,
    name: str = "billing",
    state: GroupState = GroupState.STABLE,
    end: int = 100,
    key: TopicPartition = ORDERS,
    protocol_type: str = "consumer",
) -> GroupSnapshot:
    return GroupSnapshot(
        name,
        protocol_type,
        state,
        GroupType.CLASSIC,
        {key: committed},
        {key.topic: end - committed},
    )


def broker(number: int = 1, *log_dirs: LogDirSnapshot) -> BrokerSnapshot:
    return BrokerSnapshot(number, "localhost", 9092, None, False, 1, 1, log_dirs)


def snapshot(
    *,
    topics: Iterable[TopicSnapshot] = (),
    groups: Iterable[GroupSnapshot] = (),
    brokers: Iterable[BrokerSnapshot] | None = None,
    transactions: Iterable[TransactionSnapshot] = (),
    problems: tuple[PartProblem, ...] = (),
) -> ClusterSnapshot:
    some_groups = {each.group_id: each for each in groups}
    readers: dict[str, tuple[str, ...]] = {}
    for each in some_groups.values():
        for name in each.lags:
            readers[name] = (*readers.get(name, ()), each.group_id)
    return ClusterSnapshot(
        version=1,
        at_ms=NOW,
        cluster_id="c",
        controller_id=1,
        brokers={each.id: each for each in (brokers if brokers is not None else [broker()])},
        topics={each.name: each for each in topics},
        groups=some_groups,
        transactions={each.transactional_id: each for each in transactions},
        totals=ClusterTotals(),
        groups_of_topic=readers,
        part_problems=problems,
    )


def told(facts: AttentionFacts) -> list[tuple[Kind, Severity, str | None]]:
    return [(each.kind, each.severity, each.name) for each in worries_of(facts)]


def only(facts: AttentionFacts) -> Worry:
    (found,) = worries_of(facts)
    return found


def test_a_cluster_in_which_all_is_well_has_nothing_to_tell() -> None:
    well = snapshot(
        topics=[topic(partition(replicas=(1, 2), in_sync=(1, 2)), least=2)],
        groups=[group(100), group(99, name="reads-transactions")],
        brokers=[broker(1, LogDirSnapshot("/data", None, 100, 50, 10)), broker(2)],
    )
    assert told(AttentionFacts(well)) == []


# Replicas


def test_partitions_without_a_leader_are_the_worst() -> None:
    away = partition(leader=None, replicas=(3,), in_sync=())
    found = worries_of(AttentionFacts(snapshot(topics=[topic(away, partition(number=1))])))
    assert [(each.kind, each.severity) for each in found] == [
        (Kind.OFFLINE, Severity.BAD),
        (Kind.BROKER_AWAY, Severity.BAD),
    ]
    assert found[0].title == "1 of 2 partitions of orders without a leader"
    assert (found[0].place, found[0].name) == (Place.TOPIC, "orders")
    assert found[1].title == "Broker 3 is not in the cluster"


def test_partitions_below_min_in_sync_are_not_told_again_as_under_replicated() -> None:
    brokers = [broker(1), broker(2)]
    few = topic(partition(replicas=(1, 2), in_sync=(1,)), least=2)
    found = only(AttentionFacts(snapshot(topics=[few], brokers=brokers)))
    assert (found.kind, found.severity) == (Kind.BELOW_MIN_IN_SYNC, Severity.BAD)
    assert "fewer than 2 replicas" in found.why
    enough = topic(partition(replicas=(1, 2), in_sync=(1,)))
    found = only(AttentionFacts(snapshot(topics=[enough], brokers=brokers)))
    assert (found.kind, found.severity) == (Kind.UNDER_REPLICATED, Severity.WARN)


def test_what_is_offline_hides_nothing_of_other_partitions() -> None:
    some = topic(
        partition(number=0, leader=None, replicas=(1, 2), in_sync=(2,)),
        partition(number=1, replicas=(1, 2, 3), in_sync=(1,)),
        partition(number=2, replicas=(1, 2, 3), in_sync=(1, 2)),
        least=2,
    )
    facts = AttentionFacts(snapshot(topics=[some], brokers=[broker(1), broker(2), broker(3)]))
    assert [(each.kind, each.size) for each in worries_of(facts)] == [
        (Kind.OFFLINE, 1),
        (Kind.BELOW_MIN_IN_SYNC, 1),
        (Kind.UNDER_REPLICATED, 1),
    ]


def test_a_min_in_sync_above_the_number_of_replicas_is_no_lost_replica() -> None:
    found = only(AttentionFacts(snapshot(topics=[topic(partition(), least=2)])))
    assert (found.kind, found.severity) == (Kind.TOO_FEW_REPLICAS, Severity.WARN)
    assert found.title == "orders has 1 replica and min.insync.replicas=2"


def test_of_many_topics_with_the_same_trouble_the_worst_are_named_and_the_rest_is_counted() -> None:
    topics = [
        topic(
            *(partition(f"topic-{number}", each, leader=None, in_sync=()) for each in range(size))
        )
        for number, size in enumerate([1] * 30 + [7])
    ]
    found = worries_of(AttentionFacts(snapshot(topics=topics)))
    assert len(found) == MAX_OF_KIND + 1
    assert found[0].name == "topic-30"
    assert found[-1].title == f"{31 - MAX_OF_KIND} more like these"
    assert found[-1].place is Place.TOPICS


# Disks


def test_a_disk_that_is_nearly_full_is_a_warning_and_then_a_problem() -> None:
    def of(usable: int) -> list[tuple[Kind, Severity, str | None]]:
        disk = LogDirSnapshot("/data", None, 1000, usable, 10)
        return told(AttentionFacts(snapshot(brokers=[broker(1, disk)])))

    assert of(100) == []
    assert of(99) == [(Kind.LOG_DIR_FULL, Severity.WARN, None)]
    assert of(49) == [(Kind.LOG_DIR_FULL, Severity.BAD, None)]


def test_a_log_directory_that_failed_is_told_with_its_error() -> None:
    failed = LogDirSnapshot("/data", "disk error", None, None, 0)
    found = only(AttentionFacts(snapshot(brokers=[broker(1, failed)])))
    assert (found.kind, found.severity) == (Kind.LOG_DIR_FAILED, Severity.BAD)
    assert "disk error" in found.why


# Transactions


def held(age_ms: int, *, hangs: bool = False, describes: bool = True) -> AttentionFacts:
    """An open transaction of this age, which holds the last stable offset of orders-0 at 60."""
    state = ProducerState(7, 0, 1, NOW - age_ms, 0, 60)
    there = PartitionTransaction(ORDERS, state)
    opened = TransactionSnapshot(
        "payments",
        7,
        TransactionState.ONGOING,
        1,
        started_at_ms=NOW - age_ms,
        partitions=(ORDERS,),
    )
    return AttentionFacts(
        snapshot(
            topics=[topic(partition(stable=60))],
            groups=[group(60)],
            transactions=[opened] if describes else [],
        ),
        standing_offsets={ORDERS: StandingOffset(60, NOW - age_ms)},
        opened=OpenOnPartitions(
            NOW, {ORDERS: (there,)} if describes or hangs else {}, (there,) if hangs else ()
        ),
        # It waits for the transaction, so it is not stuck.
        standing_groups={"billing": StandingGroup(NOW - STUCK_MS, {ORDERS: 60})},
    )


def test_a_transaction_that_holds_readers_for_long_is_told_with_who_waits() -> None:
    assert told(held(LONG_TRANSACTION_MS - 1)) == []
    found = only(held(LONG_TRANSACTION_MS))
    assert (found.kind, found.severity, found.name) == (Kind.HELD, Severity.WARN, "payments")
    assert found.place is Place.TRANSACTION
    assert "40 offsets of orders-0" in found.why
    assert "Group billing waits for it" in found.why
    assert found.since_ms == NOW - LONG_TRANSACTION_MS
    assert only(held(VERY_LONG_TRANSACTION_MS)).severity is Severity.BAD


def test_a_transaction_whose_end_is_decided_does_not_wait_for_its_producer() -> None:
    facts = held(LONG_TRANSACTION_MS)
    (ongoing,) = facts.snapshot.transactions.values()
    decided = replace(ongoing, state=TransactionState.PREPARE_COMMIT)
    assert "its producer commits or aborts" in only(facts).why
    found = only(
        replace(facts, snapshot=replace(facts.snapshot, transactions={"payments": decided}))
    )
    assert "the coordinator has yet to write the markers" in found.why


def test_an_offset_that_stands_is_told_even_if_nobody_knows_whose_transaction_it_is() -> None:
    found = only(held(LONG_TRANSACTION_MS, describes=False))
    assert (found.kind, found.place, found.name) == (Kind.HELD, Place.TOPIC, "orders")


def test_a_hanging_transaction_is_a_problem_at_once_and_is_told_once() -> None:
    found = only(held(LONG_TRANSACTION_MS, hangs=True, describes=False))
    assert (found.kind, found.severity) == (Kind.HANGING, Severity.BAD)
    assert found.place is Place.TRANSACTIONS


# Groups


def standing(some: GroupSnapshot, since_ms: int, *, written: float = 0.0) -> AttentionFacts:
    key = next(iter(some.committed or {}))
    return AttentionFacts(
        snapshot(topics=[topic(partition(key.topic), written=written)], groups=[some]),
        standing_groups={some.group_id: StandingGroup(since_ms, some.committed or {})},
    )


def test_a_group_with_members_that_commits_nothing_is_stuck() -> None:
    assert told(standing(group(10), NOW - STUCK_MS + 1)) == []
    found = only(standing(group(10), NOW - STUCK_MS))
    assert (found.kind, found.severity, found.name) == (
        Kind.STUCK_GROUP,
        Severity.BAD,
        "billing",
    )
    assert "90 records wait" in found.why


def test_a_group_that_has_read_all_it_may_is_held_up_and_not_stuck() -> None:
    waiting = group(60)
    cluster = snapshot(topics=[topic(partition(stable=60))], groups=[waiting])
    since = StandingGroup(NOW - STUCK_MS, {ORDERS: 60})
    assert is_held_up(waiting, since, cluster)
    assert not is_held_up(waiting, StandingGroup(NOW - STUCK_MS + 1, {ORDERS: 60}), cluster)
    assert not is_held_up(waiting, None, cluster)
    # It could read ten records more: that is no transaction's fault.
    late = group(50)
    assert not is_held_up(late, StandingGroup(NOW - STUCK_MS, {ORDERS: 50}), cluster)
    free = snapshot(topics=[topic(partition())], groups=[group(98)])
    assert not is_held_up(group(98), StandingGroup(NOW - STUCK_MS, {ORDERS: 98}), free)
    empty = group(60, state=GroupState.EMPTY)
    assert not is_held_up(empty, since, cluster)


def test_markers_behind_the_last_record_are_no_lag() -> None:
    assert told(standing(group(98), NOW - STUCK_MS)) == []
    assert told(standing(group(97), NOW - STUCK_MS)) != []


def test_a_lag_in_a_topic_that_the_members_left_behind_is_not_stuck() -> None:
    facts = standing(group(10), NOW - STUCK_MS)
    assert told(replace(facts, read_topics={"billing": {"payments"}})) == []
    assert told(replace(facts, read_topics={"billing": {"orders"}})) == told(facts) != []


def test_groups_of_tools_are_not_stuck() -> None:
    schemas = group(10, name="schema-registry", key=TopicPartition("_schemas", 0))
    assert told(standing(schemas, NOW - STUCK_MS)) == []
    markers = group(10, name="daily.marker", state=GroupState.EMPTY, protocol_type="")
    assert told(standing(markers, NOW - UNREAD_MS)) == []


def test_a_lag_that_no_member_reads_is_a_warning_if_more_comes_in() -> None:
    left = group(10, state=GroupState.EMPTY)
    assert told(standing(left, NOW - UNREAD_MS + 1)) == []
    assert only(standing(left, NOW - UNREAD_MS)).severity is Severity.INFO
    found = only(standing(left, NOW - UNREAD_MS, written=5.0))
    assert (found.kind, found.severity) == (Kind.UNREAD, Severity.WARN)
    assert "more come in" in found.why


def test_a_lag_grows_if_it_is_larger_in_each_third_of_the_time() -> None:
    count = GROWING_POINTS
    rising = [float(each * GROWING_LAG) for each in range(count)]
    assert lag_growth(rising) > GROWING_LAG
    assert lag_growth([None, *rising, None]) == lag_growth(rising)
    assert lag_growth(rising[: count - 1]) == 0
    assert lag_growth([50_000.0] * count) == 0
    assert lag_growth(rising[: count // 2] + rising[: count // 2][::-1]) == 0
    # A saw: it catches up again and again.
    assert lag_growth([float(each % 5 * GROWING_LAG) for each in range(count)]) == 0
    behind = replace(group(0), lags={"orders": 30_000})
    facts = AttentionFacts(snapshot(groups=[behind]), lag_of=lambda name: rising)
    assert told(facts) == [(Kind.GROWING_LAG, Severity.WARN, "billing")]
    nobody = replace(behind, state=GroupState.EMPTY)
    assert told(replace(facts, snapshot=snapshot(groups=[nobody]))) == []


def test_a_group_that_is_rebalanced_again_and_again_is_told() -> None:
    def of(count: int, at_ms: int) -> list[tuple[Kind, Severity, str | None]]:
        return told(
            AttentionFacts(
                snapshot(groups=[group(100)]),
                rebalanced_since=lambda name, since_ms: (
                    [at_ms] * count if at_ms >= since_ms else []
                ),
            )
        )

    assert of(REPEATED_REBALANCES - 1, NOW) == []
    assert of(REPEATED_REBALANCES, NOW) == [(Kind.REBALANCING, Severity.WARN, "billing")]
    assert of(REPEATED_REBALANCES, NOW - 3_600_000) == []


# Letters, and what is not told


def test_open_letters_are_told_and_those_that_are_done_are_not() -> None:
    def of(count: int) -> AttentionFacts:
        letters = LetterCounts(
            counted=9,
            open=count,
            is_whole=True,
            newest_ms=NOW,
            oldest_ms=NOW - 5,
            errors=[ErrorCount("ValueError", count)],
            listeners=[],
            sources=[],
            groups=[],
        )
        name = "orders.billing.dlt"
        return AttentionFacts(snapshot(topics=[topic(partition(name))]), letters={name: letters})

    assert told(of(0)) == []
    found = only(of(9))
    assert (found.title, found.place) == ("9 open letters in orders.billing.dlt", Place.APPS)
    assert "ValueError" in found.why


def test_what_the_cluster_does_not_tell_is_said_last() -> None:
    problem = PartProblem(Part.LOG_DIRS, "not authorized", NOW - 5)
    facts = AttentionFacts(
        snapshot(topics=[topic(partition(leader=None, in_sync=()))], problems=(problem,)),
        internals_problem="the broker does not answer",
    )
    found = worries_of(facts)
    assert [each.kind for each in found] == [Kind.OFFLINE, Kind.NOT_TOLD, Kind.NOT_TOLD]
    assert found[2].title == "The cluster does not tell log directories"
    assert (found[2].severity, found[2].since_ms) == (Severity.INFO, NOW - 5)
