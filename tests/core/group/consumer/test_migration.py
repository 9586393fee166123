"""A group changes its protocol while its members work: from classic to new and back, one member at a time."""

from __future__ import annotations

import struct

import pytest
from tests.core.group.consumer.consumers import Consumer, ConsumerGroups, error_of, settle
from tests.core.group.groups import Asked

from ottla.core.assignors.model import Assignment, Subscription
from ottla.core.assignors.protocol import (
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from ottla.core.group.classic.group import ClassicState
from ottla.core.group.consumer.classic_members import encode_classic
from ottla.core.group.requests import (
    ConsumerGroupConfig,
    ConsumerHeartbeat,
    HeartbeatRequest,
    MigrationPolicy,
)
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.model import TopicPartition


class ClassicClient:
    """A consumer of the classic protocol; it leads the only generation that a classic group has here."""

    def __init__(self, groups: ConsumerGroups, member_id: str, instance: str | None = None) -> None:
        self.groups = groups
        self.member_id = member_id
        self.instance = instance
        self.generation = -1
        self.owned: tuple[TopicPartition, ...] = ()

    def join(self, *, new: bool = False) -> Asked:
        subscription = Subscription(
            topics=("orders",), owned_partitions=self.owned, generation_id=self.generation
        )
        return self.groups.join(
            "" if new else self.member_id,
            new_id=self.member_id,
            instance=self.instance,
            protocols={"cooperative-sticky": encode_subscription(subscription)},
            version=3 if new and self.instance is None else 9,
        )

    def take_part(self) -> None:
        """Joins again and syncs, until a heartbeat has nothing to tell."""
        for _ in range(10):
            joined = self.join().joined
            self.generation = joined.generation
            asked = self.groups.sync(self.member_id, self.generation, instance=self.instance)
            self.owned = decode_assignment(asked.synced.assignment).partitions
            if self.beat() is ErrorCode.NONE:
                return

    def beat(self) -> ErrorCode:
        request = HeartbeatRequest("g", self.generation, self.member_id, self.instance)
        refused = self.groups._do(lambda turn: self.groups.machine.heartbeat(turn, request))
        return ErrorCode.NONE if refused is None else refused.error


def policy(name: MigrationPolicy) -> ConsumerGroups:
    return ConsumerGroups(ConsumerGroupConfig(assignment_interval_ms=0, migration_policy=name))


@pytest.fixture
def groups() -> ConsumerGroups:
    return policy(MigrationPolicy.BIDIRECTIONAL)


def classic_group(groups: ConsumerGroups, *names: str) -> list[ClassicClient]:
    """A stable classic group; its leader gives each member its share of the topic."""
    clients = [ClassicClient(groups, name) for name in names]
    with groups.one_turn():
        asked = [client.join(new=True) for client in clients]
    per_member = 4 // len(clients)
    shares = {
        client.member_id: tuple(
            TopicPartition("orders", number)
            for number in range(index * per_member, (index + 1) * per_member)
        )
        for index, client in enumerate(clients)
    }
    encoded = {name: encode_assignment(Assignment(share)) for name, share in shares.items()}
    for client, join in zip(clients, asked, strict=True):
        client.generation = join.joined.generation
        leads = join.joined.leader == client.member_id
        groups.sync(client.member_id, client.generation, encoded if leads else {})
        client.owned = shares[client.member_id]
    assert groups.state() is ClassicState.STABLE
    return clients


def test_the_first_member_of_the_new_protocol_upgrades_the_group_and_nobody_loses_anything(
    groups: ConsumerGroups,
) -> None:
    a, b = classic_group(groups, "a", "b")
    c = Consumer(groups, "c")
    c.join()
    assert "g" not in groups.machine.membership.groups
    group = groups.consumer_group()
    assert group.classic_count == 2
    # Until the classic members have joined again, the new one has only what is free.
    assert c.count == 0
    assert {a.beat(), b.beat()} == {ErrorCode.REBALANCE_IN_PROGRESS}
    a.take_part()
    b.take_part()
    settle(c)
    a.take_part()
    b.take_part()
    settle(c)
    assert sorted((len(a.owned), len(b.owned), c.count)) == [1, 1, 2]
    assert len(groups.owners()) == 4
    groups.restart()
    settle(c)


def test_an_upgraded_group_is_assigned_anew_even_if_the_pattern_of_the_new_member_matches_nothing(
    groups: ConsumerGroups,
) -> None:
    classic_group(groups, "a")
    generation = groups.machine.membership.groups["g"].generation
    groups.topics.grow("orders", 5)
    Consumer(groups, "c", topics=None, pattern="nothing").join()
    group = groups.consumer_group()
    assert group.epoch == group.target_epoch == generation + 1


@pytest.mark.parametrize("numbers", [(0, 4), (-1,), (2**31 - 1, 1, 2, 3)])
@pytest.mark.parametrize("topics", [["orders"], ["orders", "payments"]])
def test_partitions_that_do_not_exist_are_not_taken_over(
    groups: ConsumerGroups, numbers: tuple[int, ...], topics: list[str]
) -> None:
    groups.topics.create("payments", 2)
    client = ClassicClient(groups, "a")
    client.generation = client.join(new=True).joined.generation
    share = tuple(TopicPartition("orders", number) for number in numbers)
    groups.sync("a", client.generation, {"a": encode_assignment(Assignment(share))})
    c = Consumer(groups, "c", frozenset(topics))
    c.join()
    client.take_part()
    settle(c)
    client.take_part()
    settle(c)
    assert {number for _, number in client.owned} <= {0, 1, 2, 3}
    assert len(groups.owners()) == (4 if len(topics) == 1 else 6)


@pytest.mark.parametrize("garbage", [b"", b"\x00", b"\xff\xff"])
def test_a_protocol_that_nobody_has_read_does_not_stop_a_downgrade(
    groups: ConsumerGroups, garbage: bytes
) -> None:
    known = encode_subscription(Subscription(topics=("orders",)))
    with groups.one_turn():
        asked = groups.join(new_id="a", protocols={"odd": garbage, "range": known}, version=3)
        groups.join(new_id="b", protocols={"range": known}, version=3)
    assert asked.joined.protocol == "range"
    c = Consumer(groups, "c")
    c.join()
    c.leave()
    assert "g" in groups.machine.membership.groups


LARGE = [
    struct.pack(">hi", 0, 40_000) + b"\0\0" * 40_000 + struct.pack(">i", -1),
    encode_subscription(Subscription(topics=("orders",), user_data=b"x" * (1 << 20))),
]


@pytest.mark.parametrize("large", LARGE, ids=["topics", "bytes"])
def test_a_subscription_that_takes_long_to_read_is_not_read(
    groups: ConsumerGroups, large: bytes
) -> None:
    protocols = {"range": large}
    generation = groups.join(new_id="a", protocols=protocols, version=3).joined.generation
    groups.sync("a", generation, {"a": encode_assignment(Assignment(()))})
    assert not groups.machine.membership.groups["g"].knows_its_topics
    c = Consumer(groups, "c")
    assert error_of(c.join()) is ErrorCode.GROUP_ID_NOT_FOUND
    other = Consumer(groups, "d", group_id="h")
    other.join()
    joined = groups.join(new_id="a", group="h", protocols=protocols, version=3)
    assert joined.join_refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_group_with_too_many_bytes_is_not_upgraded(groups: ConsumerGroups) -> None:
    large = encode_subscription(Subscription(topics=("orders",), user_data=b"x" * 1_000_000))
    with groups.one_turn():
        for name in "abcde":
            groups.join(new_id=name, protocols={"range": large}, version=3)
    answer = Consumer(groups, "f").join()
    assert isinstance(answer, Refused)
    assert answer.message is not None
    assert "more than 4194304 bytes" in answer.message
    assert groups.state() is ClassicState.COMPLETING_REBALANCE


def test_an_upgraded_group_that_was_stable_stays_in_its_epoch_if_nothing_changes(
    groups: ConsumerGroups,
) -> None:
    classic_group(groups, "a", "b")
    generation = groups.machine.membership.groups["g"].generation
    Consumer(groups, "c", topics=None, pattern="nothing").join()
    group = groups.consumer_group()
    assert group.epoch == group.target_epoch == generation


def test_a_classic_member_gives_up_before_the_new_one_gets(groups: ConsumerGroups) -> None:
    (a,) = classic_group(groups, "a")
    c = Consumer(groups, "c")
    c.join()
    assert a.beat() is ErrorCode.REBALANCE_IN_PROGRESS
    # It joins with all that it owns, and is told what to keep.
    joined = a.join().joined
    a.generation = joined.generation
    kept = decode_assignment(groups.sync("a", a.generation).synced.assignment).partitions
    assert len(kept) == 2
    c.beat()
    assert c.count == 0
    a.owned = kept
    assert a.beat() is ErrorCode.REBALANCE_IN_PROGRESS
    a.take_part()
    c.beat()
    assert c.count == 2


def test_the_last_member_of_the_new_protocol_that_leaves_downgrades_the_group(
    groups: ConsumerGroups,
) -> None:
    (a,) = classic_group(groups, "a")
    c = Consumer(groups, "c")
    c.join()
    a.take_part()
    settle(c)
    a.take_part()
    c.leave()
    assert "g" not in groups.machine.consumers.groups
    assert groups.state() is ClassicState.PREPARING_REBALANCE
    # Also after a restart: nobody has the partitions of the member that has left.
    groups.restart()
    assert groups.state() is ClassicState.PREPARING_REBALANCE
    assert a.beat() is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_group_that_is_upgraded_again_gives_nobody_what_another_member_still_has(
    groups: ConsumerGroups,
) -> None:
    classic_group(groups, "a")
    c = Consumer(groups, "c")
    c.join()
    asked = groups.join(protocols={"range": encode_subscription(Subscription(topics=("orders",)))})
    b = ClassicClient(groups, asked.join_refused.member_id)
    b.join()
    # While a has not joined again, it has everything, whatever is meant for b.
    assert dict.fromkeys(groups.owners().values()) == {"a": None}
    c.leave()
    assert groups.state() is ClassicState.PREPARING_REBALANCE
    Consumer(groups, "d").join()
    assert dict.fromkeys(groups.owners().values()) == {"a": None}
    assert len(groups.owners()) == 4


def test_a_member_of_the_new_protocol_that_dies_downgrades_the_group(
    groups: ConsumerGroups,
) -> None:
    (a,) = classic_group(groups, "a")
    Consumer(groups, "c").join()
    for _ in range(12):
        groups.pass_ms(4000)
        if "g" in groups.machine.consumers.groups:
            a.take_part()
    assert "g" in groups.machine.membership.groups


@pytest.mark.parametrize("name", [MigrationPolicy.DISABLED, MigrationPolicy.DOWNGRADE])
def test_without_upgrades_a_classic_group_refuses_the_new_protocol(name: MigrationPolicy) -> None:
    groups = policy(name)
    (a,) = classic_group(groups, "a")
    answer = Consumer(groups, "c").join()
    assert error_of(answer) is ErrorCode.GROUP_ID_NOT_FOUND
    assert a.beat() is ErrorCode.NONE


@pytest.mark.parametrize("name", [MigrationPolicy.DISABLED, MigrationPolicy.UPGRADE])
def test_without_downgrades_a_group_stays_with_the_new_protocol(name: MigrationPolicy) -> None:
    groups = policy(MigrationPolicy.UPGRADE)
    (a,) = classic_group(groups, "a")
    c = Consumer(groups, "c")
    c.join()
    a.take_part()
    groups.consumer = groups.consumer._replace(migration_policy=name)
    c.leave()
    assert groups.consumer_group().classic_count == 1


def test_the_partitions_of_a_member_that_is_gone_go_to_classic_members_that_are_alone() -> None:
    groups = policy(MigrationPolicy.UPGRADE)
    (a,) = classic_group(groups, "a")
    c = Consumer(groups, "c")
    c.join()
    a.take_part()
    c.leave()
    assert a.beat() is ErrorCode.REBALANCE_IN_PROGRESS
    a.take_part()
    group = groups.consumer_group()
    assert group.target_epoch == group.epoch
    assert len(group.owners) > 0
    assert a.beat() is ErrorCode.NONE


def test_classic_clients_may_not_join_where_migration_is_disabled() -> None:
    groups = policy(MigrationPolicy.DISABLED)
    Consumer(groups, "c").join()
    assert ClassicClient(groups, "a").join(new=True).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_classic_client_joins_a_group_of_the_new_protocol(groups: ConsumerGroups) -> None:
    c = Consumer(groups, "c")
    c.join()
    asked = groups.join(protocols={"range": encode_subscription(Subscription(topics=("orders",)))})
    assert asked.error is ErrorCode.MEMBER_ID_REQUIRED
    a = ClassicClient(groups, asked.join_refused.member_id)
    a.take_part()
    settle(c)
    a.take_part()
    assert (len(a.owned), c.count) == (2, 2)
    assert groups.leave(a.member_id)
    settle(c)
    assert c.count == 4


def test_joins_that_wait_are_sent_back_when_the_group_is_upgraded(groups: ConsumerGroups) -> None:
    classic_group(groups, "a")
    waiting = ClassicClient(groups, "b").join(new=True)
    assert waiting.waits
    Consumer(groups, "c").join()
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_group_of_another_protocol_type_is_not_upgraded(groups: ConsumerGroups) -> None:
    groups.join(new_id="w", version=3, protocol_type="connect", protocols={"default": b"x"})
    groups.pass_ms(1)
    answer = Consumer(groups, "c").join()
    assert isinstance(answer, Refused)
    assert answer.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert "does not use the consumer embedded protocol" in answer.text


def test_an_empty_group_of_the_new_protocol_is_joined_with_the_classic_one(
    groups: ConsumerGroups,
) -> None:
    c = Consumer(groups, "c")
    c.join()
    c.leave()
    (a,) = classic_group(groups, "a")
    assert a.beat() is ErrorCode.NONE
    assert not groups.machine.consumers.groups
    groups.restart()


def test_a_static_member_changes_its_protocol_and_keeps_its_partitions(
    groups: ConsumerGroups,
) -> None:
    a = ClassicClient(groups, "a", instance="i")
    join = a.join(new=True)
    groups.pass_ms(1)
    a.generation = join.joined.generation
    share = tuple(TopicPartition("orders", number) for number in range(4))
    groups.sync("a", a.generation, {"a": encode_assignment(Assignment(share))}, instance="i")
    new = Consumer(groups, "a2", instance="i")
    answer = new.join()
    assert isinstance(answer, ConsumerHeartbeat)
    assert new.count == 4
    assert a.beat() is ErrorCode.FENCED_INSTANCE_ID
    new.leave(for_a_while=True)
    back = ClassicClient(groups, "a3", instance="i")
    joined = back.join(new=True).joined
    assert groups.state() is ClassicState.STABLE
    sync = groups.sync("a3", joined.generation, instance="i")
    assert len(decode_assignment(sync.synced.assignment).partitions) == 4


def test_a_custom_assignors_data_forbids_the_upgrade(groups: ConsumerGroups) -> None:
    (a,) = classic_group(groups, "a")
    groups.group().members["a"].assignment = encode_assignment(Assignment((), b"mine"))
    answer = Consumer(groups, "c").join()
    assert isinstance(answer, Refused)
    assert "custom assignor" in answer.text
    assert a.beat() is ErrorCode.NONE


def test_a_member_that_waits_for_partitions_joins_again_when_a_static_member_downgrades_the_group(
    groups: ConsumerGroups,
) -> None:
    s = Consumer(groups, "s", instance="i")
    s.join()
    c = ClassicClient(groups, "c")
    joined = c.join(new=True).joined
    c.generation = joined.generation
    groups.sync("c", c.generation)
    # Half of the partitions are the target of c, but s goes away before it has given them up.
    assert not groups.consumer_group().members["c"].current.assigned
    s.leave(for_a_while=True)
    back = ClassicClient(groups, "s2", instance="i")
    back.join(new=True)
    assert "g" not in groups.machine.consumers.groups
    assert c.beat() is ErrorCode.REBALANCE_IN_PROGRESS


def test_assigned_partitions_that_do_not_exist_are_dropped_by_the_upgrade(
    groups: ConsumerGroups,
) -> None:
    classic_group(groups, "a", "b")
    groups.topics.delete("orders")
    groups.topics.create("orders", 1)
    c = Consumer(groups, "c")
    answer = c.join()
    assert isinstance(answer, ConsumerHeartbeat)
    assert (
        sum(
            len(numbers)
            for of in groups.consumer_group().targets.values()
            for numbers in of.values()
        )
        == 1
    )


def test_an_upgraded_member_whose_first_protocol_cannot_be_read_gets_its_assignment(
    groups: ConsumerGroups,
) -> None:
    (a,) = classic_group(groups, "a")
    member = groups.group().members["a"]
    member.protocols = {"mine": b"", **member.protocols}
    Consumer(groups, "c").join()
    assert groups.sync("a", a.generation).error is ErrorCode.REBALANCE_IN_PROGRESS
    group = groups.consumer_group()
    assert encode_classic(group.target("a"), group.members["a"], groups.topics)


@pytest.mark.parametrize("comes_back", [False, True])
def test_a_member_that_syncs_after_the_downgrade_with_its_own_protocol_joins_again(
    groups: ConsumerGroups, comes_back: bool
) -> None:
    s = Consumer(groups, "s", instance="i")
    s.join()
    ClassicClient(groups, "a").join(new=True)
    subscription = encode_subscription(Subscription(topics=("orders",)))
    protocols = {"range": subscription, "cooperative-sticky": subscription}
    joined = groups.join("", new_id="b", protocols=protocols, version=3).joined
    assert joined.protocol == "range"
    if comes_back:
        s.leave(for_a_while=True)
        ClassicClient(groups, "s2", instance="i").join(new=True)
    else:
        s.leave()
    assert groups.group().protocol == "cooperative-sticky"
    asked = groups.sync("b", joined.generation, protocol="range")
    assert asked.error in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)
