"""A custom partitioner: one large customer has its own partition.

    python examples/custom_partitioner.py HOST:PORT TOPIC

With the default partitioner, many other customers share a partition with the customer that sends most of the records,
and their records wait behind those.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any
from zlib import crc32

import ottla


class LargeCustomerFirst:
    """Partition 0 for the large customer; the key chooses one of the others for all other customers."""

    def __init__(self, customer: str = "large") -> None:
        self.customer = customer

    def configure(self, config: Mapping[str, Any]) -> None:
        """The producer calls this once, with its options."""

    def partition(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        cluster: ottla.ClusterMetadata,
    ) -> int:
        count = len(cluster.partitions_for(topic))
        if key == self.customer or count == 1:
            return 0
        return 1 + crc32(key_bytes or b"") % (count - 1)

    def close(self) -> None:
        """The producer calls this when it is closed."""


def send(
    bootstrap_servers: str, topic: str, payments: Iterable[tuple[str, str]]
) -> list[tuple[str, int]]:
    """Sends payments, and returns the customer and the partition of each."""
    with ottla.Producer(
        bootstrap_servers=bootstrap_servers,
        key_serializer="str",
        value_serializer="str",
        partitioner_class=LargeCustomerFirst("large"),
    ) as producer:
        sent = [
            (customer, producer.send(topic, key=customer, value=payment))
            for customer, payment in payments
        ]
        return [(customer, future.result(10).partition) for customer, future in sent]


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python examples/custom_partitioner.py HOST:PORT TOPIC")
    servers, topic = sys.argv[1:]
    payments = [("large", "100"), ("Ada", "1"), ("large", "200"), ("Ben", "2"), ("Cy", "3")]
    for customer, partition in send(servers, topic, payments):
        print(customer, partition)
