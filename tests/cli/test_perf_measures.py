"""What `ottla perf` counts with."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from ottla.cli.commands.syntax import Arguments
from ottla.cli.errors import CommandError, UsageError
from ottla.cli.perf.measures import Latencies, Payloads, SendRate, Tally, topic_of
from ottla.cli.perf.produce import summary


def options(**more: object) -> Arguments:
    given = {"payload_file": None, "payload_monotonic": False, "payload_delimiter": None}
    return Arguments(**{**given, "record_size": 10, "throughput": -1, **more})


def test_percentiles_are_those_of_kafkas_tool() -> None:
    chance = random.Random(1)
    values = [chance.randrange(5000) / 10 for _ in range(999)]
    latencies, parts = Latencies(), [Latencies(), Latencies()]
    for number, value in enumerate(values):
        parts[number % 2].add(value)
    for part in parts:
        latencies.include(part)
    for share in (0.0, 0.5, 0.95, 0.99, 0.999):
        assert latencies.percentile(share) == sorted(values)[int(share * len(values))]
    assert latencies.max_ms == max(values)
    assert latencies.average_ms == pytest.approx(sum(values) / len(values))
    assert Latencies().percentile(0.5) == 0.0


def test_records_of_a_batch_count_each() -> None:
    latencies = Latencies()
    latencies.add(1.0, 99)
    latencies.add(50.0)
    assert (latencies.percentile(0.5), latencies.percentile(0.99)) == (1.0, 50.0)
    assert latencies.average_ms == pytest.approx(1.49)


def test_the_summary_is_kafkas_line() -> None:
    tally = Tally()
    tally.note(2.5, 3, 3 * 1024 * 1024)
    tally.note(7.25, 1, 1024 * 1024)
    assert summary(tally, 2.0) == (
        "4 records sent, 2.0 records/sec (2.00 MB/sec), 3.69 ms avg latency, 7.25 ms max latency, "
        "2 ms 50th, 7 ms 95th, 7 ms 99th, 7 ms 99.9th."
    )


def test_the_pace_is_kept() -> None:
    began = time.perf_counter()
    pace = SendRate(1000)
    for _ in range(5):
        pace.keep(10)
    assert time.perf_counter() - began >= 0.05
    SendRate(-1).keep(10**9)


def test_payloads_have_the_size_and_number_that_was_asked_for() -> None:
    values = [value for chunk in Payloads(options()).chunks(1234) for value in chunk]
    assert len(values) == 1234
    assert {len(value) for value in values} == {10}
    assert len(set(values)) > 100
    chunks = list(Payloads(options(payload_monotonic=True)).chunks(1001))
    assert [value for chunk in chunks for value in chunk] == [b"%d" % n for n in range(1001)]
    slow = Payloads(options(throughput=10))
    assert [len(chunk) for chunk in slow.chunks(3)] == [1, 1, 1]
    large = Payloads(options(record_size=1_000_000))
    assert [len(chunk) for chunk in large.chunks(2)] == [1, 1]


def test_payloads_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "values"
    file.write_bytes(b"one\ntwo\n\n")
    (chunk,) = Payloads(options(payload_file=str(file))).chunks(100)
    assert set(chunk) == {b"one", b"two"}
    file.write_bytes(b"a;b")
    (chunk,) = Payloads(options(payload_file=str(file), payload_delimiter=b";")).chunks(100)
    assert set(chunk) == {b"a", b"b"}
    file.write_bytes(b"\n")
    with pytest.raises(CommandError, match="is empty"):
        Payloads(options(payload_file=str(file)))
    with pytest.raises(UsageError, match="needs --payload-file"):
        Payloads(options(payload_delimiter=b";"))


def test_exactly_one_topic_is_needed() -> None:
    assert topic_of(Arguments(topics=["a"], topic=None)) == "a"
    assert topic_of(Arguments(topics=[], topic="a")) == "a"
    for topics, topic in ((["a"], "b"), ([], None)):
        with pytest.raises(UsageError):
            topic_of(Arguments(topics=topics, topic=topic))
