"""Health, readiness and stalls of an app."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.app.life.specs import record_of, spec_of
from tests.waiting import in_time

from ottla.app.declarations.listener_spec import RawRecord
from ottla.app.life.app_metrics import AppMetrics
from ottla.app.life.health_server import HealthServer
from ottla.app.life.listener_report import ListenerReport, Stall
from ottla.app.life.monitor import AppMonitor, HealthRules
from ottla.app.listening.listener_health import ListenerStatus
from ottla.doors.door import Door
from ottla.errors import OttlaError
from ottla.model import Endpoint, TopicPartition

FAST = HealthRules(check_seconds=0.01, blocked_seconds=0.1, unhealthy_blocked_seconds=0.3)


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Watched:
    """A monitor with listeners that the test describes, on a clock that it moves."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.metrics = AppMetrics(self.clock)
        self.reports: list[ListenerReport] = [report_of(ListenerStatus.RUNNING)]
        # The thread of this monitor does nothing by itself: the test calls `check`.
        rules = HealthRules(check_seconds=3600)
        self.monitor = AppMonitor("shop", self.metrics, lambda: self.reports, rules, now=self.clock)

    async def look(self, *reports: ListenerReport) -> None:
        if reports:
            self.reports = [*reports]
        self.monitor.check()
        await asyncio.sleep(0)  # the loop answers
        self.monitor.check()


def report_of(status: ListenerStatus, *stalls: Stall, **more: Any) -> ListenerReport:
    return ListenerReport(name="bill", group="billing", status=status, stalls=stalls, **more)


@pytest.fixture
def watched() -> Watched:
    return Watched()


def lines_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "ottla.app"]


