"""The serializers' options, evolution, and what happens to records that cannot be read."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from tests.schemas.fake_registry import FakeRegistry
from tests.schemas.shop import (
    Address,
    Item,
    Label,
    NarrowReceipt,
    NewReceipt,
    Order,
    Parcel,
    Payment,
    Receipt,
)

import ottla
import ottla.aio
from ottla.client.plugins.serializers import LookupPending
from ottla.errors import ConfigError, DeserializationError, RetriableError, SerializationError
from ottla.schemas import (
    NOT_CACHED,
    AsyncSchemaRegistryClient,
    AvroDeserializer,
    AvroSerializer,
    IncompatibleSchemaError,
    JSONSchemaDeserializer,
    JSONSchemaSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    RegistryUnavailableError,
    Schema,
    SchemaNotFoundError,
    SchemaReference,
    SchemaRegistryClient,
    SchemaType,
    avro_schema,
    codec_for,
)

QUICK: dict[str, Any] = {"max_retries": 1, "retries_wait_ms": 1}


@pytest.fixture
def client(registry: FakeRegistry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient(schema_registry_url=registry.url, **QUICK) as made:
        yield made


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker() as running:
        yield running


# Subjects and schemas


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        ("topic", "orders-value"),
        ("record", "com.shop.Receipt"),
        ("topic_record", "orders-com.shop.Receipt"),
        (
            "io.confluent.kafka.serializers.subject.TopicRecordNameStrategy",
            "orders-com.shop.Receipt",
        ),
        (lambda topic, is_key, name: f"{topic}/{is_key}/{name}", "orders/False/com.shop.Receipt"),
    ],
)
def test_the_strategy_names_the_subject(
    registry: FakeRegistry, client: SchemaRegistryClient, strategy: object, subject: str
) -> None:
    serializer = AvroSerializer(
        Receipt, registry=client, namespace="com.shop", subject_name_strategy=strategy
    )
    serializer.serialize("orders", (), Receipt(1, 2))
    assert list(registry.subjects) == [subject]


def test_keys_and_values_have_subjects_of_their_own(
    registry: FakeRegistry, client: SchemaRegistryClient
) -> None:
    key, value = AvroSerializer(Item, registry=client), AvroSerializer(Receipt, registry=client)
    key.configure({}, is_key=True)
    value.configure({}, is_key=False)
    value.serialize("orders", (), Receipt(1, 2))
    key.serialize("orders", (), Item("tea", Decimal(1)))
    assert list(registry.subjects) == ["orders-value", "orders-key"]
    with pytest.raises(ConfigError, match="give each its own"):
        key.configure({}, is_key=False)


def test_without_auto_register_an_unknown_schema_is_an_error(
    registry: FakeRegistry, client: SchemaRegistryClient
) -> None:
    serializer = AvroSerializer(Receipt, registry=client, auto_register_schemas=False)
    with pytest.raises(SchemaNotFoundError):
        serializer.serialize("orders", (), Receipt(1, 2))
    client.register_schema("orders-value", Schema(avro_schema(Receipt)))
    data = serializer.serialize("orders", (), Receipt(1, 2))
    assert data is not None
    assert data[:5] == b"\x00\x00\x00\x00\x01"


def test_the_latest_version_is_written_if_it_can_read_the_program_s_schema(
    client: SchemaRegistryClient,
) -> None:
    wider = json.loads(avro_schema(Receipt))
    wider["fields"].append({"name": "table", "type": "long", "default": 3})
    client.register_schema("orders-value", Schema(json.dumps(wider)))
    serializer = AvroSerializer(Receipt, registry=client, use_latest_version=True)
    data = serializer.serialize("orders", (), Receipt(1, 2))
    assert AvroDeserializer(registry=client).deserialize("orders", (), data) == {
        "id": 1,
        "gratuity": 2,
        "waiter": "Ada",
        "table": 3,
    }


def test_a_latest_version_that_cannot_read_the_program_s_schema_is_refused(
    client: SchemaRegistryClient,
) -> None:
    stricter = json.loads(avro_schema(Receipt))
    stricter["fields"].append({"name": "table", "type": "long"})
    client.register_schema("orders-value", Schema(json.dumps(stricter)))
    serializer = AvroSerializer(Receipt, registry=client, use_latest_version=True)
    with pytest.raises(SerializationError, match=r"latest\.compatibility\.strict"):
        serializer.serialize("orders", (), Receipt(1, 2))
    lenient = AvroSerializer(
        registry=client, use_latest_version=True, latest_compatibility_strict=False
    )
    with pytest.raises(SerializationError, match="does not fit its schema"):
        lenient.serialize("orders", (), Receipt(1, 2))


def test_a_new_latest_version_is_used_when_the_cached_one_is_too_old(
    registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(
        "ottla.schemas.serializers.schema_serializer.time.monotonic", lambda: now[0]
    )
    client = SchemaRegistryClient(url=registry.url, latest_cache_ttl_sec=0)
    text = Schema('"string"')
    client.register_schema("orders-value", text)
    serializer = AvroSerializer(text, registry=client, use_latest_version=True)
    assert serializer.serialize("orders", (), "tea") == b"\x00\x00\x00\x00\x01\x06tea"
    client.register_schema("orders-value", Schema('{"type":"string","doc":"x"}'))
    assert serializer.serialize("orders", (), "tea") == b"\x00\x00\x00\x00\x01\x06tea"
    now[0] = 60.0
    assert serializer.serialize("orders", (), "tea") == b"\x00\x00\x00\x00\x02\x06tea"
    client.close()


def test_a_schema_can_be_chosen_by_its_id(client: SchemaRegistryClient) -> None:
    client.register_schema("other", Schema('"long"'))
    chosen = client.register_schema("other", Schema('"string"')).id
    serializer = AvroSerializer('"string"', registry=client, use_schema_id=chosen)
    assert serializer.serialize("orders", (), "tea") == b"\x00\x00\x00\x00\x02\x06tea"


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"use.latest.version": True, "auto.register.schemas": True}, "set auto.register.schemas"),
        ({"use.schema.id": 1, "use.latest.version": True}, "remove one"),
        ({"auto.register.schema": True}, "did you mean auto.register.schemas"),
        ({"subject.name.strategy": "topics"}, "names nothing that can be found"),
        ({"schema.registry.url": "http://a"}, "give it to the client"),
    ],
)
def test_a_mistake_in_the_options_says_what_to_change(
    client: SchemaRegistryClient, options: dict[str, Any], match: str
) -> None:
    with pytest.raises(ConfigError, match=match):
        AvroSerializer(Receipt, registry=client, config=options)


def test_values_without_a_class_are_their_own_schema(
    registry: FakeRegistry, client: SchemaRegistryClient
) -> None:
    serializer = AvroSerializer(registry=client, subject_name_strategy="record")
    first = serializer.serialize("mixed", (), Receipt(1, 2))
    second = serializer.serialize("mixed", (), Payment(3))
    assert sorted(registry.subjects) == ["Payment", "Receipt"]
    assert AvroDeserializer(Receipt, registry=client).deserialize("mixed", (), first) == Receipt(
        1, 2
    )
    assert AvroDeserializer(Payment, registry=client).deserialize("mixed", (), second) == Payment(3)
    with pytest.raises(SerializationError, match="give AvroSerializer a schema"):
        serializer.serialize("mixed", (), {"id": 1})


def test_avro_references_are_resolved(client: SchemaRegistryClient) -> None:
    client.register_schema("item", Schema('{"type":"enum","name":"Size","symbols":["S","L"]}'))
    text = '{"type":"record","name":"Cup","fields":[{"name":"size","type":"Size"}]}'
    cup = Schema(text, references=(SchemaReference("Size", "item", 1),))
    data = AvroSerializer(cup, registry=client).serialize("cups", (), {"size": "L"})
    assert AvroDeserializer(registry=client).deserialize("cups", (), data) == {"size": "L"}


def test_json_references_are_resolved(client: SchemaRegistryClient) -> None:
    client.register_schema("size", Schema('{"enum":["S","L"]}', SchemaType.JSON))
    text = '{"type":"object","properties":{"size":{"$ref":"size.json"}}}'
    cup = Schema(text, SchemaType.JSON, (SchemaReference("size.json", "size", 1),))
    serializer = JSONSchemaSerializer(cup, registry=client)
    data = serializer.serialize("cups", (), {"size": "L"})
    assert JSONSchemaDeserializer(registry=client).deserialize("cups", (), data) == {"size": "L"}
    with pytest.raises(SerializationError, match=r"\$\.size: 'XL' is not one of"):
        serializer.serialize("cups", (), {"size": "XL"})


def test_imported_protobuf_files_are_registered_first(
    registry: FakeRegistry, client: SchemaRegistryClient
) -> None:
    parcel = Parcel(number=1, to=Address(street="here"))
    data = ProtobufSerializer(Parcel, registry=client).serialize("parcels", (), parcel)
    assert data is not None
    assert list(registry.subjects) == ["shop/address.proto", "parcels-value"]
    assert data[5:7] == b"\x02\x02"
    assert registry.schemas[1]["references"] == [
        {"name": "shop/address.proto", "subject": "shop/address.proto", "version": 1}
    ]
    assert ProtobufDeserializer(Parcel, registry=client).deserialize("p", (), data) == parcel
    found = ProtobufDeserializer(registry=client).deserialize("p", (), data)
    assert found is not None
    assert found.to.street == "here"
    assert ProtobufDeserializer(dict, registry=client).deserialize("p", (), data) == {
        "number": "1",
        "to": {"street": "here"},
    }


def test_a_registry_that_gives_the_text_of_proto_files_is_understood(
    registry: FakeRegistry, client: SchemaRegistryClient
) -> None:
    parcel = Parcel(number=1, to=Address(street="here"))
    data = ProtobufSerializer(Parcel, registry=client).serialize("parcels", (), parcel)
    registry.schemas[0]["schema"] = (
        'syntax = "proto3"; package shop; message Address { string street = 1; }'
    )
    registry.schemas[1]["schema"] = (
        'syntax = "proto3"; package shop; import "shop/address.proto"; message Unused {} '
        "message Parcel { int64 number = 1; Address to = 2; message Label { string text = 1; } }"
    )
    with SchemaRegistryClient(url=registry.url) as fresh:
        assert ProtobufDeserializer(Parcel, registry=fresh).deserialize("p", (), data) == parcel
        found = ProtobufDeserializer(registry=fresh).deserialize("p", (), data)
    assert found is not None
    assert found.to.street == "here"


def test_protobuf_takes_the_latest_version_if_it_can_read_the_program_s(
    client: SchemaRegistryClient,
) -> None:
    parcel = Parcel(number=1, to=Address(street="here"))
    first = ProtobufSerializer(Parcel, registry=client).serialize("parcels", (), parcel)
    latest = ProtobufSerializer(Parcel, registry=client, use_latest_version=True)
    assert latest.serialize("parcels", (), parcel) == first
    text = 'syntax = "proto3"; package shop; message Parcel { string number = 1; }'
    client.register_schema("parcels-value", Schema(text, SchemaType.PROTOBUF))
    with SchemaRegistryClient(schema_registry_url=client.addresses[0]) as fresh:
        stricter = ProtobufSerializer(Parcel, registry=fresh, use_latest_version=True)
        with pytest.raises(SerializationError, match=r"latest\.compatibility\.strict"):
            stricter.serialize("parcels", (), parcel)


def test_another_message_of_the_file_is_not_read_as_the_class(client: SchemaRegistryClient) -> None:
    data = ProtobufSerializer(Label, registry=client).serialize("parcels", (), Label(text="x"))
    assert data is not None
    assert data[5:8] == b"\x04\x02\x00"
    with pytest.raises(DeserializationError, match=r"is a shop\.Parcel\.Label, where shop\.Parcel"):
        ProtobufDeserializer(Parcel, registry=client).deserialize("parcels", (), data)


# Evolution


def test_avro_reads_an_older_version_into_the_class(client: SchemaRegistryClient) -> None:
    data = AvroSerializer(Receipt, registry=client).serialize("r", (), Receipt(1, 2))
    found = AvroDeserializer(NewReceipt, registry=client).deserialize("r", (), data)
    assert found == NewReceipt(1, 2, "EUR")


def test_a_version_that_lacks_a_field_without_default_is_refused(
    client: SchemaRegistryClient,
) -> None:
    data = AvroSerializer(NewReceipt, registry=client).serialize("r", (), NewReceipt(1, 2))
    with pytest.raises(DeserializationError, match="gratuity"):
        AvroDeserializer(Receipt, registry=client).deserialize("r", (), data)


@pytest.mark.parametrize("format", ["json", "protobuf"])
def test_fields_that_a_class_lacks_are_left_out_and_missing_ones_get_its_defaults(
    client: SchemaRegistryClient, format: Any
) -> None:
    async def main() -> None:
        data = await codec_for(Receipt, format, registry=client).encode("r", False, Receipt(1, 2))
        reader = codec_for(NarrowReceipt, format, registry=client)
        assert await reader.decode("r", False, data) == NarrowReceipt(1, "none")

    asyncio.run(main())


def test_the_latest_version_can_be_the_reader_s_schema(client: SchemaRegistryClient) -> None:
    data = AvroSerializer(Receipt, registry=client).serialize("r", (), Receipt(1, 2))
    client.register_schema("r-value", Schema(avro_schema(NewReceipt)))
    reader = AvroDeserializer(registry=client, use_latest_version=True)
    assert reader.deserialize("r", (), data) == {"id": 1, "tip": 2, "currency": "EUR"}


# Records that cannot be read, and values that cannot be written


READERS: list[Callable[..., Any]] = [
    lambda client: AvroDeserializer(Receipt, registry=client),
    lambda client: JSONSchemaDeserializer(Receipt, registry=client),
    lambda client: ProtobufDeserializer(Receipt, registry=client),
]
WRITERS: list[Callable[..., Any]] = [
    lambda client: AvroSerializer(Receipt, registry=client),
    lambda client: JSONSchemaSerializer(Receipt, registry=client),
    lambda client: ProtobufSerializer(Receipt, registry=client),
]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"plain text", "was not written by a schema serializer"),
        (b"\x00", "1 bytes"),
        (b"\x00\x00\x00\x00\x63x", "does not know schema 99"),
    ],
)
def test_what_is_no_record_of_the_registry_is_a_deserialization_error(
    client: SchemaRegistryClient, reader: Any, data: bytes, match: str
) -> None:
    with pytest.raises(DeserializationError, match=match):
        reader(client).deserialize("r", (), data)


@pytest.mark.parametrize(("writer", "reader"), list(zip(WRITERS, READERS, strict=True)))
def test_a_truncated_record_is_a_deserialization_error(
    client: SchemaRegistryClient, writer: Any, reader: Any
) -> None:
    data = writer(client).serialize("r", (), Receipt(1, 2, "Grace"))
    deserializer = reader(client)
    assert deserializer.deserialize("r", (), data) == Receipt(1, 2, "Grace")
    for at in range(5, len(data)):
        try:
            found = deserializer.deserialize("r", (), data[:at])
        except DeserializationError:
            continue
        assert isinstance(reader(client), ProtobufDeserializer), (at, found)


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize(
    "value",
    [
        Receipt("one", 2),  # type: ignore[arg-type]
        Receipt(1.5, 2),  # type: ignore[arg-type]
        Receipt(1 << 70, 2),
        Receipt(1, None),  # type: ignore[arg-type]
        Receipt(1, 2, 3),  # type: ignore[arg-type]
        7,
    ],
)
def test_a_value_that_does_not_fit_is_a_serialization_error(
    client: SchemaRegistryClient, writer: Any, value: object
) -> None:
    if value == Receipt(1 << 70, 2) and isinstance(writer(client), JSONSchemaSerializer):
        assert str(1 << 70).encode() in writer(client).serialize("r", (), value)
        return  # JSON's numbers have no limit
    with pytest.raises(SerializationError):
        writer(client).serialize("r", (), value)


def test_a_record_of_another_format_says_which_deserializer_it_is_for(
    client: SchemaRegistryClient,
) -> None:
    data = JSONSchemaSerializer(Receipt, registry=client).serialize("r", (), Receipt(1, 2))
    with pytest.raises(DeserializationError, match="of type JSON, where AvroDeserializer"):
        AvroDeserializer(registry=client).deserialize("r", (), data)


def test_an_unknown_id_is_asked_for_once_in_a_while(
    registry: FakeRegistry, client: SchemaRegistryClient
) -> None:
    reader = AvroDeserializer(registry=client)
    for _ in range(3):
        with pytest.raises(DeserializationError, match="schema 99"):
            reader.deserialize("r", (), b"\x00\x00\x00\x00\x63x")
    assert len(registry.requests) == 1


def test_a_registry_that_is_away_is_no_fault_of_the_record(
    registry: FakeRegistry, client: SchemaRegistryClient
) -> None:
    registry.failures = [(503, {"error_code": 50003, "message": "no leader"})] * 4
    with pytest.raises(RegistryUnavailableError):
        AvroSerializer(Receipt, registry=client).serialize("r", (), Receipt(1, 2))
    with pytest.raises(RegistryUnavailableError):
        AvroDeserializer(registry=client).deserialize("r", (), b"\x00\x00\x00\x00\x01x")


# Through the clients


def test_a_blocking_producer_and_consumer_take_them_as_plugins(
    broker: ottla.Broker, client: SchemaRegistryClient
) -> None:
    with ottla.Producer(
        bootstrap_servers=broker.bootstrap_servers,
        key_serializer=AvroSerializer('"string"', registry=client),
        value_serializer=AvroSerializer(Order, registry=client),
    ) as producer:
        producer.send("blocking", Order(1), key="t1").result(10)
        producer.send_many("blocking", [Order(2), Order(3)]).result(10)
    with ottla.Consumer(
        bootstrap_servers=broker.bootstrap_servers,
        auto_offset_reset="earliest",
        key_deserializer=AvroDeserializer(registry=client),
        value_deserializer=AvroDeserializer(Order, registry=client),
    ) as consumer:
        consumer.assign([("blocking", 0)])
        records = [next(iter(consumer)) for _ in range(3)]
    assert [record.value for record in records] == [Order(1), Order(2), Order(3)]
    assert records[0].key == "t1"


@pytest.mark.parametrize("kind", [SchemaRegistryClient, AsyncSchemaRegistryClient])
def test_the_asyncio_clients_never_wait_for_the_registry_on_the_loop(
    broker: ottla.Broker, registry: FakeRegistry, kind: Any
) -> None:
    topic = f"aio-{kind.__name__}"

    async def main() -> None:
        client = kind(url=registry.url)
        serializer = AvroSerializer(Order, registry=client)
        async with ottla.aio.Producer(
            bootstrap_servers=broker.bootstrap_servers, value_serializer=serializer
        ) as producer:
            # The registry answers only when the loop has gone on meanwhile.
            registry.lock.acquire()
            sending = asyncio.create_task(producer.send(topic, Order(1)))
            many = asyncio.create_task(producer.send_many(topic, [Order(2)]))
            await asyncio.sleep(0.05)
            assert not sending.done()
            registry.lock.release()
            await (await sending)
            await many
        async with ottla.aio.Consumer(
            bootstrap_servers=broker.bootstrap_servers,
            auto_offset_reset="earliest",
            value_deserializer=AvroDeserializer(Order, registry=client),
        ) as consumer:
            consumer.assign([(topic, 0)])
            found = [record.value async for record in _first(consumer, 2)]
        assert sorted(order.id for order in found if order is not None) == [1, 2]
        if isinstance(client, AsyncSchemaRegistryClient):
            await client.aclose()
        else:
            client.close()

    asyncio.run(main())
    assert len([each for each in registry.requests if each[0] == "POST"]) == 1


async def _first(consumer: Any, count: int) -> Any:
    seen = 0
    async for record in consumer:
        yield record
        seen += 1
        if seen == count:
            return


def test_a_blocking_producer_may_be_used_where_a_loop_runs(
    broker: ottla.Broker, client: SchemaRegistryClient
) -> None:
    async def main() -> None:
        with ottla.Producer(
            bootstrap_servers=broker.bootstrap_servers,
            value_serializer=AvroSerializer(Order, registry=client),
        ) as producer:
            producer.send("notebook", Order(1))

    asyncio.run(main())


def test_a_serializer_that_is_called_on_a_loop_says_what_to_await(
    client: SchemaRegistryClient,
) -> None:
    async def main() -> None:
        serializer = AvroSerializer(Order, registry=client)
        with pytest.raises(LookupPending, match=r"await serializer\.prepare"):
            serializer.serialize("orders", (), Order(1))
        await serializer.prepare("orders")
        assert serializer.serialize("orders", (), Order(1)) is not None

    asyncio.run(main())


def test_calls_at_once_ask_the_registry_once(
    registry: FakeRegistry, client: SchemaRegistryClient
) -> None:
    async def main() -> None:
        codec = codec_for(Order, registry=client)
        assert codec.try_encode("orders", False, Order(1)) is NOT_CACHED
        written = await asyncio.gather(*(codec.encode("orders", False, Order(n)) for n in range(9)))
        read = await asyncio.gather(*(codec.decode("orders", False, data) for data in written))
        assert [order.id for order in read if order is not None] == list(range(9))

    asyncio.run(main())
    assert len(registry.requests) == 2


def test_a_consumer_says_which_record_cannot_be_read_and_goes_on_behind_it(
    broker: ottla.Broker, registry: FakeRegistry, client: SchemaRegistryClient
) -> None:
    good = AvroSerializer(Order, registry=client).serialize("poison", (), Order(1))
    with ottla.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for value in (good, b"\x00\x00\x00\x00\x63x", good):
            producer.send("poison", value)
    with ottla.Consumer(
        bootstrap_servers=broker.bootstrap_servers,
        auto_offset_reset="earliest",
        value_deserializer=AvroDeserializer(Order, registry=client),
    ) as consumer:
        consumer.assign([("poison", 0)])
        assert next(iter(consumer)).value == Order(1)
        with pytest.raises(DeserializationError, match="does not know schema 99") as caught:
            next(iter(consumer))
        assert (caught.value.partition, caught.value.offset) == (("poison", 0), 1)
        consumer.seek(("poison", 0), 2)
        assert next(iter(consumer)).value == Order(1)


def test_a_consumer_goes_on_when_the_registry_is_back(
    broker: ottla.Broker, registry: FakeRegistry, client: SchemaRegistryClient
) -> None:
    with ottla.Producer(
        bootstrap_servers=broker.bootstrap_servers,
        value_serializer=AvroSerializer(Order, registry=client),
    ) as producer:
        producer.send("away", Order(1))
    with ottla.Consumer(
        bootstrap_servers=broker.bootstrap_servers,
        auto_offset_reset="earliest",
        value_deserializer=AvroDeserializer(Order, registry={"url": registry.url, **QUICK}),
    ) as consumer:
        consumer.assign([("away", 0)])
        registry.failures = [(503, {"error_code": 50003, "message": "no leader"})] * 2
        with pytest.raises(RetriableError, match="no leader"):
            next(iter(consumer))
        assert next(iter(consumer)).value == Order(1)


def test_a_producer_tells_the_registry_s_refusal(
    broker: ottla.Broker, registry: FakeRegistry, client: SchemaRegistryClient
) -> None:
    registry.failures = [(409, {"error_code": 409, "message": "incompatible"})]
    with (
        ottla.Producer(
            bootstrap_servers=broker.bootstrap_servers,
            value_serializer=AvroSerializer(Order, registry=client),
        ) as producer,
        pytest.raises(IncompatibleSchemaError, match="incompatible"),
    ):
        producer.send("refused", Order(1))


def test_many_threads_share_a_serializer(client: SchemaRegistryClient) -> None:
    serializer, results = AvroSerializer(Order, registry=client), list[bytes | None]()

    def write(number: int) -> None:
        results.append(serializer.serialize("orders", (), Order(number)))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reader = AvroDeserializer(Order, registry=client)
    found = [reader.deserialize("orders", (), data) for data in results]
    assert sorted(order.id for order in found if order is not None) == list(range(8))


@pytest.mark.parametrize("writer", WRITERS)
def test_a_class_is_written_with_the_types_that_it_declares(
    client: SchemaRegistryClient, writer: Any
) -> None:
    kind = type(writer(client))
    wrong: list[dict[str, Any]] = [
        {"paid": "no"},
        {"discount": "1"},
        {"note": b"x"},
        {"due": datetime(2026, 1, 1, tzinfo=UTC)},
        {"ticket": "x"},
        {"tables": {1: 2}},
        {"items": "tea"},
        {"items": [Item("tea", 1.5)]},  # type: ignore[arg-type]
        {"kind": "there"},
        {"tags": [1]},
        {"scan": "text"},
        {"follow_up": Receipt(1, 2)},
    ]
    serializer = kind(Order, registry=client)
    serializer.serialize("typed", (), Order(1))
    for fields in wrong:
        with pytest.raises(SerializationError):
            serializer.serialize("typed", (), Order(1, **fields))


def test_json_of_other_types_is_not_made_into_the_class(client: SchemaRegistryClient) -> None:
    anything = JSONSchemaSerializer("{}", registry=client)
    reader = JSONSchemaDeserializer(Order, registry=client)
    wrong: list[Any] = [
        {"id": "1"},
        {"id": True},
        {"id": 1.5},
        {"id": 1, "paid": 1},
        {"id": 1, "items": {"name": "tea"}},
        {"id": 1, "tags": "abc"},
        {"id": 1, "tables": [1]},
        {"id": 1, "tables": {"a": "b"}},
        {"id": 1, "discount": "1.5"},
        {"id": 1, "kind": "there"},
        {"id": 1, "items": [{"name": "tea", "price": 1.5}]},
        {"items": []},
        [],
        "x",
    ]
    for value in wrong:
        data = anything.serialize("j", (), value)
        with pytest.raises(DeserializationError):
            reader.deserialize("j", (), data)
    data = anything.serialize("j", (), {"id": 1.0, "discount": 2, "new": []})
    assert reader.deserialize("j", (), data) == Order(1, discount=2.0)
