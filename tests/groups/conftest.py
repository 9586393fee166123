"""Brokers and groups for the tests of this folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from _pytest.mark import ParameterSet
from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
)
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from tests.groups.brokers import (
    Running,
    one_node,
    three_nodes,
    three_shared_brokers,
    three_workers,
)
from tests.groups.members import CLIENTS, Client, Group, group_of
from tests.groups.workers.java import java_is_here, java_worker
from tests.waiting import in_time

from ottla.model import TopicPartition

ADMIN_SECONDS = 20.0


def in_turn(now: list[str], in_campaigns: list[str]) -> list[ParameterSet]:
    """Parameters, of which some are for campaigns only."""
    later = [pytest.param(name, marks=pytest.mark.campaign) for name in in_campaigns]
    return [*map(pytest.param, now), *later]


NEW_PROTOCOL = ["ottla-consumer", "ottla-aio-consumer", "confluent-consumer", "java-consumer"]
COOPERATIVE = in_turn(
    ["ottla-cooperative", "confluent-cooperative", "java-cooperative"],
    ["kafka-python-cooperative", *NEW_PROTOCOL],
)
_CLIENTS_NOW = [
    *("ottla-cooperative", "confluent-range", "confluent-cooperative", "kafka-python", "aiokafka"),
]
CLIENTS_IN_TURN = in_turn(
    _CLIENTS_NOW,
    [
        "confluent-roundrobin",
        "ottla-range",
        "ottla-roundrobin",
        "ottla-sticky",
        "ottla-aio",
        "ottla-aio-cooperative",
        "java-range",
        "java-cooperative",
        "kafka-python-cooperative",
        "aiokafka-sticky",
        *NEW_PROTOCOL,
    ],
)
# For the test that shows the most; the others have the new protocol in campaigns.
CLIENTS_OF_BOTH_PROTOCOLS = [
    *(one for one in CLIENTS_IN_TURN if one.values[0] not in NEW_PROTOCOL),
    *in_turn(["ottla-consumer", "confluent-consumer"], ["ottla-aio-consumer", "java-consumer"]),
]
LIBRARIES_IN_TURN = in_turn(
    ["ottla-range", "confluent-range", "kafka-python", "aiokafka"],
    [
        *("confluent-roundrobin", "confluent-cooperative", "java-cooperative", "aiokafka-sticky"),
        *NEW_PROTOCOL,
    ],
)
# Versions of the messages that only Kafka's own client speaks make a difference to these.
STATIC_IN_TURN = in_turn(
    ["ottla-range", "confluent-range", "kafka-python", "aiokafka", "java-cooperative"],
    [
        *("ottla-cooperative", "confluent-roundrobin", "confluent-cooperative", "java-range"),
        *NEW_PROTOCOL,
    ],
)


@pytest.fixture(scope="session")
def single(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One node for the session."""
    with one_node(tmp_path_factory.mktemp("single")) as running:
        yield running


@pytest.fixture(scope="session")
def triple() -> Iterator[Running]:
    """Three nodes for the session."""
    with three_nodes() as running:
        yield running


@pytest.fixture(scope="session")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Three nodes for the session, each a process; their time passes as it does."""
    with three_workers(tmp_path_factory.mktemp("processes")) as broker:
        yield Running(broker.bootstrap_servers)


@pytest.fixture(scope="session")
def shared_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Three brokers on one storage for the session, each a process; their time passes as it does."""
    with three_shared_brokers(tmp_path_factory.mktemp("shared")) as running:
        yield running


BROKERS = {
    "one-node": "single",
    "three-nodes": "triple",
    "three-workers": "processes",
    "three-shared": "shared_brokers",
}


@pytest.fixture(params=in_turn(["one-node"], ["three-nodes", "three-workers", "three-shared"]))
def running(request: pytest.FixtureRequest) -> Running:
    """The broker: one node, and in a campaign three, in one process and as processes, also on shared storage."""
    found: Running = request.getfixturevalue(BROKERS[request.param])
    return found


@pytest.fixture
def bootstrap(running: Running) -> str:
    """Where the clients begin."""
    return running.bootstrap_servers


