"""ListOffsets: named positions, timestamps, and their errors."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tests.broker.conftest import Starter
from tests.broker.requests import (
    create,
    delete_records,
    every_version_of,
    fill,
    on_loop,
    produce,
    session_with,
)

import ottla
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.records import batch as batches
from ottla.records import compression
from ottla.records.batch import build_batch
from ottla.records.compression import Codec
from ottla.records.record import Record
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -4, -5, -6
NEWEST = 11
AT_MS = 1_700_000_000_000
NOT_FOUND = (ErrorCode.NONE, -1, -1)


def ask(
    connection: RawConnection, topic: str, timestamp: int, version: int = NEWEST, **fields: Any
) -> ListOffsetsPartitionResponse:
    partition = ListOffsetsPartition(
        partition_index=fields.pop("partition", 0),
        timestamp=timestamp,
        current_leader_epoch=fields.pop("current_leader_epoch", -1),
    )
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[partition])], **fields
    )
    answer = connection.call(request, ListOffsetsResponse, version)
    found: ListOffsetsPartitionResponse = answer.topics[0].partitions[0]
    return found


def offset_at(connection: RawConnection, topic: str, timestamp: int) -> tuple[int, int, int]:
    found = ask(connection, topic, timestamp)
    return found.error_code, found.offset, found.timestamp


def append(
    connection: RawConnection, topic: str, *deltas_ms: int, codec: Codec = Codec.NONE
) -> None:
    """One batch with a record at each of these times after `AT_MS`."""
    records = [Record(at, AT_MS + delta, b"k", b"v") for at, delta in enumerate(deltas_ms)]
    assert produce(connection, topic, build_batch(records, codec=codec)).error_code == 0


@pytest.mark.parametrize("version", every_version_of(ListOffsetsRequest))
def test_earliest_and_latest(connection: RawConnection, topic: str, version: int) -> None:
    create(connection, topic)
    fill(connection, topic, b"1", b"2", b"3")
    delete_records(connection, topic, 1)
    latest, earliest = (ask(connection, topic, at, version) for at in (LATEST, EARLIEST))
    assert (latest.error_code, latest.offset, latest.timestamp) == (0, 3, -1)
    assert (earliest.error_code, earliest.offset, earliest.timestamp) == (0, 1, -1)
    assert (latest.leader_epoch >= 0) == (version >= 4)
    assert (earliest.leader_epoch >= 0) == (version >= 4)


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_latest_is_the_same_at_both_isolation_levels_without_transactions(
    connection: RawConnection, topic: str, isolation_level: int
) -> None:
    create(connection, topic)
    fill(connection, topic, b"1", b"2")
    assert ask(connection, topic, LATEST, isolation_level=isolation_level).offset == 2


def test_an_empty_log(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    for position in (LATEST, EARLIEST, EARLIEST_LOCAL):
        assert offset_at(connection, topic, position) == (ErrorCode.NONE, 0, -1)
    for position in (MAX_TIMESTAMP, LATEST_TIERED, EARLIEST_PENDING_UPLOAD, 0, AT_MS):
        assert offset_at(connection, topic, position) == NOT_FOUND


def test_positions_of_tiered_storage(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    fill(connection, topic, b"1", b"2")
    delete_records(connection, topic, 1)
    assert offset_at(connection, topic, EARLIEST_LOCAL) == (ErrorCode.NONE, 1, -1)
    assert offset_at(connection, topic, LATEST_TIERED) == NOT_FOUND
    assert offset_at(connection, topic, EARLIEST_PENDING_UPLOAD) == NOT_FOUND


@pytest.mark.parametrize(
    ("position", "since"),
    [(MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9), (EARLIEST_PENDING_UPLOAD, 11)],
)
def test_a_position_newer_than_the_version_is_not_supported(
    connection: RawConnection, topic: str, position: int, since: int
) -> None:
    create(connection, topic)
    before = ask(connection, topic, position, since - 1)
    assert before.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert ask(connection, topic, position, since).error_code == ErrorCode.NONE


@pytest.mark.parametrize("position", [-7, -100, -(2**63)])
def test_a_position_that_does_not_exist(
    connection: RawConnection, topic: str, position: int
) -> None:
    create(connection, topic)
    assert ask(connection, topic, position).error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY])
def test_by_timestamp_inside_batches(connection: RawConnection, topic: str, codec: Codec) -> None:
    create(connection, topic)
    append(connection, topic, 0, 100, 200, codec=codec)
    append(connection, topic, 300, 250, 500, codec=codec)
    for delta, offset, found in (
        (-1, 0, 0),
        (0, 0, 0),
        (1, 1, 100),
        (100, 1, 100),
        (199, 2, 200),
        (201, 3, 300),
        (300, 3, 300),
        (301, 5, 500),
        (500, 5, 500),
    ):
        assert offset_at(connection, topic, AT_MS + delta) == (0, offset, AT_MS + found)
    assert offset_at(connection, topic, AT_MS + 501) == NOT_FOUND


def test_the_first_record_that_is_late_enough_when_time_goes_back(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic)
    append(connection, topic, 500)
    append(connection, topic, 100)
    append(connection, topic, 600)
    assert offset_at(connection, topic, AT_MS + 50) == (0, 0, AT_MS + 500)
    assert offset_at(connection, topic, AT_MS + 550) == (0, 2, AT_MS + 600)


def test_by_timestamp_over_many_segments(connection: RawConnection, topic: str) -> None:
    create(connection, topic, config={"segment.bytes": "200", "index.interval.bytes": "1"})
    for number in range(30):
        append(connection, topic, number * 10, number * 10 + 5)
    for number in range(30):
        assert offset_at(connection, topic, AT_MS + number * 10)[1] == 2 * number
        assert offset_at(connection, topic, AT_MS + number * 10 + 1)[1] == 2 * number + 1


def test_by_timestamp_after_deleted_records(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    append(connection, topic, 0, 900, 100, 200)
    append(connection, topic, 300, 950)
    delete_records(connection, topic, 2)  # inside the first batch
    assert offset_at(connection, topic, AT_MS) == (0, 2, AT_MS + 100)
    assert offset_at(connection, topic, AT_MS + 150) == (0, 3, AT_MS + 200)
    # What made the first batch late enough is deleted: the answer lies in the next one.
    assert offset_at(connection, topic, AT_MS + 800) == (0, 5, AT_MS + 950)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_max_timestamp_is_the_first_record_that_has_it(
    connection: RawConnection, topic: str, codec: Codec
) -> None:
    create(connection, topic)
    append(connection, topic, 10, 40, codec=codec)
    append(connection, topic, 20, 50, 30, 50, codec=codec)
    append(connection, topic, 50, codec=codec)
    append(connection, topic, 45, codec=codec)
    assert offset_at(connection, topic, MAX_TIMESTAMP) == (0, 3, AT_MS + 50)


def test_the_answer_bears_the_epoch_of_the_record(start: Starter, topic: str) -> None:
    broker = start()
    with session_with(broker) as connection:
        create(connection, topic)
        append(connection, topic, 0)
    broker.stop()
    with session_with(start()) as connection:
        append(connection, topic, 100)
        epochs = [
            ask(connection, topic, at).leader_epoch
            for at in (EARLIEST, AT_MS, AT_MS + 100, MAX_TIMESTAMP, LATEST)
        ]
    old, new = epochs[0], epochs[-1]
    assert old < new
    assert epochs == [old, old, new, new, new]


def test_leader_epochs_are_checked(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    epoch = ask(connection, topic, LATEST).leader_epoch
    for asked, error in (
        (epoch, ErrorCode.NONE),
        (epoch - 1, ErrorCode.FENCED_LEADER_EPOCH),
        (epoch + 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ):
        assert ask(connection, topic, LATEST, current_leader_epoch=asked).error_code == error


def test_partitions_that_do_not_exist(connection: RawConnection, topic: str) -> None:
    for version in (1, NEWEST):
        found = ask(connection, topic, LATEST, version)
        assert (found.error_code, found.offset) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    create(connection, topic)
    found = ask(connection, topic, LATEST, partition=1)
    assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_partition_asked_for_twice_is_invalid(connection: RawConnection, topic: str) -> None:
    create(connection, topic, partitions=2)
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(partition_index=index, timestamp=position)
                    for index, position in ((0, LATEST), (1, LATEST), (0, EARLIEST))
                ],
            )
        ],
    )
    found = connection.call(request, ListOffsetsResponse, 5).topics[0].partitions
    assert [(each.partition_index, each.error_code) for each in found] == [
        (0, ErrorCode.INVALID_REQUEST),
        (1, ErrorCode.NONE),
        (0, ErrorCode.INVALID_REQUEST),
    ]


class Decompressions:
    """How much each thread decompressed, at most."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.most_bytes: dict[int, int] = {}
        decompress = compression.decompress

        def noting(codec: Codec, data: Any, limit_bytes: int) -> Any:
            found = decompress(codec, data, limit_bytes)
            thread = threading.get_ident()
            self.most_bytes[thread] = max(self.most_bytes.get(thread, 0), len(found))
            return found

        monkeypatch.setattr(batches, "decompress", noting)


