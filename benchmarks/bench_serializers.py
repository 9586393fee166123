"""How many microseconds of one core does a record with a schema take, beside confluent-kafka's serializers?

One order of eight fields and two items, through Avro, JSON Schema and Protobuf, with the schema cached: ours from and
to a dataclass, a pydantic model and (as confluent-kafka does) dicts or messages. Both check JSON against its schema, as
both do by default; pydantic checks models itself. What both write is the same, byte for byte.

Run: python benchmarks/bench_serializers.py > result.json
"""

import dataclasses
import json
import platform
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version as installed_version
from typing import Any

from confluent_kafka.schema_registry import Schema as PeerSchema
from confluent_kafka.schema_registry import SchemaRegistryClient as PeerClient
from confluent_kafka.schema_registry.avro import AvroDeserializer as PeerAvroDeserializer
from confluent_kafka.schema_registry.avro import AvroSerializer as PeerAvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer as PeerJSONDeserializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer as PeerJSONSerializer
from confluent_kafka.schema_registry.protobuf import (
    ProtobufDeserializer as PeerProtobufDeserializer,
)
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer as PeerProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pydantic import BaseModel

import ottla
from ottla.schemas import (
    AvroDeserializer,
    AvroSerializer,
    JSONSchemaDeserializer,
    JSONSchemaSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    SchemaRegistryClient,
    avro_schema,
    json_schema,
    protobuf_schema,
)
from ottla.schemas.derived.protobuf import protobuf_type

TOPIC = "orders"
BATCH = 500
BATCHES = 20


@dataclass
class Item:
    name: str
    count: int
    price: float


@dataclass
class Order:
    id: int
    table: str
    waiter: str
    paid: bool
    total: float
    ordered_at: datetime
    items: list[Item]
    note: str | None = None


class ItemModel(BaseModel):
    name: str
    count: int
    price: float


class OrderModel(BaseModel):
    id: int
    table: str
    waiter: str
    paid: bool
    total: float
    ordered_at: datetime
    items: list[ItemModel]
    note: str | None = None


ORDER = Order(
    id=7_000_000,
    table="t4",
    waiter="Ada",
    paid=True,
    total=12.5,
    ordered_at=datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
    items=[Item("tea", 2, 3.5), Item("cake", 1, 5.5)],
)
PLAIN: dict[str, Any] = dataclasses.asdict(ORDER)
JSON_PLAIN = {**PLAIN, "ordered_at": ORDER.ordered_at.isoformat()}
MODEL = OrderModel(**PLAIN)


def microseconds(call: Callable[[], object]) -> float:
    """Of CPU for one call: the best of some batches."""
    best = float("inf")
    for _ in range(BATCHES):
        begin = time.process_time()
        for _ in range(BATCH):
            call()
        best = min(best, time.process_time() - begin)
    return round(best / BATCH * 1e6, 2)


def our_times(serializer: Any, deserializer: Any, value: object) -> dict[str, float]:
    data = serializer.serialize(TOPIC, (), value)
    assert deserializer.deserialize(TOPIC, (), data) == value
    return {
        "serialize": microseconds(lambda: serializer.serialize(TOPIC, (), value)),
        "deserialize": microseconds(lambda: deserializer.deserialize(TOPIC, (), data)),
        "bytes": len(data),
    }


def peer_times(serializer: Any, deserializer: Any, value: object) -> dict[str, float]:
    context = SerializationContext(TOPIC, MessageField.VALUE)
    data = serializer(value, context)
    assert deserializer(data, context) == value
    return {
        "serialize": microseconds(lambda: serializer(value, context)),
        "deserialize": microseconds(lambda: deserializer(data, context)),
        "bytes": len(data),
    }


def one_subject(name: str) -> dict[str, Any]:
    """The option that puts all schemas under one subject."""
    return {"subject_name_strategy": lambda *_: name}


def avro_results(ours: SchemaRegistryClient, peers: PeerClient) -> dict[str, Any]:
    text = avro_schema(Order)
    return {
        "ottla, dataclass": our_times(
            AvroSerializer(Order, registry=ours), AvroDeserializer(Order, registry=ours), ORDER
        ),
        "ottla, pydantic": our_times(
            AvroSerializer(OrderModel, registry=ours, subject_name_strategy="record"),
            AvroDeserializer(OrderModel, registry=ours),
            MODEL,
        ),
        "ottla, dict": our_times(
            AvroSerializer(text, registry=ours), AvroDeserializer(registry=ours), PLAIN
        ),
        "confluent-kafka, dict": peer_times(
            PeerAvroSerializer(peers, text), PeerAvroDeserializer(peers), PLAIN
        ),
    }


def json_results(ours: SchemaRegistryClient, peers: PeerClient) -> dict[str, Any]:
    text, other = json_schema(Order), one_subject("orders-json")
    peer_options = {"subject.name.strategy": lambda *_: "orders-json"}
    peer_schema = PeerSchema(text, "JSON")
    return {
        "ottla, dataclass": our_times(
            JSONSchemaSerializer(Order, registry=ours, **other),
            JSONSchemaDeserializer(Order, registry=ours),
            ORDER,
        ),
        "ottla, pydantic": our_times(
            JSONSchemaSerializer(OrderModel, registry=ours, subject_name_strategy="topic_record"),
            JSONSchemaDeserializer(OrderModel, registry=ours),
            MODEL,
        ),
        "ottla, dict": our_times(
            JSONSchemaSerializer(text, registry=ours, **other),
            JSONSchemaDeserializer(registry=ours),
            JSON_PLAIN,
        ),
        "confluent-kafka, dict": peer_times(
            PeerJSONSerializer(text, peers, conf=peer_options),
            PeerJSONDeserializer(peer_schema, schema_registry_client=peers),
            JSON_PLAIN,
        ),
    }


def protobuf_results(ours: SchemaRegistryClient, peers: PeerClient) -> dict[str, Any]:
    kind: Any = protobuf_schema(Order)
    other = one_subject("orders-proto")
    message = kind()
    protobuf_type(Order, None).to_message(ORDER, message)
    peer_options = {"subject.name.strategy": lambda *_: "orders-proto"}
    return {
        "ottla, dataclass": our_times(
            ProtobufSerializer(Order, registry=ours, **other),
            ProtobufDeserializer(Order, registry=ours),
            ORDER,
        ),
        "ottla, message": our_times(
            ProtobufSerializer(kind, registry=ours, **other),
            ProtobufDeserializer(kind, registry=ours),
            message,
        ),
        "confluent-kafka, message": peer_times(
            PeerProtobufSerializer(kind, peers, peer_options),
            PeerProtobufDeserializer(kind, schema_registry_client=peers),
            message,
        ),
    }


def commit() -> str:
    """The commit that was measured, or unknown outside of a repository."""
    try:
        return subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def main() -> None:
    with (
        ottla.Broker() as broker,
        ottla.SchemaRegistry(bootstrap_servers=broker.bootstrap_servers) as registry,
        SchemaRegistryClient(schema_registry_url=registry.url) as ours,
        PeerClient({"url": registry.url}) as peers,
    ):
        results = {
            "Avro": avro_results(ours, peers),
            "JSON Schema": json_results(ours, peers),
            "Protobuf": protobuf_results(ours, peers),
        }
    result = {
        "question": "microseconds of CPU for one record with a cached schema, best batch",
        "machine": f"{platform.machine()} {platform.system()} Python {platform.python_version()}",
        "commit": commit(),
        "peers": {
            name: installed_version(name) for name in ("confluent-kafka", "fastavro", "protobuf")
        },
        "results": results,
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
