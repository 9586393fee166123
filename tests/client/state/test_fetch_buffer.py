"""What waits between the brokers and the user."""

from __future__ import annotations

import pytest
from tests.client.state.test_fetched import batch

from ottla.client.state.consumer.fetch_buffer import FetchBuffer
from ottla.client.state.consumer.fetched_partition import FetchedPartition, ReadSettings
from ottla.client.state.consumer.positions import (
    RESET_EARLIEST,
    FetchPosition,
    FetchState,
    LeaderAndEpoch,
)
from ottla.client.state.consumer.subscriptions import SubscriptionState
from ottla.config.offset_reset import OffsetReset
from ottla.errors import AbortableError, ErrorCode, OffsetOutOfRangeError
from ottla.model import TopicPartition
from ottla.wire.messages.fetch import PartitionData

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
LEADER = LeaderAndEpoch(1, 1)


def buffer_for(
    *partitions: TopicPartition, reset: OffsetReset = RESET_EARLIEST, limit_bytes: int = 10**6
) -> tuple[FetchBuffer, SubscriptionState]:
    subscriptions = SubscriptionState(reset)
    subscriptions.assign_from_user(partitions)
    for partition in partitions:
        subscriptions.state(partition).seek_validated(FetchPosition(0, -1, LEADER))
    return FetchBuffer(subscriptions, limit_bytes), subscriptions


def answer(
    partition: TopicPartition, start: int, count: int, error: ErrorCode = ErrorCode.NONE
) -> FetchedPartition:
    data = PartitionData(
        partition_index=partition.partition,
        error_code=error,
        high_watermark=100,
        aborted_transactions=None,
        records=memoryview(batch(start, count)) if count else None,
    )
    return FetchedPartition(partition, start, data, ReadSettings())


def take(buffer: FetchBuffer, max_records: int = 100) -> list[int]:
    fetched = buffer.next_in_line()
    assert fetched is not None
    start = fetched.next_offset
    records = fetched.take(max_records)
    assert buffer.taken(fetched, start)
    return [record.offset for record in records]


def test_the_next_fetch_goes_on_behind_what_is_buffered() -> None:
    buffer, _ = buffer_for(A)
    assert buffer.fetch_offset(A, 0) == 0
    buffer.add(answer(A, 0, 5))
    assert buffer.fetch_offset(A, 0) == 5
    buffer.add(answer(A, 5, 5))
    assert buffer.fetch_offset(A, 0) is None, "two are enough"
    assert take(buffer) == [0, 1, 2, 3, 4]
    assert buffer.fetch_offset(A, 5) == 10


def test_nothing_is_fetched_twice_while_records_are_deserialized() -> None:
    buffer, _ = buffer_for(A)
    buffer.add(answer(A, 0, 5))
    fetched = buffer.next_in_line()
    assert fetched is not None
    buffer.in_use = fetched
    fetched.take(3)
    assert buffer.fetch_offset(A, 0) == 5, "the position moves when the records have arrived"
    buffer.in_use = None
    assert buffer.taken(fetched, 0)
    assert buffer.fetch_offset(A, 3) == 5


def test_records_whose_reading_was_interrupted_are_fetched_again() -> None:
    buffer, subscriptions = buffer_for(A)

    def interrupted(topic: str, headers: object, data: bytes) -> bytes:
        if data == b"v2":
            raise KeyboardInterrupt
        return data

    data = answer(A, 0, 5).data
    buffer.add(FetchedPartition(A, 0, data, ReadSettings(value_of=interrupted)))
    fetched = buffer.next_in_line()
    assert fetched is not None
    with pytest.raises(KeyboardInterrupt):
        fetched.take(5)
    assert subscriptions.position(A) == 0
    assert buffer.fetch_offset(A, 0) == 0
    assert buffer.next_in_line() is None


def test_no_second_fetch_beyond_the_limit_of_bytes() -> None:
    buffer, _ = buffer_for(A, B, limit_bytes=10)
    buffer.add(answer(A, 0, 5))
    assert buffer.fetch_offset(A, 0) is None
    assert buffer.fetch_offset(B, 0) == 0, "a partition without any gets its turn"


def test_positions_move_with_what_was_taken() -> None:
    buffer, subscriptions = buffer_for(A)
    buffer.add(answer(A, 0, 5))
    assert take(buffer, 2) == [0, 1]
    assert subscriptions.state(A).position == FetchPosition(2, 4, LEADER)
    assert take(buffer, 5) == [2, 3, 4]
    assert buffer.next_in_line() is None
    assert buffer.size_bytes == len(buffer) == 0


