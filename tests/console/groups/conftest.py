"""A cluster with groups of other clients, and a console that looks at it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import confluent_kafka
import kafka
import pytest
from tests.apache_kafka.conftest import kafka_jars
from tests.apache_kafka.programs import running_kafka
from tests.console.api_client import ApiClient, looking
from tests.console.known_topics import create_topics
from tests.console.quick_polls import quick_polls
from tests.console.serving import serving
from tests.lasting import LASTING
from tests.waiting import in_time

import ottla
from ottla.admin import NewTopic

__all__ = ["kafka_jars"]

SECONDS = 30
# Members hear of a rebalance with their next heartbeat.
CLASSIC: dict[str, object] = {"heartbeat.interval.ms": 100, "session.timeout.ms": 6_000}


class GroupCluster:
    """A cluster, by its address."""

    def __init__(self, servers: str, internals_url: str | None = None) -> None:
        self.servers = servers
        self.internals_url = internals_url
        """Where an Ottla broker tells what happens; Kafka does not."""
        self._count = 0

    def name(self, prefix: str) -> str:
        """A name that no other test has."""
        self._count += 1
        return f"{prefix}-{self._count}"

    def topic(self, prefix: str, partitions: int = 1, *, records: int = 0) -> str:
        """A topic with so many records in each partition."""
        name = self.name(prefix)
        create_topics(self.servers, [NewTopic(name, num_partitions=partitions)])
        if records:
            producer = confluent_kafka.Producer({"bootstrap.servers": self.servers, "linger.ms": 0})
            for number in range(records * partitions):
                producer.produce(name, b"%d" % number, partition=number % partitions)
            assert producer.flush(SECONDS) == 0
        return name

    def commit(self, group: str, offsets: dict[tuple[str, int], int]) -> None:
        """Offsets of a group without members."""
        with ottla.Admin(bootstrap_servers=self.servers) as admin:
            admin.alter_consumer_group_offsets(group, offsets)

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        with ottla.Admin(bootstrap_servers=self.servers) as admin:
            found = admin.list_consumer_group_offsets([group])[group]
        return {(key.topic, key.partition): at.offset for key, at in found.items() if at}

    @contextmanager
    def member(
        self, group: str, topics: list[str], client_id: str = "reader", **options: object
    ) -> Iterator[confluent_kafka.Consumer]:
        """A member of librdkafka that polls on a thread of its own, and has joined."""
        names = {name.replace("_", "."): value for name, value in options.items()}
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": group,
                "client.id": client_id,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 100,
                "log_level": 0,
                **({} if "group.protocol" in names else CLASSIC),
                **names,
            }
        )
        has_joined = threading.Event()
        consumer.subscribe(topics, on_assign=lambda *_: has_joined.set())
        with _polled(lambda: consumer.poll(0.05)):
            assert has_joined.wait(SECONDS), f"{client_id} has not joined {group}"
            yield consumer
        consumer.close()

    @contextmanager
    def static_member(self, group: str, topic: str, instance_id: str) -> Iterator[None]:
        """A static member of kafka-python, with the classic protocol; it leaves without a word."""
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=self.servers,
            group_id=group,
            client_id=f"client-of-{instance_id}",
            group_instance_id=instance_id,
            auto_offset_reset="earliest",
            session_timeout_ms=30_000,
            heartbeat_interval_ms=100,
        )
        # A leader that has not heard of a new topic yet assigns none of its partitions.
        assert consumer.partitions_for_topic(topic)
        consumer.subscribe([topic])
        with _polled(lambda: consumer.poll(50)):
            deadline = time.monotonic() + SECONDS
            while not consumer.assignment():
                in_time(deadline, f"{instance_id} has partitions")
                time.sleep(0.02)
            yield
        consumer.close()


@contextmanager
def _polled(poll: Any) -> Iterator[None]:
    is_over = threading.Event()

    def run() -> None:
        while not is_over.is_set():
            with suppress(confluent_kafka.KafkaException):
                poll()

    thread = threading.Thread(target=run, daemon=True, name="member")
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(SECONDS)


@pytest.fixture(scope="module", params=["ottla", pytest.param("kafka", marks=pytest.mark.campaign)])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GroupCluster]:
    """Ours and, in a campaign, Apache Kafka."""
    if request.param == "ottla":
        options = {**LASTING, "group.initial.rebalance.delay.ms": "0"}
        with ottla.Broker(options, metrics="127.0.0.1:0") as broker:
            yield GroupCluster(
                broker.bootstrap_servers, broker.metrics_url.removesuffix("/metrics")
            )
        return
    jars: Path = request.getfixturevalue("kafka_jars")
    options = {"group.initial.rebalance.delay.ms": "0"}
    with running_kafka(jars, tmp_path_factory.mktemp("kafka"), options) as address:
        yield GroupCluster(address)


@pytest.fixture(scope="module")
def api(cluster: GroupCluster) -> Iterator[ApiClient]:
    """The API of a console that is looked at."""
    with (
        quick_polls(),
        serving(cluster.servers, internals_url=cluster.internals_url) as console,
        looking(console.url) as client,
    ):
        yield client
