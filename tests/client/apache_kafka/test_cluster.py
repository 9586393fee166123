"""Three brokers of Apache Kafka, one of which is always down: leaders and coordinators move."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.apache_kafka.programs import Kafka, free_ports, new_cluster_id
from tests.apache_kafka.sharing import OPTIONS
from tests.client.apache_kafka.stage import Stage

import ottla
import ottla.aio
from ottla.client.send.delivery import RecordFuture
from ottla.config.option_types import ClientOptions
from ottla.errors import AbortableError
from ottla.model import TopicPartition

PARTITIONS = 6
REPLICATED = {
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    "min.insync.replicas": 2,
    "default.replication.factor": 3,
    "broker.session.timeout.ms": 2000,
    "broker.heartbeat.interval.ms": 300,
    # Followers serve the consumers of their rack (KIP-392).
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}
LONG_MS = 60_000
WAIT = 60.0


@contextmanager
def three_brokers(jars: Path, folder: Path) -> Iterator[list[Kafka]]:
    ports = free_ports(6)
    voters = ",".join(f"{i + 1}@127.0.0.1:{ports[3 + i]}" for i in range(3))
    cluster_id, brokers = new_cluster_id(), list[Kafka]()
    for i in range(3):
        home = folder / f"broker-{i + 1}"
        home.mkdir()
        options = {
            **OPTIONS,
            **REPLICATED,
            "node.id": i + 1,
            "broker.rack": f"rack-{i + 1}",
            "controller.quorum.voters": voters,
        }
        pair = (ports[i], ports[3 + i])
        brokers.append(Kafka(jars, home, options, ports=pair, cluster_id=cluster_id))
    try:
        # The first waits for a quorum, so none is waited for before all have begun.
        threads = [threading.Thread(target=broker.start) for broker in brokers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        yield brokers
    finally:
        for broker in brokers:
            broker.kill()


class Sending:
    """A thread whose producer is idempotent; keys say the partition, values count."""

    def __init__(self, stage: Stage, topic: str) -> None:
        self.topic = topic
        self.producer = stage.producer(max_block_ms=LONG_MS, linger_ms=2)
        self.sent: list[RecordFuture] = []
        self.is_enough = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        while not self.is_enough.wait(0.001):
            number = len(self.sent)
            future = self.producer.send(self.topic, b"%d" % number, partition=number % PARTITIONS)
            self.sent.append(future)

    def stop(self) -> int:
        """How many were acknowledged: all of them."""
        self.is_enough.set()
        self.thread.join()
        for future in self.sent:
            future.result(WAIT)
        self.producer.close(WAIT)
        return len(self.sent)


class Copying:
    """A thread with a loop: copies in transactions what it reads, and starts over when it has to."""

    def __init__(self, stage: Stage, source: str, target: str, name: str) -> None:
        self.stage, self.source, self.target, self.name = stage, source, target, name
        self.is_enough = threading.Event()
        self.thread = threading.Thread(target=lambda: asyncio.run(self.run()))
        self.thread.start()

    async def run(self) -> None:
        options: ClientOptions = {"bootstrap_servers": self.stage.address}
        async with (
            ottla.aio.Producer(
                {"transactional.id": f"{self.name}-{id(self)}", "max.block.ms": LONG_MS}, **options
            ) as producer,
            ottla.aio.Consumer(
                {
                    "group.id": self.name,
                    "enable.auto.commit": False,
                    "auto.offset.reset": "earliest",
                    "isolation.level": "read_committed",
                    "partition.assignment.strategy": "cooperative-sticky",
                },
                **options,
            ) as consumer,
        ):
            await producer.init_transactions()
            consumer.subscribe([self.source])
            while not self.is_enough.is_set():
                records = await consumer.poll(0.2)
                if not records:
                    continue
                try:
                    await self.copy(producer, consumer, records)
                except AbortableError:
                    # The transaction is aborted already.
                    await self.go_back(consumer, records)

    async def copy(
        self,
        producer: ottla.aio.Producer,
        consumer: ottla.aio.Consumer,
        records: ottla.ConsumerRecords,
    ) -> None:
        async with producer.transaction():
            for record in records:
                await producer.send(self.target, record.value, partition=record.partition)
            await producer.send_offsets_to_transaction(
                records.next_offsets, consumer.group_metadata()
            )

    async def go_back(self, consumer: ottla.aio.Consumer, records: ottla.ConsumerRecords) -> None:
        """To what is committed, for the partitions that it still has."""
        mine = consumer.assignment() & set(records.partitions())
        if not mine:
            return
        for partition, place in (await consumer.committed(mine)).items():
            consumer.seek(partition, 0 if place is None else place.offset)

    def stop(self) -> None:
        self.is_enough.set()
        self.thread.join()


class Reading:
    """A thread that reads all partitions, from the replicas of rack 2 where it can."""

    def __init__(self, stage: Stage, topic: str) -> None:
        self.consumer = stage.consumer(client_rack="rack-2", metadata_max_age_ms=2000)
        self.partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        self.consumer.assign(self.partitions)
        self.found: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
        self.followed = 0
        self.is_enough = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        subscriptions = self.consumer._client._subscriptions
        while not self.is_enough.is_set():
            for record in self.consumer.poll(0.2):
                self.found[record.partition].append(record.value)
            replicas = [subscriptions.state(one).preferred_replica for one in self.partitions]
            self.followed += replicas.count(2)
            assert set(replicas) <= {None, 2}

    def stop(self) -> list[list[bytes]]:
        """What it read, by partition."""
        self.is_enough.set()
        self.thread.join()
        self.consumer.close()
        return list(self.found.values())


@pytest.mark.campaign
@pytest.mark.timeout(400)
def test_nothing_is_lost_or_doubled_while_brokers_restart(kafka_jars: Path, tmp_path: Path) -> None:
    with three_brokers(kafka_jars, tmp_path) as brokers:
        servers = ",".join(broker.address for broker in brokers)
        with ottla.Admin(bootstrap_servers=servers) as admin:
            stage = Stage(servers, admin)
            source, target = stage.new_name("source"), stage.new_name("target")
            admin.create_topics(
                [ottla.admin.NewTopic(name, PARTITIONS, 3) for name in (source, target)]
            )
            time.sleep(2)
            sending, reading = Sending(stage, source), Reading(stage, source)
            name = stage.new_name("copier")
            copiers = [Copying(stage, source, target, name) for _ in range(2)]
            try:
                for ending in (Kafka.stop, Kafka.kill):
                    for broker in brokers:
                        time.sleep(4)
                        ending(broker)
                        time.sleep(3)
                        broker.start()
                time.sleep(4)
            finally:
                count = sending.stop()
                deadline = time.monotonic() + WAIT
                while len(stage.values(target)) < count and time.monotonic() < deadline:
                    time.sleep(1)
                for copier in copiers:
                    copier.stop()
                near = reading.stop()
            expected = [
                [b"%d" % number for number in range(partition, count, PARTITIONS)]
                for partition in range(PARTITIONS)
            ]
            for topic in (source, target):
                records = stage.records(topic)
                found = [
                    [record.value for record in records if record.partition == partition]
                    for partition in range(PARTITIONS)
                ]
                assert found == expected, topic
            assert near == expected
            assert reading.followed > 0
