"""Leaders, coordinators and controllers that move, and nodes that die, while calls are made."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest
from tests.broker.requests import eventually

import ottla
from ottla.admin import GroupState, NewTopic, OffsetSpec
from ottla.client.blocking.admin import Admin
from ottla.errors import ErrorCode, PartialFailureError
from ottla.model import TopicPartition, coordinator_partition

CALLS, MOST_CALLS, RETRIES = 20, 2000, 5


@contextmanager
def meanwhile(work: Callable[[], None]) -> Iterator[None]:
    """Does something again and again on another thread."""
    over = threading.Event()

    def run() -> None:
        while not over.is_set():
            work()
            over.wait(0.002)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.fixture
def admin(three: ottla.Broker) -> Iterator[Admin]:
    options: dict[str, object] = {"retry.backoff.ms": 5, "retry.backoff.max.ms": 20}
    with Admin(options, bootstrap_servers=three.bootstrap_servers) as admin:
        yield admin


class Mover:
    """Gives partitions to the next node, one after the other, again and again."""

    def __init__(self, broker: ottla.Broker, topic: str, partitions: Sequence[int]) -> None:
        self._broker = broker
        self._topic = topic
        self._partitions = itertools.cycle(partitions)

    def __call__(self) -> None:
        partition = next(self._partitions)
        leader = self._broker.leader_of(self._topic, partition)
        self._broker.move_leader(self._topic, partition, leader % 3 + 1)


def until_retried(admin: Admin, call: Callable[[int], None]) -> None:
    """Calls until some calls came to the wrong node and were made again."""
    for number in range(MOST_CALLS):
        call(number)
        if number >= CALLS and admin.metrics().get("retry-total", 0) >= RETRIES:
            return
    pytest.fail("no call came to the wrong node")


def test_partitions_are_found_though_their_leaders_move(three: ottla.Broker, admin: Admin) -> None:
    admin.create_topics([NewTopic("moving", 3)])
    partitions = [TopicPartition("moving", number) for number in range(3)]

    def call(number: int) -> None:
        found = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
        assert list(found) == partitions
        assert list(admin.describe_producers(partitions)) == partitions

    with meanwhile(Mover(three, "moving", range(3))):
        until_retried(admin, call)


def test_groups_are_found_though_their_coordinators_move(three: ottla.Broker, admin: Admin) -> None:
    admin.create_topics([NewTopic("committed", 1)])
    groups = [f"moving-{number}" for number in range(6)]
    admin.alter_consumer_group_offsets(groups[0], {("committed", 0): 0})

    def call(number: int) -> None:
        for group in groups:
            admin.alter_consumer_group_offsets(group, {("committed", 0): number})
        found = admin.list_consumer_group_offsets(groups)
        offsets = [one[TopicPartition("committed", 0)] for one in found.values()]
        assert offsets == [(number, "", None)] * len(groups)
        described = admin.describe_consumer_groups(groups)
        assert [one.state for one in described.values()] == [GroupState.EMPTY] * len(groups)

    partitions = [coordinator_partition(group, 50) for group in groups]
    with meanwhile(Mover(three, "__consumer_offsets", partitions)):
        until_retried(admin, call)


def test_calls_go_on_when_the_controller_dies() -> None:
    with (
        ottla.Broker(nodes=3) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        controller = admin.describe_cluster().controller
        assert controller is not None
        admin.create_topics([NewTopic("before", 3)])
        partitions = [TopicPartition("before", number) for number in range(3)]
        admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
        broker.kill_node(controller.id)
        admin.create_topics([NewTopic("after", 1)])
        assert list(admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))) == partitions
        found = admin.describe_cluster()
        assert controller not in found.nodes
        assert found.controller in found.nodes
        assert sorted(admin.describe_log_dirs()) == broker.node_ids


def test_a_broker_that_has_gone_is_not_waited_for() -> None:
    with (
        ottla.Broker(nodes=3) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        admin.create_topics([NewTopic("any", 1)])
        assert sorted(admin.describe_log_dirs([2, 3])) == [2, 3]
        broker.kill_node(2)
        began = time.monotonic()
        with pytest.raises(PartialFailureError) as error:
            admin.describe_log_dirs([1, 2, 3])
        assert list(error.value.results) == [1, 3]
        assert error.value.errors[2].code is ErrorCode.BROKER_NOT_AVAILABLE
        assert time.monotonic() - began < 10
        broker.start_node(2)
        assert eventually(lambda: len(admin.describe_cluster().nodes) == 3)
        assert list(admin.describe_log_dirs([2])) == [2]
