"""Fetch: offsets, limits, epochs, topic ids, long polls. Sessions have a file of their own."""

from __future__ import annotations

import time
import uuid

import pytest
from tests.broker.conftest import Starter
from tests.broker.requests import (
    FETCH_BYTES,
    batch_of,
    create,
    delete,
    delete_records,
    eventually,
    every_version_of,
    fetch,
    fetch_request,
    fill,
    produce,
    records_in,
    session_with,
    set_options,
    values_in,
    waiter_count,
)

import ottla
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.records.batch import BatchHeader, split_batches
from ottla.records.compression import Codec
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

LONG_MS = 20_000


def fetch_partitions(
    connection: RawConnection,
    topic: str,
    offsets: list[int],
    *,
    max_bytes: int = FETCH_BYTES,
    partition_max_bytes: int = FETCH_BYTES,
) -> list[PartitionData]:
    """Partitions 0, 1 … of a topic from these offsets on."""
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(
                        partition=partition,
                        fetch_offset=offset,
                        partition_max_bytes=partition_max_bytes,
                    )
                    for partition, offset in enumerate(offsets)
                ],
            )
        ],
    )
    found: list[PartitionData] = connection.call(request, FetchResponse, 12).responses[0].partitions
    return found


@pytest.mark.parametrize("version", every_version_of(FetchRequest))
def test_every_version_gives_the_records_and_the_watermarks(
    connection: RawConnection, topic: str, version: int
) -> None:
    topic_id = create(connection, topic)
    fill(connection, topic, b"one", b"two")
    target = topic_id if version >= 13 else topic
    answer = connection.call(fetch_request(target, 0), FetchResponse, version)
    (about,) = answer.responses
    assert (about.topic_id if version >= 13 else about.topic) == target
    (found,) = about.partitions
    assert values_in(found) == [b"one", b"two"]
    assert (found.error_code, found.high_watermark, found.last_stable_offset) == (0, 2, 2)
    assert found.log_start_offset == (0 if version >= 5 else -1)
    assert found.aborted_transactions is None
    assert found.preferred_read_replica == -1


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_an_offset_inside_a_batch_gives_the_whole_batch(
    connection: RawConnection, topic: str, codec: Codec
) -> None:
    create(connection, topic)
    fill(connection, topic, b"before")
    produce(connection, topic, batch_of(b"a", b"b", b"c", codec=codec))
    for offset in (1, 2, 3):
        found = fetch(connection, topic, offset)
        assert [record.offset for record in records_in(found)] == [1, 2, 3]


