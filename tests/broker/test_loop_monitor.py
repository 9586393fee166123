"""How long the event loop was held is measured, told to Prometheus, and logged."""

from __future__ import annotations

import asyncio
import itertools
import logging
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from tests.broker.exposition_reader import read, value

import ottla
from ottla.broker.loop import loop_monitor
from ottla.broker.loop.loop_monitor import LoopHolds, LoopMonitor, ProcessorWait
from ottla.broker.runtime import BrokerSettings, start_broker
from ottla.config.broker import BrokerConfig
from ottla.event_loop import new_event_loop

LOOPS = [
    pytest.param(new_event_loop, id="uvloop"),
    pytest.param(asyncio.new_event_loop, id="standard"),
]
LoopMaker = Callable[[], asyncio.AbstractEventLoop]


def spin(seconds: float) -> None:
    """Takes that much processor time, however busy the machine is."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def held_by(make_loop: LoopMaker, work: Callable[[], None]) -> float:
    """What a monitor says after `work` was done in one callback."""

    async def run() -> float:
        monitor = LoopMonitor(itertools.count(1).__next__)
        monitor.start()
        await asyncio.sleep(0)
        work()
        await asyncio.sleep(2 * loop_monitor.PERIOD_SECONDS)
        monitor.stop()
        return monitor.held_seconds_max

    loop = make_loop()
    try:
        return loop.run_until_complete(run())
    finally:
        loop.close()


@pytest.mark.parametrize("make_loop", LOOPS)
def test_work_in_one_callback_holds_the_loop(make_loop: LoopMaker) -> None:
    held = held_by(make_loop, lambda: spin(0.1))
    assert held >= 0.1 - 2 * loop_monitor.PERIOD_SECONDS


@pytest.mark.parametrize("make_loop", LOOPS)
def test_waiting_in_one_callback_holds_the_loop(make_loop: LoopMaker) -> None:
    held = held_by(make_loop, lambda: time.sleep(0.1))
    assert held >= 0.1 - 2 * loop_monitor.PERIOD_SECONDS


def test_waiting_for_a_processor_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = iter((5.0, 5.25, 5.25, 5.25))
    monkeypatch.setattr(ProcessorWait, "seconds", lambda self: next(waits))
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monitor = LoopMonitor(itertools.count(1).__next__)
    loop: Any = LoopByHand()
    monitor._processor_wait = ProcessorWait()
    monitor._schedule(loop)
    now += loop_monitor.PERIOD_SECONDS + 0.3
    monitor._tick(loop)
    assert monitor.held_seconds_max == pytest.approx(0.05)
    monitor.stop()


class LoopByHand:
    """Notes what is asked of it; the test calls back."""

    def __init__(self) -> None:
        self.delays: list[float] = []

    def call_later(self, delay: float, callback: Callable[..., None], *args: Any) -> LoopByHand:
        self.delays.append(delay)
        return self

    def cancel(self) -> None:
        pass


def test_when_clients_send_nothing_the_timer_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    now, received_bytes = 100.0, 0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    loop: Any = LoopByHand()
    monitor = LoopMonitor(lambda: received_bytes)
    monitor._processor_wait = ProcessorWait()
    monitor._schedule(loop)
    received_bytes = 1
    monitor._tick(loop)
    now += loop_monitor.QUIET_AFTER_SECONDS - 0.01
    monitor._tick(loop)
    now += 0.01
    monitor._tick(loop)
    monitor.stop()
    quick, slow = loop_monitor.PERIOD_SECONDS, loop_monitor.QUIET_PERIOD_SECONDS
    assert loop.delays == [slow, quick, quick, slow]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how long a thread waited")
def test_the_system_says_how_long_a_thread_waited_for_a_processor() -> None:
    # Two busy processes that share one processor wait for each other.
    program = (
        "import os, time\n"
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "child = os.fork()\n"
        "from ottla.broker.loop.loop_monitor import ProcessorWait\n"
        "wait = ProcessorWait()\n"
        "before, until = wait.seconds(), time.thread_time() + 0.3\n"
        "while time.thread_time() < until: pass\n"
        "print(wait.seconds() - before, flush=True) if child else None\n"
        "os.waitpid(child, 0) if child else os._exit(0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=60,
    )
    assert float(done.stdout) > 0.02


# -- what is told


def test_the_worst_is_told_for_one_to_two_windows() -> None:
    holds = LoopHolds(now=0.0)
    holds.add(0.05, now=10.0)
    holds.add(0.03, now=20.0)
    assert holds.worst(now=59.0) == 0.05
    holds.add(0.01, now=61.0)
    assert holds.worst(now=119.0) == 0.05
    assert holds.worst(now=122.0) == 0.01
    assert holds.worst(now=1000.0) == 0.0


def test_long_holds_are_logged_and_seldom(caplog: pytest.LogCaptureFixture) -> None:
    holds = LoopHolds(now=0.0)
    with caplog.at_level(logging.WARNING):
        holds.add(0.099, now=1.0)
        assert not caplog.records
        holds.add(0.2, now=2.0)
        holds.add(0.5, now=3.0)
        holds.add(0.3, now=4.0)
        holds.add(0.0, now=11.9)
        assert len(caplog.records) == 1
        holds.add(0.0, now=12.0)
        holds.add(0.0, now=90.0)
    told = [(record.event, record.args) for record in caplog.records]  # type: ignore[attr-defined]
    assert told == [
        ("loop_held", {"seconds": 0.2, "times": 1, "limit_ms": 100}),
        ("loop_held", {"seconds": 0.5, "times": 2, "limit_ms": 100}),
    ]


@pytest.mark.parametrize("has_own_process", [True, False])
def test_only_a_broker_with_its_own_process_logs_what_held_its_loop(
    caplog: pytest.LogCaptureFixture, has_own_process: bool
) -> None:
    async def run() -> None:
        settings = BrokerSettings(
            BrokerConfig.read({"listeners": "PLAINTEXT://127.0.0.1:0"}),
            has_own_process=has_own_process,
        )
        broker = await start_broker(settings)
        time.sleep(loop_monitor.QUIET_PERIOD_SECONDS + 0.3)
        await asyncio.sleep(2 * loop_monitor.QUIET_PERIOD_SECONDS)
        await broker.stop()

    asyncio.run(run())
    events = [getattr(record, "event", "") for record in caplog.records]
    assert ("loop_held" in events) == has_own_process


def test_prometheus_is_told_what_held_the_loop_of_a_broker() -> None:
    with ottla.Broker(metrics="127.0.0.1:0") as broker:
        loop = broker._loop
        assert loop is not None
        # No client sends anything: the timer is slow, and has to be met.
        loop.call_soon_threadsafe(time.sleep, loop_monitor.QUIET_PERIOD_SECONDS + 0.15)
        deadline = time.monotonic() + 20
        while held_seconds_max(broker) < 0.1:
            assert time.monotonic() < deadline
            time.sleep(0.1)


def held_seconds_max(broker: ottla.Broker) -> float:
    with urllib.request.urlopen(broker.metrics_url, timeout=10) as answer:
        return value(read(answer.read().decode()), "ottla_loop_held_seconds_max")
