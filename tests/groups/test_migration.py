"""Groups go from the classic protocol to the new one and back (KIP-848), member by member, at work all the while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupType
from tests.groups.brokers import Running, killable_node, one_node
from tests.groups.checker import problems, problems_without_faults
from tests.groups.conftest import MakeGroup, Topics, client_called, in_turn
from tests.groups.feed import Feed
from tests.groups.history import ASSIGNED, LOST, REVOKED
from tests.groups.members import IMPATIENT_MS, LONG_SESSION_MS, Client, Group, Member
from tests.groups.moves import move_coordinator

from ottla.model import TopicPartition

CLASSIC, NEW = ConsumerGroupType.CLASSIC, ConsumerGroupType.CONSUMER
PARTITIONS = 6
MEMBERS = 3


IN_MAKE_TEST = ["ottla-cooperative+confluent-consumer"]
IN_CAMPAIGNS = [
    *("ottla-range+ottla-consumer", "ottla-cooperative+ottla-aio-consumer"),
    *("confluent-range+confluent-consumer", "confluent-roundrobin+java-consumer"),
    *("java-range+java-consumer", "java-cooperative+java-consumer"),
    *("confluent-range+java-consumer", "java-cooperative+confluent-consumer"),
    *("kafka-python+ottla-consumer", "aiokafka-sticky+confluent-consumer"),
]


@pytest.fixture(params=in_turn([], [*IN_MAKE_TEST, *IN_CAMPAIGNS]))
def clients(request: pytest.FixtureRequest) -> tuple[Client, Client]:
    """A client of the classic protocol and one of the new."""
    old, _, new = request.param.partition("+")
    return client_called(old, request), client_called(new, request)


@dataclass
class Migration:
    """A group at work, whose members are replaced one by one."""

    group: Group
    topics: Topics
    topic: str
    partitions: list[TopicPartition]
    members: list[Member]

    def start(self, client: Client, **options: object) -> Member:
        member = self.group.start([self.topic], client=client, **options)  # type: ignore[arg-type]
        self.members.append(member)
        return member

    def restart_oldest(self, client: Client, **options: object) -> None:
        """The longest-serving member leaves, and one with this client comes in its place."""
        self.members.pop(0).leave()
        self.start(client, **options)
        self.settle()

    def kill_oldest(self, running: Running, client: Client) -> None:
        self.members.pop(0).kill()
        running.let_session_pass(client, IMPATIENT_MS)
        self.settle()

    def settle(self) -> None:
        self.group.settle(self.partitions, *self.members)

    @property
    def type(self) -> ConsumerGroupType:
        return self.topics.group_type(self.group.group_id)


@contextmanager
def migrating(
    bootstrap: str, make_group: MakeGroup, topic: str, client: Client, **options: object
) -> Iterator[tuple[Migration, Feed]]:
    """A group of this client's members that processes records until the block ends, and then leaves."""
    topics = Topics(bootstrap)
    partitions = topics.create(topic, PARTITIONS)
    found = Migration(make_group(bootstrap, client), topics, topic, partitions, [])
    with Feed(bootstrap, partitions) as feed:
        for _ in range(MEMBERS):
            found.start(client, **options)
        found.settle()
        yield found, feed
        feed.drain(found.group.history)
    found.group.leave(*found.members)


@pytest.mark.long
@pytest.mark.timeout(180)
@pytest.mark.parametrize("clients", in_turn(IN_MAKE_TEST, IN_CAMPAIGNS), indirect=True)
def test_a_group_whose_members_restart_one_by_one_changes_its_protocol_and_back(
    running: Running, clients: tuple[Client, Client], make_group: MakeGroup, ottla_topic: str
) -> None:
    classic, new = clients
    bootstrap = running.bootstrap_servers
    with migrating(bootstrap, make_group, ottla_topic, classic) as (migration, feed):
        assert migration.type == CLASSIC
        for _ in range(MEMBERS):
            migration.restart_oldest(new)
            assert migration.type == NEW
            feed.flow()
        for _ in range(MEMBERS):
            # While one has the new protocol, the group has.
            assert migration.type == NEW
            migration.restart_oldest(classic)
            feed.flow()
        assert migration.type == CLASSIC
    group = migration.group
    group.check(problems_without_faults(group.history, feed.produced))


