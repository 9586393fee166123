"""Metrics, traces, health and the document of a whole app, on a broker."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.app.life.asyncapi_checks import check

from ottla.app import App, Header, Key, Retry, To
from ottla.app.declarations.listener_spec import ListenerSpec
from ottla.app.life.listener_reports import ListenerReports
from ottla.app.life.tracing import tracing_if_configured
from ottla.app.listening.listener_health import ListenerHealth, ListenerStatus, PartitionHealth
from ottla.errors import IllegalStateError
from ottla.model import TopicPartition
from ottla.testing import Broker


@dataclass
class Order:
    number: int


@dataclass
class Invoice:
    order: int


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(group_initial_rebalance_delay_ms=0) as running:
        yield running


Delivery = Literal["at-least-once", "exactly-once"]


def shop(delivery: Delivery = "at-least-once") -> App:
    """Bills orders, fails once for each odd one, and mails invoices."""
    app = App("shop", bootstrap_servers="127.0.0.1:9092")
    failed: set[int] = set()

    @app.listener(
        "orders", delivery=delivery, retry=Retry("1ms", keep_order=True), dead_letters=True
    )
    async def bill(order: Order) -> Annotated[Invoice, To("invoices")]:
        if order.number % 2 and order.number not in failed:
            failed.add(order.number)
            raise ValueError("try again")
        return Invoice(order.number)

    @app.listener("invoices", batch=True)
    def mail(invoices: list[Invoice]) -> None:
        """Mails invoices."""

    return app


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_a_trace_goes_from_a_request_through_the_listener_to_its_result(
    monkeypatch: pytest.MonkeyPatch, delivery: Delivery
) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    assert tracing_if_configured() is None, (
        "OpenTelemetry is installed, and the program does not use it"
    )
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)

    async def scenario() -> None:
        async with shop(delivery).test() as t:
            with provider.get_tracer("web").start_as_current_span("POST /orders"):
                await t.send("orders", Order(1))
            await t.settled()

    asyncio.run(scenario())
    spans = exporter.get_finished_spans()
    request = next(span for span in spans if span.name == "POST /orders")
    assert request.context is not None
    of_request = [
        span.name
        for span in spans
        if span.context is not None and span.context.trace_id == request.context.trace_id
    ]
    assert sorted(of_request) == [
        "POST /orders",
        "create invoices",
        "create orders",
        "process orders",
        "process orders",
    ]
    (mailed,) = [span for span in spans if span.name == "process invoices"]
    assert mailed.links[0].context.trace_id == request.context.trace_id
    assert any(span.name == "commit shop" for span in spans)


def test_the_counts_of_an_app_are_those_of_its_records() -> None:
    app = shop()
    life = app.life()

    async def scenario() -> None:
        async with app.test() as t:
            for number in range(10):
                await t.send("orders", Order(number))
            await t.settled()
            (bill, mail) = life.reports()
            assert bill.status is ListenerStatus.RUNNING
            assert bill.partitions == 1
            assert mail.rebalances >= 1

    asyncio.run(scenario())
    counts = {each.spec.name: each for each in life.metrics.listeners()}
    assert counts["bill"].outcomes["done"] == 10
    assert counts["bill"].failures == {"ValueError": 5}
    assert counts["bill"].retries == 5
    assert counts["bill"].committed == 10
    assert counts["bill"].running == {}
    assert counts["mail"].outcomes["done"] == 10
    assert counts["bill"].commits.count >= 1


# Reports of listeners


def spec_of_app(order: str = "partition") -> ListenerSpec:
    app = App("shop", bootstrap_servers="127.0.0.1:9092")

    @app.listener("orders", order="partition" if order == "partition" else "key")
    async def bill(value: bytes) -> None: ...

    return app.listeners["bill"].spec


class FakeRun:
    """A running listener that says what the test wants."""

    def __init__(self, spec: ListenerSpec, health: ListenerHealth, rebalances: int = 1) -> None:
        self.spec = spec
        self._health = health
        self.counters = type("Counters", (), {"rebalances": rebalances})()

    def health(self) -> ListenerHealth:
        return self._health


def texts(reports: ListenerReports, run: FakeRun) -> list[str]:
    (report,) = reports.of([run])  # type: ignore[list-item]
    return [stall.text for stall in report.stalls]


def partition(
    *, is_full: bool = False, retry_due_ms: int | None = None, first: int = 7
) -> ListenerHealth:
    of_partition = PartitionHealth(TopicPartition("orders", 0), 3, first, is_full, retry_due_ms)
    return ListenerHealth("bill", ListenerStatus.RUNNING, partitions=(of_partition,))


def test_a_partition_that_does_not_move_says_what_it_waits_for() -> None:
    clock = [0.0]
    reports = ListenerReports(30, now=lambda: clock[0])
    ordered, keyed = spec_of_app(), spec_of_app("key")
    full, waiting = partition(is_full=True), partition(retry_due_ms=0)
    assert texts(reports, FakeRun(ordered, full)) == []
    clock[0] = 31.0
    (text,) = texts(reports, FakeRun(ordered, full))
    assert text == (
        "listener bill: orders-0 takes no new records, because offset 7 is not finished, since 31 s"
    )
    (text,) = texts(reports, FakeRun(ordered, waiting))
    assert re.search(
        r"orders-0 waits for the retry of offset 7, which is due at \d\d:\d\d:\d\d", text
    )
    # Other keys go on meanwhile.
    assert texts(reports, FakeRun(keyed, waiting)) == []
    # Another first record: the partition has moved.
    assert texts(reports, FakeRun(ordered, partition(is_full=True, first=8))) == []


@pytest.mark.parametrize(
    "reasons",
    [
        # Brokers are tried in turn, so that their addresses come in another order at every look.
        (
            "no broker has answered for 3 s: a:9092 refused, b:9092 refused",
            "no broker has answered for 14 s: b:9092 refused, a:9092 refused",
        ),
        (
            "orders-0 offset 2 has failed 1 times and has nowhere to go, it is tried again in 1 s: x",
            "orders-0 offset 2 has failed 2 times and has nowhere to go, it is tried again in 2 s: x",
        ),
    ],
)
def test_the_same_stall_keeps_its_key_while_its_duration_grows(reasons: tuple[str, str]) -> None:
    reports = ListenerReports(30)
    keys = set()
    for reason in reasons:
        health = ListenerHealth("bill", ListenerStatus.STALLED, (reason,))
        (report,) = reports.of([FakeRun(spec_of_app(), health)])  # type: ignore[list-item]
        keys |= {stall.key for stall in report.stalls}
    assert len(keys) == 1


def test_a_listener_is_starting_until_its_group_has_given_it_partitions() -> None:
    reports = ListenerReports(30)
    health = ListenerHealth("bill", ListenerStatus.RUNNING)
    (before,) = reports.of([FakeRun(spec_of_app(), health, rebalances=0)])  # type: ignore[list-item]
    (after,) = reports.of([FakeRun(spec_of_app(), health, rebalances=1)])  # type: ignore[list-item]
    assert (before.status, after.status) == (ListenerStatus.STARTING, ListenerStatus.RUNNING)


# The document


def test_the_document_of_an_app_follows_its_declarations() -> None:
    app = App("shop", bootstrap_servers="a.example:9092,b.example:9092")
    orders = app.topic("orders", partitions=6, config={"retention.ms": 1000})

    @app.listener(orders, group="billing", retry=Retry("1s"), dead_letters=True)
    async def bill(
        order: Order, key: Key[str], tenant: Annotated[str, Header("tenant")]
    ) -> Annotated[Invoice, To("invoices")]:
        """Bills an order."""
        return Invoice(order.number)

    @app.listener("quotes")
    async def quote(order: Order) -> Invoice:
        return Invoice(order.number)

    document = app.asyncapi(version="2.1.0")
    check(document)
    assert document["info"] == {"title": "shop", "version": "2.1.0"}
    assert {each["host"] for each in document["servers"].values()} == {
        "a.example:9092",
        "b.example:9092",
    }
    assert set(document["channels"]) == {"orders", "quotes", "invoices", "quote.replies"}
    operation = document["operations"]["bill"]
    assert operation["summary"] == "Bills an order."
    assert operation["bindings"]["kafka"]["groupId"]["enum"] == ["billing"]
    messages = document["components"]["messages"]
    assert messages["Order"]["headers"]["properties"] == {"tenant": {"type": "string"}}
    assert messages["Order"]["bindings"]["kafka"]["key"] == {"type": "string"}
    assert document["operations"]["bill.sends.1"]["action"] == "send"
    assert "reply" in document["operations"]["quote"]
    assert "reply" not in operation


def test_health_routes_are_asked_for_before_the_start(broker: Broker) -> None:
    app = shop()

    async def scenario() -> None:
        async with app.test(broker):
            with pytest.raises(IllegalStateError, match="call asgi"):
                app.asgi()

    asyncio.run(scenario())


def test_a_life_follows_its_app_through_several_starts(broker: Broker) -> None:
    app = shop()
    monitor = app.life().monitor
    assert app.life().monitor is monitor

    async def scenario() -> None:
        for _ in range(2):
            assert not monitor.readiness()[0]
            async with app.test(broker) as t:
                await t.settled()
                monitor.check()
                await asyncio.sleep(0)
                assert monitor.readiness() == (
                    True,
                    {"status": "ready", "app": "shop", "reasons": []},
                )
            assert monitor.readiness()[1]["reasons"] == ["the app has stopped"]

    asyncio.run(scenario())
