"""What open transactions hold up: the last stable offset of a partition, the records behind it, the groups that wait.

The last stable offset is the first offset of the oldest transaction that is open on the partition. Readers of committed
records get nothing from there on, not even records of transactions that are committed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ottla.client.admin_model.transactions import ProducerState
from ottla.console.cluster.snapshot import ClusterSnapshot, PartitionSnapshot
from ottla.inspection.transactions import PartitionTransaction
from ottla.model import TopicPartition

MAX_OPEN_THERE: Final = 50


class GroupPosition(StrEnum):
    """Where a group is, seen from the last stable offset of a partition."""

    WAITING = "waiting"
    """It has read all that it may, and waits for the transaction."""
    BEHIND = "behind"
    """It has yet to read what comes before, and will wait then."""
    BEYOND = "beyond"
    """It has committed a later offset: its consumers read uncommitted records, and do not wait."""


@dataclass(frozen=True)
class HeldGroup:
    """A group that reads a partition whose last stable offset is held up."""

    group_id: str
    committed_offset: int
    position: GroupPosition


@dataclass(frozen=True)
class StandingOffset:
    """A last stable offset that is behind the end, and since when it has not moved."""

    offset: int
    since_ms: int


@dataclass(frozen=True)
class OpenThere:
    """A transaction that is open on a partition."""

    producer_id: int
    producer_epoch: int
    transactional_id: str | None
    """None if no coordinator knows it, or if it may not be seen."""
    start_offset: int
    is_hanging: bool


@dataclass(frozen=True)
class HeldPartition:
    """A partition of an open transaction. What is None is not known."""

    topic: str
    partition: int
    leader_id: int | None
    log_start_offset: int | None
    start_offset: int | None
    """The transaction's first offset there; None as well if it has not written there yet."""
    last_stable_offset: int | None
    end_offset: int | None
    unseen_count: int
    """The offsets from the last stable one to the end, which readers of committed records do not see yet."""
    unseen_bytes: int | None
    """About how large these are: as large as the others of the partition."""
    is_held: bool
    """Whether this transaction is the one that holds the last stable offset."""
    next_stable_offset: int | None
    """Where the last stable offset moves when this transaction ends: to the next open one, or the end."""
    next_producer_id: int | None
    """The producer of the next open transaction, which holds the offset then."""
    last_sequence: int | None
    last_timestamp_ms: int | None
    freed_count: int
    """The offsets that become readable when this transaction ends."""
    groups: tuple[HeldGroup, ...]
    open_there: tuple[OpenThere, ...]
    """All transactions that are open on the partition, this one among them; the oldest first."""


def standing_offsets(
    before: Mapping[TopicPartition, StandingOffset], snapshot: ClusterSnapshot
) -> dict[TopicPartition, StandingOffset]:
    """The last stable offsets that are behind their ends, with the time since when they have been seen there."""
    found = {}
    for topic in snapshot.topics.values():
        if not topic.unstable_count:
            continue
        for each in topic.partitions:
            if each.last_stable_offset is None or not each.unstable_count:
                continue
            key = TopicPartition(each.topic, each.partition)
            known = before.get(key)
            if known is None or known.offset != each.last_stable_offset:
                known = StandingOffset(each.last_stable_offset, snapshot.at_ms)
            found[key] = known
    return found


def held_groups(
    snapshot: ClusterSnapshot, partition: TopicPartition, last_stable_offset: int
) -> tuple[HeldGroup, ...]:
    """The groups with an offset on the partition, those that wait first."""
    found = []
    for group_id in snapshot.groups_of_topic.get(partition.topic, ()):
        group = snapshot.groups.get(group_id)
        committed = None if group is None else (group.committed or {}).get(partition)
        if committed is not None:
            position = group_position(committed, last_stable_offset)
            found.append(HeldGroup(group_id, committed, position))
    order = list(GroupPosition)
    return tuple(sorted(found, key=lambda each: (order.index(each.position), each.group_id)))


def group_position(committed: int, last_stable_offset: int) -> GroupPosition:
    """Where a group is that has committed an offset."""
    if committed < last_stable_offset:
        return GroupPosition.BEHIND
    return GroupPosition.WAITING if committed == last_stable_offset else GroupPosition.BEYOND


def held_partition(
    snapshot: ClusterSnapshot,
    partition: TopicPartition,
    producer_id: int,
    open_there: Sequence[PartitionTransaction],
    *,
    names: Mapping[int, str],
    hanging_ids: Collection[int],
) -> HeldPartition:
    """What the transaction of a producer holds up on a partition; `open_there` are all that are open on it."""
    place = snapshot.partition(*partition)
    last_stable_offset = None if place is None else place.last_stable_offset
    end_offset = None if place is None else place.end_offset
    mine, others = _divided(producer_id, open_there)
    start_offset = None if mine is None else mine.current_transaction_start_offset
    following = min(others, key=lambda each: each.start_offset, default=None)
    next_stable_offset = end_offset if following is None else following.start_offset
    is_held = start_offset is not None and start_offset == last_stable_offset
    freed_count = 0
    if is_held and next_stable_offset is not None and last_stable_offset is not None:
        freed_count = max(0, next_stable_offset - last_stable_offset)
    return HeldPartition(
        topic=partition.topic,
        partition=partition.partition,
        leader_id=None if place is None else place.leader_id,
        log_start_offset=None if place is None else place.start_offset,
        start_offset=start_offset,
        last_stable_offset=last_stable_offset,
        end_offset=end_offset,
        unseen_count=0 if place is None else place.unstable_count,
        unseen_bytes=None if place is None else _unseen_bytes(place),
        is_held=is_held,
        next_stable_offset=next_stable_offset,
        next_producer_id=None if following is None else following.producer.producer_id,
        last_sequence=None if mine is None else mine.last_sequence,
        last_timestamp_ms=None if mine is None else mine.last_timestamp_ms,
        freed_count=freed_count,
        groups=()
        if last_stable_offset is None
        else held_groups(snapshot, partition, last_stable_offset),
        open_there=tuple(
            OpenThere(
                producer_id=each.producer.producer_id,
                producer_epoch=each.producer.producer_epoch,
                transactional_id=names.get(each.producer.producer_id),
                start_offset=each.start_offset,
                is_hanging=each.producer.producer_id in hanging_ids,
            )
            for each in sorted(open_there, key=lambda each: each.start_offset)[:MAX_OPEN_THERE]
        ),
    )


def _unseen_bytes(place: PartitionSnapshot) -> int | None:
    count = place.record_count
    if place.size_bytes is None or not count:
        return None
    return place.size_bytes * min(place.unstable_count, count) // count


def _divided(
    producer_id: int, open_there: Iterable[PartitionTransaction]
) -> tuple[ProducerState | None, list[PartitionTransaction]]:
    mine, others = None, []
    for each in open_there:
        if each.producer.producer_id == producer_id:
            mine = each.producer
        else:
            others.append(each)
    return mine, others
