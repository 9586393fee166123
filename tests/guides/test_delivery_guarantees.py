"""What the three programs of the guide on delivery guarantees do when they crash at the worst moment."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla import Broker, Consumer, Producer, TopicPartition

EXAMPLES = Path(__file__).parents[2] / "examples"
COUNT = 100
# In the middle of the first records that are polled.
BATCH, CRASH_AT = 20, 10

# Runs an example with a handler that notes each value, and may end the process when it has noted some.
PROGRAM = """
import os, sys
sys.path.insert(0, sys.argv[1])
from {module} import {function}
noted, limit = open(sys.argv[2], "a"), int(sys.argv[3])
count = 0

def handle(value):
    global count
    noted.write(value.decode() + "\\n")
    noted.flush()
    count += 1
    if count == limit:
        os._exit(9)
    return value

# Only one that crashes has to be missed soon.
session_timeout_ms = 1000 if limit else 30_000
options = dict(
    session_timeout_ms=session_timeout_ms, heartbeat_interval_ms=300, max_poll_records={batch}
)
{function}(*sys.argv[4:7], handle, **options)
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(group_min_session_timeout_ms=500) as running:
        yield running


@pytest.fixture(scope="module")
def slow_broker() -> Iterator[Broker]:
    with Broker(group_min_session_timeout_ms=500, group_initial_rebalance_delay_ms=1500) as running:
        yield running


def run(example: str, function: str, notes: Path, crash_at: int, *arguments: str) -> int:
    program = PROGRAM.format(module=example, function=function, batch=BATCH)
    command = [sys.executable, "-c", program, str(EXAMPLES), str(notes), str(crash_at), *arguments]
    return subprocess.run(command, timeout=60, check=False).returncode


def fill(broker: Broker, topic: str) -> set[str]:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send_many(topic, [b"%d" % n for n in range(COUNT)]).result(30)
    return {str(n) for n in range(COUNT)}


@pytest.mark.parametrize("example", ["at_most_once", "at_least_once"])
def test_a_crash_loses_or_repeats_what_the_guide_says(
    broker: Broker, tmp_path: Path, example: str
) -> None:
    sent = fill(broker, example)
    notes = tmp_path / "noted"
    arguments = (broker.bootstrap_servers, example, "g-" + example)
    assert run(example, "consume", notes, CRASH_AT, *arguments) == 9
    assert run(example, "consume", notes, 0, *arguments) == 0
    seen = Counter(notes.read_text().split())
    if example == "at_most_once":
        assert set(seen) == sent - {str(n) for n in range(CRASH_AT, BATCH)}
        assert max(seen.values()) == 1
    else:
        assert set(seen) == sent
        assert max(seen.values()) == 2


def test_a_crash_neither_loses_nor_repeats_with_transactions(
    broker: Broker, tmp_path: Path
) -> None:
    sent = fill(broker, "source")
    notes = tmp_path / "noted"
    arguments = (broker.bootstrap_servers, "source", "sink")
    assert run("exactly_once", "copy", notes, CRASH_AT, *arguments) == 9
    assert run("exactly_once", "copy", notes, 0, *arguments) == 0
    assert Counter(notes.read_text().split())["0"] == 2, "the crash was in the middle of the work"
    copied = Counter[str]()
    with Consumer(
        bootstrap_servers=broker.bootstrap_servers, isolation_level="read_committed"
    ) as consumer:
        consumer.assign([("sink", 0)])
        consumer.seek_to_beginning()
        end = consumer.end_offsets()[TopicPartition("sink", 0)]
        while consumer.position(("sink", 0)) < end:
            copied.update(record.value.decode() for record in consumer.poll(1.0))
    assert copied == Counter(dict.fromkeys(sent, 1))


@pytest.mark.parametrize(
    ("example", "function"),
    [("at_most_once", "consume"), ("at_least_once", "consume"), ("exactly_once", "copy")],
)
def test_a_group_that_takes_long_to_form_is_waited_for(
    slow_broker: Broker, tmp_path: Path, example: str, function: str
) -> None:
    """As with `ottla serve` and Apache Kafka, whose groups wait 3 s for more members."""
    topic = "slowly-" + example
    sent = fill(slow_broker, topic)
    notes = tmp_path / "noted"
    assert run(example, function, notes, 0, slow_broker.bootstrap_servers, topic, "late") == 0
    assert set(notes.read_text().split()) == sent


def test_aborted_records_do_not_end_the_copy(broker: Broker, tmp_path: Path) -> None:
    """A poll that met aborted records only returns none, and more may follow."""
    with Producer(
        bootstrap_servers=broker.bootstrap_servers, transactional_id="of-two-minds"
    ) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send_many("regretted", [b"x" * 1000] * 3000).result(30)
        producer.abort_transaction()
        with producer.transaction():
            producer.send("regretted", value=b"meant")
    notes = tmp_path / "noted"
    arguments = (broker.bootstrap_servers, "regretted", "kept")
    assert run("exactly_once", "copy", notes, 0, *arguments) == 0
    assert notes.read_text().split() == ["meant"]
