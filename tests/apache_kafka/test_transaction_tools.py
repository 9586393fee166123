"""Kafka's tools and our transactions: what is in `__transaction_state`, what is in the logs, what can be asked."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from tests.apache_kafka.programs import TOOL_SECONDS, dump_log, java
from tests.apache_kafka.test_dump_log import COMPLAINTS, fields
from tests.clients.transactions_seen import (
    AT_REST,
    INTERNAL_PARTITIONS,
    TRANSACTIONS_TOPIC,
    describe,
    ends,
    transactions_partition,
    wait_for,
    wait_until_stable,
)

from ottla import Broker, Consumer
from ottla.model import TopicPartition
from ottla.records.batch import split_batches

TRANSACTIONS_TOOL = "org.apache.kafka.tools.TransactionsCommand"
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"
FORMATTER = "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"
TOPIC = "orders"
COMMITTED_ID, ABORTED_ID, OPEN_ID = "committed", "aborted", "open"
# The open transaction stays open while the tools start one after the other.
TIMEOUT_MS = 600_000
READ_MS = 30_000


def begun(broker: Broker, transactional_id: str) -> confluent_kafka.Producer:
    """A producer with records in an open transaction."""
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": TIMEOUT_MS,
            "log_level": 0,
        }
    )
    producer.init_transactions(20)
    producer.begin_transaction()
    for number in range(3):
        producer.produce(TOPIC, f"{transactional_id}-{number}", partition=0)
    assert producer.flush(20) == 0
    return producer


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One with a transaction of each kind."""
    with Broker(data_dir=tmp_path_factory.mktemp("transactions") / "data") as broker:
        servers = broker.bootstrap_servers
        begun(broker, COMMITTED_ID).commit_transaction(20)
        begun(broker, ABORTED_ID).abort_transaction(20)
        wait_until_stable(servers, TopicPartition(TOPIC, 0))
        hanging = begun(broker, OPEN_ID)
        for name in (COMMITTED_ID, ABORTED_ID):
            wait_for(name, lambda name=name: describe(servers, name).state in AT_REST)  # type: ignore[misc]
        yield broker
        hanging.abort_transaction(20)


