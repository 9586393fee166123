"""The known traps of facts about brokers, each of which was a bug of some broker; numbers are those of that list."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.broker import txn_requests as ask
from tests.broker.nodes import nodes_of
from tests.broker.requests import batch_of, create, eventually, fetch, on_loop, produce, values_in
from tests.broker.txn_producer import Cluster, Producer
from tests.broker.txn_requests import Identity
from tests.storage.conftest import patch_in

import ottla
from ottla.broker.coordination.coordinator import Coordinator
from ottla.client.raw import RawConnection
from ottla.core.partition import READ_COMMITTED
from ottla.core.turn import Turn
from ottla.core.txn.events import LAST_EPOCH
from ottla.core.txn.machine import TransactionMachine
from ottla.errors import ErrorCode
from ottla.storage.local.sync import group_commit
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

NONE, FENCED = ErrorCode.NONE, ErrorCode.PRODUCER_FENCED
OLD_EPOCH = ErrorCode.INVALID_PRODUCER_EPOCH
LATEST = -1


@pytest.fixture
def cluster(broker: ottla.Broker) -> Iterator[Cluster]:
    with nodes_of(broker) as nodes:
        yield Cluster(nodes)


@pytest.fixture
def made(connection: RawConnection, topic: str) -> str:
    """A topic with two partitions."""
    create(connection, topic, 2)
    return topic


# 1. A delayed request of an old epoch takes effect on a later transaction (KAFKA-17754).


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("late_commits", [True, False])
def test_1_an_end_that_is_a_transaction_late_ends_nothing(
    cluster: Cluster, connection: RawConnection, made: str, commits: bool, late_commits: bool
) -> None:
    producer = Producer(cluster).init().send(made, b"1")
    before = producer.who
    if commits:
        producer.commit()
    else:
        producer.abort()
    producer.send(made, b"2")
    error = ask.end_error(connection, producer.id, before, commits=late_commits)
    assert error is FENCED
    assert cluster.state(producer.id) == "Ongoing"
    producer.send(made, b"3").commit()
    assert cluster.is_healed(made)
    first = [b"1"] if commits else []
    assert cluster.values(made) == [*first, b"2", b"3"]


def test_1_partitions_that_are_added_a_transaction_late_are_refused(
    cluster: Cluster, connection: RawConnection, made: str
) -> None:
    producer = Producer(cluster).init().send(made, b"1")
    before = producer.who
    producer.commit().send(made, b"2")
    errors = ask.add_partitions(connection, producer.id, before, {made: [1]})
    assert errors == [FENCED]
    (found,) = ask.describe(connection, producer.id).topics
    assert found.partitions == [0]


@pytest.mark.parametrize("partition", [0, 1])
def test_1_records_that_come_a_transaction_late_are_refused(
    cluster: Cluster, connection: RawConnection, made: str, partition: int
) -> None:
    """On a partition that knows the producer, and on one that does not."""
    producer = Producer(cluster).init().send(made, b"1")
    before = producer.who
    producer.commit()
    assert cluster.is_in(producer.id, "CompleteCommit")
    for version in (ask.PRODUCE_V1, ask.PRODUCE_V2):
        error = ask.send(
            connection, producer.id, before, made, 1, b"late", partition=partition, version=version
        )
        assert error is OLD_EPOCH
    producer.send(made, b"2").commit()
    assert cluster.is_healed(made, partition)
    assert b"late" not in cluster.values(made, partition)


def test_1_a_marker_that_comes_a_transaction_late_is_refused(
    cluster: Cluster, connection: RawConnection, made: str
) -> None:
    producer = Producer(cluster).init().send(made, b"1")
    producer.commit().send(made, b"2")
    # The marker of the first transaction once more: it has the epoch of the second.
    errors = ask.write_markers(
        connection, producer.who, {made: [0]}, transaction_version=2, coordinator_epoch=99
    )
    assert errors == [OLD_EPOCH]
    assert ask.last_stable_offset(connection, made) == 2


def test_1_an_init_that_comes_late_does_not_end_what_began_since(
    cluster: Cluster, connection: RawConnection, made: str
) -> None:
    producer = Producer(cluster).init()
    before = producer.who
    producer.init(expected=before)
    producer.send(made, b"1")
    assert ask.init_error(connection, producer.id, expected=before) is FENCED
    producer.commit()
    assert cluster.is_healed(made)
    assert cluster.values(made) == [b"1"]


# 2. A coordinator restart forgets an implicit begin.


def test_2_what_was_confirmed_belongs_to_its_transaction_after_a_restart(tmp_path: Path) -> None:
    with ottla.Broker(data_dir=tmp_path) as broker, nodes_of(broker) as nodes:
        create(nodes.any, "orders", 2)
        before = Producer(Cluster(nodes), "pipeline").init().send("orders", b"v", partition=1)
    with ottla.Broker(data_dir=tmp_path) as broker, nodes_of(broker) as nodes:
        cluster = Cluster(nodes)
        producer = Producer(cluster, "pipeline")
        producer.who = before.who
        producer.send("orders", b"w").commit()
        for partition, value in ((0, b"w"), (1, b"v")):
            assert cluster.is_healed("orders", partition)
            assert cluster.values("orders", partition) == [value]


# 3. Clients leave aborted data out by producer id.


def test_3_the_old_transaction_is_over_before_a_new_one_opens(
    cluster: Cluster, connection: RawConnection, made: str
) -> None:
    first = Producer(cluster).init().send(made, b"old")
    second = Producer(cluster, first.id).init().send(made, b"new").commit()
    assert second.who.producer_id == first.who.producer_id
    assert cluster.is_healed(made)
    found = fetch(connection, made, 0, isolation_level=READ_COMMITTED)
    assert values_in(found)[0] == b"old"
    assert [one.first_offset for one in found.aborted_transactions or ()] == [0]
    assert cluster.values(made) == [b"new"]


# 4. A commit that answered an error but was applied.


def test_4_offsets_whose_commit_seemed_to_fail_are_unstable_and_then_right(tmp_path: Path) -> None:
    """A reader that was given the older offset would do the work twice."""
    options = {"offsets.commit.timeout.ms": "10", "log.flush.interval.messages": "1"}
    with ottla.Broker(options, data_dir=tmp_path) as broker, nodes_of(broker) as nodes:
        cluster = Cluster(nodes)
        create(nodes.any, "orders")
        producer = Producer(cluster).init()
        cluster.of_group("group")
        assert eventually(lambda: producer.try_offsets("group", {("orders", 0): 1}) is NONE)
        assert eventually(lambda: producer.try_end(commits=True) is NONE)
        assert eventually(lambda: cluster.offset("group", "orders") == 1)

        def slow(fd: int) -> None:
            time.sleep(0.2)

        with pytest.MonkeyPatch.context() as patch:
            patch_in(tmp_path, patch, group_commit, "_sync_data", slow)
            error = producer.try_offsets("group", {("orders", 0): 2})
            assert error is ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert cluster.offset("group", "orders") != 1
        assert eventually(
            lambda: cluster.offset("group", "orders") is ErrorCode.UNSTABLE_OFFSET_COMMIT
        )
        assert eventually(lambda: producer.try_end(commits=True) is NONE)
        assert eventually(lambda: cluster.offset("group", "orders") == 2)


# 8. Epochs overflow.


def set_epoch(broker: ottla.Broker, transactional_id: str, epoch: int) -> None:
    """As if the id had been used for long."""

    def work(running: Any) -> None:
        coordinator: Coordinator[TransactionMachine] = running.node.transactions.find(
            transactional_id
        )

        def write(machine: TransactionMachine, turn: Turn, _: object) -> None:
            saved = machine._saved[transactional_id]
            machine._write(turn, saved._replace(producer_epoch=epoch))

        coordinator.ask(write, lambda result: result)

    on_loop(broker, work)


@pytest.mark.parametrize("version", [1, 2])
def test_8_a_producer_that_uses_up_its_epochs_goes_on_under_another_id(
    broker: ottla.Broker, cluster: Cluster, made: str, version: int
) -> None:
    producer = Producer(cluster, version=version).init()
    set_epoch(broker, producer.id, LAST_EPOCH - 1)
    old = Identity(producer.who.producer_id, LAST_EPOCH - 1)
    producer.who = old
    expected = []
    ids = []
    for number in range(4):
        value = b"%d" % number
        if version == 1:
            producer.init()  # takes an epoch, as every end does with version 2
        ids.append(producer.who.producer_id)
        producer.send(made, value, partition=number % 2).commit()
        expected.append(value)
    assert len(set(ids)) == 2
    assert all(epoch <= LAST_EPOCH for epoch in [producer.who.epoch])
    for partition in (0, 1):
        assert cluster.is_healed(made, partition)
        assert cluster.values(made, partition) == expected[partition::2]
    # Who still goes by the old id is out.
    zombie = Producer(cluster, producer.id, version)
    zombie.who = old
    assert zombie.try_end(commits=True) is not NONE
    assert zombie.try_send(made, b"late") is not NONE


def test_8_a_transaction_in_the_last_epoch_can_be_fenced(
    broker: ottla.Broker, cluster: Cluster, made: str
) -> None:
    producer = Producer(cluster).init()
    set_epoch(broker, producer.id, LAST_EPOCH)
    producer.who = Identity(producer.who.producer_id, LAST_EPOCH)
    producer.send(made, b"left")
    second = Producer(cluster, producer.id).init()
    assert second.who.producer_id != producer.who.producer_id
    assert second.who.epoch == 0
    second.send(made, b"new").commit()
    assert cluster.is_healed(made)
    assert cluster.values(made) == [b"new"]


def test_8_nobody_has_the_epoch_that_is_for_fencing(
    broker: ottla.Broker, cluster: Cluster, connection: RawConnection, made: str
) -> None:
    """A transaction under it could not be fenced; the coordinator must survive the attempt."""
    producer = Producer(cluster).init()
    set_epoch(broker, producer.id, LAST_EPOCH)
    producer.who = Identity(producer.who.producer_id, LAST_EPOCH)
    producer.send(made, b"left")
    assert ask.init_error(connection, producer.id) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert cluster.is_in(producer.id, "CompleteAbort")
    impostor = producer.who.newer()
    assert ask.send(connection, producer.id, impostor, made) is OLD_EPOCH
    assert ask.add_partitions(connection, producer.id, impostor, {made: [0]}) == [FENCED]
    Producer(cluster, producer.id).init().send(made, b"new").commit()


# 9. A fetch skips a batch when its offset falls inside it.


def test_9_a_fetch_inside_an_aborted_batch_gets_the_batch_and_is_told(
    cluster: Cluster, connection: RawConnection, made: str
) -> None:
    producer = Producer(cluster).init().send(made, b"a", b"b", b"c").abort()
    assert cluster.is_healed(made)
    for offset in range(4):
        found = fetch(connection, made, offset, isolation_level=READ_COMMITTED)
        told = [(one.producer_id, one.first_offset) for one in found.aborted_transactions or ()]
        assert told == [(producer.who.producer_id, 0)]
        assert len(values_in(found)) == (4 if offset < 3 else 1)


# 6 and 10. What ListOffsets says.


def test_10_the_latest_offset_of_a_read_committed_reader_is_the_last_stable_one(
    cluster: Cluster, connection: RawConnection, made: str
) -> None:
    def latest(isolation_level: int) -> int:
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation_level,
            topics=[
                ListOffsetsTopic(
                    name=made,
                    partitions=[ListOffsetsPartition(partition_index=0, timestamp=LATEST)],
                )
            ],
        )
        answer = connection.call(request, ListOffsetsResponse, 7)
        offset: int = answer.topics[0].partitions[0].offset
        return offset

    assert produce(connection, made, batch_of(b"plain")).error_code == NONE
    producer = Producer(cluster).init().send(made, b"open")
    assert produce(connection, made, batch_of(b"plain")).error_code == NONE
    assert (latest(0), latest(READ_COMMITTED)) == (3, 1)
    producer.commit()
    assert cluster.is_healed(made)
    assert (latest(0), latest(READ_COMMITTED)) == (4, 4)
