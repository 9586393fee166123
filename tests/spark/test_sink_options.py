"""The options and columns of the sink: served, or refused with what to do instead, before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import StructType

from ottla.errors import ConfigError
from ottla.records.compression import Codec
from ottla.spark.sink.commit_plan import TaskPlan
from ottla.spark.sink.sink_options import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    read_batch_settings,
    read_stream_settings,
)
from ottla.spark.sink.writers import AtLeastOnceWriter, ExactlyOnceWriter

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
VALUE = "value binary"


def schema(text: str) -> StructType:
    """Of a DDL text, without a session: names and simple types are enough here."""
    found = StructType()
    for column in text.split("; "):
        name, kind = column.split(" ", 1)
        found = found.add(name, _TYPES.get(kind) or kind)
    return found


_TYPES: dict[str, Any] = {
    "headers": StructType.fromJson(
        {
            "type": "struct",
            "fields": [
                {
                    "name": "h",
                    "nullable": True,
                    "metadata": {},
                    "type": {
                        "type": "array",
                        "containsNull": True,
                        "elementType": {
                            "type": "struct",
                            "fields": [
                                {"name": name, "type": kind, "nullable": True, "metadata": {}}
                                for name, kind in (("key", "string"), ("value", "binary"))
                            ],
                        },
                    },
                }
            ],
        }
    )["h"].dataType
}


def stream(columns: str = VALUE, **options: str) -> Any:
    return read_stream_settings({**SERVERS, **options}, schema(columns))


def test_a_stream_is_exactly_once_and_a_batch_is_not_unless_it_is_told() -> None:
    assert stream(topic="out").delivery == EXACTLY_ONCE
    assert stream(topic="out", delivery="AT-LEAST-ONCE").delivery == AT_LEAST_ONCE
    options = {**SERVERS, "topic": "out"}
    assert read_batch_settings(options, schema(VALUE), False).delivery == AT_LEAST_ONCE
    asked = {**options, "delivery": "exactly-once"}
    assert read_batch_settings(asked, schema(VALUE), False).delivery == EXACTLY_ONCE


def test_the_columns_of_sparks_kafka_sink_are_taken() -> None:
    everything = "key string; value binary; headers headers; topic string; partition integer; timestamp timestamp"
    assert stream(everything, topic="out").topic == "out"
    assert stream("value string; topic string", markertopic="m").marker_topic == "m"


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ("key binary", "column 'value'"),
        ("value integer", "string or binary, not int"),
        ("value binary; key long", "column 'key' has to be string or binary"),
        ("value binary; topic binary", "column 'topic' has to be string"),
        ("value binary; partition string", "column 'partition' has to be int"),
        ("value binary; headers string", "array<struct<key:string,value:binary>>"),
        ("value binary; timestamp string", "column 'timestamp'"),
        ("value binary; colour string", r"does not write the columns \['colour'\]"),
    ],
)
def test_columns_that_cannot_be_written_are_refused(columns: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        stream(columns, topic="out")


def test_a_topic_is_needed_and_one_for_the_marker() -> None:
    with pytest.raises(ConfigError, match="option topic, or a column 'topic'"):
        stream(VALUE)
    with pytest.raises(ConfigError, match="markerTopic is missing"):
        stream("value binary; topic string")
    assert stream("value binary; topic string", delivery="at-least-once").topic is None
    assert stream(topic="out").marker_topic == "out"
    assert stream(topic="out", markertopic="other").marker_topic == "other"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"asyncprogresstrackingenabled": "true"}, "asyncProgressTracking… is refused"),
        ({"asyncprogresstrackingcheckpointintervalms": "5"}, "is refused"),
        ({"kafka.transactional.id": "x"}, "use pipeline"),
        ({"kafka.acks": "1"}, "acks"),
        ({"kafka.enable.idempotence": "false"}, "idempotence"),
        ({"checkpointstorageoptions": "x"}, "checkpointStorageOptions"),
        ({"failonunknownprogress": "maybe"}, "true or false"),
        ({"delivery": "exactly-twice"}, "exactly-once, at-least-once"),
        ({"subscribe": "t"}, "subscribe is for"),
    ],
)
def test_options_that_break_the_promise_are_refused_at_the_start(
    options: dict[str, str], why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        stream(topic="out", **options)


def test_a_topic_is_not_overwritten() -> None:
    with pytest.raises(ConfigError, match=r"mode\('append'\)"):
        read_batch_settings({**SERVERS, "topic": "out"}, schema(VALUE), True)


def test_tasks_compress_as_the_producer_would() -> None:
    found = stream(
        topic="out", **{"kafka.compression.type": "zstd", "kafka.compression.zstd.level": "7"}
    )
    assert (found.codec, found.level) == (Codec.ZSTD, 7)
    assert stream(topic="out", **{"kafka.max.request.size": "5000"}).batch_size_bytes == 5000


def test_epochs_that_end_without_their_tasks_are_told_to_be_continuous_processing() -> None:
    for kind in (ExactlyOnceWriter, AtLeastOnceWriter):
        writer = kind(stream(topic="out"), TaskPlan())
        with pytest.raises(ConfigError, match="this query is processed continuously"):
            writer.commit([None, None], 0)


@pytest.mark.parametrize(
    "option",
    [
        "kafka.linger.ms",
        "kafka.partitioner.class",
        "kafka.partitioner.ignore.keys",
        "includeHeaders",
    ],
)
def test_what_would_do_nothing_is_refused(option: str) -> None:
    with pytest.raises(ConfigError, match=option):
        stream(topic="out", **{option: "true"})


def test_a_batch_size_that_was_given_counts() -> None:
    assert stream(topic="out", **{"kafka.batch.size": "5000"}).batch_size_bytes == 5000