def tool(jars: Path, program: str, *arguments: str) -> str:
    done = subprocess.run(
        java(jars, program, *arguments),
        capture_output=True,
        text=True,
        timeout=TOOL_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def table(text: str) -> list[dict[str, str]]:
    """The rows that a tool prints, by their headings."""
    head, *rows = [line.split() for line in text.splitlines() if line.strip()]
    return [dict(zip(head, row, strict=False)) for row in rows]


def copied(broker: Broker, partition: TopicPartition, folder: Path) -> list[Path]:
    """A partition's files, copied for the tool, which opens them for writing."""
    name = f"{partition.topic}-{partition.partition}"
    shutil.copytree(Path(broker.data_dir) / name, folder / name)
    return sorted((folder / name).glob("*.log"))


@pytest.mark.timeout(240)
def test_the_formatter_reads_the_state_of_transactions(broker: Broker, kafka_tools: Path) -> None:
    with Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        places = [(TRANSACTIONS_TOPIC, number) for number in range(INTERNAL_PARTITIONS)]
        count = sum(consumer.end_offsets(places).values())
    text = tool(
        *(kafka_tools, CONSOLE, "--bootstrap-server", broker.bootstrap_servers),
        *("--topic", TRANSACTIONS_TOPIC, "--from-beginning", "--formatter", FORMATTER),
        *("--max-messages", str(count), "--timeout-ms", str(READ_MS)),
    )
    read: list[dict[str, Any]] = []
    decoder = json.JSONDecoder()
    # One object after the other, with nothing in between.
    while text:
        one, end = decoder.raw_decode(text)
        text = text[end:].lstrip()
        read.append(one)

    def story(transactional_id: str) -> list[dict[str, Any]]:
        return [
            one["value"]["data"]
            for one in read
            if one["key"]["data"]["transactionalId"] == transactional_id
        ]

    def states(transactional_id: str) -> list[int]:
        return [one["transactionStatus"] for one in story(transactional_id)]

    # Empty, Ongoing, PrepareCommit, CompleteCommit; the abort's are 3 and 5.
    assert states(COMMITTED_ID) == [0, 1, 2, 4]
    assert states(ABORTED_ID) == [0, 1, 3, 5]
    assert states(OPEN_ID) == [0, 1]
    ongoing = story(OPEN_ID)[-1]
    assert ongoing["transactionTimeoutMs"] == TIMEOUT_MS
    assert ongoing["producerId"] == describe(broker.bootstrap_servers, OPEN_ID).producer_id
    assert ongoing["transactionPartitions"] == [{"topic": TOPIC, "partitionIds": [0]}]


@pytest.mark.timeout(240)
def test_dump_log_decodes_the_state_of_transactions(
    broker: Broker, kafka_tools: Path, tmp_path: Path
) -> None:
    files = copied(broker, transactions_partition(COMMITTED_ID), tmp_path)
    output = dump_log(kafka_tools, files, "--transaction-log-decoder")
    assert not COMPLAINTS.search(output), output
    states = [
        state
        for line in output.splitlines()
        if f'"transactionalId":"{COMMITTED_ID}"' in line
        for state in [line.partition('"transactionStatus":')[2].partition(",")[0]]
    ]
    assert states == ["0", "1", "2", "4"]


@pytest.mark.timeout(240)
def test_dump_log_reads_transactional_records_and_markers(
    broker: Broker, kafka_tools: Path, tmp_path: Path
) -> None:
    files = copied(broker, TopicPartition(TOPIC, 0), tmp_path)
    output = dump_log(kafka_tools, files, "--deep-iteration", "--print-data-log")
    assert not COMPLAINTS.search(output), output
    batches = [fields(line) for line in output.splitlines() if line.startswith("baseOffset")]
    expected = [
        (header.base_offset, header.producer_id, header.is_transactional, header.is_control)
        for path in files
        for _, header in split_batches(path.read_bytes())
    ]
    assert [
        (
            int(one["baseOffset"]),
            int(one["producerId"]),
            one["isTransactional"] == "true",
            one["isControl"] == "true",
        )
        for one in batches
    ] == expected
    markers = [line for line in output.splitlines() if "endTxnMarker" in line]
    assert ["COMMIT" in markers[0], "ABORT" in markers[1]] == [True, True]
    assert len(markers) == 2


@pytest.mark.timeout(400)
def test_kafka_transactions_lists_describes_finds_and_aborts(
    broker: Broker, kafka_tools: Path
) -> None:
    servers = broker.bootstrap_servers

    def run(*arguments: str) -> str:
        return tool(kafka_tools, TRANSACTIONS_TOOL, "--bootstrap-server", servers, *arguments)

    def transactions(*arguments: str) -> list[dict[str, str]]:
        return table(run(*arguments))

    states = {row["TransactionalId"]: row["TransactionState"] for row in transactions("list")}
    assert states == {
        COMMITTED_ID: "CompleteCommit",
        ABORTED_ID: "CompleteAbort",
        OPEN_ID: "Ongoing",
    }
    (row,) = transactions("describe", "--transactional-id", OPEN_ID)
    assert row["TransactionState"] == "Ongoing"
    assert row["TopicPartitions"] == f"{TOPIC}-0"
    partition = ("--topic", TOPIC, "--partition", "0")
    producers = transactions("describe-producers", *partition)
    (open_one,) = [one for one in producers if one["CurrentTransactionStartOffset"] != "None"]
    # The coordinator knows the transaction, so that it does not hang.
    hanging = transactions("find-hanging", "--broker-id", "1", "--max-transaction-timeout", "0")
    assert hanging == []
    run("abort", *partition, "--start-offset", open_one["CurrentTransactionStartOffset"])
    last_stable_offset, high_watermark = ends(servers, TopicPartition(TOPIC, 0))
    assert last_stable_offset == high_watermark
