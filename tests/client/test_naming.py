"""Options that name code, in all the ways in which they can."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ottla.client.model import ConsumerRecords, ProducerRecord
from ottla.client.plugins.configured_objects import (
    assignors_of,
    consumer_interceptors_of,
    deserializers_of,
    partitioner_of,
    producer_interceptors_of,
    serializers_of,
    token_callback_of,
)
from ottla.client.plugins.partitioners import (
    DefaultPartitioner,
    RandomPartitioner,
    RoundRobinPartitioner,
    StickyPartitioner,
)
from ottla.client.plugins.serializers import (
    BytesDeserializer,
    BytesSerializer,
    LongSerializer,
    StringDeserializer,
    StringSerializer,
)
from ottla.config.client import read_client_config
from ottla.config.consumer import ConsumerConfig
from ottla.config.producer import ProducerConfig
from ottla.core.assignors.ranges import RangeAssignor
from ottla.core.assignors.sticky import StickyAssignor
from ottla.errors import ConfigError

HERE = __name__
SERVERS = "127.0.0.1:9092"


def producer(**options: object) -> ProducerConfig:
    return read_client_config(ProducerConfig, {"bootstrap.servers": SERVERS}, options)


def consumer(**options: object) -> ConsumerConfig:
    return read_client_config(ConsumerConfig, {"bootstrap.servers": SERVERS}, options)


class Configured:
    """Has every method that any option wants, and keeps what it was configured with."""

    name = "configured"

    def __init__(self) -> None:
        self.configured: list[tuple[Mapping[str, Any], bool | None]] = []

    def configure(self, config: Mapping[str, Any], is_key: bool | None = None) -> None:
        self.configured.append((config, is_key))

    def serialize(self, topic: str, headers: object, value: object) -> bytes:
        return b"own"

    def deserialize(self, topic: str, headers: object, data: object) -> str:
        return "own"

    def partition(self, *arguments: object) -> int:
        return 3

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record._replace(value="own")

    def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
        return records

    def assign(self, cluster: object, subscriptions: object) -> dict[str, object]:
        return {}


class NeedsArguments(Configured):
    def __init__(self, what: str) -> None:
        super().__init__()


class Nothing:
    """Has nothing that an option wants."""


def token() -> str:
    return "secret"


def test_bytes_are_the_default() -> None:
    assert [type(each) for each in serializers_of(producer())] == [BytesSerializer] * 2
    assert [type(each) for each in deserializers_of(consumer())] == [BytesDeserializer] * 2


def test_serializers_are_configured_as_key_and_as_value() -> None:
    config = producer(
        key_serializer="str",
        value_serializer="org.apache.kafka.common.serialization.StringSerializer",
        key_serializer_encoding="utf-16",
        serializer_encoding="latin-1",
    )
    key, value = serializers_of(config)
    assert isinstance(key, StringSerializer)
    assert isinstance(value, StringSerializer)
    assert (key.encoding, value.encoding) == ("utf-16", "iso8859-1")
    reading = consumer(key_deserializer="str", deserializer_encoding="ascii")
    reader = deserializers_of(reading)[0]
    assert isinstance(reader, StringDeserializer)
    assert reader.encoding == "ascii"


@pytest.mark.parametrize(
    "named", [Configured, Configured(), f"{HERE}.Configured", f"{HERE}:Configured"]
)
def test_own_code_is_named_by_class_object_or_path(named: Any) -> None:
    config = producer(
        key_serializer=named, partitioner_class=named, interceptor_classes=[named, named]
    )
    key, value = serializers_of(config)
    assert key.serialize("topic", (), 1) == b"own"
    assert isinstance(value, BytesSerializer)
    assert partitioner_of(config).partition("t", None, None, None, None, None) == 3  # type: ignore[arg-type]
    assert producer_interceptors_of(config).on_send(ProducerRecord("t")).value == "own"
    reading = consumer(
        value_deserializer=named, interceptor_classes=named, partition_assignment_strategy=named
    )
    assert deserializers_of(reading)[1].deserialize("topic", (), b"") == "own"
    assert consumer_interceptors_of(reading)
    assert [assignor.name for assignor in assignors_of(reading)] == ["configured"]


def test_configure_gets_all_options_by_kafkas_names() -> None:
    own = Configured()
    config = producer(key_serializer=own, partitioner_class=own, client_id="till", linger_ms="7")
    serializers_of(config)
    partitioner_of(config)
    (options, is_key), (again, nothing) = own.configured
    assert options == again == config.as_mapping()
    assert (is_key, nothing) == (True, None)
    assert options["client.id"] == "till"
    assert options["linger.ms"] == 7
    assert options["key.serializer"] is own


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, DefaultPartitioner),
        ({"partitioner_ignore_keys": True}, StickyPartitioner),
        ({"partitioner_class": "round-robin"}, RoundRobinPartitioner),
        ({"partitioner_class": "random"}, RandomPartitioner),
        ({"partitioner_class": RandomPartitioner}, RandomPartitioner),
        (
            {"partitioner_class": "org.apache.kafka.clients.producer.RoundRobinPartitioner"},
            RoundRobinPartitioner,
        ),
    ],
)
def test_partitioners_have_names(options: dict[str, object], expected: type) -> None:
    assert type(partitioner_of(producer(**options))) is expected


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        (None, ["range", "cooperative-sticky"]),
        ("roundrobin, sticky", ["roundrobin", "sticky"]),
        (["sticky", RangeAssignor], ["sticky", "range"]),
        (StickyAssignor(), ["sticky"]),
        (
            "org.apache.kafka.clients.consumer.CooperativeStickyAssignor,"
            "org.apache.kafka.clients.consumer.RangeAssignor,"
            "org.apache.kafka.clients.consumer.RoundRobinAssignor,"
            "org.apache.kafka.clients.consumer.StickyAssignor",
            ["cooperative-sticky", "range", "roundrobin", "sticky"],
        ),
    ],
)
def test_assignors_keep_the_order_of_preference(named: object, expected: list[str]) -> None:
    config = consumer(partition_assignment_strategy=named)
    assert [assignor.name for assignor in assignors_of(config)] == expected


def test_interceptors_come_in_a_list_or_with_commas() -> None:
    twice = f"{HERE}.Configured, {HERE}.Configured"
    assert producer(interceptor_classes=twice).interceptor_classes == (f"{HERE}.Configured",) * 2
    mixed = producer(interceptor_classes=[f"{HERE}.Configured", Configured, Configured()])
    assert producer_interceptors_of(mixed)
    assert not producer_interceptors_of(producer())


@pytest.mark.parametrize("named", [token, f"{HERE}.token", lambda: "secret"])
def test_tokens_come_from_a_callable(named: object) -> None:
    config = producer(
        security_protocol="SASL_SSL",
        sasl_mechanism="OAUTHBEARER",
        sasl_login_callback_handler_class=named,
    )
    assert token_callback_of(config)() == "secret"


def test_a_callback_that_cannot_be_called_is_a_config_error() -> None:
    config = producer(
        security_protocol="SASL_SSL",
        sasl_mechanism="OAUTHBEARER",
        sasl_login_callback_handler_class=f"{HERE}.SERVERS",
    )
    with pytest.raises(ConfigError, match="cannot be called: give a function"):
        token_callback_of(config)


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        ("strr", r"key\.serializer='strr' names nothing .*did you mean str\? It takes bytes, str,"),
        ("no.such.module", r"No module named 'no'"),
        (f"{HERE}.Absent", "has no attribute 'Absent'"),
        (Nothing, r"key\.serializer: .*Nothing has no method serialize"),
        (Nothing(), r"key\.serializer: .*Nothing has no method serialize"),
        (NeedsArguments, r"NeedsArguments could not be made .*give an object"),
        (int, r"builtins\.int has no method serialize"),
    ],
)
def test_a_name_that_stands_for_nothing_says_what_does(named: object, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        serializers_of(producer(key_serializer=named))


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        ("rangee", "did you mean range"),
        (
            ["range", "org.apache.kafka.clients.consumer.RangeAssignor"],
            "two assignors called 'range'",
        ),
        (Nothing, "has no method assign"),
        (type("Nameless", (Configured,), {"name": None}), "has no name"),
    ],
)
def test_an_assignor_that_cannot_be_used_is_a_config_error(named: object, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        assignors_of(consumer(partition_assignment_strategy=named))


def test_other_code_that_cannot_be_used_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"partitioner\.class: .*Nothing has no method partition"):
        partitioner_of(producer(partitioner_class=Nothing))
    with pytest.raises(ConfigError, match="has neither on_send nor on_acknowledgement"):
        producer_interceptors_of(producer(interceptor_classes=[Nothing]))
    with pytest.raises(ConfigError, match="has neither on_consume nor on_commit"):
        consumer_interceptors_of(consumer(interceptor_classes=Nothing()))


def test_each_client_gets_objects_of_its_own() -> None:
    config = producer(key_serializer="long", value_serializer=LongSerializer)
    first, second = serializers_of(config), serializers_of(config)
    assert first[0] is not second[0]
    assert first[1] is not second[1]