def test_a_seek_drops_what_is_buffered() -> None:
    buffer, subscriptions = buffer_for(A)
    buffer.add(answer(A, 0, 5))
    buffer.add(answer(A, 5, 5))
    subscriptions.state(A).seek(FetchPosition(7, -1, LEADER))
    assert buffer.fetch_offset(A, 7) == 7
    assert buffer.next_in_line() is None
    assert len(buffer) == 0


def test_paused_partitions_keep_what_is_buffered() -> None:
    buffer, subscriptions = buffer_for(A, B)
    buffer.add(answer(A, 0, 2))
    buffer.add(answer(B, 0, 2))
    subscriptions.state(A).paused = True
    fetched = buffer.next_in_line()
    assert fetched is not None
    assert fetched.partition == B
    subscriptions.state(A).paused = False
    fetched = buffer.next_in_line()
    assert fetched is not None
    assert fetched.partition == A


def test_records_of_a_partition_that_is_being_revoked_are_not_given_out() -> None:
    buffer, subscriptions = buffer_for(A)
    buffer.add(answer(A, 0, 2))
    subscriptions.mark_pending_revocation([A])
    assert buffer.next_in_line() is None


def test_a_change_of_leaders_while_records_are_deserialized_takes_them_back() -> None:
    buffer, subscriptions = buffer_for(A)
    buffer.add(answer(A, 0, 2))
    fetched = buffer.next_in_line()
    assert fetched is not None
    fetched.take(2)
    subscriptions.state(A).seek(FetchPosition(0, 1, LeaderAndEpoch(2, 2)))
    assert subscriptions.state(A).fetch_state is FetchState.AWAIT_VALIDATION
    assert not buffer.taken(fetched, 0)
    assert subscriptions.position(A) == 0


def test_a_partition_that_was_served_is_fetched_last() -> None:
    buffer, subscriptions = buffer_for(A, B)
    buffer.add(answer(A, 0, 2))
    take(buffer)
    assert list(subscriptions.states()) == [B, A]


def test_a_position_out_of_range_is_reset() -> None:
    buffer, subscriptions = buffer_for(A)
    buffer.add(answer(A, 0, 0, ErrorCode.OFFSET_OUT_OF_RANGE))
    assert buffer.next_in_line() is None
    assert subscriptions.needs_reset(0) == [A]


def test_a_position_out_of_range_is_told_where_nothing_resets_it() -> None:
    buffer, subscriptions = buffer_for(A, reset=OffsetReset.parse("none"))
    buffer.add(answer(A, 0, 0, ErrorCode.OFFSET_OUT_OF_RANGE))
    with pytest.raises(OffsetOutOfRangeError, match="a-0 at 0") as caught:
        buffer.next_in_line()
    assert caught.value.offsets == {A: 0}
    assert buffer.next_in_line() is None, "the next fetch finds out whether it still is"
    assert subscriptions.position(A) == 0


def test_a_follower_that_lacks_the_offset_is_left_for_the_leader() -> None:
    buffer, subscriptions = buffer_for(A, reset=OffsetReset.parse("none"))
    subscriptions.state(A).prefer_replica(7, 100.0)
    buffer.add(answer(A, 0, 0, ErrorCode.OFFSET_OUT_OF_RANGE))
    assert buffer.next_in_line() is None
    assert subscriptions.state(A).replica_at(0) is None
    assert subscriptions.position(A) == 0


def test_an_error_out_of_range_from_before_a_seek_is_ignored() -> None:
    buffer, subscriptions = buffer_for(A, reset=OffsetReset.parse("none"))
    buffer.add(answer(A, 0, 0, ErrorCode.OFFSET_OUT_OF_RANGE))
    subscriptions.state(A).seek(FetchPosition(3, -1, LEADER))
    assert buffer.next_in_line() is None


def test_other_errors_are_told_once() -> None:
    buffer, _ = buffer_for(A)
    buffer.add(answer(A, 0, 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(AbortableError, match=r"TOPIC_AUTHORIZATION_FAILED.*partition=a-0"):
        buffer.next_in_line()
    assert buffer.next_in_line() is None


def test_what_is_assigned_no_more_is_dropped() -> None:
    buffer, subscriptions = buffer_for(A, B)
    buffer.add(answer(A, 0, 2))
    buffer.add(answer(B, 0, 2))
    subscriptions.assign_from_user([B])
    buffer.retain()
    assert len(buffer) == 1
