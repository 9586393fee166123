"""What users see of the cluster through the console: what the cluster's ACLs let them describe, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from tests.console.running_console import ConsoleUnderTest, running_console
from tests.console.users import VIEWER, allow, user
from tests.waiting import in_time

import ottla
from ottla.admin import (
    AclBinding,
    AclOperation,
    AclPermission,
    AclResourceType,
    NewTopic,
    PatternType,
)
from ottla.console.access.identity import Identity
from ottla.console.access.roles import Role
from ottla.console.access.visible import Visible
from ottla.console.clients import Clients
from ottla.console.http.routes import ServerEvent

TOPIC, GROUP, TRANSACTIONAL_ID = (
    AclResourceType.TOPIC,
    AclResourceType.GROUP,
    AclResourceType.TRANSACTIONAL_ID,
)
DESCRIBE = AclOperation.DESCRIBE
SECONDS = 20


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    """With two topics, two groups that read both, and two transactions that write to both."""
    with ottla.Broker(security="scram") as found:
        options = found.client_options()
        with ottla.Admin(options) as admin:
            admin.create_topics([NewTopic("open", num_partitions=1), NewTopic("secret")])
            for group in ("readers", "secret-readers"):
                admin.alter_consumer_group_offsets(group, {("open", 0): 0, ("secret", 0): 0})
        producers = []
        for name in ("payments", "secret-payments"):
            producer = ottla.Producer({**options, "transactional.id": name})
            producer.init_transactions()
            producer.begin_transaction()
            for topic in ("open", "secret"):
                producer.send(topic, b"1").result(SECONDS)
            producers.append(producer)
        yield found
        for producer in producers:
            producer.abort_transaction()
            producer.close()


@asynccontextmanager
async def looking(broker: ottla.Broker) -> AsyncIterator[ConsoleUnderTest]:
    """A console that has seen the whole cluster."""
    async with running_console(broker.client_options()) as console:
        deadline = asyncio.get_running_loop().time() + SECONDS
        poller = console.console.poller
        while (found := poller.snapshot) is None or len(found.transactions) < 2:
            in_time(deadline, "both transactions in the snapshot")
            poller.poll_soon()
            await asyncio.sleep(0.02)
        yield console


async def seen_by(console: ConsoleUnderTest, broker: ottla.Broker, name: str) -> Visible:
    """What a user sees."""
    clients = Clients(broker.client_options(name))
    try:
        return await console.console.visibility.of(Identity(name, Role.VIEWER, clients))
    finally:
        await clients.close()


def see(broker: ottla.Broker, name: str) -> Visible:
    async def ask() -> Visible:
        async with looking(broker) as console:
            return await seen_by(console, broker, name)

    return asyncio.run(ask())


def test_who_uses_the_consoles_own_connection_sees_all(broker: ottla.Broker) -> None:
    async def ask() -> Visible:
        async with looking(broker) as console:
            identity = Identity("token", Role.VIEWER, console.console.clients)
            return await console.console.visibility.of(identity)

    visible = asyncio.run(ask())
    assert visible.is_everything
    assert visible.snapshot is visible.whole


def test_who_may_only_describe_the_cluster_sees_no_topic_no_group_and_no_transaction(
    broker: ottla.Broker,
) -> None:
    user(broker, "nobody", *VIEWER)
    visible = see(broker, "nobody")
    snapshot = visible.snapshot
    assert not snapshot.topics
    assert not snapshot.groups
    assert not snapshot.transactions
    assert not snapshot.groups_of_topic
    assert not snapshot.transactions_of_topic
    assert (snapshot.totals.topic_count, snapshot.totals.record_count) == (0, 0)
    assert snapshot.totals.lag == 0
    assert snapshot.brokers
    assert not visible.sees_topic("open")
    assert not visible.sees_group("readers")
    assert not visible.sees_transactional_id("payments")


def test_who_may_describe_some_sees_these_without_the_rest(broker: ottla.Broker) -> None:
    user(broker, "some", *VIEWER)
    for kind, name in ((TOPIC, "open"), (GROUP, "readers"), (TRANSACTIONAL_ID, "payments")):
        allow(broker, "some", kind, name, DESCRIBE)
    snapshot = see(broker, "some").snapshot
    assert list(snapshot.topics) == ["open"]
    assert list(snapshot.groups) == ["readers"]
    assert {topic for topic, _ in snapshot.groups["readers"].committed or ()} == {"open"}
    assert list(snapshot.groups["readers"].lags) == ["open"]
    assert list(snapshot.transactions) == ["payments"]
    assert {topic for topic, _ in snapshot.transactions["payments"].partitions or ()} == {"open"}
    assert snapshot.groups_of_topic == {"open": ("readers",)}
    assert snapshot.transactions_of_topic == {"open": ("payments",)}
    assert "secret" not in repr(snapshot)


def test_acls_on_prefixes_and_denials_count(broker: ottla.Broker) -> None:
    user(broker, "prefixed", *VIEWER)
    user(broker, "denied", *VIEWER)
    everything = ("denied", "*", PatternType.LITERAL, AclPermission.ALLOW)
    with ottla.Admin(broker.client_options()) as admin:
        admin.create_acls(
            AclBinding(GROUP, name, pattern, f"User:{who}", "*", DESCRIBE, permission)
            for who, name, pattern, permission in (
                ("prefixed", "read", PatternType.PREFIXED, AclPermission.ALLOW),
                everything,
                ("denied", "secret-readers", PatternType.LITERAL, AclPermission.DENY),
            )
        )
    for name in ("prefixed", "denied"):
        assert list(see(broker, name).snapshot.groups) == ["readers"], name


def test_a_super_user_sees_all(broker: ottla.Broker) -> None:
    options = broker.client_options()
    visible = see(broker, str(options["sasl.username"]))
    assert visible.snapshot.topics.keys() == visible.whole.topics.keys()
    assert visible.snapshot.groups.keys() == {"readers", "secret-readers"}
    assert visible.snapshot.transactions.keys() == {"payments", "secret-payments"}


def test_the_cluster_is_not_asked_again_by_each_request(broker: ottla.Broker) -> None:
    user(broker, "busy", *VIEWER)

    async def ask() -> None:
        async with looking(broker) as console:
            clients = Clients(broker.client_options("busy"))
            identity = Identity("busy", Role.VIEWER, clients)
            visibility = console.console.visibility
            first, second = await asyncio.gather(visibility.of(identity), visibility.of(identity))
            assert first.names is second.names
            assert (await visibility.of(identity)).names is first.names
            await clients.close()

    asyncio.run(ask())


def test_live_events_are_told_to_those_who_may_see_all_of_it(broker: ottla.Broker) -> None:
    user(broker, "listener", *VIEWER)
    allow(broker, "listener", TOPIC, "open", DESCRIBE)
    visible = see(broker, "listener")
    assert visible.sees(ServerEvent("x", {}, topics=("open",)))
    assert not visible.sees(ServerEvent("x", {}, topics=("open", "secret")))
    assert not visible.sees(ServerEvent("x", {}, topics=("open",), groups=("readers",)))
    assert not visible.sees(ServerEvent("x", {}, transactional_ids=("payments",)))
