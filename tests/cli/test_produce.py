"""`ottla produce` through a process of its own."""

from __future__ import annotations

import io
import os
import signal
import threading
import time
import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.broker.requests import eventually
from tests.cli.conftest import Ottla
from tests.cli.running import running
from tests.cli.stalling import Pieces, Stalled

from ottla import Admin, Broker, Consumer
from ottla.admin import NewTopic
from ottla.cli.records.input import _no_prompt, _split
from ottla.client.model import ConsumerRecord
from ottla.config.option_types import IsolationLevelWord


@pytest.fixture
def topic(cli_broker: Broker) -> str:
    """A topic with two partitions."""
    name = f"produced-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=cli_broker.bootstrap_servers) as admin:
        admin.create_topics(
            [NewTopic(name, num_partitions=2, configs={"max.message.bytes": "2000"})]
        )
    return name


def read(
    broker: Broker, topic: str, isolation: IsolationLevelWord = "read_committed"
) -> list[ConsumerRecord]:
    """All records of a topic, partition after partition."""
    with Consumer(
        bootstrap_servers=broker.bootstrap_servers, isolation_level=isolation
    ) as consumer:
        partitions = [(topic, 0), (topic, 1)]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        found: list[ConsumerRecord] = []
        while any(consumer.position(each) < end for each, end in ends.items()):
            found += consumer.poll(0.1)
    return sorted(found, key=lambda record: (record.partition, record.offset))


def test_a_topic_that_the_broker_creates_is_reported(cli_broker: Broker, inside: Ottla) -> None:
    name = f"misspelt-{uuid.uuid4().hex[:8]}"
    new = inside("produce", name, stdin="tea")
    assert new.code == 0
    assert new.err.splitlines() == [
        f"ottla: topic {name} did not exist, the broker created it",
        f"1 record written to {name}",
    ]
    assert inside("produce", name, stdin="tea").err == f"1 record written to {name}\n"
    quiet = inside("produce", f"{name}-too", "-q", stdin="tea")
    assert (quiet.code, quiet.err) == (0, "")


def test_lines_become_records(topic: str, cli_broker: Broker, ottla: Ottla) -> None:
    done = ottla("produce", topic, "-p", "1", "--print-offsets", stdin="tea\n\nmilk")
    assert done.lines == [f"{topic}\t1\t0", f"{topic}\t1\t1", f"{topic}\t1\t2"]
    assert (done.code, done.err) == (0, f"3 records written to {topic}\n")
    assert [(r.key, r.value, r.headers) for r in read(cli_broker, topic)] == [
        (None, b"tea", ()),
        (None, b"", ()),
        (None, b"milk", ()),
    ]


def test_lines_of_windows_end_without_a_rest(topic: str, cli_broker: Broker, inside: Ottla) -> None:
    assert inside("produce", topic, "-p", "0", stdin="a\r\nb\r\n\r\nc\rd").code == 0
    assert inside("produce", topic, "-p", "1", "-D", r"\n", stdin="a\r\nb").code == 0
    assert [r.value for r in read(cli_broker, topic)] == [
        *(b"a", b"b", b"", b"c\rd"),
        *(b"a\r", b"b"),
    ]


def test_keys_headers_and_what_is_absent(topic: str, cli_broker: Broker, ottla: Ottla) -> None:
    same = ("-p", "0", "-z", "gzip", "--acks", "all")
    ottla("produce", topic, *same, "-K", ":", "-Z", "-H", "till=3", stdin="t4:tea:1\n:x\nt5:\n")
    ottla("produce", topic, *same, "-k", "all", "-D", ";", stdin="a;b")
    lines = "a:1,b:NIL|k=v\nNIL|NIL=NIL\n"
    separators = ("--headers-separator", "|", "-K", "=", "--null-marker", "NIL")
    ottla("produce", topic, *same, *separators, stdin=lines)
    assert [(r.key, r.value, r.headers) for r in read(cli_broker, topic)] == [
        (b"t4", b"tea:1", (("till", b"3"),)),
        (None, b"x", (("till", b"3"),)),
        (b"t5", None, (("till", b"3"),)),
        (b"all", b"a", ()),
        (b"all", b"b", ()),
        (b"k", b"v", (("a", b"1"), ("b", None))),
        (None, None, ()),
    ]


def test_arguments_may_be_bytes_that_are_no_text(
    topic: str, cli_broker: Broker, inside: Ottla
) -> None:
    key, header, bad = map(os.fsdecode, (b"\xff\\x00", b"h=\xfe", b"\xfe=h"))
    assert inside("produce", topic, "-k", key, "-H", header, stdin="a").code == 0
    (record,) = read(cli_broker, topic)
    assert (record.key, record.headers) == (b"\xff\x00", (("h", b"\xfe"),))
    done = inside("produce", topic, "-H", bad, stdin="a")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "the name of a header is not UTF-8: '\\\\xfe'" in done.err
    lines = Pieces(b"\xfe:1|a\n")
    done = inside("produce", topic, "--headers-separator", "|", stdin=lines)
    assert done.code == 1
    assert "stdin, line 1: the name of a header is not UTF-8: '\\\\xfe'" in done.err


