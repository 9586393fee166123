"""Producers while leaders move and brokers go: nothing is lost, doubled or out of order."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from tests.client.producer.reading import committed_of, records_of

import ottla
from ottla.config.option_types import CompressionTypeWord

PARTITIONS = 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.Broker]:
    with ottla.Broker(nodes=3, num_partitions=PARTITIONS) as broker:
        yield broker


def read_values(cluster: ottla.Broker, topic: str, partition: int) -> list[bytes | None]:
    server = cluster.address_of(cluster.leader_of(topic, partition))
    return [record.value for record in records_of(server, topic, partition)]


class Moves:
    """Moves leaders about while the test goes on."""

    def __init__(self, cluster: ottla.Broker, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.count = 0

    def _run(self) -> None:
        while not self._stop.wait(0.02):
            self.count += 1
            partition = self.count % PARTITIONS
            node = 1 + (self.count // PARTITIONS) % 3
            self._cluster.move_leader(self._topic, partition, node)

    def __enter__(self) -> Moves:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_moving_leaders_neither_lose_nor_double_nor_reorder(
    cluster: ottla.Broker, ottla_topic: str, compression: CompressionTypeWord
) -> None:
    topic = ottla_topic
    with ottla.Producer(
        bootstrap_servers=cluster.bootstrap_servers,
        batch_size=500,
        linger_ms=1,
        compression_type=compression,
        retry_backoff_ms=20,
    ) as producer:
        producer.partitions_for(topic)
        futures: list[ottla.RecordFuture] = []
        with Moves(cluster, topic) as moves:
            while len(futures) < 3000 or moves.count < 10:
                for _ in range(99):
                    number = len(futures)
                    futures.append(
                        producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
                    )
                time.sleep(0.005)
            places = [future.result(30) for future in futures]
        retried = producer.metrics()["record-retry-total"]
    assert retried > 0, "no batch met a leader that had moved"
    for partition in range(PARTITIONS):
        expected = [b"%d" % number for number in range(partition, len(futures), PARTITIONS)]
        assert read_values(cluster, topic, partition) == expected
        offsets = [place.offset for place in places if place.partition == partition]
        assert offsets == list(range(len(expected)))


def test_transactions_survive_moving_leaders(cluster: ottla.Broker, ottla_topic: str) -> None:
    topic = ottla_topic
    committed: list[bytes] = []
    with ottla.Producer(
        bootstrap_servers=cluster.bootstrap_servers, transactional_id=topic, retry_backoff_ms=20
    ) as producer:
        producer.init_transactions()
        producer.partitions_for(topic)
        with Moves(cluster, topic):
            for number in range(40):
                values = [b"%d-%d" % (number, index) for index in range(6)]
                producer.begin_transaction()
                for index, value in enumerate(values):
                    producer.send(topic, value, partition=index % PARTITIONS)
                if number % 3 == 0:
                    producer.abort_transaction()
                else:
                    producer.commit_transaction()
                    committed += values
    seen: list[bytes | None] = []
    for partition in range(PARTITIONS):
        server = cluster.address_of(cluster.leader_of(topic, partition))
        seen += committed_of(server, topic, partition)
    assert sorted(value or b"" for value in seen) == sorted(committed)


def test_broker_that_is_killed_costs_nothing_but_time(
    cluster: ottla.Broker, ottla_topic: str
) -> None:
    topic = ottla_topic
    with ottla.Producer(
        bootstrap_servers=cluster.bootstrap_servers, batch_size=500, retry_backoff_ms=20
    ) as producer:
        producer.partitions_for(topic)
        victim = cluster.leader_of(topic, 0)
        futures = []
        for number in range(1500):
            futures.append(producer.send(topic, b"%d" % number, partition=number % PARTITIONS))
            if number == 700:
                cluster.kill_node(victim)
        try:
            for future in futures:
                future.result(30)
        finally:
            cluster.start_node(victim)
    for partition in range(PARTITIONS):
        expected = [b"%d" % number for number in range(partition, 1500, PARTITIONS)]
        assert read_values(cluster, topic, partition) == expected


def test_records_without_a_key_avoid_partitions_without_a_leader(
    cluster: ottla.Broker, ottla_topic: str
) -> None:
    topic = ottla_topic
    with ottla.Producer(
        bootstrap_servers=cluster.bootstrap_servers, batch_size=1, linger_ms=0
    ) as producer:
        infos = producer.partitions_for(topic)
        assert [info.partition for info in infos] == list(range(PARTITIONS))
        assert all(info.leader is not None for info in infos)
        used = {producer.send(topic, b"x").result(10).partition for _ in range(60)}
    assert used == set(range(PARTITIONS))
