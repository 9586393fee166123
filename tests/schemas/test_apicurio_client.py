"""Our serializers with a stranger's registry: Apicurio's Confluent API."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import httpx
import pytest
from tests.schemas.registry.test_apicurio import apicurio
from tests.schemas.shop import Address, Item, Order, Parcel

from ottla.schemas import (
    IncompatibleSchemaError,
    ProtobufDeserializer,
    ProtobufSerializer,
    Schema,
    SchemaNotFoundError,
    SchemaRegistryClient,
    codec_for,
)
from ottla.schemas.codec import Format

__all__ = ["apicurio"]

FORMATS: tuple[Format, ...] = ("avro", "json", "protobuf")


@pytest.mark.campaign
def test_records_are_written_and_read_with_apicurio(apicurio: httpx.Client) -> None:
    order = Order(7, [Item("tea", Decimal("2.50"))], note="é", tables={"t": 4})
    with SchemaRegistryClient(schema_registry_url=str(apicurio.base_url).rstrip("/")) as client:

        async def both_ways(format: Format) -> None:
            writer = codec_for(Order, format, registry=client)
            data = await writer.encode(format, False, order)
            assert (
                await codec_for(Order, format, registry=client).decode(format, False, data) == order
            )

        for format in FORMATS:
            asyncio.run(both_ways(format))
        parcel = Parcel(number=1, to=Address(street="here"))
        data = ProtobufSerializer(Parcel, registry=client).serialize("parcels", (), parcel)
        assert ProtobufDeserializer(Parcel, registry=client).deserialize("p", (), data) == parcel
        with pytest.raises(SchemaNotFoundError):
            client.get_latest_version("nothing")
        client.set_config({"compatibility": "BACKWARD"}, "avro-value")
        with pytest.raises(IncompatibleSchemaError):
            client.register_schema("avro-value", Schema('"string"'))
