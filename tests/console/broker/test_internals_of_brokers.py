"""What an Ottla broker tells of itself, and what the console says where nobody tells it."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.console.api_client import SOON_SECONDS
from tests.console.broker.conftest import Looked, looked_at_ottla
from tests.console.quick_polls import quick_polls
from tests.console.running_console import ConsoleUnderTest, log_in, running_console
from tests.console.users import ADMIN, VIEWER, allow, user
from tests.waiting import in_time

import ottla
from ottla.admin import AclOperation, AclResourceType, NewTopic
from ottla.console.internals.metric_samples import metric_samples

PATHS = ["requests", "loop", "storage", "cleaning", "metrics", "events"]
logger = logging.getLogger("ottla.broker.of_this_test")


@pytest.fixture
def told() -> Iterator[Looked]:
    with quick_polls(), looked_at_ottla() as looked:
        yield looked


def test_a_broker_that_works_tells_how(told: Looked) -> None:
    api = told.api
    with ottla.Producer(bootstrap_servers=told.servers) as producer:
        for _ in range(20):
            producer.send("measured", b"value").result(20)
        summary = api.soon(
            "/api/broker/internals", lambda found: found if found["requests_per_second"] else None
        )
    assert (summary["is_offered"], summary["why_not"], summary["sees_log"]) == (True, None, True)
    assert summary["started_at_ms"] <= summary["at_ms"]
    assert summary["offline_count"] == 0
    requests = api.get("/api/broker/requests")
    assert "Produce" in {row["api"] for row in requests["rows"]}
    assert requests["connections_accepted"] > 0
    stalls = api.get("/api/broker/loop")
    assert sum(stalls["histogram"]) == len(stalls["intervals"]) > 0
    assert len(stalls["histogram"]) == len(stalls["histogram_bounds_ms"]) + 1
    storage = api.soon(
        "/api/broker/storage",
        lambda found: found if "measured" in {each["name"] for each in found["topics"]} else None,
    )
    assert storage["disk"]["free_bytes"] > 0
    assert api.get("/api/broker/cleaning")["nodes"][0]["is_compaction_enabled"]
    metrics = api.get("/api/broker/metrics", q="ottla_topic_size_bytes", limit=1, sort="value")
    assert metrics["rows"][0]["kind"] == "gauge"
    assert metrics["total"] >= len(metrics["rows"]) == 1
    assert api.refused("GET", "/api/broker/metrics", limit=0)[0] == 400


def test_other_clusters_tell_nothing_and_the_console_says_why() -> None:
    async def ask() -> None:
        with ottla.Broker() as broker:
            async with (
                running_console(broker.bootstrap_servers) as console,
                console.browser() as browser,
            ):
                told = await soon(browser, "/api/broker/internals")
                assert told["is_offered"] is False
                assert "nothing beyond Kafka's protocol" in told["why_not"]
                assert "--internals" in told["advice"]
                for path in PATHS:
                    answer = await browser.get(f"/api/broker/{path}")
                    assert answer.status_code == 501, path
                    assert "nothing beyond Kafka's protocol" in answer.json()["error"]

    asyncio.run(ask())


def test_a_broker_that_does_not_answer_is_a_reason() -> None:
    async def ask() -> None:
        with ottla.Broker() as broker:
            async with (
                running_console(
                    broker.bootstrap_servers, internals_url="http://127.0.0.1:1"
                ) as console,
                console.browser() as browser,
            ):
                told = await soon(browser, "/api/broker/internals")
                assert told["is_offered"] is True
                assert "cannot be reached" in told["why_not"]
                assert (await browser.get("/api/broker/loop")).status_code == 503

    asyncio.run(ask())


async def soon(browser: httpx.AsyncClient, path: str) -> Any:
    """The answer, when the console has seen the cluster and has asked for its internals."""
    deadline = time.monotonic() + SOON_SECONDS
    while True:
        answer = await browser.get(path)
        if answer.status_code == 200 and "yet" not in (answer.json()["why_not"] or ""):
            return answer.json()
        in_time(deadline, f"{path}: {answer.text}")
        await asyncio.sleep(0.05)


# Users


@pytest.fixture(scope="module")
def secured() -> Iterator[ottla.Broker]:
    """With a topic that some see, and one that is secret."""
    with ottla.Broker(security="scram", metrics="127.0.0.1:0") as broker:
        with ottla.Admin(broker.client_options()) as admin:
            admin.create_topics([NewTopic(name, 1) for name in ("open", "secret")])
        with ottla.Producer(broker.client_options()) as producer:
            for name in ("open", "secret"):
                producer.send(name, b"1").result(20)
        yield broker


def console_of(broker: ottla.Broker, **settings: Any) -> Any:
    return running_console(
        broker.client_options(),
        login_options=broker.client_options(),
        internals_url=broker.metrics_url.removesuffix("/metrics"),
        **settings,
    )


async def storage_of(console: ConsoleUnderTest, browser: httpx.AsyncClient) -> set[str]:
    await soon(browser, "/api/broker/internals")
    answer = await browser.get("/api/broker/storage")
    assert answer.status_code == 200, answer.text
    return {each["name"] for each in answer.json()["topics"]}


def test_who_may_not_see_all_sees_neither_the_log_nor_hidden_topics(secured: ottla.Broker) -> None:
    form = user(secured, "viewer", *VIEWER)
    allow(secured, "viewer", AclResourceType.TOPIC, "open", AclOperation.DESCRIBE)

    async def ask() -> None:
        async with console_of(secured) as console, console.browser() as browser:
            await log_in(browser, **form)
            told = await soon(browser, "/api/broker/internals")
            assert told["sees_log"] is False
            assert await storage_of(console, browser) == {"open"}
            for path in ("events", "metrics"):
                answer = await browser.get(f"/api/broker/{path}")
                assert answer.status_code == 403
                assert "that you may not see" in answer.json()["error"]
            # The cluster does not let this user see configs of brokers.
            refused = await browser.get("/api/broker/configs?id=1")
            assert refused.status_code == 403

    asyncio.run(ask())


def test_an_admin_reads_the_log_also_where_the_console_is_read_only(secured: ottla.Broker) -> None:
    form = user(secured, "admin-reader", *ADMIN)

    async def ask() -> None:
        async with (
            console_of(secured, is_read_only=True) as console,
            console.browser() as browser,
        ):
            found = await log_in(browser, **form)
            assert found["role"] == "viewer"
            logger.warning("seen by the admin")
            async with browser.stream("GET", "/api/broker/events") as stream:
                assert stream.status_code == 200
                async with asyncio.timeout(SOON_SECONDS):
                    async for line in stream.aiter_lines():
                        if "seen by the admin" in line:
                            event = json.loads(line.removeprefix("data: "))["event"]
                            assert event["level"] == "warning"
                            break

    asyncio.run(ask())


def test_metrics_are_read_with_their_documentation_and_without_buckets() -> None:
    text = (
        '# HELP a_seconds How long.\n# TYPE a_seconds histogram\na_seconds_bucket{le="1"} 3\n'
        'a_seconds_sum 2.5\na_seconds_count 3\n# HELP b B.\n# TYPE b gauge\nb{x="}\\" y"} -1\nno sample\n'
    )
    found = [(each.name, each.labels, each.value, each.kind) for each in metric_samples(text)]
    assert found == [
        ("a_seconds_sum", "", "2.5", "histogram"),
        ("a_seconds_count", "", "3", "histogram"),
        ("b", 'x="}\\" y"', "-1", "gauge"),
    ]
    assert metric_samples(text)[0].documentation == "How long."
