"""Pipelines of Spark as the API of the console tells them: by what they commit, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.console.api_client import ApiClient
from tests.console.transactions.conftest import Cluster

import ottla
from ottla.client.blocking.producer import Producer
from ottla.model import TopicPartition
from ottla.spark.sink.progress import Marker, marker_group, transactional_id

QUERY = "0b9b1a3c-0000-4000-8000-000000000001"


class Sink:
    """Commits micro-batches as the sink does: records, the source's position, and the marker in one transaction."""

    def __init__(self, producer: Producer, name: str, source: str, target: str) -> None:
        self.producer = producer
        self.name = name
        self.source = TopicPartition(source, 0)
        self.target = target

    def begin(self) -> None:
        self.producer.begin_transaction()
        self.producer.send(self.target, b"row", partition=0).result()

    def send_progress(self, batch: int, position: int) -> None:
        at = ottla.OffsetAndMetadata(position)
        self.producer.send_offsets_to_transaction({self.source: at}, self.name)
        marker = Marker(QUERY, batch, "digest", transactional_id(self.name)).to_offset()
        place = TopicPartition(self.target, 0)
        self.producer.send_offsets_to_transaction({place: marker}, marker_group(self.name))

    def commit(self, batch: int, position: int) -> None:
        self.begin()
        self.send_progress(batch, position)
        self.producer.commit_transaction()


@contextmanager
def pipeline(cluster: Cluster, prefix: str) -> Iterator[Sink]:
    """A pipeline whose source has ten records."""
    name = cluster.name(prefix)
    source, target = cluster.topic(f"{prefix}-source"), cluster.topic(f"{prefix}-target")
    with ottla.Producer(bootstrap_servers=cluster.servers) as plain:
        for _ in range(10):
            plain.send(source, b"x")
    producer = ottla.Producer(
        bootstrap_servers=cluster.servers, transactional_id=transactional_id(name)
    )
    producer.init_transactions()
    try:
        yield Sink(producer, name, source, target)
    finally:
        producer.close(0)


def row_of(api: ApiClient, name: str, **expected: Any) -> dict[str, Any]:
    """The row of a pipeline, as soon as it has these values."""

    def find(page: Any) -> dict[str, Any] | None:
        for row in page["rows"]:
            if row["name"] == name and expected.items() <= row.items():
                return dict(row)
        return None

    return api.soon("/api/pipelines", find, q=name)


def test_a_pipeline_shows_its_last_micro_batch_and_its_lag(
    cluster: Cluster, api: ApiClient
) -> None:
    with pipeline(cluster, "shown") as sink:
        sink.commit(0, 4)
        sink.commit(1, 7)
        row = row_of(api, sink.name, batch=1, lag=3, committed_count=2)
        assert row["state"] == "running"
        assert (row["query"], row["source_topics"]) == (QUERY, [sink.source.topic])
        assert row["target_topics"] == [sink.target]
        assert row["transactional_id"] == f"ottla-pipeline-{sink.name}"
        assert row["committed_at_ms"] > 0
        # The console saw this one, so it knows how much was read.
        sink.commit(2, 10)
        row = row_of(api, sink.name, batch=2, lag=0, committed_count=3)
        assert row["last_input_count"] == 3
        detail = api.get("/api/pipeline", name=sink.name)
        assert [each["batch"] for each in detail["markers"]] == [2]
        (source,) = detail["sources"]
        assert (source["topic"], source["offset"], source["lag"]) == (sink.source.topic, 10, 0)
        assert (detail["group_id"], detail["marker_group_id"]) == (sink.name, f"{sink.name}.marker")


def test_the_history_of_a_pipeline_has_its_micro_batches(cluster: Cluster, api: ApiClient) -> None:
    with pipeline(cluster, "history") as sink:
        for batch, position in enumerate((2, 5, 9)):
            sink.commit(batch, position)
        sink.begin()
        sink.send_progress(3, 10)
        sink.producer.abort_transaction()
        row_of(api, sink.name, batch=2)
        history = api.get("/api/pipeline/history", name=sink.name)
    assert history["problem"] is None
    found = [(each["batch"], each["input_count"]) for each in history["micro_batches"]]
    # Where the first one began to read is not in the log; the aborted one never was.
    assert found == [(2, 4), (1, 3), (0, None)]
    assert all(each["topic"] == sink.target for each in history["micro_batches"])
    assert history["micro_batches"][0]["gap_ms"] >= 0


def test_a_pipeline_that_writes_was_aborted_or_was_fenced_says_so(
    cluster: Cluster, api: ApiClient
) -> None:
    with pipeline(cluster, "states") as sink:
        row_of(api, sink.name, state="fenced", batch=None)
        sink.commit(0, 3)
        sink.begin()
        row = row_of(api, sink.name, state="writing", batch=0)
        assert row["started_at_ms"] == row["since_ms"]
        sink.producer.abort_transaction()
        row = row_of(api, sink.name, state="aborted", aborted_count=1)
        # Another instance takes over.
        with ottla.Producer(
            bootstrap_servers=cluster.servers, transactional_id=transactional_id(sink.name)
        ) as other:
            other.init_transactions()
            row_of(api, sink.name, state="fenced", batch=0)


def test_groups_of_other_programs_are_no_pipelines(cluster: Cluster, api: ApiClient) -> None:
    name = cluster.name("foreign")
    topic = cluster.topic("foreign")
    with ottla.Admin(bootstrap_servers=cluster.servers) as admin:
        for group in (name, f"{name}.marker"):
            at = ottla.OffsetAndMetadata(0, "no marker")
            admin.alter_consumer_group_offsets(group, {(topic, 0): at})
    with pipeline(cluster, "beside") as sink:
        sink.commit(0, 1)
        row_of(api, sink.name, batch=0)
    assert api.get("/api/pipelines", q=name)["rows"] == []
    status, text = api.refused("GET", "/api/pipeline", name=name)
    assert status == 404
    assert f"no pipeline '{name}'" in text
