"""`GET /internals`: what a broker tells about itself beyond Kafka's protocol, to whom, and what it costs."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.broker.requests import on_loop
from tests.waiting import in_time

import ottla
from ottla.broker.internals import internals_page
from ottla.broker.internals.event_ring import EventRing
from ottla.broker.internals.internals_page import INTERNALS_PATH, InternalsPage
from ottla.broker.runtime import RunningBroker

Json = dict[str, Any]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ottla.Broker]:
    level = logging.getLogger("ottla.broker").level
    logging.getLogger("ottla.broker").setLevel(logging.INFO)
    with ottla.Broker(
        metrics="127.0.0.1:0",
        data_dir=tmp_path_factory.mktemp("internals"),
        log_cleaner_backoff_ms=50,
        log_retention_check_interval_ms=50,
    ) as broker:
        yield broker
    logging.getLogger("ottla.broker").setLevel(level)


@pytest.fixture(autouse=True)
def fresh_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every question gets an answer of its own."""
    monkeypatch.setattr(internals_page, "KEPT_SECONDS", 0)
    monkeypatch.setattr(internals_page, "MOST_SHARE", float("inf"))


def ask(broker: ottla.Broker, path: str = "/internals", **headers: str) -> Json:
    url = broker.metrics_url.removesuffix("/metrics") + path
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as answer:
        assert answer.headers["Content-Type"] == "application/json"
        found: Json = json.loads(answer.read())
        return found


def test_storage_requests_and_connections_are_told(watched: ottla.Broker) -> None:
    with ottla.Admin(bootstrap_servers=watched.bootstrap_servers) as admin:
        admin.create_topics([ottla.admin.NewTopic("orders", 3)])
        with ottla.Producer(bootstrap_servers=watched.bootstrap_servers) as producer:
            producer.send("orders", value=b"x" * 1000, partition=1).result(10)
        found = ask(watched)
    storage = found["storage"]
    assert storage["folder"] == watched.data_dir
    assert 0 < storage["disk"]["free_bytes"] <= storage["disk"]["total_bytes"]
    (orders,) = (each for each in storage["topics"] if each["name"] == "orders")
    assert orders["size_bytes"] > 1000
    assert orders["partitions"] == 3
    assert (orders["open_partitions"], orders["segments"]) == (1, 1)
    assert storage["size_bytes"] >= orders["size_bytes"]
    (node,) = found["nodes"]
    assert node["led_partitions"] == storage["partition_count"]
    assert node["connections"] >= 1
    assert node["connections_by_listener"] == {"PLAINTEXT": node["connections"]}
    by_api = {each["api"]: each for each in node["requests"]}
    assert by_api["Produce"]["received"] == 1
    assert sum(by_api["Produce"]["durations"]["counts"]) == 1
    bounds, counts = (by_api["Produce"]["durations"][each] for each in ("bounds_ms", "counts"))
    assert len(counts) == len(bounds) + 1
    assert node["offline"] == []
    assert node["offline_count"] == 0


def test_errors_are_told_by_name(watched: ottla.Broker) -> None:
    with (
        ottla.Admin(bootstrap_servers=watched.bootstrap_servers) as admin,
        pytest.raises(ottla.KafkaError),
    ):
        admin.create_topics([ottla.admin.NewTopic("bad name", 1)])
    (node,) = ask(watched)["nodes"]
    (create,) = (each for each in node["requests"] if each["api"] == "CreateTopics")
    assert create["errors"]["INVALID_TOPIC_EXCEPTION"] == 1


def test_the_cleaner_tells_what_it_did_and_what_is_left(watched: ottla.Broker) -> None:
    with ottla.Admin(bootstrap_servers=watched.bootstrap_servers) as admin:
        configs = {"cleanup.policy": "compact", "segment.bytes": "1024"}
        admin.create_topics([ottla.admin.NewTopic("prices", 1, configs=configs)])
    with ottla.Producer(bootstrap_servers=watched.bootstrap_servers, linger_ms=0) as producer:
        for number in range(30):
            producer.send("prices", value=b"x" * 200, key=b"k%d" % (number % 2)).result(10)
    deadline = time.monotonic() + 20
    while True:
        (node,) = ask(watched)["nodes"]
        cleaner = node["cleaner"]
        # Records may be appended while the log is compacted.
        done = [
            each
            for each in cleaner["compactions"]
            if each["topic"] == "prices" and each["bytes_after"] < each["bytes_before"]
        ]
        if done and cleaner["rounds"] and node["retention"]["rounds"]:
            break
        in_time(deadline, cleaner)
    assert done[-1]["dirty_keys"] == 2
    (state,) = (each for each in cleaner["partitions"] if each["topic"] == "prices")
    assert state["state"] in ("well", "cleaning")
    assert state["size_bytes"] > 0
    assert cleaner["is_enabled"]
    assert cleaner["last_began_at_ms"] > 0
    assert cleaner["last_took_ms"] >= 0


