"""Byte for byte the same as confluent-kafka's serializers, and readable both ways, through our registry and broker."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import SchemaRegistryClient as ConfluentClient
from confluent_kafka.schema_registry import header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer as ConfluentAvroDeserializer
from confluent_kafka.schema_registry.avro import AvroSerializer as ConfluentAvroSerializer
from confluent_kafka.schema_registry.json_schema import (
    JSONDeserializer as ConfluentJSONDeserializer,
)
from confluent_kafka.schema_registry.json_schema import JSONSerializer as ConfluentJSONSerializer
from confluent_kafka.schema_registry.protobuf import (
    ProtobufDeserializer as ConfluentProtobufDeserializer,
)
from confluent_kafka.schema_registry.protobuf import (
    ProtobufSerializer as ConfluentProtobufSerializer,
)
from confluent_kafka.serialization import MessageField, SerializationContext
from tests.schemas.fake_registry import FakeRegistry
from tests.schemas.shop import Address, Item, Label, Order, Parcel

import ottla
from ottla.schemas import (
    AvroDeserializer,
    AvroSerializer,
    IncompatibleSchemaError,
    JSONSchemaDeserializer,
    JSONSchemaSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    Schema,
    SchemaNotFoundError,
    SchemaRegistryClient,
    avro_schema,
    json_schema,
    protobuf_schema,
)
from ottla.schemas.derived.avro import avro_type
from ottla.schemas.derived.json_schema import json_type
from ottla.schemas.derived.protobuf import protobuf_type


class Servers(NamedTuple):
    """A broker, a registry, and a client of each kind for it."""

    broker: ottla.Broker
    ours: SchemaRegistryClient
    theirs: ConfluentClient


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker() as running:
        yield running


@pytest.fixture(scope="module")
def servers(broker: ottla.Broker) -> Iterator[Servers]:
    with (
        ottla.SchemaRegistry(bootstrap_servers=broker.bootstrap_servers) as registry,
        SchemaRegistryClient(schema_registry_url=registry.url) as ours,
        ConfluentClient({"url": registry.url}) as theirs,
    ):
        yield Servers(broker, ours, theirs)


def context(topic: str, is_key: bool = False) -> SerializationContext:
    return SerializationContext(topic, MessageField.KEY if is_key else MessageField.VALUE)


ORDER = Order(7, [Item("tea", Decimal("2.50"))], note="é", tables={"t": 4})
PARCEL = Parcel(number=3, to=Address(street="here"))
PROTOBUF: dict[str, Any] = {"use.deprecated.format": False}


class Pair(NamedTuple):
    """Our value and theirs, and what writes and reads them."""

    ours: Any
    theirs: Any
    our_serializer: Callable[[Servers], Any]
    our_deserializer: Callable[[Servers], Any]
    their_serializer: Callable[[Servers], Any]
    their_deserializer: Callable[[Servers], Any]


def order_message() -> Any:
    derived = protobuf_type(Order, None)
    message = derived.message()
    derived.to_message(ORDER, message)
    return message


PAIRS = {
    "avro": Pair(
        ORDER,
        avro_type(Order).to_plain(ORDER),
        lambda s: AvroSerializer(Order, registry=s.ours),
        lambda s: AvroDeserializer(Order, registry=s.ours),
        lambda s: ConfluentAvroSerializer(s.theirs, avro_schema(Order)),
        lambda s: ConfluentAvroDeserializer(s.theirs),
    ),
    "json": Pair(
        ORDER,
        json_type(Order).to_plain(ORDER),  # type: ignore[misc]
        lambda s: JSONSchemaSerializer(Order, registry=s.ours),
        lambda s: JSONSchemaDeserializer(Order, registry=s.ours),
        lambda s: ConfluentJSONSerializer(json_schema(Order), s.theirs),
        lambda s: ConfluentJSONDeserializer(None, schema_registry_client=s.theirs),
    ),
    "protobuf-dataclass": Pair(
        ORDER,
        order_message(),
        lambda s: ProtobufSerializer(Order, registry=s.ours),
        lambda s: ProtobufDeserializer(Order, registry=s.ours),
        lambda s: ConfluentProtobufSerializer(protobuf_schema(Order), s.theirs, PROTOBUF),
        lambda s: ConfluentProtobufDeserializer(protobuf_schema(Order), PROTOBUF, s.theirs),
    ),
    "protobuf-imports": Pair(
        PARCEL,
        PARCEL,
        lambda s: ProtobufSerializer(Parcel, registry=s.ours),
        lambda s: ProtobufDeserializer(Parcel, registry=s.ours),
        lambda s: ConfluentProtobufSerializer(Parcel, s.theirs, PROTOBUF),
        lambda s: ConfluentProtobufDeserializer(Parcel, PROTOBUF, s.theirs),
    ),
    "protobuf-nested": Pair(
        Label(text="x"),
        Label(text="x"),
        lambda s: ProtobufSerializer(Label, registry=s.ours),
        lambda s: ProtobufDeserializer(Label, registry=s.ours),
        lambda s: ConfluentProtobufSerializer(Label, s.theirs, PROTOBUF),
        lambda s: ConfluentProtobufDeserializer(Label, PROTOBUF, s.theirs),
    ),
}


class Case(NamedTuple):
    """A pair, its name, and the servers."""

    name: str
    pair: Pair
    servers: Servers


@pytest.fixture(params=list(PAIRS))
def case(request: pytest.FixtureRequest, servers: Servers) -> Case:
    return Case(request.param, PAIRS[request.param], servers)


def same(ours: Any, theirs: Any) -> bool:
    """Whether two values are one; messages of two classes are compared by their fields."""
    if hasattr(theirs, "ListFields"):
        return bool(ours.SerializeToString() == theirs.SerializeToString())
    return bool(ours == theirs)


def test_both_write_the_same_bytes_and_read_each_other_s(
    case: Case,
) -> None:
    name, pair, servers = case
    first, second = f"{name}-first", f"{name}-second"
    # The schema that one registers is the one that the other finds.
    theirs = pair.their_serializer(servers)(pair.theirs, context(first))
    ours = pair.our_serializer(servers).serialize(first, (), pair.ours)
    assert ours == theirs
    ours = pair.our_serializer(servers).serialize(second, (), pair.ours)
    assert ours == pair.their_serializer(servers)(pair.theirs, context(second))
    assert pair.our_deserializer(servers).deserialize(first, (), theirs) == pair.ours
    assert same(pair.their_deserializer(servers)(ours, context(second)), pair.theirs)
    latest = [servers.ours.get_latest_version(f"{topic}-value") for topic in (first, second)]
    assert [each.version for each in latest] == [1, 1]


def test_our_clients_and_confluent_s_read_each_other_s_records(
    case: Case,
) -> None:
    name, pair, servers = case
    topic, bootstrap = f"{name}-records", servers.broker.bootstrap_servers
    with ottla.Producer(
        bootstrap_servers=bootstrap, value_serializer=pair.our_serializer(servers)
    ) as producer:
        producer.send(topic, pair.ours).result(10)
    confluent = Producer({"bootstrap.servers": bootstrap})
    confluent.produce(topic, pair.their_serializer(servers)(pair.theirs, context(topic)))
    assert confluent.flush(10) == 0
    with ottla.Consumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        value_deserializer=pair.our_deserializer(servers),
    ) as consumer:
        consumer.assign([(topic, 0)])
        values = [next(iter(consumer)).value for _ in range(2)]
    assert values == [pair.ours] * 2
    reader = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": name, "auto.offset.reset": "earliest"}
    )
    reader.subscribe([topic])
    deserialize = pair.their_deserializer(servers)
    try:
        for _ in range(2):
            message = reader.poll(10)
            assert message is not None
            assert same(deserialize(message.value(), context(topic)), pair.theirs)
    finally:
        reader.close()


def test_a_guid_that_confluent_s_serializer_writes_into_a_header_is_read(
    registry: FakeRegistry,
) -> None:
    headers: Any = []
    where = SerializationContext("guids", MessageField.VALUE, headers)
    with ConfluentClient({"url": registry.url}) as theirs:
        serializer = ConfluentAvroSerializer(
            theirs,
            avro_schema(Order),
            conf={"schema.id.serializer": header_schema_id_serializer},
        )
        data = serializer(PAIRS["avro"].theirs, where)
    reader = AvroDeserializer(Order, registry=registry.url)
    assert reader.deserialize("guids", tuple(headers), data) == ORDER
    reader.close()


def test_the_whole_api_of_the_registry_s_client(servers: Servers) -> None:
    client = servers.ours
    schema = json.dumps({"type": "record", "name": "R", "fields": []})

    first = client.register_schema("api", Schema(schema))
    assert client.get_subjects("ap") == ["api"]
    assert client.get_schema_versions(first.id)[0].subject == "api"
    assert "AVRO" in client.get_schema_types()
    assert client.get_referenced_by("api", 1) == []
    wider = Schema('{"type":"record","name":"R","fields":[{"name":"x","type":"int"}]}')
    assert not client.test_compatibility("api", wider).is_compatible
    assert client.test_compatibility("api", wider).messages
    with pytest.raises(IncompatibleSchemaError):
        client.register_schema("api", wider)
    client.set_config({"compatibility": "NONE"}, "api")
    assert client.get_config("api")["compatibilityLevel"] == "NONE"
    assert client.register_schema("api", wider).id > first.id
    client.delete_config("api")
    client.set_mode("READONLY", "api")
    assert client.get_mode("api") == "READONLY"
    client.delete_mode("api")
    assert client.delete_version("api", 1) == 1
    assert client.get_versions("api") == [2]
    assert client.delete_subject("api", permanent=True)
    with pytest.raises(SchemaNotFoundError):
        client.get_versions("api", deleted=True)
