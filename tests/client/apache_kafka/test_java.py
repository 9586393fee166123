"""Beside Kafka's Java client, with Apache Kafka between: the same places, the same bytes, one group."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple, Protocol

from tests.client.apache_kafka.producing import CODECS
from tests.client.apache_kafka.stage import WAIT_SECONDS, Stage, numbers
from tests.clients.java.agent import Agent
from tests.clients.java.driver import read, send
from tests.clients.messages import Message
from tests.waiting import in_time

import ottla
from ottla.client.raw import RawConnection
from ottla.model import TopicPartition
from ottla.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse

WAIT = 10.0
POLL_MS = 50
# Java's names for the strategies by ours.
STRATEGIES = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}


class Member(Protocol):
    """A consumer of either client that has subscribed to one topic."""

    def poll(self) -> list[tuple[int, int]]:
        """Partition and offset of what has come."""

    def partitions(self) -> list[int]: ...


class Ours:
    def __init__(self, consumer: ottla.Consumer) -> None:
        self.consumer = consumer

    def poll(self) -> list[tuple[int, int]]:
        records = self.consumer.poll(POLL_MS / 1000)
        return [(record.partition, record.offset) for record in records]

    def partitions(self) -> list[int]:
        return numbers(self.consumer.assignment())


class Java:
    def __init__(self, call: Any) -> None:
        self.call = call

    def poll(self) -> list[tuple[int, int]]:
        words = iter(self.call("read", 1000, POLL_MS))
        found = []
        for partition in words:
            found.append((int(partition), int(next(words))))
            for _ in range(3):  # its time, key and value
                next(words)
            assert int(next(words)) == 0, "records with headers"
        return found

    def partitions(self) -> list[int]:
        return sorted(int(word) for word in self.call("assignment"))


@contextmanager
def our_member(stage: Stage, group: str, topic: str, strategy: str) -> Iterator[Member]:
    options = {"group_id": group, "partition_assignment_strategy": strategy}
    with stage.consumer(**options) as consumer:
        consumer.subscribe([topic])
        yield Ours(consumer)


@contextmanager
def java_session(agent: Agent, stage: Stage, kind: str, **options: object) -> Iterator[Any]:
    """A client of Java's; gives its `call`."""
    connection = agent.connect()
    settings = {"bootstrap.servers": stage.address} | {
        name.replace("_", "."): value for name, value in options.items()
    }
    try:
        connection.call(kind, *(f"{name}={value}" for name, value in settings.items()))
        yield connection.call
    finally:
        connection.close()


@contextmanager
def java_member(
    agent: Agent, stage: Stage, group: str, topic: str, strategy: str
) -> Iterator[Member]:
    options: dict[str, object] = {
        "group_id": group,
        "auto_offset_reset": "earliest",
        "heartbeat_interval_ms": 100,
        "partition_assignment_strategy": f"org.apache.kafka.clients.consumer.{STRATEGIES[strategy]}",
    }
    with java_session(agent, stage, "consumer", **options) as call:
        call("subscribe", topic)
        yield Java(call)


def settle(members: Sequence[Member], each: int, found: list[tuple[int, int]]) -> None:
    """Poll all at the same time, until each member has so many partitions."""
    deadline = time.monotonic() + WAIT_SECONDS
    with ThreadPoolExecutor(len(members)) as pool:
        while any(len(member.partitions()) != each for member in members):
            in_time(deadline, [member.partitions() for member in members])
            for some in pool.map(lambda member: member.poll(), members):
                found += some
    together = [number for member in members for number in member.partitions()]
    assert sorted(together) == list(range(4))


def read_all(members: Sequence[Member], found: list[tuple[int, int]], count: int) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while len(found) < count:
        in_time(deadline, len(found))
        for member in members:
            found += member.poll()


def fill(stage: Stage, topic: str) -> None:
    """Five records for each of four partitions."""
    with stage.producer() as producer:
        for partition in range(4):
            producer.send_many(topic, [b"v"] * 5, partition=partition).result(WAIT)


def test_keys_go_where_java_sends_them(stage: Stage, java_agent: Agent) -> None:
    topic, chance = stage.topic(7), random.Random(6)
    keys = [b"", *(chance.randbytes(chance.randrange(1, 40)) for _ in range(300))]
    with java_session(java_agent, stage, "producer", linger_ms=5) as call:
        theirs = [int(word) for word in call("place", topic, *keys)]
    with stage.producer() as producer:
        many = producer.send_many(topic, [b""] * len(keys), keys=keys)
        single = [producer.send(topic, b"", key) for key in keys]
        ours = [one.partition for one in many.result(WAIT)]
        assert [future.result(WAIT).partition for future in single] == ours
    assert ours == theirs
    assert set(ours) == set(range(7))


