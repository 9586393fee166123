"""What holds for any group of the new protocol."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.assignors.server_side.model import Partitions, Subscriber
from ottla.core.assignors.server_side.registry import SERVER_ASSIGNORS

TOPIC_IDS = [UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128) for number in range(5)]
MEMBERS = [f"{number * 0x9E3779B97F4A7C15 % 2**64:016x}" for number in range(9)]
EACH = pytest.mark.parametrize("name", SERVER_ASSIGNORS)

Targets = Mapping[str, Partitions]


@dataclass(frozen=True)
class Group:
    partition_counts: dict[UUID, int]
    members: dict[str, Subscriber]

    def assign(self, name: str) -> dict[str, Partitions]:
        return SERVER_ASSIGNORS[name].assign(self.members, self.partition_counts)

    def after(self, targets: Targets) -> Group:
        members = {
            each: member._replace(owned=targets[each]) for each, member in self.members.items()
        }
        return replace(self, members=members)

    def wanted(self) -> list[tuple[UUID, int]]:
        """All partitions that are to be assigned."""
        subscribed = {topic for member in self.members.values() for topic in member.topic_ids}
        return sorted(
            (topic, number)
            for topic in subscribed
            for number in range(self.partition_counts[topic])
        )


def flat(shares: Iterable[Partitions]) -> list[tuple[UUID, int]]:
    return sorted(
        (topic, number)
        for share in shares
        for topic, numbers in share.items()
        for number in numbers
    )


def size(share: Partitions) -> int:
    return sum(map(len, share.values()))


@st.composite
def groups(draw: st.DrawFn, *, alike: bool = False) -> Group:
    """Members with subscriptions, and a valid assignment of earlier subscriptions and fewer partitions."""
    topic_ids = draw(st.lists(st.sampled_from(TOPIC_IDS), min_size=1, max_size=5, unique=True))
    partition_counts = {topic: draw(st.integers(1, 20)) for topic in topic_ids}
    member_ids = draw(st.lists(st.sampled_from(MEMBERS), min_size=1, max_size=9, unique=True))
    some_topics = st.frozensets(st.sampled_from(topic_ids))
    everybodys = draw(st.frozensets(st.sampled_from(topic_ids), min_size=1))
    owners: dict[tuple[UUID, int], str] = {}
    # One of a few members, or none: unbalanced, and some members have nothing.
    possible_owners = st.sampled_from([None, *draw(st.lists(st.sampled_from(member_ids)))])
    for topic, count in partition_counts.items():
        for number in range(draw(st.integers(0, count))):
            owner = draw(possible_owners)
            if owner is not None:
                owners[topic, number] = owner
    members = {}
    for position, member_id in enumerate(member_ids):
        owned: dict[UUID, frozenset[int]] = {}
        for (topic, number), owner in owners.items():
            if owner == member_id:
                owned[topic] = owned.get(topic, frozenset()) | {number}
        members[member_id] = Subscriber(
            topic_ids=everybodys if alike else draw(some_topics),
            owned=owned,
            instance_id=draw(st.sampled_from([None, f"instance-{position}"])),
        )
    return Group(partition_counts, members)


@EACH
@given(group=groups())
def test_every_partition_of_a_subscribed_topic_is_assigned_to_one_subscriber(
    name: str, group: Group
) -> None:
    targets = group.assign(name)
    assert targets.keys() == group.members.keys()
    assert flat(targets.values()) == group.wanted()
    for member_id, share in targets.items():
        assert share.keys() <= group.members[member_id].topic_ids
        assert all(share.values()), "a topic without partitions"


@EACH
@given(group=groups(), seed=st.integers(0, 1_000))
def test_the_order_of_the_members_does_not_matter(name: str, group: Group, seed: int) -> None:
    shuffled = list(group.members.items())
    Random(seed).shuffle(shuffled)
    assert replace(group, members=dict(shuffled)).assign(name) == group.assign(name)


@EACH
@given(group=groups())
def test_a_member_whose_assignment_stays_gets_the_same_object(name: str, group: Group) -> None:
    targets = group.assign(name)
    for member_id, member in group.members.items():
        assert (targets[member_id] == member.owned) == (targets[member_id] is member.owned)
    settled = group.after(targets)
    again = settled.assign(name)
    assert all(again[each] is settled.members[each].owned for each in again)


@given(group=groups(alike=True))
def test_uniform_balances_members_with_the_same_topics(group: Group) -> None:
    sizes = [size(share) for share in group.assign("uniform").values()]
    assert max(sizes) - min(sizes) <= 1


@given(group=groups())
def test_uniform_leaves_no_partition_whose_move_would_improve_the_balance(group: Group) -> None:
    targets = group.assign("uniform")
    for share in targets.values():
        for topic in share:
            for other_id, other in targets.items():
                if topic in group.members[other_id].topic_ids:
                    assert size(share) - size(other) <= 1


@pytest.mark.parametrize("by_pattern", [False, True])
@given(group=groups(alike=True))
def test_uniform_takes_from_members_no_more_than_balance_demands(
    group: Group, by_pattern: bool
) -> None:
    members = {
        each: member._replace(by_pattern=by_pattern) for each, member in group.members.items()
    }
    targets = replace(group, members=members).assign("uniform")
    quota, larger_quotas = divmod(len(group.wanted()), len(members))
    owned = {
        each: [pair for pair in flat([member.owned]) if pair[0] in member.topic_ids]
        for each, member in members.items()
    }
    kept = sum(len({*owned[each]} & {*flat([targets[each]])}) for each in members)
    with_more = sum(len(pairs) > quota for pairs in owned.values())
    assert kept == sum(min(len(pairs), quota) for pairs in owned.values()) + min(
        larger_quotas, with_more
    )


@given(group=groups())
def test_range_gives_consecutive_partitions_of_each_topic_and_balances_it(group: Group) -> None:
    targets = group.assign("range")
    for topic in {topic for topic, _ in group.wanted()}:
        counts = []
        for member_id, member in group.members.items():
            if topic in member.topic_ids:
                numbers = sorted(targets[member_id].get(topic, ()))
                assert numbers == list(range(numbers[0], numbers[-1] + 1) if numbers else ())
                counts.append(len(numbers))
        assert max(counts) - min(counts) <= 1


@given(group=groups(alike=True), count=st.integers(1, 20))
def test_range_gives_a_member_the_same_numbers_of_topics_with_as_many_partitions(
    group: Group, count: int
) -> None:
    alike = replace(group, partition_counts=dict.fromkeys(group.partition_counts, count))
    for member_id, share in alike.assign("range").items():
        topic_ids = group.members[member_id].topic_ids
        different = Counter(share.get(topic, frozenset()) for topic in topic_ids)
        assert len(different) == 1


@given(group=groups())
def test_range_gives_a_static_member_the_same_under_a_new_member_id(group: Group) -> None:
    renamed = {
        each if member.instance_id is None else f"another-{each}": member
        for each, member in group.members.items()
    }
    before, after = group.assign("range"), replace(group, members=renamed).assign("range")
    for member_id, member in group.members.items():
        if member.instance_id is not None:
            assert after[f"another-{member_id}"] == before[member_id]


def test_a_group_without_members_has_no_targets() -> None:
    for assignor in SERVER_ASSIGNORS.values():
        assert assignor.assign({}, {}) == {}