@pytest.mark.timeout(180)
def test_a_new_member_takes_from_cooperative_ones_only_what_moves(
    running: Running, make_group: MakeGroup, ottla_topic: str, clients: tuple[Client, Client]
) -> None:
    classic, new = clients
    if not classic.is_cooperative:
        pytest.skip("eager members give up everything in each rebalance")
    bootstrap = running.bootstrap_servers
    with migrating(bootstrap, make_group, ottla_topic, classic) as (migration, feed):
        feed.flow()
        history = migration.group.history
        before, began = history.owners, history.events[-1].time
        joined = migration.start(new)
        migration.settle()
        after = history.owners
        given = [
            partition
            for event in history.since(began, REVOKED, LOST)
            for partition in event.partitions
        ]
        assert sorted(given) == sorted(after[joined.name])
        for member in migration.members[:-1]:
            assert after[member.name] == before[member.name] - after[joined.name]
    group = migration.group
    group.check(problems_without_faults(group.history, feed.produced))


@pytest.mark.campaign
def test_a_group_whose_assignments_have_user_data_stays_classic(
    running: Running, request: pytest.FixtureRequest, make_group: MakeGroup, ottla_topic: str
) -> None:
    bootstrap = running.bootstrap_servers
    # librdkafka's cooperative-sticky writes user data into assignments, as no assignor of Kafka does.
    classic = client_called("confluent-cooperative", request)
    with migrating(bootstrap, make_group, ottla_topic, classic) as (migration, feed):
        group = migration.group
        refused = group.start([ottla_topic], client=client_called("confluent-consumer", request))
        refused.expect_end()
        assert refused.wait_ended() != 0
        assert group.history.of(refused.name, ASSIGNED) == []
        assert migration.type == CLASSIC
        feed.flow()
    group.check(problems_without_faults(group.history, feed.produced))


@pytest.mark.timeout(240)
def test_members_that_are_killed_during_the_change_are_replaced_after_their_sessions(
    running: Running, clients: tuple[Client, Client], make_group: MakeGroup, ottla_topic: str
) -> None:
    classic, new = clients
    bootstrap = running.bootstrap_servers
    impatient = {"session_timeout_ms": IMPATIENT_MS}
    with migrating(bootstrap, make_group, ottla_topic, classic, **impatient) as (migration, feed):
        migration.restart_oldest(new, **impatient)
        # A classic one of a group with the new protocol.
        migration.kill_oldest(running, new)
        migration.start(new, **impatient)
        migration.restart_oldest(new, **impatient)
        feed.flow()
        # All have the new one; the first classic one that comes is left alone with those that die.
        migration.start(classic, **impatient)
        migration.settle()
        migration.kill_oldest(running, new)
        migration.kill_oldest(running, new)
        assert migration.type == NEW
        migration.start(classic, **impatient)
        migration.settle()
        # The death of the last new one makes the group a classic one.
        migration.kill_oldest(running, new)
        assert migration.type == CLASSIC
        feed.flow()
    group = migration.group
    group.check(problems(group.history, feed.produced))


@pytest.mark.timeout(240)
def test_a_group_goes_on_when_its_coordinator_moves_during_the_change(
    triple: Running, clients: tuple[Client, Client], make_group: MakeGroup, ottla_topic: str
) -> None:
    classic, new = clients
    broker = triple.ottla
    assert broker is not None
    bootstrap = triple.bootstrap_servers
    with migrating(bootstrap, make_group, ottla_topic, classic) as (migration, feed):
        for client in (new, classic):
            for _ in range(MEMBERS):
                migration.restart_oldest(client)
                move_coordinator(broker, migration.group.group_id)
                feed.flow()
                migration.settle()
        assert migration.type == CLASSIC
    group = migration.group
    group.check(problems(group.history, feed.produced))


@pytest.mark.timeout(240)
def test_a_group_goes_on_when_the_broker_is_killed_during_the_change(
    tmp_path: Path, clients: tuple[Client, Client], make_group: MakeGroup, ottla_topic: str
) -> None:
    classic, new = clients
    patient = {"session_timeout_ms": LONG_SESSION_MS}
    with (
        killable_node(tmp_path) as broker,
        migrating(broker.address, make_group, ottla_topic, classic, **patient) as (migration, feed),
    ):
        for client, expected in ((new, NEW), (classic, NEW)):
            migration.restart_oldest(client, **patient)
            feed.flow()
            broker.kill()
            broker.start()
            feed.flow()
            migration.settle()
            assert migration.type == expected
        migration.restart_oldest(classic, **patient)
        migration.restart_oldest(classic, **patient)
        assert migration.type == CLASSIC
        broker.kill()
        broker.start()
        feed.flow()
        migration.settle()
        assert migration.type == CLASSIC
    group = migration.group
    group.check(problems(group.history, feed.produced))


