"""A cluster with transactions of a stranger's client, and a console that looks at it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from tests.apache_kafka.conftest import kafka_jars
from tests.apache_kafka.programs import running_kafka
from tests.broker import txn_requests
from tests.broker.requests import new_producer_id, session_with
from tests.broker.test_read_committed import send
from tests.console.api_client import ApiClient, looking
from tests.console.quick_polls import quick_polls
from tests.console.serving import serving
from tests.lasting import LASTING
from tests.waiting import in_time

import ottla
from ottla.admin import NewTopic
from ottla.client.admin_model.transactions import TransactionDescription
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

__all__ = ["kafka_jars"]

SECONDS = 20
# Before this version of Produce the leader does not ask the coordinator on the producer's behalf (KIP-890).
PRODUCE_V1 = 11
# How often the coordinator looks for transactions whose timeout is over; ten seconds by default.
TIMED_OUT_SOON = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}


class Cluster:
    """A cluster, by its address; `hang` writes an open transaction of a producer id that no coordinator knows."""

    def __init__(self, servers: str, hang: Callable[[str], int]) -> None:
        self.servers = servers
        self.hang = hang
        self._count = 0

    def name(self, prefix: str) -> str:
        """A name that no other test has."""
        self._count += 1
        return f"{prefix}-{self._count}"

    def topic(self, prefix: str, partitions: int = 1) -> str:
        name = self.name(prefix)
        with ottla.Admin(bootstrap_servers=self.servers) as admin:
            admin.create_topics([NewTopic(name, num_partitions=partitions)])
        return name

    @contextmanager
    def producer(self, transactional_id: str, **options: object) -> Iterator[Producer]:
        """A transactional producer of librdkafka, initialised."""
        names = {name.replace("_", "."): value for name, value in options.items()}
        producer = Producer(
            {
                "bootstrap.servers": self.servers,
                "transactional.id": transactional_id,
                "linger.ms": 0,
                "log_level": 0,
                **names,
            }
        )
        producer.init_transactions(SECONDS)
        try:
            yield producer
        finally:
            with suppress(KafkaException):
                producer.abort_transaction(SECONDS)

    def describe(self, transactional_id: str) -> TransactionDescription:
        """What the coordinator knows of an id."""
        with ottla.Admin(bootstrap_servers=self.servers) as admin:
            return admin.describe_transactions([transactional_id])[transactional_id]

    def committed_values(self, topic: str, count: int, group: str = "") -> list[bytes]:
        """What a reader of committed records gets, as soon as there are so many."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": group or self.name("reader"),
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        consumer.subscribe([topic])
        found: list[bytes] = []
        deadline = time.monotonic() + SECONDS
        try:
            while len(found) < count and time.monotonic() < deadline:
                message = consumer.poll(0.2)
                if message is not None and message.error() is None:
                    found.append(message.value() or b"")
            if group:
                consumer.commit(asynchronous=False)
        finally:
            consumer.close()
        return found


def write(producer: Producer, topic: str, *values: bytes, partition: int = 0) -> None:
    """Records that the broker has acknowledged."""
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(SECONDS) == 0


@pytest.fixture(scope="module", params=["ottla", pytest.param("kafka", marks=pytest.mark.campaign)])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Ours and, in a campaign, Apache Kafka."""
    if request.param == "ottla":
        with ottla.Broker({**LASTING, **TIMED_OUT_SOON}) as broker:
            yield Cluster(broker.bootstrap_servers, lambda topic: _hang_on(broker, topic))
        return
    jars: Path = request.getfixturevalue("kafka_jars")
    # Otherwise its leaders ask coordinators, and transactions cannot hang any more.
    options = {"transaction.partition.verification.enable": "false", **TIMED_OUT_SOON}
    with running_kafka(jars, tmp_path_factory.mktemp("kafka"), options) as address:
        yield Cluster(address, lambda topic: _hang_on_kafka(address, topic))


def _hang_on(broker: ottla.Broker, topic: str) -> int:
    with session_with(broker) as connection:
        producer_id = new_producer_id(connection)
    send(broker, topic, producer_id, 0, b"hanging")
    return producer_id


def _hang_on_kafka(address: str, topic: str) -> int:
    with RawConnection(address) as connection:
        producer_id = _first_producer_id(connection)
        who = txn_requests.Identity(producer_id, 0)
        code = txn_requests.send(connection, "unknown", who, topic, version=PRODUCE_V1)
        assert code is ErrorCode.NONE, code
    return producer_id


def _first_producer_id(connection: RawConnection) -> int:
    """A broker that has just begun asks the controller for ids, and refuses meanwhile."""
    deadline = time.monotonic() + SECONDS
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    while True:
        answer = connection.call(request, InitProducerIdResponse, 4)
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.NONE:
            return int(answer.producer_id)
        assert code.retriable, code
        in_time(deadline, code)
        time.sleep(0.05)


@pytest.fixture(scope="module")
def api(cluster: Cluster) -> Iterator[ApiClient]:
    """The API of a console that is looked at."""
    with quick_polls(), serving(cluster.servers) as console, looking(console.url) as client:
        yield client
