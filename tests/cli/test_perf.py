"""`ottla perf` through processes of its own, with few records."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Ottla

from ottla import Admin, Broker, Consumer
from ottla.admin import NewTopic
from ottla.cli.perf import transactions as perf_transactions
from ottla.cli.perf.measures import Tally

NUMBER = r"\d+(?:\.\d+)?"
PRODUCED = re.compile(
    rf"(\d+) records sent, {NUMBER} records/sec \({NUMBER} MB/sec\), {NUMBER} ms avg latency, "
    rf"{NUMBER} ms max latency, \d+ ms 50th, \d+ ms 95th, \d+ ms 99th, \d+ ms 99\.9th\."
)
MOMENT = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}"
CONSUMED = re.compile(
    rf"{MOMENT}, {MOMENT}, (\d+\.\d{{4}}), \d+\.\d{{4}}, (\d+), \d+\.\d{{4}}, \d+, \d+, \d+\.\d{{4}}, "
    r"\d+\.\d{4}"
)
HEADER = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)


def make(broker: Broker, topic: str) -> None:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, num_partitions=2)])


def values_of(
    broker: Broker, topic: str, isolation: str = "read_uncommitted"
) -> list[bytes | None]:
    """The values of all records of a topic."""
    options = {"bootstrap.servers": broker.bootstrap_servers, "isolation.level": isolation}
    partitions = [(topic, 0), (topic, 1)]
    found: list[bytes | None] = []
    with Consumer(options) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(each) < end for each, end in ends.items()):
            found += [record.value for record in consumer.poll(0.1)]
    return found


def count(broker: Broker, topic: str, isolation: str = "read_uncommitted") -> int:
    return len(values_of(broker, topic, isolation))


def test_sending_and_reading_are_measured(cli_broker: Broker, ottla: Ottla, inside: Ottla) -> None:
    make(cli_broker, "perf-both")
    small = ("--num-records", "3000", "--record-size", "100")
    done = ottla("perf", "produce", "perf-both", *small, "--warmup", "500")
    assert done.code == 0, done.err
    found = PRODUCED.fullmatch(done.out.strip())
    assert found is not None, done.out
    assert found[1] == "3000"
    kafkas = ("--topic", "perf-both", "--num-records", "200", "--throughput", "2000")
    props = ("--producer-props", "acks=1", "linger.ms=0")
    data = inside("perf", "produce", *kafkas, *props, "--print-metrics", "-o", "json").data
    assert (data["records"], data["failed"], data["bytes"]) == (200, 0, 20_000)
    assert 0 < data["records_per_second"] < 2500
    latency = data["latency_ms"]
    assert 0 < latency["p50"] <= latency["p99"] <= latency["p99_9"] <= latency["max"]
    assert data["metrics"]["record-send-total"] == 200
    assert count(cli_broker, "perf-both") == 3700

    done = ottla("perf", "consume", "perf-both", "--messages", "3700")
    assert done.code == 0, done.err
    header, line = done.lines
    assert header == HEADER
    read = CONSUMED.fullmatch(line)
    assert read is not None, line
    assert (read[1], read[2]) == (f"{370_000 / 1024 / 1024:.4f}", "3700")
    few = inside("perf", "consume", "perf-both", "--messages", "9999", "--idle", "3", "-o", "json")
    assert few.code == 1
    assert (few.data["records"], few.data["bytes"]) == (3700, 370_000)
    assert "--idle" in few.err
    detailed = ("--show-detailed-stats", "--reporting-interval", "1", "--hide-header")
    done = inside("perf", "consume", "perf-both", "--messages", "3700", *detailed)
    assert len(done.lines) >= 1
    assert all(re.match(rf"{MOMENT}, 0, ", line) for line in done.lines)


def test_reading_creates_no_topic(inside: Ottla) -> None:
    done = inside("perf", "consume", "perf-nope", "--messages", "1")
    assert (done.code, done.out) == (1, "")
    assert "there is no topic perf-nope" in done.err
    assert "perf-nope" not in inside("topics", "list", "--names").lines


def test_values_come_from_a_file(cli_broker: Broker, inside: Ottla, tmp_path: Path) -> None:
    make(cli_broker, "perf-file")
    (tmp_path / "values.txt").write_bytes(b"tea\r\ncake\r\n")
    done = inside(
        *("perf", "produce", "perf-file", "--num-records", "50", "--payload-file", "values.txt"),
        *("--payload-delimiter", r"\r\n"),
    )
    assert done.code == 0, done.err
    assert set(values_of(cli_broker, "perf-file")) == {b"tea", b"cake"}


def test_records_that_are_refused_are_told(cli_broker: Broker, inside: Ottla) -> None:
    with Admin(bootstrap_servers=cli_broker.bootstrap_servers) as admin:
        admin.create_topics(
            [NewTopic("perf-refused", num_partitions=1, configs={"max.message.bytes": "100"})]
        )
    done = inside("perf", "produce", "perf-refused", "--num-records", "5", "--record-size", "500")
    assert done.code == 1
    assert done.out.startswith("0 records sent, ")
    assert "records that were not written: 5: " in done.err


def test_the_way_there_and_back_is_measured(ottla: Ottla, inside: Ottla) -> None:
    small = ("--num-records", "30", "--warmup", "3")
    done = ottla("perf", "latency", "perf-latency", *small)
    assert done.code == 0, done.err
    assert done.err == "topic perf-latency created: 1 partition\n"
    first, second = done.lines
    assert re.fullmatch(r"Avg latency: \d+\.\d{4} ms", first)
    assert re.fullmatch(r"Percentiles: 50th = \d+, 99th = \d+, 99\.9th = \d+", second)
    data = inside("perf", "latency", "perf-latency", *small, "-o", "json").data
    assert data["records"] == 30
    assert 0 < data["latency_ms"]["p50"] <= data["latency_ms"]["max"]


def test_transactions_are_measured(cli_broker: Broker, ottla: Ottla, inside: Ottla) -> None:
    make(cli_broker, "perf-transactions")
    small = ("perf-transactions", "--num-records", "205", "--producers", "2")
    done = ottla("perf", "transactions", *small, "--transaction-size", "20", "-o", "json")
    assert done.code == 0, done.err
    # 103 and 102 records, in six transactions each.
    assert (done.data["transactions"], done.data["records"]) == (12, 205)
    assert 0 < done.data["commit_latency_ms"]["p50"] <= done.data["transaction_latency_ms"]["max"]
    timed = (
        "--transaction-duration-ms",
        "50",
        "--throughput",
        "2000",
        "--transactional-id",
        "perf",
    )
    done = inside("perf", "transactions", *small, *timed)
    assert done.code == 0, done.err
    found = re.match(r"(\d+) transactions committed, .* 205 records sent, .*99\.9th\.\n", done.out)
    assert found is not None, done.out
    assert 2 <= int(found[1]) < 20
    assert count(cli_broker, "perf-transactions", "read_committed") == 410


def test_transactions_that_are_interrupted_are_measured(
    cli_broker: Broker, inside: Ottla, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(cli_broker, "perf-interrupted")
    press = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))

    def press_once(commits: Tally, *words: str) -> None:
        if not press.ident:
            press.start()  # so that it comes while the command waits for its writers

    monkeypatch.setattr(perf_transactions, "interval_line", press_once)
    many = ("--num-records", "1000000", "--transaction-size", "500000", "--throughput", "500")
    done = inside("perf", "transactions", "perf-interrupted", *many, "-o", "json")
    assert done.code == 130, done.err
    assert done.data["transactions"] == 1
    assert 0 < done.data["records"] < 5000
    assert 0.2 < done.data["seconds"] < 10
    assert count(cli_broker, "perf-interrupted", "read_committed") == done.data["records"]


def test_kafka_is_measured(kafka_address: str, inside: Ottla) -> None:
    topic = f"measured-{time.monotonic_ns()}"

    def run(verb: str, *arguments: str) -> Any:
        done = inside("perf", verb, topic, *arguments, "-b", kafka_address, "-o", "json")
        assert done.code == 0, done.err
        return done.data

    assert run("latency", "--num-records", "5")["records"] == 5
    assert run("produce", "--num-records", "95")["records"] == 95
    assert run("transactions", "--num-records", "20", "--transaction-size", "10")["records"] == 20
    assert run("consume", "--messages", "120")["records"] == 120
