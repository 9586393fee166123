"""Commands of Kafka's tools, the cluster that they look at, and what of their output is the same on every cluster."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient, NewTopic
from tests.waiting import in_time

_TOOLS = "org.apache.kafka.tools"
_CONSUMER_GROUPS = f"{_TOOLS}.consumer.group.ConsumerGroupCommand"
_SHARE_GROUPS = f"{_TOOLS}.consumer.group.ShareGroupCommand"
_STREAMS_GROUPS = f"{_TOOLS}.streams.StreamsGroupCommand"
_GROUPS = f"{_TOOLS}.GroupsCommand"
_FEATURES = f"{_TOOLS}.FeatureCommand"
_CONFIGS = "kafka.admin.ConfigCommand"
_QUORUM = f"{_TOOLS}.MetadataQuorumCommand"
_CLIENT_METRICS = f"{_TOOLS}.ClientMetricsCommand"
_REASSIGN = f"{_TOOLS}.reassign.ReassignPartitionsCommand"
_CLUSTER = f"{_TOOLS}.ClusterTool"
_LOG_DIRS = f"{_TOOLS}.LogDirsCommand"
_TRANSACTIONS = f"{_TOOLS}.TransactionsCommand"
_ELECTION = f"{_TOOLS}.LeaderElectionCommand"
_OFFSETS = f"{_TOOLS}.GetOffsetShell"
_DELETE_RECORDS = f"{_TOOLS}.DeleteRecordsCommand"
_TOPICS = f"{_TOOLS}.TopicCommand"
_API_VERSIONS = f"{_TOOLS}.BrokerApiVersionsCommand"
_ACLS = f"{_TOOLS}.AclCommand"
_PRODUCER_PERF = f"{_TOOLS}.ProducerPerformance"

SECONDS = 30.0
RECORDS = 3


class Command(NamedTuple):
    """A tool and its arguments; AT stands for the address, FILES for the folder of the files below."""

    tool: str
    arguments: str

    def words(self, address: str, files: Path) -> list[str]:
        text = self.arguments.replace("FILES", str(files))
        words = text.replace("AT", f"--bootstrap-server {address}").split()
        return [self.tool, *words]

    @property
    def title(self) -> str:
        return f"{self.tool.rpartition('.')[2]} {self.arguments}"


FILES = {
    "topics.json": {"topics": [{"topic": "orders"}], "version": 1},
    "same.json": {
        "partitions": [
            {"topic": "orders", "partition": 0, "replicas": [1]},
            {"topic": "orders", "partition": 1, "replicas": [1]},
        ],
        "version": 1,
    },
    "elsewhere.json": {
        "partitions": [{"topic": "orders", "partition": 0, "replicas": [7]}],
        "version": 1,
    },
    "records.json": {
        "partitions": [{"topic": "orders", "partition": 0, "offset": 1}],
        "version": 1,
    },
}

# In this order: some change what later ones show.
COMMANDS = (
    Command(_FEATURES, "AT describe"),
    Command(_FEATURES, "AT upgrade --metadata 4.3-IV0"),
    Command(_FEATURES, "AT upgrade --feature group.version=1 --feature transaction.version=2"),
    Command(_FEATURES, "AT upgrade --feature nonsense=1"),
    Command(_FEATURES, "AT downgrade --feature metadata.version=20 --dry-run"),
    Command(_QUORUM, "AT describe --status"),
    Command(_QUORUM, "AT describe --replication"),
    Command(_CLUSTER, "cluster-id AT"),
    Command(_CLUSTER, "list-endpoints AT"),
    Command(_CLUSTER, "unregister AT --id 77"),
    Command(_TOPICS, "AT --describe --topic orders"),
    Command(_CONFIGS, "AT --describe --entity-type topics --entity-name orders"),
    Command(
        _CONFIGS,
        "AT --alter --entity-type topics --entity-name orders --add-config max.message.bytes=900000",
    ),
    Command(_CONFIGS, "AT --describe --entity-type topics --entity-name orders"),
    Command(_CONFIGS, "AT --describe --entity-type topics --entity-name missing"),
    Command(_CONFIGS, "AT --describe --entity-type brokers --entity-name 1"),
    Command(
        _CONFIGS,
        "AT --alter --entity-type brokers --entity-default --add-config message.max.bytes=2000000",
    ),
    Command(_CONFIGS, "AT --describe --entity-type brokers --entity-default"),
    Command(
        _CONFIGS,
        "AT --alter --entity-type brokers --entity-default --delete-config message.max.bytes",
    ),
    Command(
        _CONFIGS, "AT --alter --entity-type broker-loggers --entity-name 1 --add-config root=ERROR"
    ),
    Command(_CONFIGS, "AT --describe --entity-type broker-loggers --entity-name 1"),
    Command(
        _CONFIGS, "AT --alter --entity-type broker-loggers --entity-name 1 --add-config no=INFO"
    ),
    Command(
        _CONFIGS,
        "AT --alter --entity-type groups --entity-name some "
        "--add-config consumer.session.timeout.ms=50000",
    ),
    Command(_CONFIGS, "AT --describe --entity-type groups"),
    Command(
        _CONFIGS,
        "AT --alter --entity-type groups --entity-name some "
        "--delete-config consumer.session.timeout.ms",
    ),
    Command(_CONFIGS, "AT --describe --entity-type users"),
    Command(_CONFIGS, "AT --describe --entity-type users --entity-name bob"),
    Command(_CONFIGS, "AT --describe --entity-type clients"),
    Command(_CONFIGS, "AT --describe --entity-type ips"),
    Command(_CLIENT_METRICS, "AT --list"),
    Command(
        _CLIENT_METRICS,
        "AT --alter --name watch --metrics org.apache.kafka.producer --interval 10000",
    ),
    Command(_CLIENT_METRICS, "AT --list"),
    Command(_CLIENT_METRICS, "AT --describe --name watch"),
    Command(_CONFIGS, "AT --describe --entity-type client-metrics"),
    Command(_CLIENT_METRICS, "AT --delete --name watch"),
    Command(
        _REASSIGN, "AT --generate --topics-to-move-json-file FILES/topics.json --broker-list 1"
    ),
    Command(_REASSIGN, "AT --execute --reassignment-json-file FILES/same.json"),
    Command(_REASSIGN, "AT --verify --reassignment-json-file FILES/same.json"),
    Command(_REASSIGN, "AT --list"),
    Command(_REASSIGN, "AT --execute --reassignment-json-file FILES/elsewhere.json"),
    Command(_LOG_DIRS, "AT --describe --topic-list orders"),
    Command(_TRANSACTIONS, "AT list"),
    Command(_TRANSACTIONS, "AT find-hanging --broker-id 1"),
    Command(_TRANSACTIONS, "AT describe --transactional-id missing"),
    Command(_TRANSACTIONS, "AT describe-producers --topic orders --partition 1"),
    Command(_ELECTION, "AT --election-type preferred --all-topic-partitions"),
    Command(_ELECTION, "AT --election-type preferred --topic orders --partition 0"),
    Command(_OFFSETS, "AT --topic orders"),
    Command(_DELETE_RECORDS, "AT --offset-json-file FILES/records.json"),
    Command(_OFFSETS, "AT --topic orders --time earliest"),
    Command(_CONSUMER_GROUPS, "AT --list"),
    Command(_CONSUMER_GROUPS, "AT --list --state"),
    Command(_CONSUMER_GROUPS, "AT --list --type"),
    Command(_CONSUMER_GROUPS, "AT --list --state Stable --type classic"),
    Command(_GROUPS, "AT --list"),
    Command(_GROUPS, "AT --list --consumer"),
    Command(_GROUPS, "AT --list --share"),
    Command(_CONSUMER_GROUPS, "AT --describe --group classic-readers"),
    Command(_CONSUMER_GROUPS, "AT --describe --group classic-readers --offsets --verbose"),
    Command(_CONSUMER_GROUPS, "AT --describe --group classic-readers --state"),
    Command(_CONSUMER_GROUPS, "AT --describe --group classic-readers --state --verbose"),
    Command(_CONSUMER_GROUPS, "AT --describe --group classic-readers --members"),
    Command(_CONSUMER_GROUPS, "AT --describe --group classic-readers --members --verbose"),
    Command(_CONSUMER_GROUPS, "AT --describe --group readers --offsets --verbose"),
    Command(_CONSUMER_GROUPS, "AT --describe --group readers --state --verbose"),
    Command(_CONSUMER_GROUPS, "AT --describe --group readers --members --verbose"),
    Command(_CONSUMER_GROUPS, "AT --describe --group idle"),
    Command(_CONSUMER_GROUPS, "AT --describe --group missing"),
    Command(_CONSUMER_GROUPS, "AT --group idle --topic orders --reset-offsets --to-latest"),
    Command(
        _CONSUMER_GROUPS, "AT --group idle --topic orders --reset-offsets --to-offset 2 --execute"
    ),
    Command(_CONSUMER_GROUPS, "AT --group readers --topic orders --reset-offsets --to-latest"),
    Command(_CONSUMER_GROUPS, "AT --group idle --topic orders --delete-offsets"),
    Command(_CONSUMER_GROUPS, "AT --delete --group classic-readers"),
    Command(_CONSUMER_GROUPS, "AT --delete --group missing"),
    Command(_SHARE_GROUPS, "AT --list"),
    Command(_SHARE_GROUPS, "AT --describe --group some"),
    Command(_STREAMS_GROUPS, "AT --list"),
    Command(_STREAMS_GROUPS, "AT --describe --group some"),
    Command(_ACLS, "AT --list"),
    Command(_ACLS, "AT --add --allow-principal User:bob --operation Read --topic orders"),
    Command(
        _PRODUCER_PERF,
        "AT --topic orders --num-records 10 --record-size 10 --throughput -1",
    ),
    Command(_API_VERSIONS, "AT"),
)


def write_files(folder: Path) -> None:
    for name, content in FILES.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")


@contextmanager
def inhabited(address: str) -> Iterator[None]:
    """A cluster with a topic, a group of each protocol and one without members, as long as the block runs."""
    admin = AdminClient({"bootstrap.servers": address})
    for made in admin.create_topics([NewTopic("orders", 2, 1)]).values():
        made.result(SECONDS)
    producer = Producer({"bootstrap.servers": address})
    for number in range(RECORDS):
        producer.produce("orders", value=str(number), partition=0)
    assert producer.flush(SECONDS) == 0
    idle = _consumer(address, "idle", "classic")
    idle.commit(offsets=[Position("orders", 0, 1)], asynchronous=False)
    idle.close()
    members = [
        _consumer(address, "classic-readers", "classic"),
        _consumer(address, "readers", "consumer"),
    ]
    try:
        for member in members:
            member.subscribe(["orders"])
            deadline = time.monotonic() + SECONDS
            while len(member.assignment()) < 2:
                member.poll(0.05)
                in_time(deadline, "no assignment")
            member.commit(
                offsets=[Position("orders", 0, 2), Position("orders", 1, 0)], asynchronous=False
            )
        yield
    finally:
        for member in members:
            member.close()


def _consumer(address: str, group: str, protocol: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "client.id": f"{group}-member",
            "group.protocol": protocol,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )


# What every cluster has of its own.
_REPLACED = (
    (re.compile(r"(?:CONTROLLER|PLAINTEXT)://[\d.:]+"), "ENDPOINT"),
    (re.compile(r"\b127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"127\.0\.0\.1(\s+)\d+"), r"127.0.0.1\1PORT"),
    (re.compile(r"(ClusterId:\s+|Cluster ID: )\S+"), r"\1CLUSTER"),
    (re.compile(r"TopicId: \S+"), "TopicId: ID"),
    (re.compile(r"(readers-member|rdkafka)-[0-9a-f-]{36}"), r"\1-ID"),
    (re.compile(r"(?<=\s)[\w+/-]{22}(?:==)?(?=\s+/127)"), "MEMBER"),
    (re.compile(r"\b1[78]\d{11}\b"), "TIME"),
    (re.compile(r"(Epoch: |HighWatermark:\s+)\d+"), r"\1N"),
    (re.compile(r"^(1\s+AAAAAAAAAAAAAAAAAAAAAA\s+)\d+"), r"\1N"),
    (re.compile(r'"size":\d+'), '"size":N'),
    (re.compile(r'"logDir":"[^"]+"'), '"logDir":"DIR"'),
    (re.compile(r'"log_dirs":\["[^"]+"\]'), '"log_dirs":["DIR"]'),
    (re.compile(r"[\d.]+ (records/sec|ms|MB/sec)"), r"N \1"),
    (re.compile(r"\([\d.]+ MB"), "(N MB"),
)
# Features and loggers that one of the two does not have.
_LEFT_OUT = re.compile(
    r"Feature: (?:eligible\.leader\.replicas|share|streams)\.version|\s+(?:org\.apache|ottla)[\w.]*="
)
_TRACE = re.compile(r"\s+at .*|\s+\.\.\. \d+ more|Caused by: .*")


def comparable(title: str, text: str) -> str:
    """What a tool printed, without what differs from cluster to cluster."""
    lines: list[str] = []
    for line in text.splitlines():
        if _LEFT_OUT.match(line) or not line.strip():
            continue
        if _TRACE.fullmatch(line):
            # Kafka's tools print one themselves: what counts is whether they do.
            if lines and lines[-1] != "(a trace)":
                lines.append("(a trace)")
            continue
        for pattern, plain in _REPLACED:
            line = pattern.sub(plain, line)
        lines.append(" ".join(line.split()))
    if title.startswith("BrokerApiVersionsCommand"):
        lines = lines[:1]
    elif "--list" in title or title.endswith("--entity-type groups"):
        lines.sort()  # the order of groups is that of a hash table
    return "\n".join(lines)
