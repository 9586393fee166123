"""Clients outlive a broker that is killed, and a cluster that comes to know transactions of version 2."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from tests.apache_kafka.programs import Kafka
from tests.apache_kafka.sharing import OPTIONS
from tests.client.apache_kafka import transacting
from tests.client.apache_kafka.stage import CASES, Stage, read_until
from tests.clients.java.agent import Agent

import ottla
from ottla.client.send.delivery import RecordFuture

WAIT = 30.0
# The controller takes a broker back when the session of the one that was killed is over.
SESSIONS = {"broker.session.timeout.ms": 1000, "broker.heartbeat.interval.ms": 200}


class Writing:
    """A thread that sends one number after the other; the producer is idempotent, as it is by default."""

    def __init__(self, stage: Stage, topic: str) -> None:
        self.producer = stage.producer(linger_ms=1, max_block_ms=int(WAIT * 1000))
        self.topic = topic
        self.futures: list[RecordFuture] = []
        self.is_enough = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        while not self.is_enough.wait(0.001):
            value = b"%d" % len(self.futures)
            self.futures.append(self.producer.send(self.topic, value, partition=0))

    def stop(self) -> list[int]:
        """The offsets of all that was sent."""
        self.is_enough.set()
        self.thread.join()
        try:
            return [future.result(WAIT).offset for future in self.futures]
        finally:
            self.producer.close(WAIT)


def kill_and_upgrade(kafka: Kafka, agent: Agent) -> None:
    connection = agent.connect()
    connection.call("admin", f"bootstrap.servers={kafka.address}")
    connection.call("upgrade", "transaction.version", 2)
    connection.close()
    kafka.kill()
    kafka.start()


def epoch_of(stage: Stage, name: str) -> int:
    return stage.admin.describe_transactions([name])[name].producer_epoch


def check_survivors(stage: Stage, kafka: Kafka, agent: Agent) -> None:
    """An idempotent producer, a member and a transaction, while the broker is killed."""
    topic, other = stage.topic(), stage.topic()
    found: list[ottla.ConsumerRecord] = []
    group, name = stage.new_name("group"), stage.new_name("id")
    with (
        stage.consumer(group_id=group, auto_commit_interval_ms=100) as consumer,
        stage.transactional(transactional_id=name, max_block_ms=int(WAIT * 1000)) as transactional,
    ):
        consumer.subscribe([topic])
        first_epoch = epoch_of(stage, name)
        transactional.begin_transaction()
        transactional.send(other, b"before").result(WAIT)
        writing = Writing(stage, topic)
        try:
            read_until([consumer], found, lambda: len(found) > 100)
            # New connections tell what the cluster has come to know.
            kill_and_upgrade(kafka, agent)
            seen = len(found)
            read_until([consumer], found, lambda: len(found) > seen + 100)
        finally:
            offsets = writing.stop()
        transactional.send(other, b"after").result(WAIT)
        transactional.commit_transaction()
        epochs = []
        for value in (b"2", b"3", b"4"):
            with transactional.transaction():
                transactional.send(other, value).result(WAIT)
                epochs.append(epoch_of(stage, name))
        read_until([consumer], found, lambda: len(found) == len(offsets))
    count = len(offsets)
    assert offsets == list(range(count))
    expected = [b"%d" % number for number in range(count)]
    assert stage.values(topic) == expected
    assert [record.value for record in found] == expected
    committed = stage.admin.list_consumer_group_offsets(group)[group].values()
    assert [place.offset for place in committed if place] == [count]
    assert stage.values(other) == [b"before", b"after", b"2", b"3", b"4"]
    # Of version 2 from the second transaction on: each has an epoch of its own.
    assert epochs == [first_epoch + 1, first_epoch + 2, first_epoch + 3]


@pytest.mark.long
def test_transactions_of_version_1_and_a_restart_with_version_2(
    kafka_jars: Path, java_agent: Agent, tmp_path: Path
) -> None:
    """One test, because every process that tests would have to start a Kafka of its own."""
    kafka = Kafka(kafka_jars, tmp_path, OPTIONS | SESSIONS, ["transaction.version=1"])
    try:
        kafka.start()
        with ottla.Admin(bootstrap_servers=kafka.address) as admin:
            stage = Stage(kafka.address, admin)
            assert admin.describe_features().finalized_features["transaction.version"][1] == 1
            for case in CASES:
                if case.body.__module__ == transacting.__name__:
                    case.body(stage)
            check_survivors(stage, kafka, java_agent)
            assert admin.describe_features().finalized_features["transaction.version"][1] == 2
    finally:
        kafka.kill()
