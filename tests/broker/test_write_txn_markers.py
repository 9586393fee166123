"""WriteTxnMarkers: as coordinators send it, and administrators who end a transaction that hangs."""

from __future__ import annotations

import pytest
from tests.broker import txn_requests as ask
from tests.broker.requests import create, every_version_of
from tests.broker.txn_requests import Identity

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.write_txn_markers import WriteTxnMarkersRequest

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


@EVERY_VERSION
def test_partitions_that_do_not_exist(
    connection: RawConnection, topic: str, open_transaction: Identity, version: int
) -> None:
    errors = ask.write_markers(
        connection, open_transaction, {topic: [7, 0], "missing": [0]}, version=version
    )
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert errors == [unknown, NONE, unknown]
