"""The shop's groups: members of librdkafka, which all are asked for records in turn."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from tests.console.shop.names import (
    ACCOUNTING,
    ANALYTICS,
    BILLING,
    INVOICES,
    MODERATION,
    NIGHTLY_REPORT,
    ORDERS,
    PAGE_VIEWS,
    PAYMENTS,
    RATINGS,
    SEARCH_INDEX,
    STOCK,
    WAREHOUSE,
)
from tests.waiting import in_time

SECONDS = 30
MANY = 500
# Of the page views that come in, analytics reads some two thirds.
FEW = 8
HELPER_STAYS_SECONDS = 12.0
HELPER_IS_AWAY_SECONDS = 8.0
# Of each partition.
REPORTED_ORDERS = 100
ORDERS_PARTITIONS = 6
CLASSIC_PROTOCOL: Mapping[str, object] = {
    "session.timeout.ms": 6_000,
    "partition.assignment.strategy": "range",
}
NEW_PROTOCOL: Mapping[str, object] = {"group.protocol": "consumer"}


class Readers:
    """All members; `work` lets each read once."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._members: list[tuple[Consumer, int]] = []
        for number in range(3):
            self._join(BILLING, [ORDERS], f"billing-{number}", {})
        for number in range(2):
            self._join(WAREHOUSE, [ORDERS, STOCK], f"warehouse-{number}", NEW_PROTOCOL)
        self._join(SEARCH_INDEX, [STOCK, INVOICES], "search-index-0", {})
        self._join(MODERATION, [RATINGS], "moderation-0", {"isolation.level": "read_committed"})
        self._join(ACCOUNTING, [PAYMENTS], "accounting-0", {"isolation.level": "read_committed"})
        self._join(ANALYTICS, [PAGE_VIEWS], "analytics-0", {}, most=FEW)
        self._helper: Consumer | None = None
        self._helper_changes_at = time.monotonic() + HELPER_IS_AWAY_SECONDS

    def _member(
        self, group: str, topics: Sequence[str], client_id: str, options: Mapping[str, object]
    ) -> Consumer:
        # With the new protocol, the broker decides on sessions and assignments.
        protocol = CLASSIC_PROTOCOL if "group.protocol" not in options else {}
        consumer = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": group,
                "client.id": client_id,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 1_000,
                "queued.min.messages": 50,
                "log_level": 0,
                **protocol,
                **options,
            }
        )
        consumer.subscribe(list(topics))
        return consumer

    def _join(
        self,
        group: str,
        topics: Sequence[str],
        client_id: str,
        options: Mapping[str, object],
        most: int = MANY,
    ) -> None:
        self._members.append((self._member(group, topics, client_id, options), most))

    def work(self) -> None:
        """Each member reads what it has, or a part of it."""
        for consumer, most in self._members:
            self._read(consumer, most)
        self._come_and_go()

    def _read(self, consumer: Consumer, most: int) -> list[Message]:
        return [each for each in consumer.consume(most, 0.005) if each.error() is None]

    def _come_and_go(self) -> None:
        if self._helper is not None:
            self._read(self._helper, MANY)
        if time.monotonic() < self._helper_changes_at:
            return
        if self._helper is None:
            self._helper = self._member(SEARCH_INDEX, [STOCK, INVOICES], "search-index-1", {})
            self._helper_changes_at = time.monotonic() + HELPER_STAYS_SECONDS
        else:
            self._helper.close()
            self._helper = None
            self._helper_changes_at = time.monotonic() + HELPER_IS_AWAY_SECONDS

    def close(self) -> None:
        """All leave."""
        members = [consumer for consumer, _ in self._members]
        if self._helper is not None:
            members.append(self._helper)
        for consumer in members:
            with suppress(KafkaException):
                consumer.close()


def report(servers: str) -> None:
    """A group that read some orders, committed, and left: it has a lag and no members."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": NIGHTLY_REPORT,
            "client.id": "nightly-report",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe([ORDERS])
    deadline = time.monotonic() + SECONDS
    while not consumer.consume(1, 0.2):
        in_time(deadline, f"a record for {NIGHTLY_REPORT}")
    read = [TopicPartition(ORDERS, each, REPORTED_ORDERS) for each in range(ORDERS_PARTITIONS)]
    consumer.commit(offsets=read, asynchronous=False)
    consumer.close()
