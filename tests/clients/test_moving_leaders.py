"""Any client goes on working while leaders move from node to node and nodes are killed: nothing is lost or twice."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.clients.conftest import MakeDriver
from tests.clients.driver import Driver, Producer, ProducerOptions
from tests.clients.messages import Message, Received

from ottla import Broker
from ottla.model import TopicPartition

PARTITIONS = 3
MESSAGES_PER_SEND = 100
LOAD_SECONDS = 4.0
MOVE_SECONDS = 0.2
DOWN_SECONDS = 0.5
IDEMPOTENT = ProducerOptions(idempotent=True, acks="all", linger_ms=5)


@pytest.fixture
def three_nodes() -> Iterator[Broker]:
    with Broker(nodes=3) as broker:
        yield broker


class Unrest:
    """Moves a leader every 200 ms; meanwhile every node is killed once and started again."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self._broker = broker
        self._topic = topic
        self._random = random.Random(4)
        self._is_over = threading.Event()
        self.moves = 0
        self.failure: BaseException | None = None

    def move_leaders(self) -> None:
        for partition in range(PARTITIONS):
            leader = self._broker.leader_of(self._topic, partition)
            others = [node_id for node_id in self._broker.node_ids if node_id != leader]
            self._broker.move_leader(self._topic, partition, self._random.choice(others))
            self.moves += 1
            if self._is_over.wait(MOVE_SECONDS):
                return

    def run(self) -> None:
        victims = [1, 2, 3]
        try:
            while not self._is_over.is_set():
                self.move_leaders()
                if victims:
                    victim = victims.pop()
                    self._broker.kill_node(victim)
                    self._is_over.wait(DOWN_SECONDS)
                    self._broker.start_node(victim)
        except BaseException as error:
            self.failure = error

    @contextmanager
    def going_on(self) -> Iterator[None]:
        thread = threading.Thread(target=self.run)
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join()
        if self.failure is not None:
            raise self.failure


class Reader:
    """A consumer of all partitions in a thread of its own."""

    def __init__(self, client: Driver, topic: str) -> None:
        self.received: list[Received] = []
        self._wanted: int | None = None
        self._client = client
        self._topic = topic
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            with self._client.consumer() as consumer:
                consumer.assign({TopicPartition(self._topic, n): 0 for n in range(PARTITIONS)})
                while self._wanted is None or len(self.received) < self._wanted:
                    found = consumer.read(1)
                    if not found:
                        return
                    self.received += found
        except BaseException as error:
            self._failure = error

    def start(self) -> None:
        self._thread.start()

    def stop_after(self, wanted: int) -> None:
        self._wanted = wanted

    def finish(self) -> list[Received]:
        self._thread.join(60)
        assert not self._thread.is_alive()
        if self._failure is not None:
            raise self._failure
        return self.received


def test_nothing_is_lost_twice_or_out_of_order_while_leaders_move_and_nodes_are_killed(
    make_admin_client: MakeDriver, three_nodes: Broker, ottla_topic: str
) -> None:
    client = make_admin_client(three_nodes.bootstrap_servers)
    client.create_topic(ottla_topic, PARTITIONS)
    reader = Reader(client, ottla_topic)
    unrest = Unrest(three_nodes, ottla_topic)
    sent: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}

    def send(producer: Producer, number: int) -> None:
        first = len(sent[number])
        fresh = [b"%d" % n for n in range(first, first + MESSAGES_PER_SEND)]
        offsets = producer.send(ottla_topic, [Message(value) for value in fresh], number)
        assert offsets == list(range(first, first + MESSAGES_PER_SEND))
        sent[number] += fresh

    reader.start()
    end = time.monotonic() + LOAD_SECONDS
    try:
        with client.producer(IDEMPOTENT) as producer:
            with unrest.going_on():
                while time.monotonic() < end or unrest.moves < 10:
                    for number in range(PARTITIONS):
                        send(producer, number)
            reader.stop_after(sum(map(len, sent.values())) + MESSAGES_PER_SEND)
            send(producer, 0)
    finally:
        received = reader.finish()
    for number, values in sent.items():
        got = [one for one in received if one.partition == number]
        assert [one.value for one in got] == values
        assert [one.offset for one in got] == list(range(len(values)))
