"""confluent-kafka's own client and serializers, unchanged."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import any_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

import ottla
from ottla.schemas.compatibility.proto_parser import parse_proto

AVRO = '{"type":"record","name":"Order","fields":[{"name":"id","type":"string"}]}'
WITH_DEFAULT = (
    '{"type":"record","name":"Order","fields":[{"name":"id","type":"string"},'
    '{"name":"n","type":"int","default":0}]}'
)
WITHOUT_DEFAULT = WITH_DEFAULT.replace(',"default":0', "")
JSON = """
{"$schema": "http://json-schema.org/draft-07/schema#", "title": "Order", "type": "object",
 "properties": {"id": {"type": "string"}}, "required": ["id"], "additionalProperties": false}
"""


@pytest.fixture
def client(registry: ottla.SchemaRegistry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as running:
        yield running


@pytest.fixture
def topic() -> str:
    return f"orders-{uuid.uuid4().hex[:8]}"


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def test_avro_serializer_and_deserializer(client: SchemaRegistryClient, topic: str) -> None:
    data = AvroSerializer(client, AVRO)({"id": "one"}, context(topic))
    assert data is not None
    assert data[0] == 0
    assert AvroDeserializer(client)(data, context(topic)) == {"id": "one"}
    newer = AvroSerializer(client, WITH_DEFAULT)({"id": "two", "n": 2}, context(topic))
    assert AvroDeserializer(client, WITH_DEFAULT)(data, context(topic)) == {"id": "one", "n": 0}
    assert AvroDeserializer(client, AVRO)(newer, context(topic)) == {"id": "two"}


def test_avro_serializer_is_told_that_its_schema_is_incompatible(
    client: SchemaRegistryClient, topic: str
) -> None:
    AvroSerializer(client, AVRO)({"id": "one"}, context(topic))
    with pytest.raises(SchemaRegistryError, match="has no default value") as caught:
        AvroSerializer(client, WITHOUT_DEFAULT)({"id": "two", "n": 2}, context(topic))
    assert (caught.value.http_status_code, caught.value.error_code) == (409, 40901)


def test_json_serializer_and_deserializer(client: SchemaRegistryClient, topic: str) -> None:
    data = JSONSerializer(JSON, client)({"id": "one"}, context(topic))
    found = JSONDeserializer(JSON, schema_registry_client=client)(data, context(topic))
    assert found == {"id": "one"}


def message_classes() -> tuple[Any, Any]:
    """The messages of two files, as generated code has them."""
    pool = DescriptorPool()
    for name, text in (
        ("shop/item.proto", 'syntax = "proto3"; package shop; message Item { int32 n = 1; }'),
        (
            "shop/order.proto",
            'syntax = "proto3"; package shop; import "shop/item.proto"; import "google/protobuf/any.proto";'
            "message Order { string id = 1; repeated Item items = 2; google.protobuf.Any more = 3; }",
        ),
    ):
        parsed = parse_proto(text, name)
        if "google/protobuf/any.proto" in parsed.dependency:
            pool.AddSerializedFile(any_pb2.DESCRIPTOR.serialized_pb)
        pool.Add(parsed)
    return tuple(
        GetMessageClass(pool.FindMessageTypeByName(name)) for name in ("shop.Item", "shop.Order")
    )  # type: ignore[return-value]


def test_protobuf_serializer_and_deserializer(client: SchemaRegistryClient, topic: str) -> None:
    item_class, order_class = message_classes()
    configuration: dict[str, Any] = {"use.deprecated.format": False}
    order = order_class(id="one", items=[item_class(n=3)])
    data = ProtobufSerializer(order_class, client, configuration)(order, context(topic))
    found = ProtobufDeserializer(order_class, configuration, client)(data, context(topic))
    assert found == order
    registered = client.get_latest_version(f"{topic}-value").schema
    assert registered.schema_str is not None
    assert registered.references is not None
    assert "message Order {\n  string id = 1;\n  repeated Item items = 2;" in registered.schema_str
    assert [(each.name, each.subject) for each in registered.references] == [
        ("shop/item.proto", "shop/item.proto")
    ]
    assert client.get_latest_version("shop/item.proto").version == 1


def test_the_calls_of_the_client(client: SchemaRegistryClient, topic: str) -> None:
    subject = f"{topic}-value"
    first = client.register_schema(subject, Schema(AVRO, "AVRO"))
    second = client.register_schema(subject, Schema(WITH_DEFAULT, "AVRO"))
    assert second > first
    assert client.get_schema(first).schema_str == AVRO
    assert client.lookup_schema(subject, Schema(AVRO, "AVRO")).version == 1
    assert subject in client.get_subjects()
    assert client.get_versions(subject) == [1, 2]
    assert client.get_latest_version(subject).schema_id == second
    assert client.get_version(subject, 1).schema_id == first
    assert client.test_compatibility(subject, Schema(AVRO, "AVRO"))
    assert not client.test_compatibility(subject, Schema('"int"', "AVRO"))
    client.set_compatibility(subject, "NONE")
    assert client.get_compatibility(subject) == "NONE"
    assert client.test_compatibility(subject, Schema('"int"', "AVRO"))
    assert client.delete_version(subject, 1) == 1
    assert client.get_versions(subject) == [2]
    assert client.delete_subject(subject) == [2]
    assert client.delete_subject(subject, permanent=True) == [1, 2]
    with pytest.raises(SchemaRegistryError) as caught:
        client.get_versions(subject)
    assert caught.value.error_code == 40401


def test_avro_references(client: SchemaRegistryClient, topic: str) -> None:
    item = '{"type":"record","name":"Item","namespace":"shop","fields":[{"name":"n","type":"int"}]}'
    order = (
        '{"type":"record","name":"Order","namespace":"shop",'
        '"fields":[{"name":"items","type":{"type":"array","items":"shop.Item"}}]}'
    )
    client.register_schema(f"{topic}-item", Schema(item, "AVRO"))
    schema = Schema(order, "AVRO", [SchemaReference("shop.Item", f"{topic}-item", 1)])
    data = AvroSerializer(client, schema)({"items": [{"n": 1}]}, context(topic))
    assert AvroDeserializer(client)(data, context(topic)) == {"items": [{"n": 1}]}
    with pytest.raises(SchemaRegistryError) as caught:
        client.delete_version(f"{topic}-item", 1)
    assert caught.value.error_code == 42206
