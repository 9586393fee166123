"""Patterns, events and positions of listeners, as an app declares them."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from ottla.app import App, HandlerTimeoutError, Topic, every
from ottla.app.declarations.listener import Position
from ottla.testing import Broker


@pytest.fixture
def app() -> App:
    return App("billing", linger_ms=0, metadata_max_age_ms=100)


def test_a_pattern_finds_topics_that_come_later(app: App) -> None:
    seen: list[str] = []

    @app.listener(re.compile("orders-.*"))
    async def bill(order: str, topic: Topic) -> None:
        seen.append(f"{topic} {order}")

    with app.test() as t:
        t.blocking.send("orders-a", "tea")
        t.broker.wait_for(lambda: seen == ["orders-a tea"], what="the record of the new topic")


def test_events_of_a_listener(app: App) -> None:
    events: list[str] = []
    is_idle = threading.Event()

    async def assigned(partitions: Sequence[tuple[str, int]]) -> None:
        events.append(f"assigned {len(partitions)}")

    @app.listener(
        app.topic("orders", partitions=2),
        on_assigned=assigned,
        on_revoked=lambda partitions: events.append(f"revoked {len(partitions)}"),
        on_idle=is_idle.set,
        idle_after="50ms",
        ack=every(1000, "10s"),
    )
    async def bill(order: str) -> None:
        events.append(order)

    with app.test() as t:
        t.blocking.send("orders", "tea")
        assert is_idle.wait(10)
        t.broker.wait_for(lambda: "tea" in events, what="the record")
    assert events == ["assigned 2", "tea", "revoked 2"]


async def _second(partitions: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], Position]:
    return dict.fromkeys(partitions, 1)


@pytest.mark.parametrize(
    ("seek", "read"),
    [
        ("beginning", ["a", "b", "c"]),
        (1, ["b", "c"]),
        (_second, ["b", "c"]),
        ({("orders", 0): 2}, ["c"]),
        (datetime(2026, 1, 2, tzinfo=UTC), ["b", "c"]),
        (timedelta(days=365 * 50), ["a", "b", "c"]),
    ],
)
def test_where_assigned_partitions_start(app: App, seek: object, read: list[str]) -> None:
    seen: list[str] = []

    @app.listener("orders", seek=seek, group="seeking")  # type: ignore[arg-type]
    async def bill(order: str) -> None:
        seen.append(order)

    with Broker() as broker:
        day_ms = 24 * 3600 * 1000
        first_ms = round(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
        records = [
            {"value": each, "timestamp": first_ms + number * day_ms}
            for number, each in enumerate("abc")
        ]
        broker.seed({"orders": {"partitions": 1, "records": records}})
        with app.test(broker) as t:
            t.broker.wait_for(lambda: seen == read, what=f"{read}")


def test_a_handler_that_hangs_is_told(app: App) -> None:
    goes_on = threading.Event()

    @app.listener("orders", handler_timeout="50ms", errors={HandlerTimeoutError: "ignore"})
    def bill(order: str) -> None:
        goes_on.wait(10)

    with app.test() as t:
        t.blocking.send("orders", "tea")
        t.broker.wait_for(lambda: app.runtime.health()[0].reasons, what="the reason of the stall")
        assert "longer than its handler_timeout" in app.runtime.health()[0].reasons[0]
        goes_on.set()
