"""Pipelines at work: values, dead letters, and who takes over."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.spark.pipeline_scene import WAIT_SECONDS, PipelineScene
from tests.spark.pipelines import committed_values

import ottla
from ottla import Broker
from ottla.spark.pipeline.failure_policy import PipelineError, PipelineTakenOverError
from ottla.spark.pipeline.formats import Json
from ottla.spark.sink.progress import transactional_id

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


@pytest.fixture
def scene(
    spark: Any, ottla_broker: Broker, ottla_topic_name: Callable[[], str], tmp_path: Path
) -> PipelineScene:
    return PipelineScene(ottla_broker.bootstrap_servers, ottla_topic_name(), tmp_path)


@pytest.mark.timeout(400)
def test_what_cannot_be_read_goes_to_the_dead_letters_in_the_same_transaction(
    scene: PipelineScene,
) -> None:
    good = [
        (b"k%d" % number, json.dumps({"id": number, "more": 1}).encode()) for number in range(6)
    ]
    scene.feed(*good, (b"gone", None), headers=[("trace", b"6")])
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
    assert {tuple(each.headers) for each in scene.records("out")} == {(("trace", b"6"),)}
    dead = scene.records("dead")
    assert [each.value for each in dead] == BAD
    headers = [dict(each.headers) for each in dead]
    assert {each["trace"] for each in headers} == {b"7"}
    assert {each["ottla.topic"] for each in headers} == {scene.topic("in").encode()}
    assert [int(each["ottla.offset"]) for each in headers] == list(range(7, 7 + len(BAD)))
    assert headers[7]["ottla.error"] == b"the value is not UTF-8"
    (transaction,) = scene.transactions("out")
    assert scene.transactions("dead") == {transaction}


@pytest.mark.timeout(400)
def test_without_dead_letters_a_bad_record_stops_the_pipeline_before_anything_is_written(
    scene: PipelineScene,
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


@pytest.mark.timeout(400)
def test_avro_comes_in_and_goes_out(scene: PipelineScene) -> None:
    fastavro = pytest.importorskip("fastavro")
    from ottla.spark.pipeline.avro import Avro

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


@pytest.mark.timeout(400)
def test_a_pipeline_that_was_taken_over_stops_and_says_so(scene: PipelineScene) -> None:
    scene.feed((b"k", b"1"), headers=[("trace", b"5"), ("trace", None)])
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
    same = {"bootstrap.servers": scene.servers, "transactional.id": transactional_id(scene.name)}
    with ottla.Producer(same) as other:
        other.init_transactions()
        scene.feed((b"k", b"2"))
        running.join(WAIT_SECONDS)
    assert not running.is_alive()
    (failure,) = failures
    assert isinstance(failure, PipelineTakenOverError)
    assert "Another instance took over" in str(failure)
    (only,) = scene.records("out")
    assert (only.value, list(only.headers)) == (b"1", [("trace", b"5"), ("trace", None)])