def test_files_are_records_or_lines(
    topic: str, cli_broker: Broker, ottla: Ottla, tmp_path: Path
) -> None:
    (tmp_path / "one").write_bytes(b"a\nb\n")
    (tmp_path / "two").write_bytes(b"\xff\x00")
    assert ottla("produce", topic, "one", "two", "-p", "0").code == 0
    assert ottla("produce", topic, "-l", "one", "-p", "1").code == 0
    values = [(r.partition, r.value) for r in read(cli_broker, topic)]
    assert values == [(0, b"a\nb\n"), (0, b"\xff\x00"), (1, b"a"), (1, b"b")]


def test_what_consume_writes_as_json_produces_the_same_records(
    topic: str, cli_broker: Broker, ottla: Ottla
) -> None:
    lines = [
        '{"key": "k", "value": "v", "headers": [{"key": "h", "value": {"base64": "/w=="}}],'
        ' "partition": 1, "timestamp": 5}',
        '{"key": {"base64": "/w=="}, "value": null, "partition": 0, "timestamp": 6}',
        '{"value": {"any": ["thing"]}, "partition": 0, "timestamp": 7}',
    ]
    ottla("produce", topic, "--format", "json", stdin="\n".join(lines))
    first = read(cli_broker, topic)
    assert [(r.partition, r.timestamp_ms, r.key, r.value, r.headers) for r in first] == [
        (0, 6, b"\xff", None, ()),
        (0, 7, None, b'{"any":["thing"]}', ()),
        (1, 5, b"k", b"v", (("h", b"\xff"),)),
    ]
    copied = ottla("consume", topic, "--exit", "-o", "json").out
    ottla("produce", topic, "--format", "json", stdin=copied)
    both = [[r for r in read(cli_broker, topic) if r.partition == number] for number in (0, 1)]
    for found in both:
        half = len(found) // 2
        assert [r[3:8] for r in found[:half]] == [r[3:8] for r in found[half:]]


def test_the_topic_may_have_a_flag(
    topic: str, cli_broker: Broker, inside: Ottla, tmp_path: Path
) -> None:
    assert inside("produce", "-t", topic, "-p", "0", stdin="a\n").code == 0
    (tmp_path / "b").write_text("b", encoding="utf-8")
    assert inside("produce", "--topic", topic, "b", "-p", "0").code == 0
    assert inside("consume", topic, "-p", "0", "--exit").lines == ["a", "b"]
    none = inside("produce", stdin="a")
    assert (none.code, none.err) == (
        2,
        "ottla: no topic is given: write `ottla produce TOPIC`\n",
    )


def test_a_partition_that_is_not_there_is_told_at_once(
    topic: str, cli_broker: Broker, inside: Ottla
) -> None:
    # As long as a producer waits for a partition.
    long = ("--timeout", "60")
    began = time.monotonic()
    done = inside("produce", topic, "-p", "9", *long, stdin="a\n")
    assert done.code == 1
    assert f"topic {topic} has no partition 9" in done.err
    assert "create it with 10, or let the key decide with -p -1" in done.err
    lines = '{"value":"a","partition":0}\n{"value":"b","partition":7}\n'
    done = inside("produce", topic, "--format", "json", *long, stdin=lines)
    assert done.code == 1
    assert f"stdin, line 2: topic {topic} has no partition 7" in done.err
    assert time.monotonic() - began < 30
    assert inside("produce", topic, "--format", "json", "-p", "-1", stdin=lines).code == 0


def test_a_transaction_has_all_or_nothing(topic: str, cli_broker: Broker, ottla: Ottla) -> None:
    good = ottla("produce", topic, "--transactional-id", topic, stdin="a\nb\n")
    assert good.err == f"2 records written to {topic} in 1 transaction\n"
    parts = ("--transactional-id", topic, "--transaction-size", "2", "-K", ":")
    bad = ottla("produce", topic, *parts, stdin="k:c\nk:d\nk:e\nwrong\n")
    assert bad.code == 1
    assert "stdin, line 4: there is no key separator ':' in it" in bad.err
    # What was in the transaction before stays, that of the bad line goes.
    assert {r.value for r in read(cli_broker, topic)} == {b"a", b"b", b"c", b"d"}


def test_ctrl_c_aborts_the_transaction(topic: str, cli_broker: Broker) -> None:
    servers = cli_broker.bootstrap_servers
    with running(servers, "produce", topic, "--transactional-id", topic) as process:
        process.stdin.write(b"never\n")
        process.stdin.flush()
        assert eventually(lambda: bool(_uncommitted(servers, topic)), 20)
        code, errors = process.end_by(signal.SIGINT)
    assert (code, errors) == (
        130,
        f"ottla: interrupted: 0 records written to {topic} in 0 transactions\n",
    )
    assert read(cli_broker, topic) == []


