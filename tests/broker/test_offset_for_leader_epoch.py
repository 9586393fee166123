"""OffsetForLeaderEpoch: where the records of an epoch end, over restarts."""

from __future__ import annotations

import pytest
from tests.broker.conftest import Starter
from tests.broker.requests import create, delete_records, every_version_of, fill, session_with
from tests.broker.test_list_offsets import LATEST, ask

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)


def end_of(
    connection: RawConnection,
    topic: str,
    epoch: int,
    *,
    current: int = -1,
    partition: int = 0,
    version: int = 4,
) -> EpochEndOffset:
    request = OffsetForLeaderEpochRequest(
        topics=[
            OffsetForLeaderTopic(
                topic=topic,
                partitions=[
                    OffsetForLeaderPartition(
                        partition=partition, current_leader_epoch=current, leader_epoch=epoch
                    )
                ],
            )
        ]
    )
    answer = connection.call(request, OffsetForLeaderEpochResponse, version)
    found: EpochEndOffset = answer.topics[0].partitions[0]
    return found


def where(connection: RawConnection, topic: str, epoch: int) -> tuple[int, int]:
    found = end_of(connection, topic, epoch)
    assert found.error_code == ErrorCode.NONE
    return found.leader_epoch, found.end_offset


def current_epoch(connection: RawConnection, topic: str) -> int:
    return ask(connection, topic, LATEST).leader_epoch


@pytest.mark.parametrize("version", every_version_of(OffsetForLeaderEpochRequest))
def test_the_current_epoch_ends_at_the_end(
    connection: RawConnection, topic: str, version: int
) -> None:
    create(connection, topic)
    fill(connection, topic, b"1", b"2")
    epoch = current_epoch(connection, topic)
    found = end_of(connection, topic, epoch, current=epoch, version=version)
    assert (found.error_code, found.leader_epoch, found.end_offset) == (0, epoch, 2)


def test_every_epoch_ends_where_the_next_one_begins(start: Starter, topic: str) -> None:
    epochs = []
    for generation in range(3):
        broker = start()
        with session_with(broker) as connection:
            if generation == 0:
                create(connection, topic)
            epochs.append(current_epoch(connection, topic))
            fill(connection, topic, *[b"v"] * (generation + 1))
        broker.stop()
    with session_with(start()) as connection:
        now = current_epoch(connection, topic)
        first, second, third = epochs
        assert first < second < third < now
        assert where(connection, topic, first) == (first, 1)
        assert where(connection, topic, second) == (second, 3)
        # Nothing is written under the current epoch yet, and the third ends where it will begin.
        assert where(connection, topic, third) == (third, 6)
        assert where(connection, topic, now) == (now, 6)
        fill(connection, topic, b"v")
        assert where(connection, topic, third) == (third, 6)
        assert where(connection, topic, now) == (now, 7)
        assert where(connection, topic, now + 1) == (-1, -1)
        assert where(connection, topic, -1) == (-1, -1)


def test_an_epoch_before_all_records_ends_where_they_begin(start: Starter, topic: str) -> None:
    broker = start()
    with session_with(broker) as connection:
        create(connection, topic)
        empty = current_epoch(connection, topic)
    broker.stop()
    with session_with(start()) as connection:
        now = current_epoch(connection, topic)
        # A reader of the empty log is not told that it lost anything.
        assert where(connection, topic, empty) == (empty, 0)
        fill(connection, topic, b"v")
        assert where(connection, topic, empty) == (empty, 0)
        assert where(connection, topic, now) == (now, 1)


def test_deleted_records_take_their_epochs_with_them(start: Starter, topic: str) -> None:
    broker = start()
    with session_with(broker) as connection:
        create(connection, topic)
        old = current_epoch(connection, topic)
        fill(connection, topic, b"1", b"2")
    broker.stop()
    with session_with(start()) as connection:
        fill(connection, topic, b"3", b"4")
        now = current_epoch(connection, topic)
        delete_records(connection, topic, 3)
        assert where(connection, topic, old) == (old, 3)
        assert where(connection, topic, now) == (now, 4)


def test_epochs_and_partitions_are_checked(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    epoch = current_epoch(connection, topic)
    fenced = end_of(connection, topic, epoch, current=epoch - 1)
    assert fenced.error_code == ErrorCode.FENCED_LEADER_EPOCH
    unknown = end_of(connection, topic, epoch, current=epoch + 1)
    assert unknown.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    missing = end_of(connection, topic, epoch, partition=3)
    assert (missing.error_code, missing.partition) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 3)
    assert (missing.leader_epoch, missing.end_offset) == (-1, -1)
