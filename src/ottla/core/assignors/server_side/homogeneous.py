"""The uniform assignment of a group whose members all subscribe to the same topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from ottla.core.assignors.java_order import int_set_order, uuid_map_order, uuid_set_order
from ottla.core.assignors.server_side.model import Partitions, Subscriber, in_hash_map_order


class _Kept(NamedTuple):
    """What a member keeps of its assignment, and the partitions that another member will get."""

    partitions: Partitions
    revoked: list[tuple[UUID, int]]
    room: int


def assign_homogeneous(
    members: Mapping[str, Subscriber], partition_counts: Mapping[UUID, int]
) -> dict[str, Partitions]:
    """Every member keeps what it has up to its quota; the rest goes to members that are below theirs.

    The quota of as many members as possible that have one partition more than the quotient is one more, too.
    """
    member_ids = in_hash_map_order(members)
    topic_ids = members[member_ids[0]].topic_ids
    free, partition_count = _free_partitions(members, topic_ids, partition_counts)
    quota, larger_quotas = divmod(partition_count, len(member_ids))

    targets: dict[str, Partitions] = {}
    unfilled: list[tuple[str, int]] = []
    for position, member_id in enumerate(member_ids):
        has_larger_quota = larger_quotas > 0
        kept = _keep(members[member_id].owned, topic_ids, quota + has_larger_quota)
        targets[member_id] = kept.partitions
        free += kept.revoked
        room = kept.room
        if room > 0 and has_larger_quota and len(member_ids) - position > larger_quotas:
            # A later member may have that many partitions already, and enough are left to take all the larger quotas.
            room -= 1
            has_larger_quota = False
        if room > 0:
            unfilled.append((member_id, room))
        larger_quotas -= has_larger_quota

    start = 0
    for member_id, room in unfilled:
        targets[member_id] = _with_more(targets[member_id], free[start : start + room])
        start += room
    assert start == len(free), "the quotas add up to the partitions"
    return targets


def _free_partitions(
    members: Mapping[str, Subscriber],
    topic_ids: frozenset[UUID],
    partition_counts: Mapping[UUID, int],
) -> tuple[list[tuple[UUID, int]], int]:
    """The partitions that no member owns, and the number of all."""
    in_order = uuid_set_order(topic_ids)
    taken: dict[UUID, set[int]] = {topic_id: set() for topic_id in in_order}
    for member in members.values():
        for topic_id, partitions in member.owned.items():
            taken_of_topic = taken.get(topic_id)
            if taken_of_topic is not None:
                taken_of_topic |= partitions
    free: list[tuple[UUID, int]] = []
    partition_count = 0
    for topic_id in in_order:
        count, taken_of_topic = partition_counts[topic_id], taken[topic_id]
        partition_count += count
        if len(taken_of_topic) < count:
            free += [(topic_id, number) for number in range(count) if number not in taken_of_topic]
    return free, partition_count


def _keep(owned: Partitions, topic_ids: frozenset[UUID], quota: int) -> _Kept:
    owned_count = sum(map(len, owned.values()))
    if owned_count <= quota and owned.keys() <= topic_ids:
        return _Kept(owned, [], quota - owned_count)
    kept: dict[UUID, frozenset[int]] = {}
    revoked: list[tuple[UUID, int]] = []
    room = quota
    for topic_id in uuid_map_order(owned):
        if topic_id not in topic_ids:
            continue
        partitions = owned[topic_id]
        if len(partitions) > room:
            in_order = int_set_order(partitions)
            partitions = frozenset(in_order[:room])
            revoked += [(topic_id, number) for number in in_order[room:]]
        if partitions:
            kept[topic_id] = partitions
        room -= len(partitions)
    return _Kept(kept, revoked, room)


def _with_more(partitions: Partitions, more: list[tuple[UUID, int]]) -> Partitions:
    added: dict[UUID, list[int]] = {}
    for topic_id, number in more:
        added.setdefault(topic_id, []).append(number)
    grown = dict(partitions)
    for topic_id, numbers in added.items():
        grown[topic_id] = grown.get(topic_id, frozenset()).union(numbers)
    return grown