def test_at_the_end_there_is_nothing(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    fill(connection, topic, b"v")
    found = fetch(connection, topic, 1)
    assert (found.error_code, found.high_watermark) == (ErrorCode.NONE, 1)
    assert not found.records


@pytest.mark.parametrize("offset", [-1, 1, 4, 2**63 - 1, -(2**63)])
def test_offsets_out_of_range(connection: RawConnection, topic: str, offset: int) -> None:
    create(connection, topic)
    fill(connection, topic, b"1", b"2", b"3")
    delete_records(connection, topic, 2)
    found = fetch(connection, topic, offset, max_wait_ms=LONG_MS)
    assert found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (found.high_watermark, found.log_start_offset) == (-1, -1)
    assert not found.records
    assert values_in(fetch(connection, topic, 2)) == [b"3"]


@pytest.mark.parametrize("partition", [1, -1])
def test_a_partition_that_does_not_exist(
    connection: RawConnection, topic: str, partition: int
) -> None:
    create(connection, topic)
    found = fetch(connection, topic, 0, partition=partition, max_wait_ms=LONG_MS)
    assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_that_does_not_exist(connection: RawConnection, topic: str) -> None:
    found = fetch(connection, topic, 0, version=4, max_wait_ms=LONG_MS)
    assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    found = fetch(connection, uuid.uuid4(), 0, version=13, max_wait_ms=LONG_MS)
    assert found.error_code == ErrorCode.UNKNOWN_TOPIC_ID


# Limits.


def test_a_first_batch_larger_than_all_limits_comes_alone_and_whole(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic)
    fill(connection, topic, b"x" * 5000, b"small")
    for limits in ({"max_bytes": 10}, {"partition_max_bytes": 10}, {"max_bytes": 0}):
        assert values_in(fetch(connection, topic, 0, **limits)) == [b"x" * 5000]


def test_whole_batches_up_to_the_partitions_limit(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    fill(connection, topic, b"1" * 100, b"2" * 100, b"3" * 100)
    size = len(batch_of(b"1" * 100))
    for limit, count in ((2 * size - 1, 1), (2 * size, 2), (2 * size + 1, 2), (3 * size, 3)):
        found = fetch(connection, topic, 0, partition_max_bytes=limit)
        assert len(values_in(found)) == count


def test_max_bytes_is_shared_by_the_partitions_in_their_order(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic, partitions=4)
    for partition in range(4):
        fill(connection, topic, b"1" * 100, b"2" * 100, partition=partition)
    size = len(batch_of(b"1" * 100))
    found = fetch_partitions(connection, topic, [0, 0, 0, 0], max_bytes=3 * size)
    assert [len(values_in(each)) for each in found] == [2, 1, 0, 0]
    # Partitions without room are there, with their watermarks.
    assert [each.high_watermark for each in found] == [2, 2, 2, 2]
    assert [each.error_code for each in found] == [0, 0, 0, 0]


def test_only_the_first_batch_of_all_may_exceed_the_limits(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic, partitions=3)
    for partition in (1, 2):
        fill(connection, topic, b"x" * 5000, partition=partition)
    found = fetch_partitions(connection, topic, [0, 0, 0], partition_max_bytes=100)
    assert [len(values_in(each)) for each in found] == [0, 1, 0]
    found = fetch_partitions(connection, topic, [0, 0, 0], max_bytes=100)
    assert [len(values_in(each)) for each in found] == [0, 1, 0]


def test_the_brokers_own_limit_holds_too(start: Starter, topic: str) -> None:
    with session_with(start(fetch_max_bytes=1024)) as connection:
        create(connection, topic)
        fill(connection, topic, b"1" * 600, b"2" * 600)
        assert values_in(fetch(connection, topic, 0)) == [b"1" * 600]


# Epochs.


def test_leader_epochs_are_checked(connection: RawConnection, topic: str) -> None:
    topic_id = create(connection, topic)
    fill(connection, topic, b"v")
    (_, header), *_ = _batches(fetch(connection, topic, 0))
    epoch = header.partition_leader_epoch
    assert fetch(connection, topic, 0, current_leader_epoch=epoch).error_code == ErrorCode.NONE
    fenced = fetch(connection, topic, 0, current_leader_epoch=epoch - 1)
    assert fenced.error_code == ErrorCode.FENCED_LEADER_EPOCH
    fenced = fetch(connection, topic_id, 0, current_leader_epoch=epoch - 1, version=16)
    assert (fenced.current_leader.leader_id, fenced.current_leader.leader_epoch) == (1, epoch)
    unknown = fetch(connection, topic, 0, current_leader_epoch=epoch + 1, max_wait_ms=LONG_MS)
    assert unknown.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert not unknown.records
    # Older versions do not carry an epoch: nothing is checked.
    assert fetch(connection, topic, 0, version=8).error_code == ErrorCode.NONE


def test_a_restart_fences_the_epoch_before_it(start: Starter, topic: str) -> None:
    broker = start()
    with session_with(broker) as connection:
        create(connection, topic)
        fill(connection, topic, b"v")
        (_, header), *_ = _batches(fetch(connection, topic, 0))
    broker.stop()
    with session_with(start()) as connection:
        old = header.partition_leader_epoch
        found = fetch(connection, topic, 0, current_leader_epoch=old)
        assert found.error_code == ErrorCode.FENCED_LEADER_EPOCH
        found = fetch(connection, topic, 0, current_leader_epoch=found.current_leader.leader_epoch)
        assert values_in(found) == [b"v"]


def test_a_reader_that_followed_another_history_is_told_where_it_diverges(
    start: Starter, topic: str
) -> None:
    epochs: list[int] = []
    for _ in range(2):
        broker = start()
        with session_with(broker) as connection:
            if not epochs:
                create(connection, topic)
            fill(connection, topic, b"v", b"w")
            (_, header), *_ = _batches(fetch(connection, topic, 2 * len(epochs)))
            epochs.append(header.partition_leader_epoch)
        if len(epochs) == 1:
            broker.stop()
    with session_with(broker) as connection:
        agreeing = fetch(connection, topic, 2, last_fetched_epoch=epochs[0])
        assert values_in(agreeing) == [b"v", b"w"]
        diverging = fetch(connection, topic, 3, last_fetched_epoch=epochs[0], max_wait_ms=LONG_MS)
        assert (diverging.diverging_epoch.epoch, diverging.diverging_epoch.end_offset) == (
            epochs[0],
            2,
        )
        assert not diverging.records
        lost = fetch(connection, topic, 3, last_fetched_epoch=epochs[1] + 1, max_wait_ms=LONG_MS)
        assert lost.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def _batches(found: PartitionData) -> list[tuple[int, BatchHeader]]:
    return split_batches(bytes(found.records or b""))


# Isolation.


def test_read_committed_gets_a_list_of_aborted_transactions(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic)
    fill(connection, topic, b"v")
    found = fetch(connection, topic, 0, isolation_level=1)
    assert found.aborted_transactions == []
    assert values_in(found) == [b"v"]


def test_a_topic_of_zstd_needs_version_10(connection: RawConnection, topic: str) -> None:
    create(connection, topic, config={"compression.type": "zstd"})
    fill(connection, topic, b"v")
    found = fetch(connection, topic, 0, version=9)
    assert found.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert not found.records
    assert values_in(fetch(connection, topic, 0, version=10)) == [b"v"]


# Waiting.


def test_a_fetch_waits_for_a_record_and_no_longer(
    broker: ottla.Broker, connection: RawConnection, topic: str
) -> None:
    create(connection, topic)
    began = time.monotonic()
    connection.send(fetch_request(topic, 0, max_wait_ms=LONG_MS), 12)
    assert eventually(lambda: waiter_count(broker) == 1)
    with session_with(broker) as other:
        fill(other, topic, b"v")
    found = connection.receive(FetchResponse, 12).responses[0].partitions[0]
    assert values_in(found) == [b"v"]
    assert found.high_watermark == 1
    assert time.monotonic() - began < LONG_MS / 2000
    assert waiter_count(broker) == 0


def test_a_fetch_waits_for_min_bytes_from_all_its_partitions(
    broker: ottla.Broker, connection: RawConnection, topic: str
) -> None:
    create(connection, topic, partitions=2)
    size = len(batch_of(b"x" * 100))
    request = fetch_request(topic, 0, max_wait_ms=LONG_MS, min_bytes=3 * size)
    request.topics[0].partitions.append(
        FetchPartition(partition=1, fetch_offset=0, partition_max_bytes=FETCH_BYTES)
    )
    connection.send(request, 12)
    with session_with(broker) as other:
        fill(other, topic, b"x" * 100)
        fill(other, topic, b"x" * 100, partition=1)
        assert waiter_count(broker) == 2  # once for each partition
        fill(other, topic, b"x" * 100, partition=1)
    found = connection.receive(FetchResponse, 12).responses[0].partitions
    assert [len(values_in(each)) for each in found] == [1, 2]


def test_what_is_there_counts_towards_min_bytes(
    broker: ottla.Broker, connection: RawConnection, topic: str
) -> None:
    create(connection, topic)
    size = len(batch_of(b"x" * 100))
    fill(connection, topic, b"x" * 100)
    connection.send(fetch_request(topic, 0, max_wait_ms=LONG_MS, min_bytes=2 * size), 12)
    assert eventually(lambda: waiter_count(broker) == 1)
    with session_with(broker) as other:
        fill(other, topic, b"x" * 100)
    found = connection.receive(FetchResponse, 12).responses[0].partitions[0]
    assert len(values_in(found)) == 2


def test_after_max_wait_comes_what_there_is(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    fill(connection, topic, b"v")
    began = time.monotonic()
    found = fetch(connection, topic, 0, max_wait_ms=150, min_bytes=10_000)
    assert 0.14 < time.monotonic() - began < 5
    assert values_in(found) == [b"v"]


@pytest.mark.parametrize("limits", [{"max_wait_ms": 0}, {"max_wait_ms": -5}, {"min_bytes": 0}])
def test_without_a_wait_the_answer_comes_at_once(
    connection: RawConnection, topic: str, limits: dict[str, int]
) -> None:
    create(connection, topic)
    options = {"max_wait_ms": LONG_MS, **limits}
    assert fetch(connection, topic, 0, **options).error_code == ErrorCode.NONE


def test_min_bytes_above_max_bytes_does_not_wait_for_ever(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic)
    fill(connection, topic, b"x" * 200)
    found = fetch(connection, topic, 0, max_wait_ms=LONG_MS, min_bytes=2**31 - 1, max_bytes=100)
    assert len(values_in(found)) == 1


def test_a_fetch_of_nothing_is_answered_at_once(connection: RawConnection) -> None:
    request = FetchRequest(max_wait_ms=LONG_MS, min_bytes=1, topics=[])
    assert connection.call(request, FetchResponse, 12).responses == []


def test_an_error_in_one_partition_ends_the_wait_for_the_others(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic)
    request = fetch_request(topic, 0, max_wait_ms=LONG_MS)
    request.topics[0].partitions.append(
        FetchPartition(partition=9, fetch_offset=0, partition_max_bytes=1)
    )
    found = connection.call(request, FetchResponse, 12).responses[0].partitions
    assert [each.error_code for each in found] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


@pytest.mark.parametrize("version", [12, 13])
def test_a_topic_deleted_under_a_parked_fetch_is_answered_at_once(
    broker: ottla.Broker, connection: RawConnection, topic: str, version: int
) -> None:
    topic_id = create(connection, topic)
    fill(connection, topic, b"v")
    target = topic_id if version >= 13 else topic
    connection.send(fetch_request(target, 1, max_wait_ms=LONG_MS), version)
    assert eventually(lambda: waiter_count(broker) == 1)
    with session_with(broker) as other:
        assert delete(other, topic).error_code == ErrorCode.NONE
    found = connection.receive(FetchResponse, version).responses[0].partitions[0]
    gone = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert found.error_code == gone
    assert waiter_count(broker) == 0


def test_many_parked_fetches_are_all_woken_by_one_record(
    broker: ottla.Broker, connection: RawConnection, topic: str
) -> None:
    create(connection, topic)
    readers = [RawConnection(broker.bootstrap_servers) for _ in range(20)]
    for reader in readers:
        reader.send(fetch_request(topic, 0, max_wait_ms=LONG_MS), 12)
    assert eventually(lambda: waiter_count(broker) == 20)
    fill(connection, topic, b"v")
    for reader in readers:
        found = reader.receive(FetchResponse, 12).responses[0].partitions[0]
        assert values_in(found) == [b"v"]
        reader.close()


def test_a_record_that_is_recompressed_is_read_as_it_is_stored(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic)
    fill(connection, topic, b"plain" * 40)
    assert set_options(connection, topic, {"compression.type": "gzip"}) == ErrorCode.NONE
    fill(connection, topic, b"plain" * 40)
    found = fetch(connection, topic, 0)
    assert [header.codec for _, header in _batches(found)] == [Codec.NONE, Codec.GZIP]
    assert values_in(found) == [b"plain" * 40] * 2


def test_a_follower_of_many_segments_reads_everything(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic, config={"segment.bytes": "300"})
    values = [b"%d" % number * 20 for number in range(50)]
    fill(connection, topic, *values)
    offset, read = 0, list[bytes | None]()
    while offset < len(values):
        records = records_in(fetch(connection, topic, offset))
        assert records[0].offset == offset
        read += [record.value for record in records]
        offset = records[-1].offset + 1
    assert read == values
