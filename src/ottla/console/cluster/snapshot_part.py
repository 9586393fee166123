"""The part of a snapshot that one user may see: as if the rest of the cluster were not there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from ottla.console.cluster.snapshot import (
    ClusterSnapshot,
    ClusterTotals,
    GroupSnapshot,
    Part,
    PartProblem,
    TopicSnapshot,
    TransactionSnapshot,
)

Sees = Callable[[str], bool]

NOT_WHOLLY: Final = "the cluster did not tell the console everything"
_OF_BROKERS: Final = (Part.BROKERS, Part.LOG_DIRS)


def part_of(
    snapshot: ClusterSnapshot, sees_topic: Sees, sees_group: Sees, sees_transactional_id: Sees
) -> ClusterSnapshot:
    """The topics, groups and transactions that are seen; sums and indexes are of these.

    What is told of brokers, and the size of all logs, is of the whole cluster.
    """
    topics = {name: each for name, each in snapshot.topics.items() if sees_topic(name)}
    groups = {
        name: _group(each, sees_topic) for name, each in snapshot.groups.items() if sees_group(name)
    }
    transactions = {
        name: _transaction(each, sees_topic)
        for name, each in snapshot.transactions.items()
        if sees_transactional_id(name)
    }
    return replace(
        snapshot,
        topics=topics,
        groups=groups,
        transactions=transactions,
        totals=_totals(snapshot.totals, topics.values(), groups.values()),
        groups_of_topic=_index(snapshot.groups_of_topic, topics, groups),
        transactions_of_topic=_index(snapshot.transactions_of_topic, topics, transactions),
        part_problems=tuple(map(_without_names, snapshot.part_problems)),
    )


def _without_names(problem: PartProblem) -> PartProblem:
    """What is wrong with a part; errors name the topics, groups and ids that they are about."""
    if problem.part in _OF_BROKERS:
        return problem
    return replace(problem, message=NOT_WHOLLY)


def _group(group: GroupSnapshot, sees_topic: Sees) -> GroupSnapshot:
    committed = group.committed
    if committed is None or all(sees_topic(topic) for topic, _ in committed):
        return group
    return replace(
        group,
        # The rate is of all topics of the group.
        records_per_second=None,
        committed={key: offset for key, offset in committed.items() if sees_topic(key.topic)},
        lags={topic: lag for topic, lag in group.lags.items() if sees_topic(topic)},
        unknown_topics=frozenset(filter(sees_topic, group.unknown_topics)),
    )


def _transaction(transaction: TransactionSnapshot, sees_topic: Sees) -> TransactionSnapshot:
    partitions = transaction.partitions
    if partitions is None or all(sees_topic(topic) for topic, _ in partitions):
        return transaction
    return replace(transaction, partitions=tuple(key for key in partitions if sees_topic(key[0])))


def _index(
    index: Mapping[str, tuple[str, ...]],
    topics: Mapping[str, TopicSnapshot],
    named: Mapping[str, object],
) -> dict[str, tuple[str, ...]]:
    found = {}
    for topic, names in index.items():
        seen = tuple(name for name in names if name in named) if topic in topics else ()
        if seen:
            found[topic] = seen
    return found


def _totals(
    totals: ClusterTotals, topics: Iterable[TopicSnapshot], groups: Iterable[GroupSnapshot]
) -> ClusterTotals:
    every, some_groups = list(topics), list(groups)
    record_counts = [each.record_count for each in every]
    known_counts = [each for each in record_counts if each is not None]
    return replace(
        totals,
        topic_count=len(every),
        partition_count=sum(len(each.partitions) for each in every),
        record_count=sum(known_counts) if len(known_counts) == len(record_counts) else None,
        records_per_second=_known_sum(each.records_per_second for each in every),
        bytes_per_second=_known_sum(each.bytes_per_second for each in every),
        consumed_per_second=_known_sum(each.records_per_second for each in some_groups),
        lag=None if totals.lag is None else sum(each.lag or 0 for each in some_groups),
        offline_count=sum(each.offline_count for each in every),
        under_replicated_count=sum(each.under_replicated_count for each in every),
        below_min_in_sync_count=sum(each.below_min_in_sync_count for each in every),
        unstable_count=sum(each.unstable_count for each in every),
        # All that coordinators remember are counted, not listed.
        transactional_id_count=None,
    )


def _known_sum(numbers: Iterable[float | None]) -> float | None:
    known = [each for each in numbers if each is not None]
    return sum(known) if known else None
