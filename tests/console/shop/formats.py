"""How the shop's records are written: JSON, Arrow, and Avro, Protobuf and JSON Schema through the registry."""

from __future__ import annotations

import json

from tests.console.shop.goods import (
    Payment,
    Shipment,
    StockLevel,
    climate,
    customer_id,
    json_bytes,
    order,
    order_number,
    page_view,
    payment,
    rating,
    shipment,
)
from tests.console.shop.goods import customer as customer_of
from tests.console.shop.goods import stock_level as stock_of
from tests.console.shop.names import (
    CLIMATE,
    CUSTOMERS,
    INVOICES,
    ORDERS,
    PAGE_VIEWS,
    PAYMENTS,
    RATINGS,
    SHIPMENTS,
    STOCK,
)

from ottla.schemas import (
    AvroSerializer,
    JSONSchemaSerializer,
    ProtobufSerializer,
    Schema,
    SchemaRegistryClient,
    avro_schema,
)

Written = tuple[str, bytes, bytes]
"""Topic, key and value."""


class Formats:
    """The n-th record of each topic, in bytes."""

    def __init__(self, registry_url: str) -> None:
        registry = self._registry = SchemaRegistryClient(schema_registry_url=registry_url)
        registry.register_schema(f"{PAYMENTS}-value", _first_schema_of_payments())
        self._payments = AvroSerializer(Payment, registry=registry)
        self._shipments = ProtobufSerializer(Shipment, registry=registry)
        self._stock = JSONSchemaSerializer(StockLevel, registry=registry)

    def close(self) -> None:
        self._registry.close()

    def order(self, n: int) -> Written:
        return ORDERS, order_number(n).encode(), json_bytes(order(n))

    def payment(self, n: int) -> Written:
        value = self._payments.serialize(PAYMENTS, (), payment(n))
        assert value is not None
        return PAYMENTS, order_number(n).encode(), value

    def invoice(self, n: int) -> Written:
        paid = payment(n)
        value = {"invoice": f"I-{n:06d}", "order": paid.order, "amount": str(paid.amount)}
        return INVOICES, order_number(n).encode(), json_bytes(value)

    def shipment(self, n: int) -> Written:
        value = self._shipments.serialize(SHIPMENTS, (), shipment(n))
        assert value is not None
        return SHIPMENTS, order_number(n).encode(), value

    def stock_level(self, n: int) -> Written:
        level = stock_of(n)
        value = self._stock.serialize(STOCK, (), level)
        assert value is not None
        return STOCK, f"{level.warehouse}/{level.sku}".encode(), value

    def climate(self, n: int) -> Written:
        return CLIMATE, b"warehouse-%d" % (n % 2), climate(n)

    def customer(self, n: int) -> Written:
        return CUSTOMERS, customer_id(n).encode(), json_bytes(customer_of(n))

    def page_view(self, n: int) -> Written:
        return PAGE_VIEWS, f"v{n // 5:06x}".encode(), json_bytes(page_view(n))

    def rating(self, n: int) -> Written:
        return RATINGS, TEA_KEYS[n % len(TEA_KEYS)], json_bytes(rating(n))


TEA_KEYS = (b"earl-grey", b"assam", b"sencha")


def _first_schema_of_payments() -> Schema:
    """There were no vouchers then."""
    schema = json.loads(avro_schema(Payment))
    schema["fields"] = [field for field in schema["fields"] if field["name"] != "voucher"]
    return Schema(json.dumps(schema))
