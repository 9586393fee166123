"""`ottla consume` through a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from tests.broker.requests import eventually
from tests.cli.conftest import Ottla
from tests.cli.running import running

from ottla import Admin, Broker, Consumer, Producer, TopicPartition
from ottla.admin import NewTopic
from ottla.cli.records.consume import (
    AssignedReader,
    BrokerWatch,
    Printer,
    SubscribedReader,
    _read_until_end,
)
from ottla.cli.records.ranges import Range
from ottla.client.metrics.health import ConsumerHealth
from ottla.client.model import EMPTY_RECORDS, ConsumerRecords

BEGAN_MS = 1_700_000_000_000


@pytest.fixture
def topic(cli_broker: Broker) -> str:
    """A topic with two partitions."""
    name = f"consumed-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=cli_broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, num_partitions=2)])
    return name


@pytest.fixture
def producer(cli_broker: Broker) -> Iterator[Producer]:
    with Producer(bootstrap_servers=cli_broker.bootstrap_servers) as producer:
        yield producer


def fill(producer: Producer, topic: str, count: int, partition: int = 0) -> None:
    """Records whose values are their offsets, a second apart."""
    for number in range(count):
        producer.send(
            topic, b"%d" % number, partition=partition, timestamp_ms=BEGAN_MS + number * 1000
        )
    producer.flush()


class Silence:
    """A consumer that hears nothing from brokers for so many seconds, and reads no record."""

    is_done = False

    def __init__(self, *seconds: float | None) -> None:
        self._seconds = list(seconds)

    def health(self) -> ConsumerHealth:
        return ConsumerHealth(ok=True, seconds_without_broker=self._seconds.pop(0))

    def poll(self, timeout_seconds: float) -> int:
        return 0


def test_brokers_that_go_and_come_are_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    reach = BrokerWatch(cast(Consumer, Silence(None, 0.2, 1.1, 2.2, None, None, 0.1)))
    for _ in range(7):
        reach.look()
    assert capsys.readouterr().err.splitlines() == [
        "ottla: no broker answers any more; waiting for one",
        "ottla: a broker answers again",
    ]


@pytest.mark.parametrize(("silent_seconds", "code"), [(None, 0), (2.0, 1)])
def test_waiting_for_a_broker_that_does_not_come_is_a_failure(
    silent_seconds: float | None, code: int
) -> None:
    silence = Silence(silent_seconds)
    assert (
        _read_until_end(cast(AssignedReader, silence), BrokerWatch(cast(Consumer, silence)), 0)
        == code
    )


def test_records_are_printed_in_the_form_that_is_asked_for(
    topic: str, producer: Producer, ottla: Ottla
) -> None:
    headers = [("till", b"3"), ("note", None)]
    producer.send(topic, b"tea", b"t4", partition=0, headers=headers, timestamp_ms=BEGAN_MS)
    producer.send(topic, None, b"\xff", partition=0, timestamp_ms=BEGAN_MS + 1)
    producer.flush()
    plain = ottla("consume", topic, "--exit")
    assert (plain.code, plain.out) == (0, "tea\nnull\n")
    assert "a total of 2 messages" in plain.err
    keyed = ottla("consume", topic, "-e", "-q", "-p", "0", "-K", "=", "-D", "|", "-c", "1")
    assert (keyed.out, keyed.err) == ("t4=tea|", "")
    formatted = ottla("consume", topic, "-e", "-c1", "-f", r"%t:%p:%o %k=%s %K %S %T %h%%\n")
    assert formatted.out == f"{topic}:0:0 t4=tea 2 3 {BEGAN_MS} till=3,note=null%\n"
    first, second = map(json.loads, ottla("consume", topic, "-e", "-o", "json").lines)
    assert first == {
        "topic": topic,
        "partition": 0,
        "offset": 0,
        "timestamp": BEGAN_MS,
        "timestamp_type": "create",
        "key": "t4",
        "value": "tea",
        "headers": [{"key": "till", "value": "3"}, {"key": "note", "value": None}],
    }
    assert (second["key"], second["value"]) == ({"base64": "/w=="}, None)


def test_reading_begins_and_ends_where_it_is_told(
    topic: str, producer: Producer, inside: Ottla
) -> None:
    fill(producer, topic, 6)
    fill(producer, topic, 3, partition=1)

    def read(*arguments: str) -> list[str]:
        done = inside("consume", topic, "-q", "-f", r"%p.%s\n", *arguments)
        assert done.code == 0, done.err
        return sorted(done.lines)

    assert read("--offset", "4", "--partition", "0", "--exit") == ["0.4", "0.5"]
    assert read("--offset", "-1", "--exit") == ["0.5", "1.2"]
    swapped = inside("consume", topic, "--since", "5m", "--until", "10m")
    assert swapped.code == 2
    assert "--since is later than --until: swap them" in swapped.err
    times = ("--since", str(BEGAN_MS + 1500), "--until", "2023-11-14T22:13:24")
    assert read(*times) == ["0.2", "0.3", "1.2"]
    assert len(read("--from-beginning", "--max-messages", "7")) == 7
    assert read("--timeout-ms", "50") == []
    both = inside("consume", f"{topic},{topic}", "--group", topic, "--exit", "-q")
    assert len(both.lines) == 9


def test_the_group_may_be_in_the_options_of_the_client(
    topic: str, producer: Producer, inside: Ottla, tmp_path: Path
) -> None:
    fill(producer, topic, 3)
    (tmp_path / "client.properties").write_text(f"group.id=of-{topic}\nmax.poll.records=2\n")
    first = inside("consume", topic, "-e", "-q", "-X", f"group.id=of-{topic}", "-c", "1")
    assert (first.code, first.lines) == (0, ["0"])
    config = ("--command-config", "client.properties")
    assert inside("consume", topic, "-e", "-q", *config).lines == ["1", "2"]
    # Where no group can read, a file's is not meant.
    assert inside("consume", topic, "-e", "-q", "-p", "0", *config).lines == ["0", "1", "2"]


def test_a_group_goes_on_behind_what_was_printed(
    topic: str, producer: Producer, cli_broker: Broker, ottla: Ottla
) -> None:
    fill(producer, topic, 5)
    group = f"readers-of-{topic}"
    first = ottla("consume", topic, "--group", group, "--from-beginning", "-c", "2")
    assert first.lines == ["0", "1"]
    rest = ottla("consume", f"^{topic}$", "--group", group, "--exit")
    assert rest.lines == ["2", "3", "4"]
    with Consumer(bootstrap_servers=cli_broker.bootstrap_servers, group_id=group) as consumer:
        committed = consumer.committed([(topic, 0)])[TopicPartition(topic, 0)]
    assert committed is not None
    assert committed.offset == 5


class Rebalanced:
    """A consumer whose group is shared anew while it reads: for a poll it has no partitions."""

    def __init__(self, topic: str) -> None:
        self._partition = TopicPartition(topic, 0)
        self._assigned: set[TopicPartition] = set()
        self._polls = 0

    def subscribe(self, topics: object, listener: SubscribedReader) -> None:
        self._listener = listener

    def poll(self, timeout: float) -> ConsumerRecords:
        self._polls += 1
        if self._polls in (1, 3):
            self._assigned = {self._partition}
            self._listener.on_partitions_assigned([self._partition])
        if self._polls == 2:
            self._listener.on_partitions_revoked([self._partition])
            self._assigned = set()
        return EMPTY_RECORDS

    def assignment(self) -> set[TopicPartition]:
        return self._assigned

    def position(self, partition: TopicPartition) -> int:
        return self._polls


def test_a_rebalance_is_not_the_end_of_what_a_group_reads(topic: str) -> None:
    consumer: Any = Rebalanced(topic)
    reading = SubscribedReader(consumer, Printer(lambda records: b"", None), [topic], [topic])
    reading.end_at({TopicPartition(topic, 0): 4})
    ends = []
    for _ in range(4):
        reading.poll(0)
        ends.append(reading.is_done)
    assert ends == [False, False, False, True]


def test_records_that_are_deleted_while_they_are_read_end_it_too(
    topic: str, producer: Producer, cli_broker: Broker
) -> None:
    fill(producer, topic, 5)
    with (
        Consumer(
            bootstrap_servers=cli_broker.bootstrap_servers, auto_offset_reset="earliest"
        ) as consumer,
        Admin(bootstrap_servers=cli_broker.bootstrap_servers) as admin,
    ):
        ranges = {TopicPartition(topic, 0): Range(0, 5)}
        admin.delete_records({(topic, 0): 5})
        reading = AssignedReader(consumer, Printer(lambda records: b"", None), ranges)
        assert eventually(lambda: not reading.poll(0.1) and reading.is_done, 20)


@pytest.mark.parametrize(
    ("how", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "term"]
)
def test_a_signal_ends_it_quietly_and_commits_what_was_printed(
    topic: str, producer: Producer, cli_broker: Broker, how: signal.Signals, code: int
) -> None:
    servers = cli_broker.bootstrap_servers
    group = f"readers-of-{topic}"
    fill(producer, topic, 3)
    with running(servers, "consume", topic, "--group", group, "--from-beginning") as process:
        # Records come through a pipe at once, though it waits for more.
        assert [process.line() for _ in range(3)] == [b"0\n", b"1\n", b"2\n"]
        assert process.end_by(how) == (code, "Processed a total of 3 messages\n")
    with Admin(bootstrap_servers=servers) as admin:
        assert admin.describe_consumer_groups([group])[group].members == ()
        committed = admin.list_consumer_group_offsets([group])[group][TopicPartition(topic, 0)]
    assert committed is not None
    assert committed.offset == 3


def test_records_that_come_later_are_printed_as_they_come(
    topic: str, producer: Producer, cli_broker: Broker
) -> None:
    with running(cli_broker.bootstrap_servers, "consume", topic, "--from-beginning") as process:
        for value in (b"one", b"two"):
            producer.send(topic, value, partition=1)
            producer.flush()
            assert process.line() == value + b"\n"


def test_a_reader_that_has_enough_ends_it_without_noise(
    topic: str, producer: Producer, cli_broker: Broker
) -> None:
    producer.send_many(topic, [b"x" * 1000] * 5000, partition=0).result()
    line = f"{sys.executable} -m ottla consume {topic} -b {cli_broker.bootstrap_servers} --exit"
    done = subprocess.run(
        ["bash", "-c", f"{line} | head -1; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "141"
    assert done.stderr == ""


def test_markers_and_aborted_records_are_shown_when_asked(
    topic: str, cli_broker: Broker, ottla: Ottla
) -> None:
    with Producer(
        bootstrap_servers=cli_broker.bootstrap_servers, transactional_id=topic
    ) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"wrong", partition=0)
        producer.flush()
        producer.abort_transaction()
        with producer.transaction():
            producer.send(topic, b"right", partition=0)
    assert ottla("consume", topic, "-e").lines == ["wrong", "right"]
    committed = ottla("consume", topic, "-e", "--isolation", "read_committed")
    assert committed.lines == ["right"]
    shown = ottla("consume", topic, "-e", "--show-control", "--show-aborted").lines
    assert (shown[0], shown[2]) == ("[aborted] wrong", "right")
    assert shown[1].startswith("[control abort: partition 0, offset 1, producer ")
    assert shown[3].startswith("[control commit: partition 0, offset 3, producer ")
    marked = ottla("consume", topic, "-e", "--show-control", "--show-aborted", "-J").lines
    aborted, abort, right, commit = map(json.loads, marked)
    assert (aborted["aborted"], aborted["value"]) == (True, "wrong")
    assert aborted["producer_id"] == abort["producer_id"]
    assert (abort["control"], abort["value"]) == ("abort", None)
    assert "aborted" not in right
    assert (commit["control"], commit["offset"]) == ("commit", 3)


def test_internal_topics_are_decoded(topic: str, cli_broker: Broker, ottla: Ottla) -> None:
    servers = cli_broker.bootstrap_servers
    with Admin(bootstrap_servers=servers) as admin:
        admin.alter_consumer_group_offsets(topic, {(topic, 1): 0})
    with Producer(bootstrap_servers=servers, transactional_id=topic) as producer:
        producer.init_transactions()
    lines = ottla("consume", "__consumer_offsets", "--exit").lines
    (found,) = (r for r in map(json.loads, lines) if r["key"]["data"]["group"] == topic)
    assert found["key"]["kind"] == "offset_commit"
    assert found["key"]["data"] == {"group": topic, "topic": topic, "partition": 1}
    assert found["value"]["data"]["offset"] == 0
    lines = ottla("consume", "__transaction_state", "--exit", "-o", "json").lines
    records = [r for r in map(json.loads, lines) if r["key"]["data"]["transactional_id"] == topic]
    assert records[0]["value"]["data"]["state"] == "Empty"
    raw = ottla("consume", "__consumer_offsets", "--exit", "--raw", "-f", r"%K\n")
    assert all(int(size) > 2 for size in raw.lines)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["no-such-topic"], 1, "there is no topic no-such-topic: `ottla topics list`"),
        (["^no-such-.*"], 1, "no topic matches ^no-such-.*"),
        (["{topic}", "-p", "7"], 1, "has no partition 7: it has 2"),
        (["{topic}", "--group", "g", "--partition", "0"], 2, "leave out --partition or --group"),
        (["{topic}", "-f", "%q"], 2, "%q is not a placeholder"),
        (["{topic}", "-g", "g", "-X", "group.id=h"], 2, "sets group.id=g itself: use --group"),
        (["{topic}", "-X", "auto.offset.reset=latest"], 2, "use --from-beginning or --offset"),
        (["{topic}", "-X", "value.deserializer=string"], 2, "use --value-deserializer"),
        (["{topic}", "-X", "max.poll.records=5"], 2, "max.poll.records=10000 itself: leave it out"),
        (["{topic}", "-X", "group.id=g", "-p", "0"], 2, "leave out --partition or --group"),
        (
            ["{topic}", "--show-aborted", "--isolation", "read_uncommitted"],
            2,
            "leave out --show-aborted or --isolation",
        ),
        (["{topic}", "-e", "--value-deserializer", "int"], 1, "-0 at offset 0 cannot be"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    topic: str, producer: Producer, inside: Ottla, arguments: list[str], code: int, says: str
) -> None:
    producer.send(topic, b"tea", partition=0).result()
    done = inside("consume", *(each.format(topic=topic) for each in arguments))
    (line,) = done.err.splitlines()
    assert (done.code, done.out) == (code, "")
    assert says in line
