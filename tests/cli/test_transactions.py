"""`ottla transactions` through processes of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.broker.requests import eventually, new_producer_id, session_with
from tests.broker.test_read_committed import send
from tests.cli.conftest import Ottla

from ottla import Admin, Broker, Producer, TopicPartition
from ottla.admin import NewTopic

TOPIC = "in-transactions"
OPEN_ID, DONE_ID = "cli-open", "cli-done"


@pytest.fixture(scope="module")
def admin(cli_broker: Broker) -> Iterator[Admin]:
    with Admin(bootstrap_servers=cli_broker.bootstrap_servers) as client:
        client.create_topics([NewTopic(TOPIC, num_partitions=2)])
        yield client


@pytest.fixture(scope="module")
def open_one(cli_broker: Broker, admin: Admin) -> Iterator[Producer]:
    """A producer whose transaction is open, beside one that is done."""
    servers = cli_broker.bootstrap_servers
    with Producer(bootstrap_servers=servers, transactional_id=DONE_ID) as done:
        done.init_transactions()
        with done.transaction():
            done.send(TOPIC, b"done", partition=0)
    assert eventually(
        lambda: admin.describe_transactions([DONE_ID])[DONE_ID].state == "CompleteCommit"
    )
    # It stays open while one command after the other looks at it.
    producer = Producer(
        bootstrap_servers=servers, transactional_id=OPEN_ID, transaction_timeout_ms=600_000
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(TOPIC, b"open", partition=0).result()
    yield producer
    producer.close(0)


@pytest.fixture
def hanging(cli_broker: Broker, admin: Admin) -> tuple[str, int]:
    """A topic and a producer id whose transaction no coordinator knows."""
    topic = f"hanging-{time.monotonic_ns()}"
    admin.create_topics([NewTopic(topic, num_partitions=1)])
    with session_with(cli_broker) as connection:
        producer_id = new_producer_id(connection)
    with Producer(bootstrap_servers=cli_broker.bootstrap_servers) as producer:
        producer.send(topic, b"plain").result()
    send(cli_broker, topic, producer_id, 0, b"hanging")
    return topic, producer_id


def test_transactional_ids_are_listed(open_one: Producer, ottla: Ottla, inside: Ottla) -> None:
    rows = {row["TransactionalId"]: row for row in ottla("transactions", "list").table}
    assert rows[OPEN_ID]["TransactionState"] == "Ongoing"
    assert rows[DONE_ID]["TransactionState"] == "CompleteCommit"
    assert rows[OPEN_ID]["Coordinator"] == "1"
    filters = ["--state", "ongoing", "--pattern", "cli-.*", "--duration", "0"]
    (found,) = inside("transactions", "list", *filters, "-o", "json").data
    assert found == {
        "transactional_id": OPEN_ID,
        "coordinator_id": 1,
        "producer_id": int(rows[OPEN_ID]["ProducerId"]),
        "state": "Ongoing",
    }
    lasting = inside("transactions", "list", "--pattern", "cli-.*", "--duration-filter", "0").table
    assert [row["TransactionalId"] for row in lasting] == [OPEN_ID]
    none = inside("transactions", "list", "--producer-id", "123456789")
    assert (none.code, none.out) == (0, "")
    assert none.err == "there are no such transactional ids\n"
    wrong = inside("transactions", "list", "--state", "Sleeping")
    assert wrong.code == 2
    assert "'Sleeping' is none of Empty, Ongoing" in wrong.err


def test_a_transactional_id_is_described(open_one: Producer, ottla: Ottla, inside: Ottla) -> None:
    done = ottla("transactions", "describe", OPEN_ID, "--transactional-id", DONE_ID)
    row, other = done.table
    assert list(row) == [
        *("CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState"),
        *("TransactionTimeoutMs", "CurrentTransactionStartTimeMs", "TransactionDurationMs"),
        "TopicPartitions",
    ]
    assert (row["TransactionState"], row["TopicPartitions"]) == ("Ongoing", f"{TOPIC}-0")
    assert (other["TopicPartitions"], other["TransactionDurationMs"]) == ("-", "-")
    missing = inside("transactions", "describe", OPEN_ID, "nobody", "-o", "json")
    assert missing.code == 1
    assert [found["transactional_id"] for found in missing.data] == [OPEN_ID]
    assert missing.data[0]["partitions"] == [f"{TOPIC}-0"]
    assert missing.data[0]["transaction_duration_ms"] >= 0
    (line,) = missing.err.splitlines()
    assert line.startswith("ottla: nobody: ")
    assert "ottla transactions list" in line


def test_the_producers_of_a_partition_are_listed(
    open_one: Producer, ottla: Ottla, inside: Ottla
) -> None:
    rows = ottla("transactions", "producers", TOPIC, "0").table
    starts = {row["CurrentTransactionStartOffset"] for row in rows}
    assert starts == {"-", "2"}
    assert {row["LatestCoordinatorEpoch"] for row in rows} == {"-", "1"}
    given = ("--topic", TOPIC, "--partition", "0", "--broker-id", "1", "-o", "json")
    found = inside("transactions", "describe-producers", *given).data
    assert {each["current_transaction_start_offset"] for each in found} == {None, 2}
    beyond = inside("transactions", "producers", TOPIC, "9")
    assert beyond.code == 1
    assert "`ottla topics describe` shows which partitions there are" in beyond.err
    half = inside("transactions", "producers", TOPIC)
    assert half.code == 2
    assert "the partition is missing" in half.err
    twice = inside("transactions", "producers", TOPIC, "0", "--topic", TOPIC)
    assert twice.code == 2
    assert "named twice" in twice.err


def test_a_hanging_transaction_is_found_and_aborted(
    open_one: Producer, hanging: tuple[str, int], admin: Admin, ottla: Ottla, inside: Ottla
) -> None:
    topic, producer_id = hanging
    # The open transaction of the other test is the coordinator's to end, so it does not hang.
    found = ottla("transactions", "find-hanging", "--max-transaction-timeout", "0").table
    (row,) = (row for row in found if row["Topic"] in (topic, TOPIC))
    assert (row["Topic"], row["Partition"], row["StartOffset"]) == (topic, "0", "1")
    assert (row["ProducerId"], row["Duration(min)"]) == (str(producer_id), "0")
    young = inside("transactions", "find-hanging", "--topic", topic, "--broker-id", "1")
    assert (young.code, young.out) == (0, "")
    assert "no hanging transactions" in young.err

    # Everywhere, as in the topic of committed offsets.
    topics = admin.describe_topics(list(admin.list_topics(list_internal=True))).values()
    assert any(each.is_internal for each in topics)
    count = sum(len(each.partitions) for each in topics)
    assert f"checked partitions: {count}\n" in inside("transactions", "find-hanging").err

    wrong = inside("transactions", "abort", topic, "0", "--start-offset", "0")
    assert wrong.code == 1
    assert "no transaction that starts at offset 0 is open" in wrong.err
    done = ottla("transactions", "abort", topic, "0", "--start-offset", "1")
    assert done.out == (
        f"transaction aborted on {topic}-0: producer id {producer_id}, producer epoch 0\n"
    )
    (state,) = (
        one
        for one in admin.describe_producers([(topic, 0)])[TopicPartition(topic, 0)]
        if one.producer_id == producer_id
    )
    assert state.current_transaction_start_offset is None


def test_a_transaction_is_aborted_by_its_producer(
    hanging: tuple[str, int], admin: Admin, inside: Ottla
) -> None:
    topic, producer_id = hanging
    who = ("--producer-id", str(producer_id), "--producer-epoch", "0")
    half = inside("transactions", "abort", "--topic", topic, "--partition", "0", *who)
    assert half.code == 2
    assert "--coordinator-epoch" in half.err
    whole = (*who, "--coordinator-epoch", "-1")
    done = inside("transactions", "abort", "--topic", topic, "--partition", "0", *whole)
    assert done.code == 0, done.err
    states = admin.describe_producers([(topic, 0)])[TopicPartition(topic, 0)]
    assert all(one.current_transaction_start_offset is None for one in states)


def test_no_half_of_a_transaction_is_aborted_while_its_coordinator_knows_it(
    open_one: Producer, admin: Admin, inside: Ottla
) -> None:
    (state,) = (
        each
        for each in admin.describe_producers([(TOPIC, 0)])[TopicPartition(TOPIC, 0)]
        if each.current_transaction_start_offset is not None
    )
    by_offset = ("--start-offset", str(state.current_transaction_start_offset))
    by_producer = (
        *("--producer-id", str(state.producer_id), "--producer-epoch", str(state.producer_epoch)),
        *("--coordinator-epoch", "0"),
    )
    for named in (by_offset, by_producer):
        refused = inside("transactions", "abort", TOPIC, "0", *named)
        assert (refused.code, refused.out) == (1, "")
        assert f"`ottla transactions abort --transactional-id {OPEN_ID}`" in refused.err
    states = admin.describe_producers([(TOPIC, 0)])[TopicPartition(TOPIC, 0)]
    assert state in states
    both = inside("transactions", "abort", "--force", "--transactional-id", OPEN_ID)
    assert both.code == 2


def test_a_slow_transaction_is_aborted_by_its_id(
    open_one: Producer, admin: Admin, cli_broker: Broker, inside: Ottla
) -> None:
    servers = cli_broker.bootstrap_servers
    producer = Producer(bootstrap_servers=servers, transactional_id="cli-slow")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(TOPIC, b"slow", partition=1).result()
    done = inside("transactions", "abort", "--transactional-id", "cli-slow")
    assert done.code == 0, done.err
    assert done.out.startswith("transaction of cli-slow aborted: producer id ")
    with pytest.raises(Exception, match=r"[Ff]enced|newer|epoch"):
        producer.commit_transaction()
    producer.close(0)
    before = admin.describe_transactions([DONE_ID])[DONE_ID].producer_epoch
    idle = inside("transactions", "abort", "--transactional-id", DONE_ID)
    assert (idle.code, idle.out) == (1, "")
    assert f"no transaction of {DONE_ID} is open: its state is CompleteCommit" in idle.err
    assert admin.describe_transactions([DONE_ID])[DONE_ID].producer_epoch == before
    missing = inside("transactions", "abort", "--transactional-id", "nobody")
    assert missing.code == 1
    assert "ottla transactions list" in missing.err


def test_transactions_of_kafka_are_inspected(kafka_address: str, inside: Ottla) -> None:
    def run(*arguments: str) -> Any:
        return inside("transactions", *arguments, "-b", kafka_address, "-o", "json").data

    topic = name = f"inspected-{time.monotonic_ns()}"
    with Admin(bootstrap_servers=kafka_address) as admin:
        admin.create_topics([NewTopic(topic, num_partitions=1)])
    with Producer(bootstrap_servers=kafka_address, transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"open").result()
        (listed,) = run("list", "--pattern", f"{name}.*")
        assert (listed["transactional_id"], listed["state"]) == (name, "Ongoing")
        (described,) = run("describe", name)
        assert described["partitions"] == [f"{topic}-0"]
        assert described["producer_id"] == listed["producer_id"]
        (remembered,) = run("producers", topic, "0")
        assert remembered["producer_id"] == listed["producer_id"]
        assert remembered["current_transaction_start_offset"] == 0
        hanging = ("--topic", topic, "--max-transaction-timeout", "0")
        assert run("find-hanging", *hanging) == []
        given = ("abort", topic, "0", "--start-offset", "0", "-b", kafka_address)
        assert inside("transactions", *given).code == 1
        assert inside("transactions", *given, "--force").code == 0
        (remembered,) = run("producers", topic, "0")
        assert remembered["current_transaction_start_offset"] is None
        producer.abort_transaction()