@pytest.fixture(scope="session")
def java_command(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """The worker with Kafka's own client; skips where there cannot be one."""
    shared_folder = tmp_path_factory.getbasetemp().parent
    return java_worker(tmp_path_factory.mktemp("java-worker"), shared_folder)


def _client(request: pytest.FixtureRequest) -> Client:
    return client_called(request.param, request)


def client_called(name: str, request: pytest.FixtureRequest) -> Client:
    """The client, with its worker compiled if need be; skips where that cannot be."""
    if name.startswith("java"):
        command = request.getfixturevalue("java_command")
        return replace(CLIENTS[name], command=command)
    return CLIENTS[name]


@pytest.fixture(params=CLIENTS_IN_TURN)
def client(request: pytest.FixtureRequest) -> Client:
    """Each client in turn."""
    return _client(request)


@pytest.fixture(params=LIBRARIES_IN_TURN)
def library(request: pytest.FixtureRequest) -> Client:
    """Each client library in turn, with one assignor; the others in a campaign."""
    return _client(request)


@pytest.fixture(params=STATIC_IN_TURN)
def static_client(request: pytest.FixtureRequest) -> Client:
    """Each client library in turn, for static members."""
    return _client(request)


# aiokafka gives its group.instance.id in JoinGroup only, so nobody can tell it that it is fenced.
@pytest.fixture(
    params=in_turn(["ottla-range", "confluent-range", "kafka-python"], ["java-cooperative"])
)
def fenced_client(request: pytest.FixtureRequest) -> Client:
    """Each client library in turn that hears of its fencing."""
    return _client(request)


@pytest.fixture(params=in_turn([], NEW_PROTOCOL))
def new_client(request: pytest.FixtureRequest) -> Client:
    """Each client with the new protocol, in turn."""
    return _client(request)


@pytest.fixture
def mixed_clients(request: pytest.FixtureRequest) -> list[Client]:
    """Clients of all libraries that are here, with the assignor that all of them have."""
    found = [
        CLIENTS[name] for name in ("ottla-range", "ottla-aio", "confluent-range", "kafka-python")
    ]
    found.append(replace(CLIENTS["aiokafka"], assignor="range"))
    if java_is_here():
        command = request.getfixturevalue("java_command")
        found.append(replace(CLIENTS["java-range"], command=command))
    return found


@pytest.fixture
def mixed_new_clients(request: pytest.FixtureRequest) -> list[Client]:
    """Clients of all libraries that are here and have the new protocol."""
    return [
        client_called(name, request)
        for name in NEW_PROTOCOL
        if java_is_here() or not name.startswith("java")
    ]


@pytest.fixture(params=COOPERATIVE)
def cooperative_client(request: pytest.FixtureRequest) -> Client:
    """Each client that rebalances cooperatively, in turn."""
    return _client(request)


MakeGroup = Callable[[str, Client], Group]


@pytest.fixture
def make_group(tmp_path: Path) -> Iterator[MakeGroup]:
    """Makes groups whose processes end with the test."""
    with ExitStack() as stack:
        yield lambda bootstrap, client: stack.enter_context(group_of(bootstrap, client, tmp_path))


class Described(NamedTuple):
    state: str
    assignment: dict[str, set[TopicPartition]]


class Topics:
    """Makes topics and partitions."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})

    def create(self, name: str, count: int) -> list[TopicPartition]:
        (made,) = self.admin.create_topics([NewTopic(name, count)]).values()
        made.result(ADMIN_SECONDS)
        return [TopicPartition(name, number) for number in range(count)]

    def grow(self, name: str, count: int) -> list[TopicPartition]:
        (made,) = self.admin.create_partitions([NewPartitions(name, count)]).values()
        made.result(ADMIN_SECONDS)
        return [TopicPartition(name, number) for number in range(count)]

    def delete(self, name: str) -> None:
        (gone,) = self.admin.delete_topics([name]).values()
        gone.result(ADMIN_SECONDS)

    def committed(self, group_id: str) -> dict[TopicPartition, int]:
        """The offsets that a group committed."""
        asked = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group_id)])
        (found,) = asked.values()
        return {
            TopicPartition(one.topic, one.partition): one.offset
            for one in found.result(ADMIN_SECONDS).topic_partitions
        }

    def group_type(self, group_id: str) -> ConsumerGroupType:
        """Which protocol the broker says a group has."""
        listed = self.admin.list_consumer_groups().result(ADMIN_SECONDS).valid
        found: ConsumerGroupType
        (found,) = [group.type for group in listed if group.group_id == group_id]
        return found

    def describe(self, group_id: str) -> Described:
        """What the broker says of a group, once its coordinator has read it."""
        deadline = time.monotonic() + ADMIN_SECONDS
        while True:
            (asked,) = self.admin.describe_consumer_groups([group_id]).values()
            try:
                found = asked.result(ADMIN_SECONDS)
                break
            except KafkaException as failure:
                # librdkafka does not ask again by itself.
                if failure.args[0].code() != KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
                    raise
            in_time(deadline, f"group {group_id} is not read")
            time.sleep(0.01)
        return Described(
            found.state.name,
            {
                member.member_id: {
                    TopicPartition(one.topic, one.partition)
                    for one in member.assignment.topic_partitions
                }
                for member in found.members
            },
        )


@pytest.fixture
def topics(bootstrap: str) -> Topics:
    return Topics(bootstrap)
