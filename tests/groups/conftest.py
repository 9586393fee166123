"""Brokers and groups for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from tests.groups.brokers import Running, one_node, three_nodes
from tests.groups.members import CLIENTS, Client, Group, group_of

from ottla.model import TopicPartition

ADMIN_SECONDS = 20.0


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


@pytest.fixture
def bootstrap(single: Running) -> str:
    return single.bootstrap_servers


@pytest.fixture(
    params=[
        "confluent-range",
        "confluent-roundrobin",
        "confluent-cooperative",
        "kafka-python",
        "aiokafka",
    ]
)
def client(request: pytest.FixtureRequest) -> Client:
    """Each client in turn."""
    return CLIENTS[request.param]


MakeGroup = Callable[[str, Client], Group]


@pytest.fixture
def make_group(tmp_path: Path) -> Iterator[MakeGroup]:
    """Makes groups whose processes end with the test."""
    with ExitStack() as stack:
        yield lambda bootstrap, client: stack.enter_context(group_of(bootstrap, client, tmp_path))


class Topics:
    """Makes topics and partitions."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 3})

    def create(self, name: str, count: int) -> list[TopicPartition]:
        (made,) = self.admin.create_topics([NewTopic(name, count)]).values()
        made.result(ADMIN_SECONDS)
        return [TopicPartition(name, number) for number in range(count)]

    def grow(self, name: str, count: int) -> list[TopicPartition]:
        (made,) = self.admin.create_partitions([NewPartitions(name, count)]).values()
        made.result(ADMIN_SECONDS)
        return [TopicPartition(name, number) for number in range(count)]


@pytest.fixture
def topics(bootstrap: str) -> Topics:
    return Topics(bootstrap)
