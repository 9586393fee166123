"""Values that are dataclasses: a custom serializer and deserializer.

    python examples/dataclass_serializer.py HOST:PORT TOPIC

A plain function is enough if it needs neither topic nor headers: `value_serializer=to_bytes`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from decimal import Decimal

import ottla


@dataclass(frozen=True)
class Order:
    """The value of a record."""

    id: int
    items: tuple[str, ...]
    total: Decimal


class OrderSerializer:
    """Writes orders as JSON, with amounts as text, because floating-point numbers lose cents."""

    def serialize(self, topic: str, headers: ottla.Headers, order: Order | None) -> bytes | None:
        return None if order is None else json.dumps(asdict(order), default=str).encode()


class OrderDeserializer:
    """Reads orders. If it raises an exception, `poll` raises a DeserializationError."""

    def deserialize(self, topic: str, headers: ottla.Headers, data: bytes | None) -> Order | None:
        if data is None:
            return None
        fields = json.loads(data)
        return Order(fields["id"], tuple(fields["items"]), Decimal(fields["total"]))


def send(bootstrap_servers: str, topic: str, orders: Iterable[Order]) -> None:
    """Sends orders, with their ids as keys."""
    with ottla.Producer(
        bootstrap_servers=bootstrap_servers,
        key_serializer="long",
        value_serializer=OrderSerializer,
    ) as producer:
        for order in orders:
            producer.send(topic, key=order.id, value=order)


def receive(bootstrap_servers: str, topic: str, count: int) -> list[Order]:
    """Returns the first orders of a topic; those of one partition keep their order."""
    orders: list[Order] = []
    with ottla.Consumer(
        bootstrap_servers=bootstrap_servers,
        auto_offset_reset="earliest",
        key_deserializer="long",
        value_deserializer=OrderDeserializer,
    ) as consumer:
        consumer.assign([(topic, info.partition) for info in consumer.partitions_for(topic)])
        for record in consumer:
            if record.value is not None:  # a record may have no value
                orders.append(record.value)
            if len(orders) == count:
                break
    return orders


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python examples/dataclass_serializer.py HOST:PORT TOPIC")
    servers, topic = sys.argv[1:]
    lunch = [
        Order(7, ("tea", "cake"), Decimal("6.10")),
        Order(8, ("espresso",), Decimal("2.50")),
    ]
    send(servers, topic, lunch)
    for order in receive(servers, topic, len(lunch)):
        print(order)
