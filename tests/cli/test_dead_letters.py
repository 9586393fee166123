"""`ottla app dlt` against a broker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from uuid import uuid4

import pytest
from tests.app.letters.raw_records import raw_record
from tests.cli.conftest import Ottla

from ottla import Admin, Broker, Consumer, Producer
from ottla.admin import NewTopic
from ottla.app.letters import dead_letter, dead_letter_topic, read_history
from ottla.client.model import ConsumerRecord

GROUP = "billing"
ERRORS = (ValueError("no card"), TimeoutError("the bank does not answer"))


class Letters:
    """A source topic with dead letters: six in each of two partitions, alternately of two errors."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.source = f"orders-{uuid4().hex[:8]}"
        self.topic = dead_letter_topic(self.source, GROUP)
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic(self.source, num_partitions=2)])
            admin.create_topics([NewTopic(self.topic, num_partitions=2)])
            admin.create_topics([NewTopic(f"{self.source}.{GROUP}.retry.1", num_partitions=2)])
        # In transactions, as an exactly-once app writes them: markers are between the letters.
        with Producer(bootstrap_servers=servers, transactional_id=self.source) as producer:
            producer.init_transactions()
            for number in range(12):
                with producer.transaction():
                    self.send(producer, number)
            producer.begin_transaction()
            self.send(producer, 99)
            producer.flush()
            producer.abort_transaction()

    def send(self, producer: Producer, number: int) -> None:
        record = raw_record(
            self.source, number % 2, number, value=f"v{number}".encode(), key=f"k{number}".encode()
        )
        error = ERRORS[number // 2 % 2]
        letter = dead_letter(record, error, group=GROUP, listener="bill", attempt=3, now_ms=5)
        producer.send(
            letter.topic,
            letter.value,
            key=letter.key,
            partition=letter.partition,
            headers=letter.headers,
        )

    def records_of(self, topic: str) -> list[ConsumerRecord]:
        found: list[ConsumerRecord] = []
        options = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        with Consumer({"bootstrap.servers": self.servers, **options}) as consumer:
            partitions = [(info.topic, info.partition) for info in consumer.partitions_for(topic)]
            consumer.assign(partitions)
            ends = consumer.end_offsets(partitions)
            while any(consumer.position(each) < end for each, end in ends.items()):
                found += consumer.poll(0.2)
        return found

    @property
    def replayed(self) -> list[bytes]:
        return sorted(record.value for record in self.records_of(self.source))


@pytest.fixture
def letters(cli_broker: Broker) -> Letters:
    return Letters(cli_broker.bootstrap_servers)


def values(*numbers: int) -> list[bytes]:
    return sorted(f"v{number}".encode() for number in numbers)


def test_topics_are_listed_with_counts_and_reasons(letters: Letters, inside: Ottla) -> None:
    rows = inside("app", "dlt", "list", "-o", "json").data
    (row,) = [row for row in rows if row["topic"] == letters.topic]
    assert (row["source"], row["group"]) == (letters.source, GROUP)
    assert (row["letters"], row["done"]) == (12, 0)
    assert row["errors"] == {"ValueError": 6, "TimeoutError": 6}
    assert letters.topic in inside("app", "dlt", "list").out
    assert inside("app", "dlt", "list", "-o", "yaml").code == 0


def test_letters_are_listed_and_filtered(letters: Letters, inside: Ottla) -> None:
    run = partial(inside, "app", "dlt", "list", letters.topic, "-o", "json")
    rows = run().data
    assert len(rows) == 12
    first = next(row for row in rows if row["source_offset"] == 0)
    assert (first["partition"], first["offset"], first["key"]) == (0, 0, "k0")
    assert (first["attempts"], first["error"], first["message"]) == (3, "ValueError", "no card")
    assert first["listener"] == "bill"
    assert len(run("--error", "timeouterror").data) == 6
    assert len(run("--error", "bank").data) == 6
    assert len(run("--partition", "1").data) == 6
    assert len(run("--partition", "1", "--offset", str(first["offset"])).data) == 1
    assert run("--until", "1h").data == []
    assert len(run("--since", "1h").data) == 12
    missing = inside("app", "dlt", "list", letters.topic, "--partition", "7")
    assert (missing.code, "has no partition 7" in missing.err) == (1, True)


def test_a_letter_is_shown_whole(letters: Letters, inside: Ottla) -> None:
    shown = inside("app", "dlt", "show", letters.topic, "0", "0").out
    assert f"source: {letters.source}-0 offset 0" in shown
    assert "ValueError: no card" in shown
    fields = inside("app", "dlt", "show", letters.topic, "0", "0", "-o", "json").data
    assert (fields["key"], fields["value"], fields["attempts"]) == ("k0", "v0", 3)
    assert fields["headers"] == [{"key": "trace", "value": "1"}, {"key": "trace", "value": None}]
    missing = inside("app", "dlt", "show", letters.topic, "0", "1")  # a marker
    assert missing.code == 1
    assert "has no letter at offset 1" in missing.err


def test_a_replay_is_a_dry_run_unless_it_is_executed(letters: Letters, inside: Ottla) -> None:
    done = inside("app", "dlt", "replay", letters.topic)
    assert (done.code, [row["LETTERS"] for row in done.table]) == (0, ["6", "6"])
    assert "dry run" in done.err
    assert letters.replayed == []


def test_letters_come_back_as_they_were_and_once(letters: Letters, inside: Ottla) -> None:
    replay = partial(inside, "app", "dlt", "replay", letters.topic, "--execute")
    assert [row["TO"] for row in replay("--error", "no card").table] == [letters.source] * 2
    assert letters.replayed == values(0, 1, 4, 5, 8, 9)
    record = next(each for each in letters.records_of(letters.source) if each.value == b"v4")
    assert (record.partition, record.key) == (0, b"k4")
    assert record.headers == raw_record().headers
    assert replay().code == 0
    assert letters.replayed == values(*range(12))
    again = replay()
    assert (again.out, again.err) == ("", "there are no such letters\n")
    rows = inside("app", "dlt", "list", letters.topic, "--all").table
    assert [row["STATE"] for row in rows] == ["done"] * 12
    assert len(letters.records_of(letters.topic)) == 12, "the letters are still there"


def test_letters_can_go_to_another_topic_or_to_their_group_alone(
    letters: Letters, inside: Ottla
) -> None:
    replay = partial(inside, "app", "dlt", "replay", letters.topic, "--partition", "0")
    missing = replay("--to", "nowhere", "--execute")
    assert (missing.code, "there is no topic nowhere" in missing.err) == (1, True)
    assert replay("--offset", "0", "--group-only", "--execute").code == 0
    retry = f"{letters.source}.{GROUP}.retry.1"
    (record,) = letters.records_of(retry)
    history = read_history(record)
    assert history is not None
    assert (history.topic, history.offset, history.attempts) == (letters.source, 0, 0)
    with Admin(bootstrap_servers=letters.servers) as admin:
        admin.create_topics([NewTopic(f"{letters.source}-other", num_partitions=1)])
    assert replay("--to", f"{letters.source}-other", "--execute").code == 0
    assert len(letters.records_of(f"{letters.source}-other")) == 5
    assert letters.replayed == []


def test_dropped_letters_are_gone_where_none_before_them_is_open(
    letters: Letters, inside: Ottla
) -> None:
    drop = partial(inside, "app", "dlt", "drop", letters.topic)
    assert "dry run" in drop().err
    assert len(letters.records_of(letters.topic)) == 12
    assert drop("--error", "bank", "--execute").code == 0
    assert len(inside("app", "dlt", "list", letters.topic, "-o", "json").data) == 6
    assert len(letters.records_of(letters.topic)) == 12
    assert drop("--partition", "1", "--execute").code == 0
    assert {record.partition for record in letters.records_of(letters.topic)} == {0}
    inside("app", "dlt", "replay", letters.topic, "--execute")
    assert letters.replayed == values(0, 4, 8)


def test_letters_of_a_topic_that_was_created_again_are_open(
    letters: Letters, inside: Ottla
) -> None:
    inside("app", "dlt", "replay", letters.topic, "--execute")
    with Admin(bootstrap_servers=letters.servers) as admin:
        admin.delete_topics([letters.topic])
        admin.create_topics([NewTopic(letters.topic, num_partitions=2)])
    with Producer(bootstrap_servers=letters.servers) as producer:
        letters.send(producer, 0)
    (row,) = inside("app", "dlt", "list", letters.topic, "-o", "json").data
    assert row["state"] == "open"


def test_records_without_history_are_listed_but_not_replayed(
    letters: Letters, inside: Ottla
) -> None:
    with Producer(bootstrap_servers=letters.servers) as producer:
        producer.send(letters.topic, b"\xff", partition=0)
    rows = inside("app", "dlt", "list", letters.topic, "-o", "json").data
    (stranger,) = [row for row in rows if row["error"] is None]
    shown = inside("app", "dlt", "show", letters.topic, "0", str(stranger["offset"]))
    assert '{"base64": "/w=="}' in shown.out
    failed = inside("app", "dlt", "replay", letters.topic, "--execute")
    assert (failed.code, "has no headers" in failed.err) == (1, True)
    assert letters.replayed == []


@pytest.mark.campaign
def test_the_same_on_apache_kafka(kafka_address: str, inside: Ottla) -> None:
    letters = Letters(kafka_address)
    run = partial(inside, OTTLA_BOOTSTRAP_SERVER=kafka_address)
    assert len(run("app", "dlt", "list", letters.topic, "-o", "json").data) == 12
    replay = partial(run, "app", "dlt", "replay", letters.topic, "--execute")
    assert replay("--error", "no card").code == 0
    assert letters.replayed == values(0, 1, 4, 5, 8, 9)
    assert run("app", "dlt", "drop", letters.topic, "--partition", "1", "--execute").code == 0
    assert {record.partition for record in letters.records_of(letters.topic)} == {0}
    assert replay().code == 0
    assert letters.replayed == values(0, 1, 2, 4, 5, 6, 8, 9, 10)
    assert replay().out == ""


# Ends the process at the n-th call of a method of the producer: before it, or after it.
KILLED = """
import os, signal, sys
from ottla.cli.main import main
from ottla.client.blocking.producer import Producer
from ottla.inspection.dead_letters import changes
changes.CHUNK_LETTERS = 3
method, count, when = sys.argv[1], int(sys.argv[2]), sys.argv[3]
real = getattr(Producer, method)
calls = 0
def crashing(self, *given, **named):
    global calls
    calls += 1
    if calls == count and when == "before":
        self.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    result = real(self, *given, **named)
    if calls == count:
        self.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    return result
setattr(Producer, method, crashing)
sys.exit(main(sys.argv[4:]))
"""


def crash_points() -> Iterator[object]:
    every = [("send", 2), ("send", 5), ("commit_transaction", 2), ("begin_transaction", 3)]
    for method, count in every:
        for when in ("before", "after"):
            is_short = (method, count, when) == ("commit_transaction", 2, "after")
            marks = [] if is_short else [pytest.mark.campaign]
            if (method, when) == ("begin_transaction", "before"):
                continue  # the same as after the second commit
            yield pytest.param(method, count, when, marks=marks, id=f"{when}-{method}-{count}")


@pytest.mark.parametrize(("method", "count", "when"), [*crash_points()])
def test_a_tool_that_is_killed_replays_each_letter_once(
    method: str, count: int, when: str, letters: Letters, inside: Ottla
) -> None:
    line = ["app", "dlt", "replay", letters.topic, "--execute"]
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, method, str(count), when, *line],
        env={**os.environ, "OTTLA_BOOTSTRAP_SERVER": letters.servers},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    before = letters.replayed
    assert len(before) < 12
    assert inside(*line).code == 0
    assert letters.replayed == values(*range(12))
