"""What nodes do by themselves, each for the partitions that it leads; and several threads that order them about."""

from __future__ import annotations

import errno
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

import pytest
from tests.broker.conftest import Starter
from tests.broker.failing_calls import fail_calls
from tests.broker.nodes import Nodes, nodes_of
from tests.broker.requests import (
    BROKER,
    batch_of,
    create,
    eventually,
    fetch,
    fill,
    produce,
    read_values,
    set_options,
    values_in,
)
from tests.broker.test_disk_trouble import SICK, STORAGE_ERROR

import ottla
from ottla.errors import ErrorCode
from ottla.testing import Broker

NODE_IDS = [1, 2, 3]


@pytest.fixture
def three(start: Starter) -> Iterator[Nodes]:
    with nodes_of(start(nodes=3, log_retention_check_interval_ms=20)) as nodes:
        yield nodes


def start_offset(nodes: Nodes, topic: str, partition: int) -> int:
    offset: int = fetch(
        nodes.leader(topic, partition), topic, 3, partition=partition
    ).log_start_offset
    return offset


def test_retention_reaches_the_partitions_of_every_node(three: Nodes, topic: str) -> None:
    create(three.any, topic, 3, {"retention.bytes": "-1"})
    for number in range(3):
        fill(three.leader(topic, number), topic, b"a", b"b", b"c", partition=number)
    assert set_options(three.any, topic, {"retention.bytes": "0"}) == ErrorCode.NONE
    assert eventually(lambda: [start_offset(three, topic, n) for n in range(3)] == [3, 3, 3])


def test_retention_goes_on_with_the_new_leader(three: Nodes, topic: str) -> None:
    create(three.any, topic, 1, {"retention.bytes": "-1"})
    fill(three.leader(topic), topic, b"a", b"b", b"c")
    three.move(topic)
    assert set_options(three.any, topic, {"retention.bytes": "0"}) == ErrorCode.NONE
    assert eventually(lambda: start_offset(three, topic, 0) == 3)
    three.kill(three.broker.leader_of(topic, 0))
    assert start_offset(three, topic, 0) == 3


def test_options_of_a_node_are_there_when_it_is_back(three: Nodes, topic: str) -> None:
    name = {"message.max.bytes": "500"}
    assert set_options(three.at(2), "2", name, BROKER) == ErrorCode.NONE
    three.kill(2)
    three.broker.start_node(2)
    create(three.any, topic)
    three.broker.move_leader(topic, 0, 2)
    too_large = produce(three.at(2), topic, batch_of(bytes(1000)))
    assert too_large.error_code == ErrorCode.MESSAGE_TOO_LARGE
    three.broker.move_leader(topic, 0, 3)
    assert produce(three.at(3), topic, batch_of(bytes(1000))).error_code == ErrorCode.NONE


@pytest.mark.ottla_broker(nodes=3)
def test_a_partition_that_cannot_be_opened_is_offline_at_every_node_and_comes_back(
    ottla_test_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with nodes_of(ottla_test_broker) as three:
        check_that_it_comes_back(three, ottla_test_broker, monkeypatch)


def check_that_it_comes_back(three: Nodes, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    create(three.any, SICK)
    fill(three.leader(SICK), SICK, b"before")
    with monkeypatch.context() as patch:
        fail_calls(patch, broker, SICK, errno.EIO, "open")
        three.move(SICK)
        assert fetch(three.leader(SICK), SICK, 0).error_code == STORAGE_ERROR
        for node_id in NODE_IDS:
            (found,) = three.metadata(SICK, node_id=node_id).topics[0].partitions
            assert (found.error_code, found.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    # No client asks for it: its leader tries again by itself.
    broker.clock.advance("1m")
    assert eventually(lambda: three.partition(SICK).error_code == ErrorCode.NONE)
    assert values_in(fetch(three.leader(SICK), SICK, 0)) == [b"before"]


def test_a_sick_partition_may_be_moved_and_is_well_again_at_once(
    three: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(three.any, SICK)
    fill(three.leader(SICK), SICK, b"before")
    at_first = three.broker.leader_of(SICK, 0)
    with monkeypatch.context() as patch:
        fail_calls(patch, three.broker, SICK, errno.EIO, "open")
        three.move(SICK)
        assert three.partition(SICK).leader_id == -1
    three.broker.move_leader(SICK, 0, at_first)
    assert three.partition(SICK).leader_id == at_first
    assert values_in(fetch(three.at(at_first), SICK, 0)) == [b"before"]


def test_several_threads_may_order_the_nodes_about(three: Nodes, topic: str) -> None:
    create(three.any, topic, 6)
    for number in range(6):
        fill(three.leader(topic, number), topic, b"v", partition=number)
    broker = three.broker
    failures: list[BaseException] = []

    def disturb(seed: int) -> None:
        choose = random.Random(seed)
        try:
            for _ in range(30):
                node_id, partition = choose.choice(NODE_IDS), choose.randrange(6)
                orders: list[Callable[[], object]] = [
                    partial(broker.kill_node, node_id),
                    partial(broker.start_node, node_id),
                    partial(broker.move_leader, topic, partition, node_id),
                    partial(broker.leader_of, topic, partition),
                ]
                with suppress(ottla.IllegalStateError):  # another thread was quicker
                    choose.choice(orders)()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=disturb, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert failures == []
    for node_id in NODE_IDS:
        if node_id not in broker.node_ids:
            broker.start_node(node_id)
        three.hang_up(node_id)
    assert broker.node_ids == NODE_IDS
    for number in range(6):
        assert read_values(three.leader(topic, number), topic, number) == [b"v"]
