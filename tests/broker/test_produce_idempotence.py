"""Produce: sequences, epochs and duplicates of idempotent producers, also over restarts."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.broker.conftest import Starter
from tests.broker.requests import (
    create,
    delete_records,
    eventually,
    fetch,
    new_producer_id,
    now_ms,
    on_loop,
    produce,
    produce_request,
    read_values,
    sequenced,
    session_with,
)

import ottla
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.produce import ProduceResponse

MAX_SEQUENCE = 2**31 - 1
NONE = ErrorCode.NONE
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def sent(
    connection: RawConnection,
    topic: str,
    sequence: int,
    count: int = 1,
    epoch: int = 0,
    pid: int = 7,
) -> tuple[int, int]:
    """The error and the offset of a batch."""
    result = produce(connection, topic, sequenced(pid, sequence, count, epoch))
    return result.error_code, result.base_offset


def end_offset(connection: RawConnection, topic: str) -> int:
    return fetch(connection, topic, 0).high_watermark


def test_each_of_the_last_five_batches_is_recognised_when_it_comes_again(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic)
    for number in range(6):
        assert sent(connection, topic, number * 2, 2) == (NONE, number * 2)
    for number in range(1, 6):
        assert sent(connection, topic, number * 2, 2) == (NONE, number * 2)
    assert end_offset(connection, topic) == 12
    # The sixth last is forgotten: it is too late for it.
    assert sent(connection, topic, 0, 2) == (OUT_OF_ORDER, -1)
    assert sent(connection, topic, 12, 2) == (NONE, 12)


def test_a_duplicate_is_the_same_range_of_sequences(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    assert sent(connection, topic, 0, 3) == (NONE, 0)
    for sequence, count in ((0, 2), (0, 4), (1, 2), (2, 1)):
        assert sent(connection, topic, sequence, count)[0] == OUT_OF_ORDER
    assert end_offset(connection, topic) == 3


@pytest.mark.parametrize("sequence", [0, 3, 100, MAX_SEQUENCE])
def test_a_gap_is_out_of_order(connection: RawConnection, topic: str, sequence: int) -> None:
    create(connection, topic)
    sent(connection, topic, 0, 2)
    assert sent(connection, topic, sequence) == (OUT_OF_ORDER, -1)
    assert sent(connection, topic, 2) == (NONE, 2)


def test_without_any_state_every_sequence_is_accepted(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic)
    assert sent(connection, topic, 500) == (NONE, 0)
    assert sent(connection, topic, 501) == (NONE, 1)


def test_an_older_epoch_is_fenced_and_a_new_one_starts_at_0(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic)
    assert sent(connection, topic, 0, epoch=3) == (NONE, 0)
    assert sent(connection, topic, 1, epoch=2) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)
    assert sent(connection, topic, 0, epoch=2) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)
    assert sent(connection, topic, 1, epoch=4) == (OUT_OF_ORDER, -1)
    assert sent(connection, topic, 0, epoch=4) == (NONE, 1)
    # The same range under another epoch is no duplicate.
    assert sent(connection, topic, 0, epoch=5) == (NONE, 2)
    assert sent(connection, topic, 1, epoch=4) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)
    assert sent(connection, topic, 1, epoch=32767) == (OUT_OF_ORDER, -1)
    assert end_offset(connection, topic) == 3


def test_sequences_go_on_at_0_after_the_largest(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    assert sent(connection, topic, MAX_SEQUENCE - 2, 2) == (NONE, 0)
    # From the largest over the end: MAX, 0, 1.
    assert sent(connection, topic, MAX_SEQUENCE, 3) == (NONE, 2)
    assert sent(connection, topic, MAX_SEQUENCE, 3) == (NONE, 2)
    assert sent(connection, topic, 1) == (OUT_OF_ORDER, -1)
    assert sent(connection, topic, 2) == (NONE, 5)


def test_the_largest_sequence_is_followed_by_0(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    assert sent(connection, topic, MAX_SEQUENCE) == (NONE, 0)
    assert sent(connection, topic, MAX_SEQUENCE) == (NONE, 0)
    assert sent(connection, topic, 0) == (NONE, 1)


def test_producers_and_partitions_are_apart(connection: RawConnection, topic: str) -> None:
    create(connection, topic, partitions=2)
    first, second = new_producer_id(connection), new_producer_id(connection)
    for partition in (0, 1):
        for producer_id in (first, second):
            result = produce(connection, topic, sequenced(producer_id, 0), partition=partition)
            assert result.error_code == NONE
    assert [len(read_values(connection, topic, each)) for each in (0, 1)] == [2, 2]


def test_a_pipelined_window_with_a_gap_fails_behind_the_gap(
    connection: RawConnection, topic: str
) -> None:
    """Five requests are on their way and the second is lost: the broker may accept none behind it."""
    create(connection, topic)
    for sequence in (0, 2, 3, 4, 5):
        connection.send(produce_request(topic, sequenced(7, sequence)), 12)
    errors = [
        connection.receive(ProduceResponse, 12).responses[0].partition_responses[0].error_code
        for _ in range(5)
    ]
    assert errors == [NONE] + [OUT_OF_ORDER] * 4
    assert sent(connection, topic, 1) == (NONE, 1)


def test_a_duplicate_answers_the_append_time_of_the_first(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic, config={"message.timestamp.type": "LogAppendTime"})
    first = produce(connection, topic, sequenced(7, 0))
    again = produce(connection, topic, sequenced(7, 0))
    assert again.base_offset == first.base_offset
    assert again.log_append_time_ms == first.log_append_time_ms <= now_ms()


@pytest.mark.parametrize("snapshot", ["with", "without"])
def test_the_window_survives_a_restart(start: Starter, topic: str, snapshot: str) -> None:
    broker = start()
    with session_with(broker) as connection:
        create(connection, topic)
        for number in range(7):
            assert sent(connection, topic, number) == (NONE, number)
    data_dir = broker.data_dir
    broker.stop()
    if snapshot == "without":
        _remove_snapshots(data_dir)
    with session_with(start()) as connection:
        for number in range(2, 7):
            assert sent(connection, topic, number) == (NONE, number)
        assert sent(connection, topic, 1)[0] == OUT_OF_ORDER
        assert sent(connection, topic, 8)[0] == OUT_OF_ORDER
        assert sent(connection, topic, 0, epoch=-1)[0] == ErrorCode.INVALID_RECORD
        assert sent(connection, topic, 7) == (NONE, 7)
        assert end_offset(connection, topic) == 8


def _remove_snapshots(data_dir: str) -> None:
    for path in Path(data_dir).rglob("*.snapshot"):
        path.unlink()


def test_epochs_and_wraparound_survive_a_restart(start: Starter, topic: str) -> None:
    broker = start()
    with session_with(broker) as connection:
        create(connection, topic)
        sent(connection, topic, 0, epoch=4)
        sent(connection, topic, MAX_SEQUENCE, 2, pid=8)
    broker.stop()
    with session_with(start()) as connection:
        assert sent(connection, topic, 1, epoch=3)[0] == ErrorCode.INVALID_PRODUCER_EPOCH
        assert sent(connection, topic, MAX_SEQUENCE, 2, pid=8) == (NONE, 1)
        assert sent(connection, topic, 1, pid=8) == (NONE, 3)


def test_the_window_survives_rolled_segments_and_a_restart(start: Starter, topic: str) -> None:
    broker = start()
    with session_with(broker) as connection:
        create(connection, topic, config={"segment.bytes": "200"})
        for number in range(12):
            assert sent(connection, topic, number) == (NONE, number)
        delete_records(connection, topic, 9)
        assert sent(connection, topic, 8) == (NONE, 8)  # its record is gone, its number is not
    broker.stop()
    with session_with(start()) as connection:
        for number in range(7, 12):
            assert sent(connection, topic, number) == (NONE, number)
        assert sent(connection, topic, 12) == (NONE, 12)


def test_an_expired_producer_may_begin_anywhere(start: Starter, topic: str) -> None:
    broker = start(producer_id_expiration_ms=1, producer_id_expiration_check_interval_ms=20)
    with session_with(broker) as connection:
        create(connection, topic)
        sent(connection, topic, 0)
        assert _forgotten(broker)
        assert sent(connection, topic, 50) == (NONE, 1)


def _forgotten(broker: ottla.Broker) -> bool:
    return eventually(
        lambda: on_loop(
            broker,
            lambda found: all(
                len(shard.partition.producers) == 0 for shard in found.node.partitions.open_shards()
            ),
        )
    )


def test_any_negative_producer_id_is_none(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    for offset in range(2):
        assert sent(connection, topic, -1, pid=-5) == (NONE, offset)
