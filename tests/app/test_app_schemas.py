"""Listeners and the template with a schema registry."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import BaseModel

import ottla
from ottla.app import App, Key, To
from ottla.errors import ConfigError
from ottla.schemas import RegistryUnavailableError, SchemaRegistryClient


@dataclass
class Order:
    table: int
    items: list[str]


class Invoice(BaseModel):
    table: int
    total: float


def test_a_dataclass_and_a_model_are_their_own_schemas() -> None:
    app = App("billing", schema_registry="http://127.0.0.1:1")
    app.schema(Invoice, "json")
    seen: list[object] = []

    @app.listener("orders")
    async def bill(order: Order, key: Key[str]) -> Annotated[Invoice, To("invoices")]:
        seen.append((order, key))
        return Invoice(table=order.table, total=2.5)

    @app.listener("invoices", batch=True)
    def show(invoices: list[Invoice]) -> None:
        seen.extend(invoices)

    for _ in range(2):  # an app can be started again
        with app.test() as t:
            t.blocking.send("orders", Order(4, ["tea"]), key="t4")
            t.blocking.settled()
            assert t.records("orders")[0].value[:1] == b"\x00"  # type: ignore[index]
            assert t.sent("invoices") == [Invoice(table=4, total=2.5)]
            # A test has a registry of its own.
            assert t.registry is not None
            with SchemaRegistryClient(url=t.registry.url) as client:
                assert set(client.get_subjects()) == {"orders-value", "invoices-value"}
    assert seen == [(Order(4, ["tea"]), "t4"), Invoice(table=4, total=2.5)] * 2


def test_a_value_without_a_schema_is_unreadable() -> None:
    app = App(
        "billing", {"schema.registry.url": "http://127.0.0.1:1", "auto.register.schemas": True}
    )

    @app.listener("orders", dead_letters=True, retry=None, errors={Exception: "dead-letter"})
    async def bill(order: Order) -> None: ...

    with app.test() as t:
        t.blocking.send("orders", b'{"table": 4, "items": []}')
        t.blocking.settled()
        [failure] = t.failures
        assert "orders-0 at offset 0" in str(failure.error)


def test_a_registry_that_is_down_is_no_fault_of_the_value() -> None:
    options = {"schema.registry.url": "http://127.0.0.1:1", "max.retries": 0}

    async def main() -> None:
        with ottla.Broker() as broker:
            servers = broker.bootstrap_servers
            async with App("billing", bootstrap_servers=servers, schema_registry=options) as app:
                with pytest.raises(RegistryUnavailableError):
                    await app.send("orders", Order(1, []))

    asyncio.run(main())


def test_confluents_classes_in_a_properties_file(tmp_path: Path) -> None:
    path = tmp_path / "application.properties"
    path.write_text(
        "spring.kafka.bootstrap-servers=a:1\n"
        "spring.kafka.properties.schema.registry.url=http://127.0.0.1:1\n"
        "spring.kafka.consumer.value-deserializer=io.confluent.kafka.serializers.KafkaAvroDeserializer\n"
        "spring.kafka.producer.value-serializer=io.confluent.kafka.serializers.KafkaAvroSerializer\n"
    )
    app = App.from_properties(path)
    with app.test() as t:
        t.blocking.send("orders", Order(1, []))
        assert t.sent("orders", Order) == [Order(1, [])]


def test_schemas_without_a_registry_are_refused() -> None:
    with pytest.raises(ConfigError, match="schemas need a registry"):
        App("billing", schema_format="avro")
    with pytest.raises(ConfigError, match="schemas need a registry"):
        App("billing").schema(Order)
    with pytest.raises(ConfigError, match="has no schema"):
        App("billing", schema_registry="http://a:1").schema(int)
