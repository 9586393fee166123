"""Totals are for ever, rates and averages of the last minute."""

from __future__ import annotations

from math import isnan

import pytest

from ottla.client.metrics.kafka_metrics import SAMPLES, WINDOW_MS, Metrics


class Clock:
    def __init__(self) -> None:
        self.now_ms = 5_000.0

    def __call__(self) -> float:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def metrics(clock: Clock) -> Metrics:
    return Metrics(clock_ms=clock)


def test_a_meter_has_a_total_and_a_rate(metrics: Metrics, clock: Clock) -> None:
    sent = metrics.meter("record-send")
    for _ in range(30):
        sent.record(10)
        clock.now_ms += 1_000
    assert metrics.snapshot() == {"record-send-total": 300.0, "record-send-rate": 10.0}


def test_a_distribution_has_an_average_and_a_maximum(metrics: Metrics) -> None:
    sizes = metrics.distribution("batch-size")
    for size in (10, 40, 100):
        sizes.record(size)
    assert metrics.snapshot() == {"batch-size-avg": 50.0, "batch-size-max": 100.0}


def test_what_is_long_ago_counts_in_the_total_only(metrics: Metrics, clock: Clock) -> None:
    sent = metrics.meter("record-send")
    latency = metrics.distribution("request-latency")
    sent.record(600)
    latency.record(7)
    clock.now_ms += WINDOW_MS * SAMPLES
    found = metrics.snapshot()
    assert (found["record-send-total"], found["record-send-rate"]) == (600.0, 0.0)
    assert isnan(found["request-latency-avg"])
    assert isnan(found["request-latency-max"])
    sent.record(300)
    clock.now_ms += WINDOW_MS
    assert metrics.snapshot()["record-send-rate"] == 10.0


def test_the_first_millisecond_of_a_client_is_not_extrapolated(
    metrics: Metrics, clock: Clock
) -> None:
    sent = metrics.meter("record-send")
    clock.now_ms += 1
    sent.record(150)
    assert metrics.snapshot()["record-send-rate"] == 10.0


def test_gauges_are_looked_up_and_what_is_gone_is_forgotten(metrics: Metrics) -> None:
    depth = [1]
    metrics.gauge("waiting-threads", lambda: depth[0])
    metrics.meter("record-send", topic="t").record()
    metrics.gauge("in-flight", lambda: 2, node=1)
    assert metrics.snapshot()["record-send-total{topic=t}"] == 1.0
    depth[0] = 4
    metrics.forget(topic="t")
    assert metrics.snapshot() == {"waiting-threads": 4.0, "in-flight{node=1}": 2.0}
    assert metrics.meter("record-send", topic="t").total == 0


def test_asking_again_for_a_meter_gives_the_same_one(metrics: Metrics) -> None:
    assert metrics.meter("record-send") is metrics.meter("record-send")
    assert metrics.meter("record-send") is not metrics.meter("record-send", topic="t")
