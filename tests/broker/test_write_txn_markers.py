"""WriteTxnMarkers: as coordinators send it, and administrators who end a transaction that hangs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from tests.broker import txn_requests as ask
from tests.broker.conftest import Starter
from tests.broker.requests import create, every_version_of, on_loop, session_with
from tests.broker.txn_requests import Identity

import ottla
from ottla.broker.partitions.shard import Shard
from ottla.broker.runtime import RunningBroker
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.ports import Buffer, Extent, PartitionLog
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

EVERY_VERSION = pytest.mark.parametrize("version", every_version_of(WriteTxnMarkersRequest))
NONE = ErrorCode.NONE
OLD_EPOCH = ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.fixture
def open_transaction(connection: RawConnection, topic: str) -> Identity:
    create(connection, topic, 1)
    transactional_id = ask.new_id()
    ask.await_coordinator(connection, transactional_id)
    ask.become(connection, transactional_id)
    who = ask.become(connection, transactional_id)
    assert ask.send(connection, transactional_id, who, topic, 0, b"v") is NONE
    return who


@EVERY_VERSION
@pytest.mark.parametrize("commits", [True, False])
def test_a_marker_ends_the_transaction_on_the_partition(
    connection: RawConnection, topic: str, open_transaction: Identity, version: int, commits: bool
) -> None:
    who = open_transaction
    errors = ask.write_markers(
        connection, who, {topic: [0]}, commits=commits, coordinator_epoch=3, version=version
    )
    assert errors == [NONE]
    assert ask.is_healed(connection, topic)
    assert ask.committed_values(connection, topic) == ([b"v"] if commits else [])
    found = ask.producers_of(connection, topic)[who.producer_id]
    assert (found.coordinator_epoch, found.current_txn_start_offset) == (3, -1)


@EVERY_VERSION
def test_a_marker_that_is_too_old_changes_nothing(
    connection: RawConnection, topic: str, open_transaction: Identity, version: int
) -> None:
    """Trap 1: of an earlier epoch, or of an earlier coordinator."""
    who = open_transaction
    errors = ask.write_markers(connection, who.older(), {topic: [0]}, version=version)
    assert errors == [OLD_EPOCH]
    assert ask.last_stable_offset(connection, topic) == 0
    ask.write_markers(connection, who, {topic: [0]}, coordinator_epoch=9, version=version)
    end = ask.high_watermark(connection, topic)
    errors = ask.write_markers(
        connection, who.newer(), {topic: [0]}, coordinator_epoch=8, version=version
    )
    assert errors == [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
    assert ask.high_watermark(connection, topic) == end


def test_a_marker_of_transaction_version_2_is_written_once(
    connection: RawConnection, topic: str, open_transaction: Identity
) -> None:
    """KIP-1228, KAFKA-19999: its epoch is new; known already, it was here before or comes too late."""
    who = open_transaction

    def mark(epoch: Identity) -> list[ErrorCode]:
        return ask.write_markers(connection, epoch, {topic: [0]}, transaction_version=2)

    assert mark(who) == [OLD_EPOCH]
    assert ask.last_stable_offset(connection, topic) == 0
    assert mark(who.newer()) == [NONE]
    end = ask.high_watermark(connection, topic)
    assert mark(who.newer()) == [NONE]
    assert ask.high_watermark(connection, topic) == end
    assert mark(who) == [OLD_EPOCH]


class CountedLog:
    """A log that counts the batches of each append."""

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self.batch_counts: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def append(self, data: Buffer, extents: Sequence[Extent], expected_end_offset: int) -> Any:
        self.batch_counts.append(len(extents))
        return self._log.append(data, extents, expected_end_offset)


def counted_log(broker: ottla.Broker, topic: str) -> CountedLog:
    def take_the_place(running: RunningBroker) -> CountedLog:
        shard = running.node.partitions.shard(topic, 0)
        assert isinstance(shard, Shard)
        counted = CountedLog(shard.log)
        shard.log = cast(PartitionLog, counted)
        return counted

    return on_loop(broker, take_the_place)


def marker_of(who: Identity, topic: str, *, commits: bool) -> WritableTxnMarker:
    named = WritableTxnMarkerTopic(name=topic, partition_indexes=[0])
    return WritableTxnMarker(
        producer_id=who.producer_id,
        producer_epoch=who.epoch,
        transaction_result=commits,
        topics=[named],
        coordinator_epoch=3,
    )


def codes_of(answer: WriteTxnMarkersResponse) -> list[int]:
    return [
        partition.error_code
        for marker in answer.markers
        for topic in marker.topics
        for partition in topic.partitions
    ]


@pytest.mark.parametrize("stored", [True, False])
def test_the_markers_of_a_request_to_one_partition_are_one_write(
    start: Starter, tmp_path: Path, topic: str, stored: bool
) -> None:
    broker = start(data_dir=tmp_path if stored else None)
    with session_with(broker) as connection:
        create(connection, topic, 1)
        producers = []
        for number in range(4):
            transactional_id = ask.new_id()
            ask.await_coordinator(connection, transactional_id)
            who = ask.become(connection, transactional_id)
            assert ask.send(connection, transactional_id, who, topic, 0, b"%d" % number) is NONE
            producers.append(who)
        before = ask.high_watermark(connection, topic)
        counted = counted_log(broker, topic)
        markers = [
            marker_of(who, topic, commits=number != 1) for number, who in enumerate(producers)
        ]
        # One of them is fenced: the others are written all the same.
        markers.append(marker_of(producers[0].older(), topic, commits=True))
        request = WriteTxnMarkersRequest(markers=markers)
        answer = connection.call(request, WriteTxnMarkersResponse, 1)
        assert codes_of(answer) == [NONE, NONE, NONE, NONE, OLD_EPOCH]
        assert counted.batch_counts == [4]
        assert ask.high_watermark(connection, topic) == before + 4
        assert ask.is_healed(connection, topic)
        assert ask.committed_values(connection, topic) == [b"0", b"2", b"3"]
        # A second marker of a producer is decided on after its first was written.
        counted.batch_counts.clear()
        repeated = [marker_of(producers[3], topic, commits=True) for _ in range(2)]
        answer = connection.call(
            WriteTxnMarkersRequest(markers=[markers[0], *repeated]), WriteTxnMarkersResponse, 1
        )
        assert codes_of(answer) == [NONE, NONE, NONE]
        assert counted.batch_counts == [2, 1]
    if stored:
        broker.stop()
        with session_with(start(data_dir=tmp_path)) as connection:
            assert ask.committed_values(connection, topic) == [b"0", b"2", b"3"]


@EVERY_VERSION
def test_partitions_that_do_not_exist(
    connection: RawConnection, topic: str, open_transaction: Identity, version: int
) -> None:
    errors = ask.write_markers(
        connection, open_transaction, {topic: [7, 0], "missing": [0]}, version=version
    )
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert errors == [unknown, NONE, unknown]
