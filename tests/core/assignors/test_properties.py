"""What holds for any group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.assignors.notation import STICKY_NAMES

from ottla.core.assignors.model import Assignment, PartitionInfo, Subscription
from ottla.core.assignors.registry import ASSIGNORS
from ottla.core.assignors.user_data import encode_claim, encode_generation
from ottla.model import TopicPartition

TOPICS = ("t0", "t1", "t2", "t3")
MEMBERS = ("a", "b", "c", "d", "e", "f", "g")
Shares = Mapping[str, Assignment]


@dataclass(frozen=True)
class Group:
    """Topics, and what the members want, own and say."""

    topics: dict[str, list[PartitionInfo]]
    subscriptions: dict[str, Subscription]

    def assign(self, name: str) -> dict[str, Assignment]:
        return ASSIGNORS[name]().assign(self.topics, self._said(name))

    def _said(self, name: str) -> dict[str, Subscription]:
        if name == "sticky":
            return {
                member: replace(
                    each, user_data=encode_claim(each.owned_partitions, each.generation_id)
                )
                for member, each in self.subscriptions.items()
            }
        return {
            member: replace(each, user_data=encode_generation(each.generation_id))
            for member, each in self.subscriptions.items()
        }

    def after(self, shares: Shares, generation_id: int) -> Group:
        """The group when its members have these shares and join again."""
        return replace(
            self,
            subscriptions={
                member: replace(
                    each,
                    owned_partitions=shares[member].partitions,
                    generation_id=generation_id,
                )
                for member, each in self.subscriptions.items()
            },
        )

    def without(self, member: str) -> Group:
        left = {name: each for name, each in self.subscriptions.items() if name != member}
        return replace(self, subscriptions=left)

    def wanted(self) -> list[TopicPartition]:
        """All partitions that are to be assigned."""
        return sorted(
            TopicPartition(topic, info.partition)
            for topic, infos in self.topics.items()
            for info in infos
            if any(topic in each.topics for each in self.subscriptions.values())
        )


def given_out(shares: Shares) -> list[TopicPartition]:
    return sorted(partition for share in shares.values() for partition in share.partitions)


def settle(name: str, group: Group) -> tuple[Group, dict[str, Assignment]]:
    """Rebalance until nothing moves; Kafka's tests allow four more."""
    shares = group.assign(name)
    for generation_id in range(100, 105):
        group = group.after(shares, generation_id)
        again = group.assign(name)
        if contents(again) == contents(shares):
            return group, shares
        shares = again
    raise AssertionError("the group does not settle")


def contents(shares: Shares) -> dict[str, list[TopicPartition]]:
    return {member: sorted(share.partitions) for member, share in shares.items()}


def is_balanced(group: Group, shares: Shares) -> bool:
    """Kafka's `isBalanced`: nobody could take a partition from one that has at least two more."""
    return not any(
        len(share.partitions) > len(shares[member].partitions) + 1
        and partition.topic in group.subscriptions[member].topics
        for share in shares.values()
        for partition in share.partitions
        for member in shares
    )


partitions = st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(0, 6))
racks = st.sampled_from(["a", "b", "c"])


@st.composite
def layouts(
    draw: st.DrawFn, with_racks: Iterable[bool] = (False,)
) -> dict[str, list[PartitionInfo]]:
    replicas = (
        st.lists(racks, max_size=2) if draw(st.sampled_from(list(with_racks))) else st.just([])
    )
    return {
        topic: [
            PartitionInfo(number, tuple(draw(replicas)))
            for number in range(draw(st.integers(0, 5)))
        ]
        for topic in draw(st.lists(st.sampled_from(TOPICS), min_size=1, unique=True))
    }


EITHER = st.booleans()
wanted = st.lists(st.sampled_from(TOPICS), max_size=4, unique=True).map(tuple)


@st.composite
def groups(draw: st.DrawFn, alike: st.SearchStrategy[bool] = EITHER) -> Group:
    """Members that own nothing yet."""
    names = draw(st.lists(st.sampled_from(MEMBERS), min_size=1, unique=True))
    same = draw(wanted) if draw(alike) else None
    return Group(
        draw(layouts()),
        {name: Subscription(draw(wanted) if same is None else same) for name in names},
    )


@st.composite
def claiming_groups(draw: st.DrawFn) -> Group:
    """Members of one generation, no two of which own the same."""
    group = draw(groups())
    owners = draw(st.dictionaries(partitions, st.sampled_from(sorted(group.subscriptions))))
    return replace(
        group,
        subscriptions={
            member: replace(
                each,
                owned_partitions=tuple(tp for tp, owner in owners.items() if owner == member),
                generation_id=5,
            )
            for member, each in group.subscriptions.items()
        },
    )


@st.composite
def contradictory_groups(draw: st.DrawFn) -> Group:
    """Members that claim anything in any generation, in racks or not, static or not."""
    names = draw(st.lists(st.sampled_from(MEMBERS), min_size=1, unique=True))
    same = draw(st.none() | wanted)
    return Group(
        draw(layouts(with_racks=(False, True))),
        {
            name: Subscription(
                draw(wanted) if same is None else same,
                owned_partitions=tuple(draw(st.lists(partitions, max_size=8))),
                generation_id=draw(st.integers(-1, 3)),
                rack_id=draw(st.none() | racks),
                group_instance_id=draw(st.none() | st.sampled_from(["i1", "i2"])),
            )
            for name in names
        },
    )


