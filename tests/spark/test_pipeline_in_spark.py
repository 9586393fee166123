"""Pipelines at work: values, dead letters, and who takes over."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.spark.pipelines import committed_values
from tests.spark.sessions import needs_spark, spark_session

import ottla
from ottla import Broker
from ottla.client.raw import RawConnection
from ottla.records.batch import split_batches
from ottla.spark.formats import Json
from ottla.spark.pipeline import Pipeline
from ottla.spark.supervising import PipelineError, PipelineTakenOverError
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

WAIT_SECONDS = 100.0
BAD = [
    b"{",
    b"nonsense",
    b"[1]",
    b'[{"id": 1}]',
    b'"text"',
    b"null",
    b"",
    b"\xff\xfe",
    b'{"id": "x"}',
    b'{"id": 1} x',
    b'{"id": 1}]',
    b'{"id": 1}}',
    b'{"id": 1},{"id": 2}',
]


class Stage:
    """Topics and pipelines of a test."""

    def __init__(self, servers: str, name: str, folder: Path) -> None:
        self.servers, self.name, self.folder = servers, name, folder

    def topic(self, part: str) -> str:
        return f"{self.name}-{part}"

    def feed(self, *records: tuple[bytes, bytes | None], headers: Any = ()) -> None:
        with ottla.Producer(bootstrap_servers=self.servers) as producer:
            for key, value in records:
                producer.send(self.topic("in"), value, key=key, headers=headers).result(
                    WAIT_SECONDS
                )

    def pipeline(self, **options: Any) -> Pipeline:
        spark_session()
        chosen = {"trigger": "available-now", **options}
        return Pipeline(
            self.name,
            source=self.topic("in"),
            sink=self.topic("out"),
            bootstrap_servers=self.servers,
            checkpoint=str(self.folder / "checkpoint"),
            **chosen,
        )

    def records(self, part: str) -> list[Any]:
        options = {"bootstrap.servers": self.servers, "isolation.level": "read_committed"}
        with ottla.Consumer(options) as consumer:
            place = ottla.TopicPartition(self.topic(part), 0)
            end = consumer.end_offsets([place])[place]
            consumer.assign([place])
            consumer.seek_to_beginning()
            found: list[Any] = []
            while consumer.position(place) < end:
                found += consumer.poll(5.0)
        return found

    def transactions(self, part: str) -> set[tuple[int, int]]:
        """The producer ids and epochs in a topic; each transaction has an epoch of its own."""
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        topic = FetchTopic(topic=self.topic(part), partitions=[partition])
        with RawConnection(self.servers) as connection:
            request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[topic])
            answer = connection.call(request, FetchResponse, 12)
        data = answer.responses[0].partitions[0].records
        return {
            (header.producer_id, header.producer_epoch)
            for _, header in split_batches(data)
            if not header.is_control
        }


@pytest.fixture
def scene(ottla_broker: Broker, ottla_topic_name: Callable[[], str], tmp_path: Path) -> Stage:
    needs_spark()
    return Stage(ottla_broker.bootstrap_servers, ottla_topic_name(), tmp_path)


@pytest.mark.timeout(300)
def test_what_cannot_be_read_goes_to_the_dead_letters_in_the_same_transaction(scene: Stage) -> None:
    good = [
        (b"k%d" % number, json.dumps({"id": number, "more": 1}).encode()) for number in range(6)
    ]
    scene.feed(*good, (b"gone", None))
    scene.feed(*((b"bad", value) for value in BAD), headers=[("trace", b"7")])
    scene.pipeline(
        values=Json("id LONG"),
        dead_letter=scene.topic("dead"),
        transform=lambda df: df.where("value IS NULL OR value.id % 2 = 0"),
    ).run()
    assert [(each.key, each.value) for each in scene.records("out")] == [
        (b"k0", b'{"id":0}'),
        (b"k2", b'{"id":2}'),
        (b"k4", b'{"id":4}'),
        (b"gone", None),
    ]
    dead = scene.records("dead")
    assert [each.value for each in dead] == BAD
    headers = [dict(each.headers) for each in dead]
    assert {each["trace"] for each in headers} == {b"7"}
    assert {each["ottla.topic"] for each in headers} == {scene.topic("in").encode()}
    assert [int(each["ottla.offset"]) for each in headers] == list(range(7, 7 + len(BAD)))
    assert headers[7]["ottla.error"] == b"the value is not UTF-8"
    (transaction,) = scene.transactions("out")
    assert scene.transactions("dead") == {transaction}


@pytest.mark.timeout(300)
def test_without_dead_letters_a_bad_record_stops_the_pipeline_before_anything_is_written(
    scene: Stage,
) -> None:
    scene.feed((b"a", b'{"id": 1}'), (b"b", b"nonsense"))
    made = scene.pipeline(values=Json("id LONG"))
    with pytest.raises(PipelineError) as caught:
        made.run()
    message = str(caught.value)
    assert (
        f"topic {scene.topic('in')} partition 0 offset 1: the value is not a JSON object" in message
    )
    assert "dead_letter" in message
    assert "\n" not in message
    assert committed_values(scene.servers, scene.topic("out")) == []


@pytest.mark.timeout(300)
def test_avro_comes_in_and_goes_out(scene: Stage) -> None:
    fastavro = pytest.importorskip("fastavro")
    from ottla.spark.avro import Avro

    fields = [
        {"name": "id", "type": "long"},
        {"name": "tags", "type": {"type": "map", "values": "string"}},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
    ]
    schema = {"type": "record", "name": "Order", "fields": fields}
    parsed = fastavro.parse_schema(schema)

    def datum(value: dict[str, Any]) -> bytes:
        file = io.BytesIO()
        fastavro.schemaless_writer(file, parsed, value)
        return file.getvalue()

    values = [
        datum({"id": number, "tags": {"n": str(number)}, "at": 1_700_000_000_000 + number})
        for number in range(4)
    ]
    scene.feed(*((b"k", value) for value in values), (b"k", b"\xff"))
    scene.pipeline(
        values=Avro(schema),
        dead_letter=scene.topic("dead"),
        transform=lambda df: df.where("value.id >= 2"),
    ).run()
    assert [each.value for each in scene.records("out")] == values[2:]
    assert [each.value for each in scene.records("dead")] == [b"\xff"]


@pytest.mark.timeout(300)
def test_a_pipeline_that_was_taken_over_stops_and_says_so(scene: Stage) -> None:
    scene.feed((b"k", b"1"))
    first = threading.Event()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            scene.pipeline(trigger="100 ms").run(lambda progress: first.set())
        except BaseException as error:
            failures.append(error)
            first.set()

    running = threading.Thread(target=run)
    running.start()
    assert first.wait(WAIT_SECONDS)
    assert failures == []
    with ottla.Producer(bootstrap_servers=scene.servers, transactional_id=scene.name) as other:
        other.init_transactions()
        scene.feed((b"k", b"2"))
        running.join(WAIT_SECONDS)
    assert not running.is_alive()
    (failure,) = failures
    assert isinstance(failure, PipelineTakenOverError)
    assert "Another instance took over" in str(failure)
    assert committed_values(scene.servers, scene.topic("out")) == [b"1"]