def _uncommitted(servers: str, topic: str) -> int:
    with Consumer(bootstrap_servers=servers) as consumer:
        return sum(consumer.end_offsets([(topic, 0), (topic, 1)]).values())


def test_records_that_are_refused_are_counted(topic: str, cli_broker: Broker, ottla: Ottla) -> None:
    # One is too large for the topic, another for the producer itself.
    lines = "\n".join(["small", "x" * 3000, "y" * 9000, "small too"])
    # Each in a batch of its own: one that is too large should not take others with it.
    options = ("-X", "batch.size=1", "-X", "max.request.size=8000")
    done = ottla("produce", topic, "-p", "0", *options, stdin=lines)
    assert done.code == 1
    assert "ottla: stdin, line 2: not acknowledged: " in done.err
    assert "ottla: stdin, line 3: not acknowledged: The record has 9" in done.err
    assert "ottla: 2 records were not acknowledged; 2 records written to" in done.err
    assert [r.value for r in read(cli_broker, topic)] == [b"small", b"small too"]


def test_a_line_that_is_too_large_sends_no_other_twice(
    topic: str, cli_broker: Broker, inside: Ottla
) -> None:
    lines = "\n".join(["1", "2", "x" * 3000, "two"])
    # With this one records are sent one by one.
    partitioner = "partitioner.class=org.apache.kafka.clients.producer.RoundRobinPartitioner"
    done = inside("produce", topic, "-X", "max.request.size=2000", "-X", partitioner, stdin=lines)
    assert "-X max.request.size=BYTES raises the limit here" in done.err
    assert "max.message.bytes" in done.err
    assert done.code == 1
    assert "ottla: stdin, line 3: not acknowledged: The record has 3" in done.err
    assert sorted(r.value or b"" for r in read(cli_broker, topic)) == [b"1", b"2", b"two"]


def test_what_was_sent_before_the_memory_was_full_counts(
    topic: str, cli_broker: Broker, inside: Ottla
) -> None:
    stalled = Stalled(cli_broker, topic)

    def stall_for_a_while() -> None:
        stalled()
        threading.Timer(4.0, stalled.release).start()

    many = "".join(f"{number:0500}\n" for number in range(2, 61)).encode()
    small = ("-X", "buffer.memory=4000", "-X", "batch.size=1000", "-X", "max.block.ms=1500")
    lines = Pieces(b"1\n", stall_for_a_while, many)
    done = inside("produce", topic, "-p", "0", *small, stdin=lines)
    (told, why) = done.err.splitlines()
    count = len(read(cli_broker, topic))
    assert 1 < count < 60
    assert (done.code, told) == (1, f"ottla: {count} records written to {topic}")
    assert why.startswith(f"ottla: stdin, lines {count + 1} to 60: not sent, nor anything after: ")


def test_the_timeout_is_also_one_for_what_was_sent(
    topic: str, cli_broker: Broker, inside: Ottla
) -> None:
    stalled = Stalled(cli_broker, topic)
    lines = Pieces(b"a\n", stalled, b"b\nc\n")
    done = inside("produce", topic, "-p", "0", "--timeout", "3", stdin=lines)
    stalled.release()
    assert done.code == 1
    assert "ottla: stdin, lines 2 to 3: not acknowledged: " in done.err
    assert f"ottla: 2 records were not acknowledged; 1 record written to {topic}" in done.err


@given(st.lists(st.binary(max_size=9)), st.sampled_from([b"\n", b"ab", b"aab"]))
def test_lines_are_the_same_however_they_come(pieces: list[bytes], delimiter: bytes) -> None:
    waiting = [piece for piece in pieces if piece]

    class Slow(io.BytesIO):
        def read1(self, size: int | None = -1) -> bytes:
            return waiting.pop(0) if waiting else b""

    came = [*_split(Slow(), "stdin", delimiter, _no_prompt)]
    lines = [line for some in came for line in some.lines]
    # As with other tools, a delimiter at the end begins no further record.
    assert lines == b"".join(pieces).removesuffix(delimiter).split(delimiter) or not any(pieces)
    numbers = [some.first_number for some in came]
    assert numbers == [1 + sum(len(some.lines) for some in came[:i]) for i in range(len(came))]


def test_mistakes_are_said_in_one_line(topic: str, ottla: Ottla) -> None:
    done = ottla("produce", topic, "--transaction-size", "3", stdin="x")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "give a --transactional-id" in done.err
    done = ottla("produce", topic, "no-such-file")
    assert (done.code, done.err) == (1, "ottla: no-such-file: No such file or directory\n")
    done = ottla("produce", topic, "--format", "json", stdin='{"value": "ok"}\n{"vlaue": "no"}\n')
    assert done.code == 1
    assert "stdin, line 2: 'vlaue' is not a field" in done.err
