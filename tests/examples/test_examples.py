"""The programs of examples/ run, and do what they say."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.examples.small_redis import SmallRedis

from ottla import Broker, Producer
from ottla.records.record import TimestampType

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PARTITIONS = 3
COUNT = 300

# Counts with an example until it has counted some of the records, and ends the process in the middle of the work.
CRASHING = """
import os, sys
sys.path.insert(0, sys.argv[1])
import {example} as example
servers, topic, where, crash_at = *sys.argv[2:5], int(sys.argv[5])
{make}
records_of = example.ottla.ConsumerRecords.records
polled = 0

def records(self, partition):
    global polled
    polled += 1
    if polled == crash_at:
        os._exit(9)
    return records_of(self, partition)

example.ottla.ConsumerRecords.records = records
example.consume(
    servers, topic, store, max_poll_records=20, session_timeout_ms=1000, heartbeat_interval_ms=300
)
"""
SQLITE = "store = example.Ledger(where)"
REDIS = """
import redis
host, _, port = where.rpartition(":")
store = redis.Redis(host=host, port=int(port))
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(num_partitions=PARTITIONS, group_min_session_timeout_ms=500) as running:
        yield running


def run(command: list[str]) -> tuple[int, str]:
    """Runs Python; its exit code and what it printed."""
    result = subprocess.run(
        [sys.executable, "-W", "error", *command],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *sys.path[1:]])},
    )
    assert result.stderr == "", result.stderr
    return result.returncode, result.stdout


def run_example(name: str, *arguments: str) -> list[str]:
    code, output = run([str(EXAMPLES / f"{name}.py"), *arguments])
    assert code == 0
    return output.splitlines()


def fill(broker: Broker, topic: str) -> dict[str, int]:
    """Fills a topic with records of seven keys; how many each key has."""
    keys = [f"key {number % 7}" for number in range(COUNT)]
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for key in keys:
            producer.send(topic, value=b"x", key=key.encode())
    return {key: keys.count(key) for key in sorted(set(keys))}


def crash_and_go_on(broker: Broker, topic: str, where: str, example: str, make: str) -> None:
    """Runs an example that dies in the middle, and again until it has read everything."""
    program = CRASHING.format(example=example, make=make)
    arguments = [str(EXAMPLES), broker.bootstrap_servers, topic, where]
    assert run(["-c", program, *arguments, "8"])[0] == 9


def test_counts_and_positions_in_sqlite_survive_a_crash(
    broker: Broker, tmp_path: Path, ottla_topic: str
) -> None:
    expected = fill(broker, ottla_topic)
    database = str(tmp_path / "ledger.sqlite")
    crash_and_go_on(broker, ottla_topic, database, "sqlite_offsets", SQLITE)
    lines = run_example("sqlite_offsets", broker.bootstrap_servers, ottla_topic, database)
    assert lines == [f"{key} {count}" for key, count in expected.items()]


def test_counts_and_positions_in_redis_survive_a_crash(broker: Broker, ottla_topic: str) -> None:
    pytest.importorskip("redis", reason="the package redis is not installed")
    expected = fill(broker, ottla_topic)
    with SmallRedis() as server:
        crash_and_go_on(broker, ottla_topic, server.address, "redis_offsets", REDIS)
        counted = sum(int(count) for count in server.hashes[b"counts"].values())
        assert 0 < counted < COUNT
        lines = run_example("redis_offsets", broker.bootstrap_servers, ottla_topic, server.address)
    assert lines == [f"{key} {count}" for key, count in expected.items()]


def test_a_consumer_that_lost_its_partition_counts_nothing_twice(tmp_path: Path) -> None:
    sys.path.insert(0, str(EXAMPLES))
    try:
        from sqlite_offsets import CountedError, Ledger  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(EXAMPLES))
    from ottla import ConsumerRecord, TopicPartition

    partition = TopicPartition("t", 0)
    records = [
        ConsumerRecord("t", 0, n, 0, TimestampType.CREATE_TIME, b"k", b"v", (), None, 1, 1)
        for n in range(5)
    ]
    winner, loser = (Ledger(str(tmp_path / "ledger")) for _ in range(2))
    assert winner.position(partition) == loser.position(partition) == 0
    winner.count(partition, records, 5)
    with pytest.raises(CountedError):
        loser.count(partition, records, 5)
    assert loser.counts() == {"k": 5}
    assert loser.position(partition) == 5
    for ledger in (winner, loser):
        ledger.database.close()


def test_dataclasses_travel(broker: Broker, ottla_topic: str) -> None:
    lines = run_example("dataclass_serializer", broker.bootstrap_servers, ottla_topic)
    assert sorted(lines) == [
        "Order(id=7, items=('tea', 'cake'), total=Decimal('6.10'))",
        "Order(id=8, items=('espresso',), total=Decimal('2.50'))",
    ]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_without_arguments_says_how_to_run_it(path: Path) -> None:
    if path.stem == "redis_offsets":
        pytest.importorskip("redis", reason="the package redis is not installed")
    result = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 1
    command = f"python examples/{path.name} HOST:PORT "
    assert result.stderr.startswith(f"usage: {command}")
    assert result.stderr.count("\n") == 1
    usage = result.stderr.removeprefix("usage: ").strip()
    assert f"\n    {usage}\n" in path.read_text(encoding="utf-8"), "its docstring says the same"


def test_a_large_customer_has_a_partition_to_himself(broker: Broker, ottla_topic: str) -> None:
    lines = run_example("custom_partitioner", broker.bootstrap_servers, ottla_topic)
    placed = dict(line.split() for line in lines)
    assert placed.pop("large") == "0"
    assert set(placed) == {"Ada", "Ben", "Cy"}
    assert "0" not in placed.values()


def test_members_get_partitions_by_their_capacity(
    ottla_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from custom_assignor import ByCapacity, member  # type: ignore[import-not-found]

    small, large = ByCapacity(1), ByCapacity(2)
    with (
        # Both join in the first generation, and need no heartbeat to hear of the other.
        Broker(num_partitions=PARTITIONS, group_initial_rebalance_delay_ms=500) as broker,
        member(broker.bootstrap_servers, ottla_topic, small) as first,
        member(broker.bootstrap_servers, ottla_topic, large) as second,
    ):
        for _ in range(100):
            first.poll(0.1)
            second.poll(0.1)
            if (len(first.assignment()), len(second.assignment())) == (1, 2):
                break
        assert (len(small.share), len(large.share)) == (1, 2)
        assert {*small.share, *large.share} == {(ottla_topic, n) for n in range(PARTITIONS)}


def test_interceptors_measure(broker: Broker, ottla_topic: str) -> None:
    first, second = run_example("interceptors", broker.bootstrap_servers, ottla_topic)
    assert first == "100 delivered, 0 failed"
    assert second.startswith("longest ")
    assert second.count(f"topic='{ottla_topic}'") >= 1