def append_bomb(connection: RawConnection, topic: str, timestamp_ms: int) -> None:
    records = [Record(number, timestamp_ms + number, b"key", bytes(4 << 20)) for number in range(2)]
    data = build_batch(records, codec=Codec.ZSTD)
    assert produce(connection, topic, data).error_code == ErrorCode.NONE


@pytest.mark.parametrize("timestamp", [AT_MS + 1, MAX_TIMESTAMP])
def test_a_stored_batch_that_grows_much_is_looked_through_on_a_thread(
    broker: ottla.Broker,
    connection: RawConnection,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    timestamp: int,
) -> None:
    create(connection, topic)
    append_bomb(connection, topic, AT_MS)
    seen = Decompressions(monkeypatch)
    assert offset_at(connection, topic, timestamp) == (ErrorCode.NONE, 1, AT_MS + 1)
    loop_thread = on_loop(broker, lambda _: threading.get_ident())
    assert seen.most_bytes.pop(loop_thread, 0) <= 1 << 20
    assert max(seen.most_bytes.values()) > 8 << 20


def test_a_record_behind_a_large_batch_that_was_cut_is_found(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic)
    data = build_batch(
        [Record(0, AT_MS + 9, b"", bytes(4 << 20)), Record(1, AT_MS, b"", b"")], codec=Codec.ZSTD
    )
    assert produce(connection, topic, data).error_code == ErrorCode.NONE
    assert delete_records(connection, topic, 1).error_code == ErrorCode.NONE
    assert offset_at(connection, topic, AT_MS + 5) == NOT_FOUND
    append(connection, topic, 9)
    assert offset_at(connection, topic, AT_MS + 5) == (ErrorCode.NONE, 2, AT_MS + 9)


def test_many_searches_are_answered_in_slices(connection: RawConnection, topic: str) -> None:
    create(connection, topic, 50)
    for partition in range(50):
        data = build_batch([Record(0, AT_MS + partition, b"key", b"value")])
        assert produce(connection, topic, data, partition=partition).error_code == ErrorCode.NONE
    asked = [
        ListOffsetsPartition(partition_index=partition, timestamp=AT_MS) for partition in range(50)
    ]
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=asked)]
    )
    answer = connection.call(request, ListOffsetsResponse, NEWEST)
    found = [(each.partition_index, each.timestamp) for each in answer.topics[0].partitions]
    assert found == [(partition, AT_MS + partition) for partition in range(50)]
