"""What the console knows of a broker beyond Kafka's protocol."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TypeVar

import pytest
from tests.broker.requests import on_loop
from tests.waiting import in_time

import ottla
from ottla.broker.runtime import RunningBroker
from ottla.console.http.live import LiveEvents
from ottla.console.internals import broker_internals, event_feed
from ottla.console.internals.broker_internals import BrokerInternals, ToldInternals
from ottla.console.internals.event_feed import EventFeed, FeedEvent, FeedState
from ottla.console.internals.page_client import InternalsClient, InternalsError
from ottla.console.internals.report import Durations
from ottla.console.internals.request_rates import rates_between

T = TypeVar("T")
SECONDS = 20
logger = logging.getLogger("ottla.broker.test_of_events")


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_internals, "WATCHED_SECONDS", 0.02)
    monkeypatch.setattr(event_feed, "PERIOD_SECONDS", 0.02)
    monkeypatch.setattr("ottla.broker.internals.internals_page.KEPT_SECONDS", 0)
    monkeypatch.setattr("ottla.broker.internals.internals_page.MOST_SHARE", float("inf"))


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker(metrics="127.0.0.1:0") as found:
        yield found


def url_of(broker: ottla.Broker) -> str:
    return broker.metrics_url.removesuffix("/metrics")


async def soon(find: Callable[[], T | None]) -> T:
    deadline = asyncio.get_running_loop().time() + SECONDS
    while (found := find()) is None:
        in_time(deadline)
        await asyncio.sleep(0.01)
    return found


@asynccontextmanager
async def watching(broker: ottla.Broker) -> AsyncIterator[BrokerInternals]:
    """As for a console with a browser."""
    live, client = LiveEvents(), InternalsClient(url_of(broker), {})
    internals = BrokerInternals(client, live)

    async def look() -> None:
        async for _ in live.listen():
            pass

    looking = asyncio.create_task(look())
    internals.start()
    try:
        yield internals
    finally:
        await internals.stop()
        await client.close()
        looking.cancel()


def test_requests_become_rates_with_latencies(broker: ottla.Broker) -> None:
    async def ask() -> None:
        async with watching(broker) as internals:
            await soon(lambda: internals.latest)

            def produce() -> None:
                with ottla.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
                    producer.send("orders", b"1").result(SECONDS)

            await asyncio.to_thread(produce)

            def produced() -> ToldInternals | None:
                found = internals.latest
                apis = () if found is None or found.rates is None else found.rates.apis
                return found if any(each.api == "Produce" for each in apis) else None

            found = await soon(produced)
            assert found.rates is not None
            (api,) = (each for each in found.rates.apis if each.api == "Produce")
            assert api.received >= 1
            assert internals.samples[-1].connections >= 0
            assert all(not each.apis for each in list(internals.samples)[:-1])

    asyncio.run(ask())


def test_a_broker_that_was_started_again_has_no_rates_at_first(broker: ottla.Broker) -> None:
    async def ask() -> None:
        client = InternalsClient(url_of(broker), {})
        report = await client.report()
        later = replace(report, at_ms=report.at_ms + 1000)
        assert rates_between(report, later) is not None
        assert rates_between(report, replace(later, instance="another")) is None
        assert rates_between(None, report) is None
        await client.close()

    asyncio.run(ask())


def test_a_quantile_is_a_bound_that_so_many_durations_are_below() -> None:
    durations = Durations([1.0, 5.0, 10.0], [50, 49, 0, 1], 0)
    assert durations.quantile_ms(0.5) == 1.0
    assert durations.quantile_ms(0.99) == 5.0
    assert durations.quantile_ms(1.0) == 20.0
    assert Durations([1.0], [0, 0], 0).quantile_ms(0.5) is None


def test_a_broker_that_does_not_answer_is_a_problem_and_no_old_report() -> None:
    async def ask() -> None:
        client = InternalsClient("http://127.0.0.1:1", {})
        with pytest.raises(InternalsError, match="cannot be reached"):
            await client.report()
        internals = BrokerInternals(client, LiveEvents())
        internals.start()
        assert "cannot be reached" in await soon(lambda: internals.problem)
        assert internals.latest is None
        await internals.stop()
        await client.close()

    asyncio.run(ask())


def test_what_is_no_page_of_internals_is_refused_in_a_sentence(broker: ottla.Broker) -> None:
    async def ask() -> None:
        client = InternalsClient(broker.metrics_url, {})
        with pytest.raises(InternalsError, match=r"does not tell its internals \(404"):
            await client.report()
        await client.close()

    asyncio.run(ask())


async def next_event(told: AsyncIterator[object], text: str) -> FeedEvent:
    async with asyncio.timeout(SECONDS):
        async for each in told:
            if isinstance(each, FeedEvent) and each.event.sentence == text:
                return each
    raise AssertionError("the feed ended")


def test_events_are_told_as_they_happen_and_once_to_each_browser(broker: ottla.Broker) -> None:
    async def ask() -> None:
        client = InternalsClient(url_of(broker), {})
        feed = EventFeed(client)
        logger.warning("before")
        one, other = feed.listen(), feed.listen()
        before = await next_event(one, "before")
        logger.warning("after %(what)s", {"what": "that"})
        found = await next_event(one, "after that")
        assert found.event.fields == {"what": "that"}
        assert found.event.sequence > before.event.sequence
        seen = []
        async with asyncio.timeout(SECONDS):
            async for each in other:
                if isinstance(each, FeedEvent):
                    seen.append(each.id)
                    if each.id == found.id:
                        break
        assert len(seen) == len(set(seen))
        await feed.stop()
        _ = [each async for each in one]  # it ends
        await client.close()

    asyncio.run(ask())


def test_a_feed_says_when_the_broker_does_not_answer() -> None:
    async def ask() -> None:
        client = InternalsClient("http://127.0.0.1:1", {})
        feed = EventFeed(client)
        async with asyncio.timeout(SECONDS):
            async for each in feed.listen():
                assert isinstance(each, FeedState)
                assert each.problem is not None
                break
        await feed.stop()
        await client.close()

    asyncio.run(ask())


def test_a_console_in_the_process_of_the_broker_needs_no_network() -> None:
    with ottla.Broker(metrics="127.0.0.1:0") as broker:

        def host(running: RunningBroker) -> str:
            return running.console_servers().internals

        name = on_loop(broker, host)

        async def ask() -> None:
            client = InternalsClient(f"http://{name}", {})
            report = await client.report()
            assert report.nodes[0].node_id == 1
            assert (await client.events(0, 10)).instance == report.instance
            await client.close()

        asyncio.run(ask())
