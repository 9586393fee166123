"""Answers become a snapshot: pure, and run off the console's loop, because it takes time for each partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from typing import Final

from ottla.client.admin_model.topics import TopicDescription, TopicPartitionInfo
from ottla.console.cluster.answers import ClusterAnswers, Rates
from ottla.console.cluster.snapshot import (
    BrokerSnapshot,
    ClusterSnapshot,
    ClusterTotals,
    GroupSnapshot,
    LogDirSnapshot,
    Part,
    PartitionSnapshot,
    TopicSettings,
    TopicSnapshot,
    TransactionSnapshot,
    is_below_min_in_sync,
)
from ottla.model import TopicPartition

NO_RATES: Final = Rates()


@dataclass(frozen=True)
class Changes:
    """What an earlier snapshot lacks: all its other topics are taken over."""

    before: ClusterSnapshot
    topics: Set[str]
    """Those of which anything but the rates has changed."""


def snapshot_of(
    answers: ClusterAnswers,
    version: int,
    at_ms: int,
    rates: Rates = NO_RATES,
    changes: Changes | None = None,
) -> ClusterSnapshot:
    """The snapshot of these answers."""
    topics = _topics(answers, rates, changes)
    groups = {group: _group(group, answers, rates) for group in sorted(answers.groups)}
    transactions = {name: _transaction(name, answers) for name in sorted(answers.transactions)}
    controller = answers.cluster.controller
    return ClusterSnapshot(
        version=version,
        at_ms=at_ms,
        cluster_id=answers.cluster.cluster_id,
        controller_id=None if controller is None else controller.id,
        brokers=_brokers(answers),
        topics=topics,
        groups=groups,
        transactions=transactions,
        totals=_totals(answers, topics.values(), groups.values()),
        groups_of_topic=_groups_of_topic(groups.values()),
        transactions_of_topic=_transactions_of_topic(transactions.values()),
        told_at_ms=answers.told_at_ms,
        part_problems=answers.problems,
    )


# Topics


def _topics(
    answers: ClusterAnswers, rates: Rates, changes: Changes | None
) -> dict[str, TopicSnapshot]:
    before = {} if changes is None else changes.before.topics
    changed: Set[str] = frozenset() if changes is None else changes.topics
    topics = {}
    for name in before if before.keys() == answers.topics.keys() else sorted(answers.topics):
        known = before.get(name)
        if known is None or name in changed:
            topics[name] = _topic(answers.topics[name], answers, rates)
        elif known.records_per_second != rates.written.get(
            name
        ) or known.bytes_per_second != rates.grown.get(name):
            topics[name] = replace(
                known,
                records_per_second=rates.written.get(name),
                bytes_per_second=rates.grown.get(name),
            )
        else:
            topics[name] = known
    return topics


def _topic(topic: TopicDescription, answers: ClusterAnswers, rates: Rates) -> TopicSnapshot:
    partitions = tuple(_partition(topic.name, each, answers) for each in topic.partitions)
    settings = answers.settings.get(topic.name)
    return TopicSnapshot(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=partitions,
        replication_factor=max((len(each.replicas) for each in partitions), default=0),
        record_count=_sum(each.record_count for each in partitions),
        size_bytes=_sum(each.size_bytes for each in partitions),
        unstable_count=sum(each.unstable_count for each in partitions),
        offline_count=sum(each.leader_id is None for each in partitions),
        under_replicated_count=sum(each.is_under_replicated for each in partitions),
        below_min_in_sync_count=_below_min_in_sync(partitions, settings),
        settings=settings,
        records_per_second=rates.written.get(topic.name),
        bytes_per_second=rates.grown.get(topic.name),
    )


def _partition(topic: str, info: TopicPartitionInfo, answers: ClusterAnswers) -> PartitionSnapshot:
    key = TopicPartition(topic, info.partition)
    leader_id = None if info.leader is None else info.leader.id
    end_offset = answers.end_offsets.get(key)
    last_stable_offset = answers.stable_offsets.get(key)
    if end_offset is not None and last_stable_offset is not None:
        # It is asked for after the end, which may have moved in between.
        last_stable_offset = min(last_stable_offset, end_offset)
    return PartitionSnapshot(
        topic=topic,
        partition=info.partition,
        leader_id=leader_id,
        leader_epoch=info.leader_epoch,
        replicas=tuple(node.id for node in info.replicas),
        in_sync_replicas=tuple(node.id for node in info.in_sync_replicas),
        offline_replicas=tuple(node.id for node in info.offline_replicas),
        start_offset=answers.start_offsets.get(key),
        end_offset=end_offset,
        last_stable_offset=last_stable_offset,
        size_bytes=None if leader_id is None else answers.sizes.get((leader_id, key)),
    )


def _below_min_in_sync(
    partitions: Iterable[PartitionSnapshot], settings: TopicSettings | None
) -> int:
    if settings is None or settings.min_in_sync_replicas is None:
        return 0
    least = settings.min_in_sync_replicas
    return sum(is_below_min_in_sync(each, least) for each in partitions)


def _sum(numbers: Iterable[int | None]) -> int | None:
    """The sum; None if one of them is not known."""
    total = 0
    for number in numbers:
        if number is None:
            return None
        total += number
    return total


# Brokers


def _brokers(answers: ClusterAnswers) -> dict[int, BrokerSnapshot]:
    controller = answers.cluster.controller
    return {
        node.id: BrokerSnapshot(
            id=node.id,
            host=node.host,
            port=node.port,
            rack=node.rack,
            is_controller=controller is not None and controller.id == node.id,
            leader_count=answers.placed.leaders.get(node.id, 0),
            replica_count=answers.placed.replicas.get(node.id, 0),
            log_dirs=_log_dirs(node.id, answers),
        )
        for node in sorted(answers.cluster.nodes)
    }


def _log_dirs(broker_id: int, answers: ClusterAnswers) -> tuple[LogDirSnapshot, ...] | None:
    found = answers.log_dirs.get(broker_id)
    if found is None:
        return None
    return tuple(
        LogDirSnapshot(
            path=path,
            error=None if log_dir.error is None else str(log_dir.error),
            total_bytes=log_dir.total_bytes,
            usable_bytes=log_dir.usable_bytes,
            replicas_bytes=sum(replica.size_bytes for replica in log_dir.replicas.values()),
        )
        for path, log_dir in sorted(found.items())
    )


# Groups and transactions


def _group(group_id: str, answers: ClusterAnswers, rates: Rates) -> GroupSnapshot:
    listing = answers.groups[group_id]
    committed = answers.committed.get(group_id)
    lags, unknown = _lags(committed or {}, answers)
    return GroupSnapshot(
        group_id=group_id,
        protocol_type=listing.protocol_type,
        state=listing.state,
        type=listing.type,
        committed=committed,
        lags=lags,
        unknown_topics=unknown,
        records_per_second=rates.consumed.get(group_id),
    )


def _lags(
    committed: Mapping[TopicPartition, int], answers: ClusterAnswers
) -> tuple[dict[str, int], frozenset[str]]:
    """The lags by topic, and the topics of which they are not whole."""
    lags: dict[str, int] = {}
    unknown = set()
    for key, offset in committed.items():
        end = answers.end_offsets.get(key)
        if end is None:
            unknown.add(key.topic)
            continue
        # What retention has deleted since cannot be read any more.
        behind = max(0, end - max(offset, answers.start_offsets.get(key, 0)))
        lags[key.topic] = lags.get(key.topic, 0) + behind
    return lags, frozenset(topic for topic in unknown if topic in answers.topics)


def _groups_of_topic(groups: Iterable[GroupSnapshot]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[tuple[int, str]]] = {}
    for group in groups:
        for topic in {**group.lags, **dict.fromkeys(group.unknown_topics)}:
            found.setdefault(topic, []).append((-group.lags.get(topic, 0), group.group_id))
    return {topic: tuple(name for _, name in sorted(some)) for topic, some in found.items()}


def _transaction(transactional_id: str, answers: ClusterAnswers) -> TransactionSnapshot:
    listing = answers.transactions[transactional_id]
    described = answers.described.get(transactional_id)
    if described is None or described.producer_id != listing.producer_id:
        return TransactionSnapshot(
            transactional_id, listing.producer_id, listing.state, listing.coordinator_id
        )
    return TransactionSnapshot(
        transactional_id,
        described.producer_id,
        described.state,
        described.coordinator_id,
        producer_epoch=described.producer_epoch,
        timeout_ms=described.transaction_timeout_ms,
        started_at_ms=described.transaction_start_time_ms,
        partitions=described.partitions,
    )


def _transactions_of_topic(
    transactions: Iterable[TransactionSnapshot],
) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[tuple[int, str]]] = {}
    for each in transactions:
        for topic in dict.fromkeys(topic for topic, _ in each.partitions or ()):
            started = each.started_at_ms or 0
            found.setdefault(topic, []).append((started, each.transactional_id))
    return {topic: tuple(name for _, name in sorted(some)) for topic, some in found.items()}


# Totals


def _totals(
    answers: ClusterAnswers,
    topics: Iterable[TopicSnapshot],
    groups: Iterable[GroupSnapshot],
) -> ClusterTotals:
    every = list(topics)
    some_groups = list(groups)
    return ClusterTotals(
        topic_count=len(every),
        partition_count=sum(len(topic.partitions) for topic in every),
        record_count=_sum(topic.record_count for topic in every),
        size_bytes=sum(answers.sizes.values()) if Part.LOG_DIRS in answers.told_at_ms else None,
        records_per_second=_known_sum(topic.records_per_second for topic in every),
        bytes_per_second=_known_sum(topic.bytes_per_second for topic in every),
        consumed_per_second=_known_sum(group.records_per_second for group in some_groups)
        if some_groups
        else (0.0 if Part.GROUPS in answers.told_at_ms else None),
        lag=sum(group.lag or 0 for group in some_groups)
        if Part.COMMITTED_OFFSETS in answers.told_at_ms
        else None,
        offline_count=sum(topic.offline_count for topic in every),
        under_replicated_count=sum(topic.under_replicated_count for topic in every),
        below_min_in_sync_count=sum(topic.below_min_in_sync_count for topic in every),
        unstable_count=sum(topic.unstable_count for topic in every),
        transactional_id_count=answers.transactional_id_count,
    )


def _known_sum(numbers: Iterable[float | None]) -> float | None:
    """The sum of those that are known; None if none is."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None
