"""A cluster with dead letters, and a console that looks at it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from tests.apache_kafka.conftest import kafka_jars
from tests.apache_kafka.programs import running_kafka
from tests.app.letters.raw_records import raw_record
from tests.console.api_client import ApiClient, looking
from tests.console.quick_polls import quick_polls
from tests.console.serving import serving
from tests.lasting import LASTING

import ottla
from ottla.admin import NewTopic
from ottla.app.letters import dead_letter, dead_letter_topic, hop, retry_topic

__all__ = ["kafka_jars"]

SECONDS = 20
GROUP = "billing"
CARD = ValueError("no card")
BANK = TimeoutError("the bank does not answer")
ERRORS = (CARD, BANK)


class LetterCluster:
    """A cluster, by its address."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self._count = 0

    def name(self, prefix: str) -> str:
        """A name that no other test has."""
        self._count += 1
        return f"{prefix}-{self._count}"

    def create(self, *names: str, partitions: int = 2) -> None:
        with ottla.Admin(bootstrap_servers=self.servers) as admin:
            admin.create_topics([NewTopic(name, num_partitions=partitions) for name in names])

    def values(self, topic: str, count: int) -> list[bytes]:
        """The committed values of a topic, sorted, as soon as there are so many."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": self.name("reader"),
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
                found += [
                    each.value() or b""
                    for each in consumer.consume(100, 0.1)
                    if each.error() is None
                ]
        finally:
            consumer.close()
        return sorted(found)


class Letters:
    """A source with a retry topic, and with dead letters of two errors in each of two partitions."""

    def __init__(self, cluster: LetterCluster, prefix: str, count: int = 12) -> None:
        self.cluster = cluster
        self.source = cluster.name(prefix)
        self.topic = dead_letter_topic(self.source, GROUP)
        self.retry = retry_topic(self.source, GROUP, 1)
        self.count = count
        cluster.create(self.source, self.topic, self.retry)
        producer = Producer({"bootstrap.servers": cluster.servers, "linger.ms": 5, "log_level": 0})
        now_ms = int(time.time() * 1000)
        for number in range(count):
            record = self.record(number)
            letter = dead_letter(
                record,
                ERRORS[number // 2 % 2],
                group=GROUP,
                listener="bill",
                attempt=3,
                now_ms=now_ms,
            )
            producer.produce(
                self.topic,
                letter.value,
                letter.key,
                partition=number % 2,
                headers=[*letter.headers],
                timestamp=now_ms - 60_000 + number * 1_000,
            )
        assert producer.flush(SECONDS) == 0

    def record(self, number: int) -> ottla.ConsumerRecord:
        return raw_record(
            self.source, number % 2, number, value=f"v{number}".encode(), key=f"k{number}".encode()
        )

    def wait_for_retry(self, number: int, due_ms: int) -> None:
        """A record that waits for its retry."""
        waiting = hop(
            self.record(number),
            BANK,
            group=GROUP,
            listener="bill",
            attempt=1,
            due_ms=due_ms,
            now_ms=int(time.time() * 1000),
        )
        producer = Producer({"bootstrap.servers": self.cluster.servers, "log_level": 0})
        producer.produce(
            waiting.topic, waiting.value, waiting.key, partition=0, headers=[*waiting.headers]
        )
        assert producer.flush(SECONDS) == 0


@pytest.fixture(scope="module", params=["ottla", pytest.param("kafka", marks=pytest.mark.campaign)])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LetterCluster]:
    """Ours and, in a campaign, Apache Kafka."""
    if request.param == "ottla":
        with ottla.Broker(LASTING) as broker:
            yield LetterCluster(broker.bootstrap_servers)
        return
    jars: Path = request.getfixturevalue("kafka_jars")
    with running_kafka(jars, tmp_path_factory.mktemp("kafka")) as address:
        yield LetterCluster(address)


@pytest.fixture(scope="module")
def api(cluster: LetterCluster) -> Iterator[ApiClient]:
    """The API of a console that is looked at."""
    with quick_polls(), serving(cluster.servers) as console, looking(console.url) as client:
        yield client
