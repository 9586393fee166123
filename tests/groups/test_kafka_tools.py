"""Apache Kafka's own tools: kafka-consumer-groups, and its formatters over `__consumer_offsets`."""

from __future__ import annotations

import json
import subprocess
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Position
from tests import maven
from tests.apache_kafka.programs import TOOL_SECONDS, java
from tests.groups.conftest import MakeGroup, Topics
from tests.groups.feed import Feed
from tests.groups.members import CLIENTS, PATIENT_MS

from ottla.model import coordinator_partition

GROUPS_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"
FORMATTERS = "org.apache.kafka.tools.consumer"
OFFSETS_TOPIC = "__consumer_offsets"
# Longer than the console consumer should need for what is there.
READ_MS = 30_000


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the jars of Kafka's tools."""
    return maven.kafka_tools(tmp_path_factory.getbasetemp().parent)


def run(tools: Path, program: str, *arguments: str) -> str:
    done = subprocess.run(
        java(tools, program, *arguments),
        capture_output=True,
        text=True,
        timeout=TOOL_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rows(text: str) -> list[dict[str, str]]:
    """The table that the tool prints, by its headings."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    head = next(index for index, words in enumerate(lines) if words[0] == "GROUP")
    return [dict(zip(lines[head], words, strict=False)) for words in lines[head + 1 :]]


def commit(bootstrap: str, group_id: str, topic: str, offset: int) -> None:
    """As a simple consumer does, without joining."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group_id, "log_level": 0})
    consumer.commit(offsets=[Position(topic, 0, offset, "note")], asynchronous=False)
    consumer.close()


@pytest.mark.timeout(240)
def test_kafka_consumer_groups_shows_resets_and_deletes(
    bootstrap: str, topics: Topics, make_group: MakeGroup, tools: Path, ottla_topic: str
) -> None:
    partitions = topics.create(ottla_topic, 1)
    group = make_group(bootstrap, CLIENTS["confluent-range"])
    with Feed(bootstrap, partitions) as feed:
        member = group.start([ottla_topic])
        group.settle(partitions, member)
        feed.drain(group.history)
    end = len(feed.produced[partitions[0]])

    def tool(*arguments: str) -> str:
        return run(tools, GROUPS_TOOL, "--bootstrap-server", bootstrap, *arguments)

    group.history.wait(
        "committed", lambda: topics.committed(group.group_id) == {partitions[0]: end}, 10.0
    )
    (row,) = rows(tool("--describe", "--group", group.group_id))
    assert row["GROUP"] == group.group_id
    assert (row["TOPIC"], row["PARTITION"]) == (ottla_topic, "0")
    assert (row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"]) == (str(end), str(end), "0")
    assert (row["HOST"], row["CLIENT-ID"]) == ("/127.0.0.1", member.name)
    assert row["CONSUMER-ID"].startswith(member.name)
    state = tool("--describe", "--group", group.group_id, "--state")
    assert {"Stable", "range"} <= set(state.split())

    member.leave()
    listed = tool("--list", "--state")
    assert [group.group_id, "Empty"] in [line.split() for line in listed.splitlines()]
    options = ("--group", group.group_id, "--topic", ottla_topic)
    tool("--reset-offsets", *options, "--to-offset", "2", "--execute")
    assert topics.committed(group.group_id) == {partitions[0]: 2}
    tool("--delete-offsets", *options)
    assert topics.committed(group.group_id) == {}
    commit(bootstrap, group.group_id, ottla_topic, 1)
    assert "was successful" in tool("--delete", "--group", group.group_id)
    assert group.group_id not in tool("--list")


class Seen(NamedTuple):
    """A record of the offsets topic, as a formatter of Kafka's tells it."""

    key_type: int
    key: dict[str, Any]
    value: dict[str, Any]


def read_offsets_of(tools: Path, bootstrap: str, group_id: str, formatter: str) -> list[Seen]:
    """What a formatter makes of the records of a group; tombstones are left out."""
    with closing(
        Consumer({"bootstrap.servers": bootstrap, "group.id": "-", "log_level": 0})
    ) as own:
        count = len(own.list_topics(OFFSETS_TOPIC).topics[OFFSETS_TOPIC].partitions)
        partition = coordinator_partition(group_id, count)
        start, end = own.get_watermark_offsets(Position(OFFSETS_TOPIC, partition))
    text = run(
        *(tools, CONSOLE, "--bootstrap-server", bootstrap, "--topic", OFFSETS_TOPIC),
        *("--partition", str(partition), "--offset", "earliest"),
        *("--max-messages", str(end - start), "--timeout-ms", str(READ_MS)),
        *("--formatter", f"{FORMATTERS}.{formatter}"),
    )
    seen, decoder = [], json.JSONDecoder()
    # One object after the other, with nothing in between.
    while text:
        one, end = decoder.raw_decode(text)
        text = text[end:].lstrip()
        if one["value"] is not None and one["key"]["data"]["group"] == group_id:
            seen.append(Seen(one["key"]["type"], one["key"]["data"], one["value"]["data"]))
    return seen


@pytest.mark.timeout(240)
def test_kafka_reads_what_is_in_the_offsets_topic(
    bootstrap: str, topics: Topics, make_group: MakeGroup, tools: Path, ottla_topic: str
) -> None:
    partitions = topics.create(ottla_topic, 2)
    group = make_group(bootstrap, CLIENTS["confluent-range"])
    member = group.start([ottla_topic], group_instance_id="it")
    group.settle(partitions, member)
    simple_id = f"simple-{uuid.uuid4().hex[:8]}"
    commit(bootstrap, simple_id, ottla_topic, 7)

    (offset,) = read_offsets_of(tools, bootstrap, simple_id, "OffsetsMessageFormatter")
    assert offset.key_type == 1
    assert offset.key == {"group": simple_id, "topic": ottla_topic, "partition": 0}
    assert (offset.value["offset"], offset.value["leaderEpoch"]) == (7, -1)
    assert offset.value["metadata"].rstrip("\0") == "note"

    read = read_offsets_of(tools, bootstrap, group.group_id, "GroupMetadataMessageFormatter")
    stable = read[-1]
    assert stable.key_type == 2
    assert (stable.value["protocolType"], stable.value["protocol"]) == ("consumer", "range")
    (seen,) = stable.value["members"]
    assert (seen["clientId"], seen["groupInstanceId"]) == (member.name, "it")
    assert (seen["sessionTimeout"], seen["rebalanceTimeout"]) == (PATIENT_MS, PATIENT_MS)
    assert topics.describe(group.group_id).assignment == {seen["memberId"]: set(partitions)}
