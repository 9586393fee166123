"""A report says what was measured."""

from __future__ import annotations

import os
import time
from dataclasses import replace

import pytest
from benchmarks.comparison import Results, Row, compare, observed
from benchmarks.kafka_jars import UnavailableError, kafka_jars
from benchmarks.measure import (
    Load,
    Measurement,
    Memory,
    cpu_seconds,
    memory_of,
    percentiles_ms,
)
from benchmarks.peers import Peer
from benchmarks.report import Report
from benchmarks.text_table import number


class OwnProcess(Peer):
    """A peer that is this process: nothing has to be started."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.version = "1"

    @property
    def pid(self) -> int:
        return os.getpid()

    def command(self) -> list[str]:
        return []


def unused(peer: Peer, seconds: float) -> Measurement:
    raise AssertionError(peer, seconds)


ROW = Row("produce", "raw", "small", "MB/s", unused)
LATENCY = Row("latency", "raw", "small", "", unused)


def report(results: Results, versions: dict[str, str]) -> Report:
    memory = dict.fromkeys(versions, Memory(30.0, 20.0))
    starts = {key: [0.25] for key in versions}
    return Report(1, 1.0, 0.0, versions, {}, results, starts, memory, memory)


def test_the_ratio_is_the_median_of_the_rounds_ratios() -> None:
    results = Results()
    # Round for round ours is half, twice and four times as fast, in ever busier moments.
    for ours, theirs in ((100.0, 200.0), (20.0, 10.0), (4.0, 1.0)):
        results.add(ROW, "ottla", Measurement(ours))
        results.add(ROW, "kafka", Measurement(theirs))
    made = report(results, {"ottla": "1", "kafka": "4"})
    assert made.as_json()["rows"][0]["ratio"] == {"kafka": 2.0}
    assert "| produce, small | raw | MB/s | 20 | 10 | 2.00 |" in made.markdown()


def test_latency_rows_have_a_table_of_their_own() -> None:
    results = Results()
    results.add(LATENCY, "ottla", Measurement(latency_ms={"p50": 0.1, "p99": 2.0}))
    markdown = report(results, {"ottla": "1"}).markdown()
    assert "| latency, small | 0.100 | 2.000 |" in markdown
    assert "MB/s" not in markdown


def test_a_report_without_peers_is_complete() -> None:
    results = Results()
    results.add(ROW, "ottla", Measurement(5.0, cpu_us_per_request=3.0, cpu_ms_per_mb=4.0))
    markdown = report(results, {"ottla": "1"}).markdown()
    assert "| produce, small | raw | MB/s | 5 | 3 | 4 |" in markdown
    assert "| resident memory idle, MB (anonymous) | 30 (20) |" in markdown


def test_every_peer_is_measured_in_every_round_and_each_goes_first_in_turn() -> None:
    order: list[str] = []

    def run(peer: Peer, seconds: float) -> Measurement:
        order.append(peer.name)
        return Measurement(seconds)

    row = replace(ROW, run=run)
    peers = [OwnProcess("a"), OwnProcess("b"), OwnProcess("c")]
    results = compare([row], peers, rounds=2, seconds=0.5)
    assert "".join(order) == "abc" + "bca" + "cab"
    # The first round is for warming up.
    assert {name: len(found) for name, found in results.rounds[row].items()} == dict.fromkeys(
        "abc", 2
    )


def test_processor_time_is_related_to_the_load() -> None:
    def load() -> Load:
        end = time.process_time() + 0.2
        while time.process_time() < end:
            pass
        return Load(requests=1000, records=1, value_bytes=10_000_000, seconds=0.4)

    measurement, _ = observed(OwnProcess("a"), "MB/s", load)
    assert measurement.throughput == pytest.approx(25.0)
    assert measurement.cpu_us_per_request == pytest.approx(200, rel=0.2)
    assert measurement.cpu_ms_per_mb == pytest.approx(20, rel=0.2)


def test_the_kernels_numbers_about_a_process_are_read() -> None:
    assert cpu_seconds(os.getpid()) == pytest.approx(time.process_time(), abs=0.1)
    memory = memory_of(os.getpid())
    assert 1 < memory.anonymous_mb < memory.resident_mb


def test_percentiles_are_measured_values() -> None:
    assert percentiles_ms([n / 1000 for n in range(100)]) == {"p50": 50, "p99": 99, "p99.9": 99}
    assert percentiles_ms([n / 1000 for n in range(2000)])["p99.9"] == 1998
    assert percentiles_ms([0.002]) == {"p50": 2, "p99": 2, "p99.9": 2}


@pytest.mark.parametrize(
    ("value", "text"), [(0.01234, "0.0123"), (12.34, "12.3"), (123456.0, "123,000"), (0.0, "0")]
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_kafka_is_left_out_with_a_reason_where_there_is_no_java(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UnavailableError, match="java is not installed"):
        kafka_jars()