def test_holds_of_the_loop_are_told_with_their_times(watched: ottla.Broker) -> None:
    before_ms = time.time() * 1000

    def hold(running: RunningBroker) -> None:
        time.sleep(0.15)

    deadline = time.monotonic() + 20
    while True:
        on_loop(watched, hold)
        loop = ask(watched)["loop"]
        if loop["long_holds"]:
            break
        in_time(deadline, loop)
    last = loop["long_holds"][-1]
    assert last["held_ms"] >= 20
    assert before_ms - 1 <= last["at_ms"] <= time.time() * 1000 + 1
    assert loop["worst_held_ms"] >= last["held_ms"]
    assert loop["intervals"][-1]["held_ms"] >= 0


def test_events_follow_each_other_by_number(watched: ottla.Broker) -> None:
    newest = ask(watched, "/internals/events")["newest"]
    with ottla.Admin(bootstrap_servers=watched.bootstrap_servers) as admin:
        admin.create_topics([ottla.admin.NewTopic("logged", 2)])
    found = ask(watched, f"/internals/events?after={newest}")
    (event,) = (each for each in found["events"] if each["name"] == "topic_created")
    assert event["fields"] == {"topic": "logged", "partitions": 2}
    assert event["sentence"] == "topic logged created with 2 partition(s)"
    assert event["sequence"] > newest
    assert found["instance"] == ask(watched)["instance"]
    assert ask(watched, "/internals/events?after=999999999")["events"] == []
    assert len(ask(watched, "/internals/events?limit=1")["events"]) == 1


def test_it_needs_the_login_of_the_metrics(tmp_path: Path) -> None:
    login = tmp_path / "login"
    login.write_text("scraper:secret\n")
    with ottla.Broker(metrics="127.0.0.1:0", metrics_login=login) as broker:
        for path in ("/internals", "/internals/events"):
            with pytest.raises(urllib.error.HTTPError, match="401"):
                ask(broker, path)
        assert ask(broker, Authorization="Basic c2NyYXBlcjpzZWNyZXQ=")["nodes"]


def test_an_open_door_tells_no_internals() -> None:
    with ottla.Broker(metrics="0.0.0.0:0") as broker:
        assert urllib.request.urlopen(broker.metrics_url, timeout=10).status == 200
        for path in ("/internals", "/internals/events"):
            with pytest.raises(urllib.error.HTTPError, match="403"):
                ask(broker, path)


def test_no_secret_is_told(tmp_path: Path) -> None:
    with ottla.Broker(security="sasl-ssl", metrics="127.0.0.1:0") as broker:
        options = broker.client_options("alice")
        with ottla.Admin(options) as admin:
            admin.list_topics()
        with (
            ottla.Admin({**options, "sasl.password": "a-wrong-one"}) as admin,
            pytest.raises(ottla.KafkaError),
        ):
            admin.list_topics()
        told = json.dumps([ask(broker), ask(broker, "/internals/events")])
        assert options["sasl.password"] not in told
        assert "a-wrong-one" not in told


def test_several_questions_at_once_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(internals_page, "KEPT_SECONDS", 60)
    asked = 0

    async def collect() -> Json:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0)
        return {"asked": asked}

    async def ask_often() -> list[bytes]:
        page = InternalsPage(collect, EventRing())
        return [
            reply.body
            for reply in await asyncio.gather(*(page.find(INTERNALS_PATH, "") for _ in range(50)))
        ]

    assert {json.loads(body)["asked"] for body in asyncio.run(ask_often())} == {1}


def test_what_was_slow_to_collect_is_kept_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(internals_page, "MOST_SHARE", 1 / 20)
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    asked = 0

    async def collect() -> Json:
        nonlocal asked, now
        asked += 1
        now += 0.5
        return {}

    async def ask_at(*times: float) -> None:
        nonlocal now
        page = InternalsPage(collect, EventRing())
        for each in times:
            now = each
            await page.find(INTERNALS_PATH, "")

    asyncio.run(ask_at(100.0, 109.0, 110.4))
    assert asked == 1


def test_a_broker_without_metrics_keeps_no_events() -> None:
    with ottla.Broker() as broker:
        assert on_loop(broker, lambda running: running._ring) is None


def test_the_ring_goes_with_its_broker() -> None:
    before = list(logging.getLogger("ottla.broker").handlers)
    with ottla.Broker(metrics="127.0.0.1:0"):
        assert len(logging.getLogger("ottla.broker").handlers) == len(before) + 1
    assert logging.getLogger("ottla.broker").handlers == before
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ottla.OttlaError):
        ottla.Broker(metrics=f"127.0.0.1:{taken.getsockname()[1]}").start()
    assert logging.getLogger("ottla.broker").handlers == before


def test_ten_thousand_topics_are_told_in_slices() -> None:
    with ottla.Broker(metrics="127.0.0.1:0") as broker:
        with ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            for first in range(0, 2_000, 500):
                names = range(first, first + 500)
                admin.create_topics([ottla.admin.NewTopic(f"t{each}", 1) for each in names])
        found = ask(broker)
        assert found["storage"]["topic_count"] == 2_000
        assert len(found["storage"]["topics"]) == 100
        assert len(json.dumps(found)) < 200_000
