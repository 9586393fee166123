"""A cluster with a schema registry, and a console that reads its records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer
from tests.apache_kafka.conftest import kafka_jars
from tests.apache_kafka.programs import running_kafka
from tests.console.api_client import ApiClient
from tests.console.known_topics import create_topics
from tests.console.serving import serving
from tests.lasting import LASTING

import ottla
from ottla.admin import NewTopic

__all__ = ["kafka_jars"]

SECONDS = 20


class RecordCluster:
    """A cluster with a registry, by their addresses."""

    def __init__(self, servers: str, registry_url: str) -> None:
        self.servers = servers
        self.registry_url = registry_url
        self._count = 0

    def topic(self, prefix: str, partitions: int = 1, **configs: str) -> str:
        """A new topic."""
        self._count += 1
        name = f"{prefix}-{self._count}"
        named = {key.replace("_", "."): value for key, value in configs.items()}
        create_topics(self.servers, [NewTopic(name, num_partitions=partitions, configs=named)])
        return name

    def producer(self, **options: object) -> Producer:
        """A producer of librdkafka."""
        names = {name.replace("_", "."): value for name, value in options.items()}
        return Producer(
            {"bootstrap.servers": self.servers, "linger.ms": 0, "log_level": 0, **names}
        )

    @contextmanager
    def transactional(self, prefix: str = "writer") -> Iterator[Producer]:
        """A producer that has begun a transaction."""
        self._count += 1
        producer = self.producer(transactional_id=f"{prefix}-{self._count}")
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        yield producer


def write(producer: Producer, topic: str, *values: Any, **options: Any) -> None:
    """Records that the broker has acknowledged."""
    for value in values:
        producer.produce(topic, value, **{"partition": 0, **options})
    assert producer.flush(SECONDS) == 0


@pytest.fixture(scope="module", params=["ottla", pytest.param("kafka", marks=pytest.mark.campaign)])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RecordCluster]:
    """Ours and, in a campaign, Apache Kafka."""
    if request.param == "ottla":
        with (
            ottla.Broker(LASTING) as broker,
            ottla.SchemaRegistry(bootstrap_servers=broker.bootstrap_servers) as registry,
        ):
            yield RecordCluster(broker.bootstrap_servers, registry.url)
        return
    jars = request.getfixturevalue("kafka_jars")
    with (
        running_kafka(jars, tmp_path_factory.mktemp("kafka"), {}) as address,
        ottla.SchemaRegistry(bootstrap_servers=address) as registry,
    ):
        yield RecordCluster(address, registry.url)


class RecordsApi(ApiClient):
    """Also reads streams."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.url = url

    def events(self, path: str, **query: Any) -> Iterator[tuple[str, Any]]:
        """The events of a stream, with their data."""
        with self._http.stream("GET", path, params=query) as answer:
            assert answer.status_code == 200, answer.read()
            yield from _events(answer)

    def search(self, topic: str, **query: Any) -> tuple[list[Any], Any]:
        """The rows of a search, and how it ended."""
        rows: list[Any] = []
        for name, data in self.events(f"/api/topics/{topic}/records/search", **query):
            assert name != "failed", data
            if name == "records":
                rows += data["rows"]
            elif name == "ended":
                return rows, data
        raise AssertionError("the search has no end")

    def record(self, topic: str, offset: int, partition: int = 0, **query: Any) -> Any:
        """One record."""
        return self.get(f"/api/topics/{topic}/records/{partition}/{offset}", **query)

    def download(self, path: str, **query: Any) -> httpx.Response:
        """A file."""
        return self._http.get(path, params=query)


def _events(answer: httpx.Response) -> Iterator[tuple[str, Any]]:
    name = ""
    for line in answer.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def values(rows: list[Any]) -> list[str]:
    """The values that rows show."""
    return [row["value"]["text"] for row in rows]


@pytest.fixture(scope="module")
def api(cluster: RecordCluster) -> Iterator[RecordsApi]:
    """The API of a console with a registry."""
    with serving(cluster.servers, registry_url=cluster.registry_url) as console:
        client = RecordsApi(console.url)
        yield client
        client.close()
