"""Rows of the partitions of a topic, with the open transactions that hold their last stable offsets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ottla.console.cluster.snapshot import (
    ClusterSnapshot,
    PartitionSnapshot,
    is_below_min_in_sync,
)
from ottla.console.transactions.held import HeldGroup, StandingOffset, held_groups
from ottla.inspection.transactions import PartitionTransaction
from ottla.model import TopicPartition

MAX_TRANSACTIONS: Final = 20
MAX_GROUPS: Final = 20


@dataclass(frozen=True)
class HoldingTransaction:
    """A transaction that is open on a partition. What is None is not known, or not for this user to see."""

    producer_id: int
    producer_epoch: int
    start_offset: int
    last_timestamp_ms: int | None
    """Of the last batch that its producer wrote there."""
    transactional_id: str | None
    coordinator_id: int | None
    started_at_ms: int | None
    timeout_ms: int | None
    holds_last_stable_offset: bool
    """Whether the last stable offset stands because of this one; the others are behind it."""
    is_hanging: bool
    """Whether no coordinator will end it."""


@dataclass(frozen=True)
class PartitionRow:
    """A partition. Offsets and sizes are None if they are not known."""

    partition: int
    leader_id: int | None
    leader_epoch: int | None
    replicas: list[int]
    in_sync_replicas: list[int]
    offline_replicas: list[int]
    start_offset: int | None
    last_stable_offset: int | None
    end_offset: int | None
    record_count: int | None
    size_bytes: int | None
    unstable_count: int
    standing_since_ms: int | None
    """Since when the last stable offset has not moved, as the console has seen it; None if it is at the end."""
    transactions: list[HoldingTransaction]
    """The first ones that are open here, the one that holds the last stable offset before all."""
    transaction_count: int
    groups: list[HeldGroup]
    """The groups with an offset here, those that wait first."""
    group_count: int


@dataclass(frozen=True)
class OpenHere:
    """What is known of open transactions on partitions."""

    by_partition: Mapping[TopicPartition, Iterable[PartitionTransaction]]
    hanging: Collection[PartitionTransaction]
    names: Mapping[int, str]
    """The transactional ids by producer id, as far as the user may see them."""


def partition_row(
    place: PartitionSnapshot,
    snapshot: ClusterSnapshot,
    opened: OpenHere,
    standing: StandingOffset | None,
) -> PartitionRow:
    """The row of a partition."""
    key = TopicPartition(place.topic, place.partition)
    stable = place.last_stable_offset
    transactions = holding_transactions(key, stable, snapshot, opened)
    groups = () if stable is None else held_groups(snapshot, key, stable)
    return PartitionRow(
        partition=place.partition,
        leader_id=place.leader_id,
        leader_epoch=place.leader_epoch,
        replicas=list(place.replicas),
        in_sync_replicas=list(place.in_sync_replicas),
        offline_replicas=list(place.offline_replicas),
        start_offset=place.start_offset,
        last_stable_offset=stable,
        end_offset=place.end_offset,
        record_count=place.record_count,
        size_bytes=place.size_bytes,
        unstable_count=place.unstable_count,
        standing_since_ms=standing.since_ms if standing and place.unstable_count else None,
        transactions=transactions[:MAX_TRANSACTIONS],
        transaction_count=len(transactions),
        groups=list(groups[:MAX_GROUPS]),
        group_count=len(groups),
    )


def holding_transactions(
    key: TopicPartition, stable: int | None, snapshot: ClusterSnapshot, opened: OpenHere
) -> list[HoldingTransaction]:
    """The transactions that are open on a partition, in the order of their first offsets."""
    hanging = {(each.partition, each.producer.producer_id) for each in opened.hanging}
    found = []
    for each in sorted(opened.by_partition.get(key, ()), key=lambda other: other.start_offset):
        producer = each.producer
        name = opened.names.get(producer.producer_id)
        known = None if name is None else snapshot.transactions.get(name)
        if known is not None and known.producer_id != producer.producer_id:
            known = None
        found.append(
            HoldingTransaction(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                start_offset=each.start_offset,
                last_timestamp_ms=None
                if producer.last_timestamp_ms < 0
                else producer.last_timestamp_ms,
                transactional_id=name,
                coordinator_id=None if known is None else known.coordinator_id,
                started_at_ms=None if known is None else known.started_at_ms,
                timeout_ms=None if known is None else known.timeout_ms,
                holds_last_stable_offset=each.start_offset == stable,
                is_hanging=(each.partition, producer.producer_id) in hanging,
            )
        )
    return found


def has_problem(place: PartitionSnapshot, min_in_sync: int | None) -> bool:
    """Whether a partition has no leader, or fewer replicas in sync than it should have."""
    return (
        place.leader_id is None
        or place.is_under_replicated
        or (min_in_sync is not None and is_below_min_in_sync(place, min_in_sync))
    )