def test_a_handler_that_runs_long_is_logged_once_and_again_when_it_ends(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def scenario() -> None:
        watched.monitor.start()
        with watched.metrics.handling(spec_of(), [record_of(17)], 2):
            watched.clock.now = 29
            await watched.look()
            assert lines_of(caplog) == []
            watched.clock.now = 31
            await watched.look()
            await watched.look()
            is_healthy, report = watched.monitor.health()
            assert is_healthy, "a long handler is no reason to kill the process"
            assert report["stalls"] == lines_of(caplog)
        watched.clock.now = 40
        await watched.look()
        watched.monitor.stop()

    asyncio.run(scenario())
    told = (
        "listener bill: its handler has been running for 31.0 s on orders-0, offset 17 (attempt 2)"
    )
    assert lines_of(caplog) == [told, f"it goes on after 9.0 s; before: {told}"]


def test_a_handler_beyond_its_time_limit_makes_the_process_unhealthy(watched: Watched) -> None:
    spec = spec_of(handler_timeout_seconds=5)
    with watched.metrics.handling(spec, [record_of()], 1):
        watched.clock.now = 14
        assert watched.monitor.health()[0]
        watched.clock.now = 15
        is_healthy, report = watched.monitor.health()
    assert not is_healthy
    assert "beyond its handler_timeout of 5 s" in report["reasons"][0]


def test_reasons_of_the_listener_are_told_and_do_not_fail_the_process(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    retry = Stall("bill waits orders-0", "listener bill: orders-0 waits for a retry of offset 3")
    no_broker = Stall("bill broker", "listener bill: no broker has answered for 9 s")

    async def scenario() -> None:
        watched.monitor.start()
        await watched.look(report_of(ListenerStatus.RUNNING, retry, no_broker))
        is_healthy, report = watched.monitor.health()
        assert is_healthy
        assert report["listeners"]["bill"]["stalls"] == [retry.text, no_broker.text]
        await watched.look(report_of(ListenerStatus.RUNNING))
        watched.monitor.stop()

    asyncio.run(scenario())
    assert lines_of(caplog)[:2] == [retry.text, no_broker.text]
    assert len(lines_of(caplog)) == 4


def test_a_listener_that_failed_makes_the_process_unhealthy(watched: Watched) -> None:
    watched.reports = [report_of(ListenerStatus.FAILED, failure="the topic orders does not exist")]

    async def scenario() -> None:
        watched.monitor.start()
        watched.monitor.stop()

    asyncio.run(scenario())
    is_healthy, report = watched.monitor.health()
    assert not is_healthy
    assert report["reasons"] == ["listener bill has failed: the topic orders does not exist"]


def test_readiness_waits_for_the_first_assignment_and_tolerates_rebalances(
    watched: Watched,
) -> None:
    async def scenario() -> None:
        assert watched.monitor.readiness() == (
            False,
            {"status": "not ready", "app": "shop", "reasons": ["the app has not started"]},
        )
        watched.reports = [report_of(ListenerStatus.STARTING)]
        watched.monitor.start()
        assert watched.monitor.readiness()[1]["reasons"] == ["listener bill is starting"]
        await watched.look(report_of(ListenerStatus.REBALANCING))
        assert not watched.monitor.readiness()[0], "it never had partitions"
        # Without partitions because others have all: that is ready.
        await watched.look(report_of(ListenerStatus.RUNNING, partitions=0))
        assert watched.monitor.readiness()[0]
        watched.clock.now = 59
        await watched.look(report_of(ListenerStatus.REBALANCING))
        assert watched.monitor.readiness()[0]
        watched.clock.now = 61
        assert "its group rebalances" in watched.monitor.readiness()[1]["reasons"][0]
        await watched.look(report_of(ListenerStatus.PAUSED))
        assert watched.monitor.readiness()[0]
        watched.monitor.draining("the app drains")
        assert watched.monitor.readiness()[1]["reasons"] == ["the app drains"]
        watched.monitor.stop()

    asyncio.run(scenario())


def block_the_loop(records: Sequence[RawRecord]) -> None:
    """What no async handler should do."""
    threading.Event().wait(0.7)


def get(server: HealthServer, path: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(f"http://{server.endpoint}{path}", timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_a_blocked_loop_is_seen_over_http_with_handler_and_stack(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    metrics, spec = AppMetrics(), spec_of(block_the_loop)
    metrics.listener(spec)
    monitor = AppMonitor(
        "shop",
        metrics,
        lambda: [report_of(ListenerStatus.RUNNING)],
        FAST,
        functions=lambda: {"bill": block_the_loop},
    )
    server = HealthServer(Door("--health", Endpoint("127.0.0.1", 0)), monitor)
    answers: list[tuple[int, bytes]] = []

    def ask() -> None:
        deadline = time.monotonic() + 10
        while not answers or answers[-1][0] != 503:
            answers.append(get(server, "/healthz"))
            in_time(deadline, answers)

    async def scenario() -> None:
        monitor.start()
        server.start()
        asking = threading.Thread(target=ask)
        asking.start()
        block_the_loop([])
        await asyncio.to_thread(asking.join)
        deadline = time.monotonic() + 10
        while get(server, "/healthz")[0] != 200:
            in_time(deadline)
            await asyncio.sleep(0.01)
        monitor.stop()
        server.stop()

    asyncio.run(scenario())
    report = json.loads(answers[-1][1])
    (reason,) = report["reasons"]
    assert "blocked" in reason
    assert "in the handler of listener bill" in reason
    assert "test_monitor.py" in reason
    assert "threading.Event().wait(0.7)" in reason
    assert any("in block_the_loop" in line for line in report["blocked_stack"])
    began, ended = lines_of(caplog)
    assert "the event loop has been blocked" in began
    assert ended.startswith("it goes on after")


def test_health_readiness_and_metrics_over_http() -> None:
    metrics = AppMetrics()
    status = report_of(ListenerStatus.STARTING, lag={TopicPartition("orders", 0): 12}, rebalances=2)
    monitor = AppMonitor("shop", metrics, lambda: [status])
    metrics.finished(spec_of(), "done", 4)
    server = HealthServer(Door("--health", Endpoint("127.0.0.1", 0)), monitor)

    async def scenario() -> None:
        monitor.start()
        server.start()
        code, body = await asyncio.to_thread(get, server, "/healthz")
        assert code == 200
        assert json.loads(body)["listeners"]["bill"]["lag"] == 12
        code, body = await asyncio.to_thread(get, server, "/readyz")
        assert code == 503
        assert json.loads(body)["reasons"] == ["listener bill is starting"]
        code, body = await asyncio.to_thread(get, server, "/metrics")
        families = {each.name: each for each in text_string_to_metric_families(body.decode())}
        (lag,) = families["ottla_app_lag_records"].samples
        assert lag.value == 12
        assert lag.labels["topic"] == "orders"
        assert families["ottla_app_rebalances"].samples[0].value == 2
        monitor.stop()
        server.stop()

    asyncio.run(scenario())


def test_an_address_that_is_taken_is_refused_in_one_sentence() -> None:
    monitor = AppMonitor("shop", AppMetrics(), list)
    first = HealthServer(Door("--health", Endpoint("127.0.0.1", 0)), monitor)
    first.start()
    try:
        with pytest.raises(OttlaError, match="cannot listen there, Address already in use"):
            HealthServer(first.door, monitor).start()
    finally:
        first.stop()