def test_each_reads_what_the_other_wrote_with_every_codec(stage: Stage, java_agent: Agent) -> None:
    ours, theirs = stage.topic(), stage.topic()
    headers = (("h", b"1"), ("none", None))
    messages = [Message(b"%d" % i * 50, b"k%d" % i, headers, 1_000_000 + i) for i in range(20)]
    for codec in CODECS:
        with (
            stage.producer(compression_type=codec) as producer,
            java_session(java_agent, stage, "producer", compression_type=codec) as call,
        ):
            for message in messages:
                producer.send(
                    ours,
                    message.value,
                    message.key,
                    headers=message.headers,
                    timestamp_ms=message.timestamp_ms,
                )
            _send_with_java(call, theirs, messages)
    count = len(messages) * len(CODECS)
    with java_session(java_agent, stage, "consumer", auto_offset_reset="none") as call:
        call("assign", ours, 0, 0)
        read_by_java = [received[1:] for received in _read_with_java(call, count)]
    read_by_us = [
        (record.offset, record.timestamp_ms, record.key, record.value, record.headers)
        for record in stage.records(theirs)
    ]
    expected = [
        (offset, message.timestamp_ms, message.key, message.value, message.headers)
        for offset, message in enumerate(messages * len(CODECS))
    ]
    assert read_by_java == expected
    assert read_by_us == expected


class _Connection(NamedTuple):
    """What the driver's functions want."""

    call: Any


def _send_with_java(call: Any, topic: str, messages: Sequence[Message]) -> None:
    send(_Connection(call), topic, messages, 0)  # type: ignore[arg-type]


def _read_with_java(call: Any, count: int) -> list[Any]:
    return list(read(_Connection(call), count))  # type: ignore[arg-type]


def test_both_clients_are_members_of_one_group(stage: Stage, java_agent: Agent) -> None:
    for strategy in STRATEGIES:
        topic, group = stage.topic(4), stage.new_name("group")
        found: list[tuple[int, int]] = []
        with java_member(java_agent, stage, group, topic, strategy) as theirs:
            with our_member(stage, group, topic, strategy) as ours:
                settle([ours, theirs], 2, found)
                fill(stage, topic)
                read_all([ours, theirs], found, 20)
            settle([theirs], 4, found)
            fill(stage, topic)
            read_all([theirs], found, 40)
            # Java leads now.
            with our_member(stage, group, topic, strategy) as ours:
                settle([ours, theirs], 2, found)
                fill(stage, topic)
                read_all([ours, theirs], found, 60)
                settle([ours, theirs], 2, found)
        assert sorted(found) == [(p, offset) for p in range(4) for offset in range(15)], strategy


class Snapshot(NamedTuple):
    """What the coordinator knows of a group: metadata and assignment of each member."""

    protocol: str
    members: list[tuple[bytes, bytes]]


def snapshot(stage: Stage, group: str) -> Snapshot:
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        request = DescribeGroupsRequest(groups=[group], include_authorized_operations=False)
        with RawConnection(stage.address) as connection:
            (found,) = connection.call(request, DescribeGroupsResponse, 5).groups
        if found.group_state == "Stable":
            members = [(one.member_metadata, one.member_assignment) for one in found.members]
            return Snapshot(
                found.protocol_data, sorted((bytes(one), bytes(two)) for one, two in members)
            )
        in_time(deadline, found)


def snapshots(stage: Stage, group: str, members: Sequence[Any]) -> list[Snapshot]:
    """Of a member alone, and with a second."""
    taken, found = [], list[tuple[int, int]]()
    with ExitStack() as stack:
        joined = [stack.enter_context(members[0])]
        settle(joined, 4, found)
        taken.append(snapshot(stage, group))
        joined.append(stack.enter_context(members[1]))
        settle(joined, 2, found)
        taken.append(snapshot(stage, group))
    return taken


def test_members_say_the_same_bytes(stage: Stage, java_agent: Agent) -> None:
    for strategy in STRATEGIES:
        topic = stage.topic(4)
        ours, theirs = list[Snapshot](), list[Snapshot]()
        # A cooperative member that is not there when the first of two rebalances ends has less to say in the second:
        # its assignor knows no generation yet. Java's client is there only while it is polled.
        for _ in range(3):
            group, other = stage.new_name("group"), stage.new_name("group")
            pair = [our_member(stage, group, topic, strategy) for _ in range(2)]
            ours = snapshots(stage, group, pair)
            pair = [java_member(java_agent, stage, other, topic, strategy) for _ in range(2)]
            theirs = snapshots(stage, other, pair)
            if ours == theirs:
                break
        assert ours == theirs
        assert ours[0].protocol == strategy


def test_commits_carry_the_same(stage: Stage, java_agent: Agent) -> None:
    topic, group, other = stage.topic(4), stage.new_name("group"), stage.new_name("group")
    fill(stage, topic)
    with (
        our_member(stage, group, topic, "range") as ours,
        java_member(java_agent, stage, other, topic, "range") as theirs,
    ):
        for member in (ours, theirs):
            read_all([member], [], 20)
        assert isinstance(ours, Ours)
        assert isinstance(theirs, Java)
        ours.consumer.commit()
        theirs.call("commit")
        committed = stage.admin.list_consumer_group_offsets([group, other])
        assert committed[group] == committed[other]
        assert committed[group][TopicPartition(topic, 0)] == ottla.OffsetAndMetadata(5, "", 0)
        ours.consumer.commit({(topic, 1): ottla.OffsetAndMetadata(3, "wörds", 0)})
        theirs.call("commit-offset", topic, 1, 3, 0, "wörds")
        committed = stage.admin.list_consumer_group_offsets([group, other])
        assert committed[group] == committed[other]