class TestPolicies:
    """`group.consumer.migration.policy`."""

    @pytest.fixture(
        params=[
            *("disabled", "upgrade", "downgrade"),
            pytest.param("bidirectional", marks=pytest.mark.campaign),
        ]
    )
    def policy(self, request: pytest.FixtureRequest) -> str:
        name: str = request.param
        return name

    @pytest.fixture
    def broker(self, policy: str, tmp_path: Path) -> Iterator[Running]:
        with one_node(tmp_path, {"group.consumer.migration.policy": policy}) as running:
            yield running

    @pytest.mark.timeout(180)
    def test_a_classic_group_takes_a_new_member_if_the_policy_upgrades(
        self,
        broker: Running,
        policy: str,
        clients: tuple[Client, Client],
        make_group: MakeGroup,
        ottla_topic: str,
    ) -> None:
        classic, new = clients
        bootstrap = broker.bootstrap_servers
        with migrating(bootstrap, make_group, ottla_topic, classic) as (migration, feed):
            group = migration.group
            if policy in ("upgrade", "bidirectional"):
                migration.restart_oldest(new)
                assert migration.type == NEW
            else:
                refused = group.start([ottla_topic], client=new)
                refused.expect_end()
                # GROUP_ID_NOT_FOUND ends it, and the others do not notice.
                assert refused.wait_ended() != 0
                assert group.history.of(refused.name, ASSIGNED) == []
                assert migration.type == CLASSIC
            feed.flow()
        group.check(problems_without_faults(group.history, feed.produced))

    @pytest.mark.timeout(180)
    def test_a_group_becomes_classic_with_its_last_new_member_if_the_policy_downgrades(
        self,
        broker: Running,
        policy: str,
        clients: tuple[Client, Client],
        make_group: MakeGroup,
        ottla_topic: str,
    ) -> None:
        classic, new = clients
        bootstrap = broker.bootstrap_servers
        with migrating(bootstrap, make_group, ottla_topic, new) as (migration, feed):
            group = migration.group
            if policy == "disabled":
                # INCONSISTENT_GROUP_PROTOCOL: some clients end, some try again and again.
                refused = group.start([ottla_topic], client=classic)
                refused.expect_end()
                feed.flow()
                migration.settle()
                assert group.history.of(refused.name, ASSIGNED) == []
                refused.end()
                assert migration.type == NEW
            for _ in range(MEMBERS if policy != "disabled" else 0):
                assert migration.type == NEW
                migration.restart_oldest(classic)
                feed.flow()
            is_classic = policy in ("downgrade", "bidirectional")
            assert migration.type == (CLASSIC if is_classic else NEW)
            # Either way the members go on, and others come and go.
            migration.restart_oldest(new if policy == "disabled" else classic)
            feed.flow()
        group.check(problems_without_faults(group.history, feed.produced))


def test_static_members_keep_their_partitions_through_the_change(
    running: Running, clients: tuple[Client, Client], make_group: MakeGroup, ottla_topic: str
) -> None:
    classic, new = clients
    bootstrap = running.bootstrap_servers
    topics = Topics(bootstrap)
    partitions = topics.create(ottla_topic, PARTITIONS)
    group = make_group(bootstrap, classic)
    names = ["one", "two"]

    def start(name: str, client: Client) -> Member:
        return group.start(
            [ottla_topic],
            client=client,
            group_instance_id=name,
            session_timeout_ms=LONG_SESSION_MS,
        )

    with Feed(bootstrap, partitions) as feed:
        members = {name: start(name, classic) for name in names}
        group.settle(partitions, *members.values())
        for client in (new, classic):
            for name in names:
                owned = group.history.owners[members[name].name]
                members[name].leave()
                members[name] = start(name, client)
                group.settle(partitions, *members.values())
                assert group.history.owners[members[name].name] == owned
        feed.drain(group.history)
    group.leave(*members.values())
    group.check(problems(group.history, feed.produced))
