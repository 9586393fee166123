"""Arguments that cannot be meant are refused at once, with words that say what to write."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ottla
from ottla import Broker
from ottla.admin import NewTopic
from ottla.client.arguments import offsets_of, partition_of, partitions_of, sequence_of
from ottla.client.model import OffsetAndMetadata
from ottla.model import TopicPartition


@pytest.fixture
def topic(ottla_broker: Broker, ottla_topic_name: Callable[[], str]) -> str:
    """A topic that is there, with one partition."""
    name = ottla_topic_name()
    with ottla.Admin(bootstrap_servers=ottla_broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, 1)])
    return name


@pytest.fixture
def producer(ottla_broker: Broker, topic: str) -> Iterator[ottla.Producer]:
    with ottla.Producer(bootstrap_servers=ottla_broker.bootstrap_servers) as made:
        made.send(topic, b"x", partition=0).result(10)
        yield made


BAD_SENDS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"partition": True}, TypeError, "a partition is an int, not True"),
    ({"partition": False}, TypeError, "a partition is an int, not False"),
    ({"partition": 0.0}, TypeError, "a partition is an int, not 0.0"),
    ({"partition": "0"}, TypeError, "a partition is an int, not '0'"),
    ({"partition": -1}, ValueError, "from 0 on, not -1"),
    ({"timestamp_ms": 1.5}, TypeError, "an int of milliseconds, not 1.5"),
    ({"timestamp_ms": "now"}, TypeError, "an int of milliseconds, not 'now'"),
    ({"timestamp_ms": True}, TypeError, "an int of milliseconds, not True"),
    ({"timestamp_ms": -1}, ValueError, "a timestamp is not negative"),
    ({"topic": ["t"]}, TypeError, "a topic is named by a str"),
    ({"topic": b"t"}, TypeError, "a topic is named by a str"),
    ({"topic": None}, TypeError, "a topic is named by a str"),
]


@pytest.mark.parametrize(("given", "kind", "words"), BAD_SENDS)
def test_send_refuses_at_once_what_cannot_be_meant(
    producer: ottla.Producer,
    topic: str,
    given: dict[str, Any],
    kind: type[Exception],
    words: str,
) -> None:
    started = time.monotonic()
    with pytest.raises(kind, match=words):
        producer.send(**{"topic": topic, "value": b"x", **given})
    with pytest.raises(kind, match=words):
        producer.send_many(**{"topic": topic, "values": [b"x"], **given})
    assert time.monotonic() - started < 5
    assert producer.send(topic, b"y", partition=0).result(10).offset == 1


def test_send_refuses_a_callback_that_cannot_be_called(
    producer: ottla.Producer, topic: str
) -> None:
    for partition in (0, None):
        with pytest.raises(TypeError, match="on_delivery is called with the outcome"):
            producer.send(topic, b"x", partition=partition, on_delivery=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("one", [b"abc", "abc", 3, None, bytearray(b"abc")])
def test_send_many_refuses_one_value(producer: ottla.Producer, topic: str, one: Any) -> None:
    with pytest.raises(TypeError, match="values are a list, with one for each record"):
        producer.send_many(topic, one)
    if one is not None:
        with pytest.raises(TypeError, match="keys are a list, with one for each record"):
            producer.send_many(topic, [b"x"] * 3, keys=one)


def test_many_may_be_any_iterable() -> None:
    assert sequence_of(iter([1, 2]), "values") == [1, 2]
    assert sequence_of({1: 2}.values(), "values") == [2]
    given = (1, 2)
    assert sequence_of(given, "values") is given


@pytest.mark.parametrize(
    ("partition", "kind"),
    [
        (("t", True), TypeError),
        (("t", 0.0), TypeError),
        (("t", "0"), TypeError),
        ((0, "t"), TypeError),
        ("t", TypeError),
        (None, TypeError),
        (("t", 0, 1), TypeError),
        (("t", -1), ValueError),
        ((" ", 0), ValueError),
    ],
)
def test_what_is_no_partition_is_refused(partition: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        partition_of(partition)
    with pytest.raises(kind):
        partitions_of([partition])
    with pytest.raises(kind):
        offsets_of({partition: 1})


@pytest.mark.parametrize("partitions", ["t", ("t", 0), TopicPartition("t", 0), None, 3])
def test_one_partition_is_no_list(partitions: Any) -> None:
    with pytest.raises(TypeError, match="no list of partitions: write"):
        partitions_of(partitions)


@pytest.mark.parametrize(
    ("offset", "kind"),
    [
        (True, TypeError),
        (1.0, TypeError),
        ("1", TypeError),
        (None, TypeError),
        ((1, "m"), TypeError),
        (-1, ValueError),
    ],
)
def test_what_is_no_offset_is_refused(
    ottla_broker: Broker, offset: Any, kind: type[Exception]
) -> None:
    words = "the offset of t-0 is"
    with pytest.raises(kind, match=words):
        offsets_of({("t", 0): offset})
    options = {"bootstrap_servers": ottla_broker.bootstrap_servers, "group_id": "arguments"}
    with ottla.Consumer(options) as consumer:
        consumer.assign([("t", 0)])
        with pytest.raises(kind, match=words):
            consumer.seek(("t", 0), offset)
        with pytest.raises(kind, match=words):
            consumer.commit({("t", 0): offset})


def test_offsets_are_a_mapping() -> None:
    with pytest.raises(TypeError, match=r"write \{\(topic, number\): offset"):
        offsets_of([(("t", 0), 1)])  # type: ignore[arg-type]
    assert offsets_of(None) is None
    assert offsets_of({("t", 0): 3}) == {TopicPartition("t", 0): OffsetAndMetadata(3)}