@pytest.mark.parametrize("name", ["range", "roundrobin", "sticky"])
@given(group=contradictory_groups())
def test_every_partition_goes_to_exactly_one_member(name: str, group: Group) -> None:
    shares = group.assign(name)
    assert given_out(shares) == group.wanted()
    assert list(shares) == sorted(group.subscriptions)


@given(group=contradictory_groups())
def test_cooperative_gives_no_partition_to_two_and_withholds_only_what_is_claimed(
    group: Group,
) -> None:
    given_now = given_out(group.assign("cooperative-sticky"))
    claimed = [tp for each in group.subscriptions.values() for tp in each.owned_partitions]
    assert len(set(given_now)) == len(given_now)
    assert set(given_now) <= set(group.wanted()) <= {*given_now, *claimed}


@given(group=contradictory_groups())
def test_cooperative_gives_everything_out_in_the_end(group: Group) -> None:
    plain = {name: replace(each, rack_id=None) for name, each in group.subscriptions.items()}
    _, shares = settle("cooperative-sticky", replace(group, subscriptions=plain))
    assert given_out(shares) == group.wanted()


@pytest.mark.parametrize("name", ASSIGNORS)
@given(group=contradictory_groups())
def test_nobody_gets_what_it_does_not_want(name: str, group: Group) -> None:
    for member, share in group.assign(name).items():
        for partition in share.partitions:
            assert partition.topic in group.subscriptions[member].topics


@pytest.mark.parametrize("name", ASSIGNORS)
@given(group=contradictory_groups(), random=st.randoms())
def test_the_order_in_which_members_are_listed_does_not_matter(
    name: str, group: Group, random: Random
) -> None:
    members, topics = list(group.subscriptions), list(group.topics)
    random.shuffle(members)
    random.shuffle(topics)
    other = Group(
        {topic: group.topics[topic][::-1] for topic in topics},
        {member: group.subscriptions[member] for member in members},
    )
    assert other.assign(name) == group.assign(name)


@pytest.mark.parametrize("name", ["roundrobin", "sticky", "cooperative-sticky"])
@given(group=groups(alike=st.just(True)))
def test_members_with_the_same_topics_have_shares_that_differ_by_one_at_most(
    name: str, group: Group
) -> None:
    sizes = [len(share.partitions) for share in group.assign(name).values()]
    assert max(sizes) - min(sizes) <= 1


@given(group=groups())
def test_range_divides_every_topic_evenly_in_runs(group: Group) -> None:
    shares = group.assign("range")
    for topic in group.topics:
        parts = [
            [tp.partition for tp in shares[member].partitions if tp.topic == topic]
            for member, each in group.subscriptions.items()
            if topic in each.topics
        ]
        sizes = [len(part) for part in parts]
        assert not sizes or max(sizes) - min(sizes) <= 1
        for part in parts:
            assert not part or part == list(range(part[0], part[0] + len(part)))


@pytest.mark.parametrize("name", STICKY_NAMES)
@given(group=claiming_groups())
def test_nobody_could_take_a_partition_from_one_that_has_two_more(name: str, group: Group) -> None:
    settled, shares = settle(name, group)
    assert is_balanced(settled, shares)


@pytest.mark.parametrize("name", STICKY_NAMES)
@given(group=groups())
def test_a_group_that_does_not_change_keeps_everything(name: str, group: Group) -> None:
    shares = group.assign(name)
    assert contents(group.after(shares, 1).assign(name)) == contents(shares)


@given(group=claiming_groups())
def test_after_any_change_the_eager_assignor_settles_at_once(group: Group) -> None:
    shares = group.assign("sticky")
    assert contents(group.after(shares, 6).assign("sticky")) == contents(shares)


@pytest.mark.parametrize("name", STICKY_NAMES)
@given(group=groups(alike=st.just(True)), data=st.data())
def test_when_a_member_leaves_only_its_partitions_move(
    name: str, group: Group, data: st.DataObject
) -> None:
    shares = group.assign(name)
    leaver = data.draw(st.sampled_from(sorted(group.subscriptions)))
    left = group.after(shares, 1).without(leaver)
    for member, share in left.assign(name).items():
        assert set(shares[member].partitions) <= set(share.partitions)


@pytest.mark.parametrize("name", STICKY_NAMES)
@given(group=groups(alike=st.just(True)))
def test_when_a_member_joins_nothing_moves_between_the_others(name: str, group: Group) -> None:
    shares = group.assign(name)
    before = group.after(shares, 1)
    topics = next(iter(before.subscriptions.values())).topics
    joined = replace(before, subscriptions={**before.subscriptions, "z": Subscription(topics)})
    for member, share in joined.assign(name).items():
        if member != "z":
            assert set(share.partitions) <= set(shares[member].partitions)


@given(group=claiming_groups())
def test_cooperative_gives_nobody_what_another_one_still_has(group: Group) -> None:
    for member, share in group.assign("cooperative-sticky").items():
        for other, each in group.subscriptions.items():
            if other != member:
                assert not set(share.partitions) & set(each.owned_partitions)
