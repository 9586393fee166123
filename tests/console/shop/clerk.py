"""Writes into the shop's topics: six hours of records at first, and then some in each tenth of a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from confluent_kafka import KafkaException, Producer
from tests.console.shop.formats import Formats, Written
from tests.console.shop.names import CHECKOUT, IMPORT

HOURS_MS = 6 * 3_600_000
PAST_ORDERS = 1_800
PAST_PAGE_VIEWS = 9_000
PAST_PAYMENTS = 900
CUSTOMER_COUNT = 240
STOCK_COUNT = 320
RATING_COUNT = 60
CLIMATE_COUNT = 72

SECONDS = 20
TICK_SECONDS = 0.1
HEADERS: dict[str, str | bytes | None] = {
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
}


def fill(servers: str, formats: Formats) -> None:
    """Six hours in which the shop was open."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20, "log_level": 0})
    now_ms = int(time.time() * 1000)

    def spread(write: Callable[[int], Written], count: int) -> None:
        for n in range(count):
            topic, key, value = write(n)
            at_ms = now_ms - HOURS_MS + HOURS_MS * n // count
            producer.produce(topic, value, key, timestamp=at_ms, headers=HEADERS)
            producer.poll(0)

    spread(formats.customer, CUSTOMER_COUNT)
    spread(formats.stock_level, STOCK_COUNT)
    spread(formats.order, PAST_ORDERS)
    spread(formats.shipment, PAST_ORDERS)
    spread(formats.payment, PAST_PAYMENTS)
    spread(formats.invoice, PAST_PAYMENTS)
    spread(formats.page_view, PAST_PAGE_VIEWS)
    spread(formats.rating, RATING_COUNT)
    spread(formats.climate, CLIMATE_COUNT)
    assert producer.flush(SECONDS) == 0


class Clerk:
    """Writes until it stops; its transactions commit once a second, and those of an import abort."""

    def __init__(self, servers: str, formats: Formats) -> None:
        self._formats = formats
        options = {"bootstrap.servers": servers, "log_level": 0}
        self._plain = Producer({**options, "client.id": "web-shop", "linger.ms": 5})
        self._checkout = Producer({**options, "client.id": CHECKOUT, "transactional.id": CHECKOUT})
        self._import = Producer({**options, "client.id": IMPORT, "transactional.id": IMPORT})
        self._checkout.init_transactions(SECONDS)
        self._import.init_transactions(SECONDS)
        self._order = PAST_ORDERS
        self._view = PAST_PAGE_VIEWS
        self._paid = PAST_PAYMENTS
        self._tick = 0

    def work(self) -> None:
        """A tenth of a second's records: five orders, a shipment or two and a hundred page views in each second."""
        self._tick += 1
        for _ in range(10):
            self._write(self._formats.page_view(self._view))
            self._view += 1
        if self._tick % 2 == 0:
            self._write(self._formats.order(self._order))
            self._order += 1
        if self._tick % 7 == 0:
            self._write(self._formats.shipment(self._order))
        if self._tick % 30 == 0:
            self._write(self._formats.stock_level(self._tick))
            self._write(self._formats.climate(self._tick))
        if self._tick % 10 == 0:
            self._check_out()
        if self._tick % 50 == 25:
            self._import_in_vain()
        self._plain.poll(0)

    def _write(self, written: Written) -> None:
        topic, key, value = written
        with suppress(BufferError):
            self._plain.produce(topic, value, key, headers=HEADERS)

    def _check_out(self) -> None:
        self._checkout.begin_transaction()
        for n in range(self._paid, self._paid + 4):
            for topic, key, value in (self._formats.payment(n), self._formats.invoice(n)):
                self._checkout.produce(topic, value, key)
        self._paid += 4
        self._checkout.commit_transaction(SECONDS)

    def _import_in_vain(self) -> None:
        self._import.begin_transaction()
        for n in range(3):
            topic, key, value = self._formats.rating(self._tick + n)
            self._import.produce(topic, value, key)
        self._import.flush(SECONDS)
        self._import.abort_transaction(SECONDS)

    def stop(self) -> None:
        """Give up what is not written yet: the broker may be gone."""
        self._plain.purge()
        for producer in (self._checkout, self._import):
            with suppress(KafkaException):
                producer.abort_transaction(2)
