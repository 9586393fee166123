"""A node that is killed: the others serve what it led, and it can come back."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from tests.broker.conftest import Starter
from tests.broker.nodes import Nodes, nodes_of
from tests.broker.requests import (
    batch_of,
    create,
    delete,
    fetch,
    fetch_request,
    fill,
    new_producer_id,
    on_loop,
    produce,
    produce_request,
    read_values,
    sequenced,
    set_options,
)
from tests.broker.test_elect_leaders import ask as elect
from tests.broker.test_flush import EVERY, Disk, disk
from tests.broker.test_nodes import create_replicated

import ottla
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.produce import ProduceResponse

__all__ = ["disk"]

LONG_MS = 20_000


@pytest.fixture
def three(start: Starter, event_loop_kind: str) -> Iterator[Nodes]:
    with nodes_of(start(nodes=3)) as nodes:
        yield nodes


def leaders(nodes: Nodes, topic: str, count: int) -> list[int]:
    return [nodes.broker.leader_of(topic, number) for number in range(count)]


def test_others_serve_what_a_lost_node_led(three: Nodes, topic: str) -> None:
    create(three.any, topic, 12)
    for number in range(12):
        fill(three.leader(topic, number), topic, b"before", partition=number)
    before, epochs = leaders(three, topic, 12), [three.epoch(topic, n) for n in range(12)]
    three.kill(2)
    after = leaders(three, topic, 12)
    assert three.broker.node_ids == [1, 3]
    assert {new for old, new in zip(before, after, strict=True) if old == 2} == {1, 3}
    for number in range(12):
        has_moved = before[number] == 2
        assert (before[number] != after[number]) == has_moved
        assert (three.epoch(topic, number) > epochs[number]) == has_moved
        fill(three.leader(topic, number), topic, b"after", partition=number)
        values = read_values(three.leader(topic, number), topic, number)
        assert values == [b"before", b"after"]


def test_metadata_lists_the_living_and_says_who_is_missing(three: Nodes, topic: str) -> None:
    assert create_replicated(three.any, topic, 3) == ErrorCode.NONE
    three.kill(1)
    answer = three.metadata(topic)
    assert [one.node_id for one in answer.brokers] == [2, 3]
    assert answer.controller_id == 2
    for found in answer.topics[0].partitions:
        assert (found.error_code, sorted(found.replica_nodes)) == (ErrorCode.NONE, [1, 2, 3])
        assert found.leader_id in found.isr_nodes
        assert sorted(found.isr_nodes) == [2, 3]
        assert found.offline_replicas == [1]
    refused = create_replicated(three.any, f"{topic}-2", 3)
    assert refused == ErrorCode.INVALID_REPLICATION_FACTOR


def test_writes_to_all_need_enough_living_replicas(three: Nodes, topic: str) -> None:
    assert create_replicated(three.any, topic, 3) == ErrorCode.NONE
    assert set_options(three.any, topic, {"min.insync.replicas": "2"}) == ErrorCode.NONE
    three.kill(1)
    assert produce(three.leader(topic), topic, batch_of(b"a")).error_code == ErrorCode.NONE
    three.kill(2)
    refused = produce(three.leader(topic), topic, batch_of(b"b"))
    assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert produce(three.leader(topic), topic, batch_of(b"c"), acks=1).error_code == ErrorCode.NONE
    three.broker.start_node(1)
    assert produce(three.leader(topic), topic, batch_of(b"d")).error_code == ErrorCode.NONE
    assert read_values(three.leader(topic), topic) == [b"a", b"c", b"d"]


def test_topics_made_meanwhile_do_without_the_lost_node(three: Nodes, topic: str) -> None:
    three.kill(3)
    assert create_replicated(three.any, topic, 2) == ErrorCode.NONE
    assert set_options(three.any, topic, {"min.insync.replicas": "2"}) == ErrorCode.NONE
    for number in range(3):
        assert sorted(three.partition(topic, number).isr_nodes) == [1, 2]
        fill(three.leader(topic, number), topic, b"v", partition=number)


def test_connections_are_cut_and_new_ones_refused(three: Nodes, topic: str) -> None:
    create(three.any, topic)
    victim = three.broker.leader_of(topic, 0)
    address = three.broker.address_of(victim)
    idle, waiting = RawConnection(address), RawConnection(address)
    waiting.send(fetch_request(topic, 0, max_wait_ms=LONG_MS), 12)
    assert three.waits()
    began = time.monotonic()
    three.kill(victim)
    for connection in (idle, waiting):
        with pytest.raises(ConnectionError), connection:
            connection.receive_frame()
    assert time.monotonic() - began < 5
    with pytest.raises(ConnectionRefusedError):
        RawConnection(address)
    assert address not in three.broker.bootstrap_servers
    with pytest.raises(ottla.IllegalStateError, match=f"node {victim} is not running"):
        three.broker.address_of(victim)


def test_a_lost_node_saves_nothing_and_its_producers_are_known_all_the_same(
    three: Nodes, topic: str
) -> None:
    create(three.any, topic)
    producer_id = new_producer_id(three.any)
    for sequence in range(3):
        produce(three.leader(topic), topic, sequenced(producer_id, sequence))
    victim = three.broker.leader_of(topic, 0)
    three.kill(victim)
    snapshots = on_loop(
        three.broker,
        lambda running: [
            list(shard.log.snapshots())
            for server in running.servers.values()
            for shard in server.node.partitions.open_shards()
        ],
    )
    assert snapshots == [[]]
    again = produce(three.leader(topic), topic, sequenced(producer_id, 2))
    assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 2)
    assert produce(three.leader(topic), topic, sequenced(producer_id, 3)).base_offset == 3


def test_an_append_that_was_in_flight_is_there_once(three: Nodes, topic: str, disk: Disk) -> None:
    create(three.any, topic, config=EVERY)
    producer_id = new_producer_id(three.any)
    produce(three.leader(topic), topic, sequenced(producer_id, 0))
    victim = three.broker.leader_of(topic, 0)
    connection = RawConnection(three.broker.address_of(victim))
    disk.is_free.clear()
    begun = disk.begun
    connection.send(produce_request(topic, sequenced(producer_id, 1)), 12)
    while disk.begun == begun:
        time.sleep(0.001)
    assert fetch(three.at(victim), topic, 1).high_watermark == 1
    disk.is_free.set()
    three.kill(victim)
    with connection, suppress(ConnectionError):
        # The sync may have been quicker than the kill: then it is a success, and true.
        answer = connection.receive(ProduceResponse, 12)
        assert answer.responses[0].partition_responses[0].base_offset == 1
    retried = produce(three.leader(topic), topic, sequenced(producer_id, 1))
    assert (retried.error_code, retried.base_offset) == (ErrorCode.NONE, 1)
    assert len(read_values(three.leader(topic), topic)) == 2


def test_a_node_comes_back_at_its_address_and_leads_nothing_at_first(
    three: Nodes, topic: str
) -> None:
    create(three.any, topic, 6)
    before = leaders(three, topic, 6)
    address = three.broker.address_of(2)
    three.kill(2)
    without = leaders(three, topic, 6)
    create(three.any, f"{topic}-2", 6)
    made_meanwhile = leaders(three, f"{topic}-2", 6)
    three.broker.start_node(2)
    assert three.broker.node_ids == [1, 2, 3]
    assert three.broker.address_of(2) == address
    assert leaders(three, topic, 6) == without
    assert leaders(three, f"{topic}-2", 6) == made_meanwhile
    for number in range(6):
        wrong = produce(three.at(2), topic, batch_of(b"x"), partition=number)
        assert wrong.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    elect(three.any, 2, None)
    assert leaders(three, topic, 6) == before
    mine = before.index(2)
    assert fill(three.at(2), topic, b"v", partition=mine) == [0]


def test_a_node_that_is_back_takes_part_in_everything(three: Nodes, topic: str) -> None:
    three.kill(3)
    create(three.any, topic, 3)
    three.broker.start_node(3)
    three.broker.move_leader(topic, 1, 3)
    assert fill(three.at(3), topic, b"v", partition=1) == [0]
    assert set_options(three.at(1), topic, {"max.message.bytes": "100"}) == ErrorCode.NONE
    too_large = produce(three.at(3), topic, batch_of(bytes(500)), partition=1)
    assert too_large.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert delete(three.at(3), topic).error_code == ErrorCode.NONE
    assert three.open_partitions() == {1: [], 2: [], 3: []}


def test_what_is_left_of_a_killed_node_does_not_act_for_the_one_that_is_back(
    three: Nodes, topic: str
) -> None:
    create(three.any, topic)
    killed = on_loop(three.broker, lambda running: running.servers[2].node)
    three.kill(2)
    three.broker.start_node(2)
    three.broker.move_leader(topic, 0, 2)
    fill(three.at(2), topic, b"v")
    epoch = three.epoch(topic)
    refused = on_loop(three.broker, lambda running: killed.partitions.shard(topic, 0))
    assert refused is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert three.epoch(topic) == epoch
    assert read_values(three.at(2), topic) == [b"v"]


def test_every_node_may_go_in_turn_and_nothing_is_lost(three: Nodes, topic: str) -> None:
    create(three.any, topic, 3)
    written = 0
    for _ in range(2):
        for victim in (1, 2, 3):
            for number in range(3):
                offsets = fill(three.leader(topic, number), topic, b"v", partition=number)
                assert offsets == [written]
            written += 1
            three.kill(victim)
            for number in range(3):
                assert len(read_values(three.leader(topic, number), topic, number)) == written
            three.broker.start_node(victim)


def test_all_nodes_may_go_and_come_back(three: Nodes, topic: str) -> None:
    create(three.any, topic, 3)
    for number in range(3):
        fill(three.leader(topic, number), topic, b"a", partition=number)
    epochs = [three.epoch(topic, number) for number in range(3)]
    for node_id in (1, 2, 3):
        three.kill(node_id)
    assert three.broker.leader_of(topic, 0) == -1
    assert repr(three.broker) == "<ottla.Broker on no node>"
    with pytest.raises(ottla.IllegalStateError, match="every node was killed"):
        _ = three.broker.bootstrap_servers
    three.broker.start_node(2)
    assert leaders(three, topic, 3) == [2, 2, 2]
    assert all(three.epoch(topic, number) > epochs[number] for number in range(3))
    three.broker.start_node(1)
    for number in range(3):
        assert read_values(three.at(2), topic, number) == [b"a"]


def test_what_cannot_be_killed_or_started_is_refused(three: Nodes) -> None:
    with pytest.raises(ottla.IllegalStateError, match="node 4 is not running"):
        three.broker.kill_node(4)
    with pytest.raises(ottla.OttlaError, match="there is no node 4: the nodes are 1, 2, 3"):
        three.broker.start_node(4)
    with pytest.raises(ottla.IllegalStateError, match="node 2 is running already"):
        three.broker.start_node(2)
    three.kill(2)
    with pytest.raises(ottla.IllegalStateError, match="node 2 is not running"):
        three.broker.kill_node(2)


def test_nothing_can_be_asked_of_a_broker_that_does_not_run() -> None:
    broker = ottla.Broker(nodes=3)
    for ask in (
        lambda: broker.node_ids,
        lambda: broker.leader_of("t", 0),
        lambda: broker.move_leader("t", 0, 1),
        lambda: broker.kill_node(1),
        lambda: broker.start_node(1),
        lambda: broker.address_of(1),
    ):
        with pytest.raises(ottla.IllegalStateError, match="the broker is not running"):
            ask()


def test_the_port_of_a_killed_node_is_kept_for_it(three: Nodes) -> None:
    host, _, port = three.broker.address_of(2).rpartition(":")
    three.kill(2)
    with socket.socket() as thief, pytest.raises(OSError, match="in use"):
        thief.bind((host, int(port)))
    three.broker.start_node(2)
    new_producer_id(three.at(2))


def test_a_cluster_stops_cleanly_with_a_node_missing(start: Starter, topic: str) -> None:
    broker = start(nodes=3)
    with nodes_of(broker) as nodes:
        create(nodes.any, topic, 3)
        for number in range(3):
            fill(nodes.leader(topic, number), topic, b"a", partition=number)
        nodes.kill(2)
    broker.stop()
    broker = start(nodes=3)
    with nodes_of(broker) as nodes:
        for number in range(3):
            assert read_values(nodes.leader(topic, number), topic, number) == [b"a"]
