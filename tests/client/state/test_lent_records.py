"""What the loop lends to the program's thread: every record once, whatever happens to the loan."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.client.state.test_fetch_buffer import LEADER, A, B, answer, buffer_for
from tests.client.state.test_fetched import PARTITION, marker, transactional

from ottla.client.model import ConsumerRecords
from ottla.client.state.consumer.fetch_buffer import FetchBuffer
from ottla.client.state.consumer.fetched_partition import FetchedPartition, ReadSettings
from ottla.client.state.consumer.lent_records import LentRecords
from ottla.client.state.consumer.positions import FetchPosition, FetchState, LeaderAndEpoch
from ottla.errors import AbortableError, ErrorCode
from ottla.model import TopicPartition
from ottla.records.control import MarkerType
from ottla.wire.messages.fetch import AbortedTransaction, PartitionData

END = 100.0


def same(records: ConsumerRecords) -> ConsumerRecords:
    return records


def lend(buffer: FetchBuffer) -> LentRecords:
    lent = buffer.lend(END)
    assert lent is not None
    return lent


def take(lent: LentRecords, max_records: int = 100, now: float = 0.0) -> dict[TopicPartition, Any]:
    """The offsets that are taken, by partition."""
    records = lent.take(max_records, now, same)
    if records is None:
        return {}
    return {p: [record.offset for record in records.records(p)] for p in records.partitions()}


def test_lent_records_come_in_order_and_move_the_positions() -> None:
    buffer, subscriptions = buffer_for(A, B)
    buffer.add(answer(A, 0, 5))
    buffer.add(answer(B, 0, 2))
    lent = lend(buffer)
    assert take(lent, 3) == {A: [0, 1, 2]}
    assert take(lent, 3) == {A: [3, 4], B: [0]}
    assert subscriptions.state(A).position == FetchPosition(5, 4, LEADER)
    assert subscriptions.state(B).position == FetchPosition(1, 4, LEADER)
    assert take(lent, 3) == {B: [1]}
    assert take(lent, 3) == {}
    assert [each.partition for each in buffer.take_back(lent)] == [A, B]
    assert len(buffer) == buffer.size_bytes == 0


def test_what_was_not_taken_is_there_for_the_loop() -> None:
    buffer, _ = buffer_for(A)
    buffer.add(answer(A, 0, 5))
    lent = lend(buffer)
    assert take(lent, 2) == {A: [0, 1]}
    assert not buffer.take_back(lent)
    fetched = buffer.next_in_line()
    assert fetched is not None
    assert [record.offset for record in fetched.take(9)] == [2, 3, 4]


def test_the_next_offsets_are_those_behind_the_records() -> None:
    buffer, _ = buffer_for(A)
    buffer.add(answer(A, 0, 5))
    records = lend(buffer).take(2, 0.0, same)
    assert records is not None
    assert records.next_offsets[A].offset == 2
    assert records.next_offsets[A].leader_epoch == 4


def test_nothing_is_taken_after_the_time_or_a_recall() -> None:
    buffer, _ = buffer_for(A)
    buffer.add(answer(A, 0, 5))
    lent = lend(buffer)
    assert take(lent, 1, END) == {}
    assert take(lent, 1, END - 1) == {A: [0]}
    assert lent.recall(None)
    assert take(lent, 1, END - 1) == {}


def test_paused_and_moved_partitions_are_not_lent() -> None:
    buffer, subscriptions = buffer_for(A, B)
    buffer.add(answer(A, 0, 5))
    buffer.add(answer(B, 0, 5))
    subscriptions.state(A).paused = True
    subscriptions.state(B).seek_validated(FetchPosition(3, -1, LEADER))
    assert buffer.lend(END) is None
    assert len(buffer) == 2, "the loop decides what to drop"


def test_an_error_is_left_to_the_loop_and_what_is_behind_it_too() -> None:
    buffer, _ = buffer_for(A, B)
    buffer.add(answer(A, 0, 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    buffer.add(answer(B, 0, 5))
    assert buffer.lend(END) is None


def test_corrupt_records_are_left_to_the_loop() -> None:
    buffer, subscriptions = buffer_for(A)
    fetched = answer(A, 0, 5)
    assert fetched.data.records is not None
    damaged = bytearray(fetched.data.records)
    damaged[-1] ^= 1
    fetched.data.records = memoryview(damaged)
    buffer.add(fetched)
    lent = lend(buffer)
    assert take(lent) == {}
    assert subscriptions.state(A).position == FetchPosition(0, -1, LEADER)
    buffer.take_back(lent)
    in_line = buffer.next_in_line()
    assert in_line is not None
    with pytest.raises(AbortableError, match="checksum"):
        in_line.take(5)


def test_a_new_leader_is_followed_after_the_loan() -> None:
    buffer, subscriptions = buffer_for(A)
    buffer.add(answer(A, 0, 5))
    state = subscriptions.state(A)
    lent = lend(buffer)
    take(lent, 2)
    moved = LeaderAndEpoch(2, 7)
    assert not state.follow_leader(moved)
    assert take(lent, 2) == {A: [2, 3]}
    buffer.take_back(lent)
    assert state.position == FetchPosition(4, 4, moved)
    assert state.fetch_state is FetchState.AWAIT_VALIDATION


def test_nothing_is_fetched_twice_during_a_loan() -> None:
    buffer, subscriptions = buffer_for(A)
    buffer.add(answer(A, 0, 5))
    lent = lend(buffer)

    def look(records: ConsumerRecords) -> ConsumerRecords:
        before = subscriptions.state(A).position
        assert before is not None
        assert buffer.fetch_offset(A, before.offset) == 5
        # In between, the offset of the records is ahead of the position.
        assert buffer.fetch_offset(A, 0) == 5
        return records

    assert lent.take(2, 0.0, look)


class StoppedError(BaseException):
    """As Ctrl-C."""


def test_records_that_do_not_reach_the_program_do_not_count_as_read() -> None:
    buffer, subscriptions = buffer_for(A, B)
    buffer.add(answer(A, 0, 3))
    buffer.add(answer(B, 0, 3))
    lent = lend(buffer)
    assert take(lent, 1) == {A: [0]}

    def fail(records: ConsumerRecords) -> None:
        raise StoppedError

    with pytest.raises(StoppedError):
        lent.take(4, 0.0, fail)
    assert subscriptions.state(A).position == FetchPosition(1, 4, LEADER)
    assert subscriptions.state(B).position == FetchPosition(0, -1, LEADER)
    assert take(lent) == {}, "the records behind them must not come first"
    buffer.take_back(lent)
    assert buffer.next_in_line() is None, "they are fetched again"


def test_another_thread_cannot_end_the_loan_while_records_are_taken() -> None:
    buffer, _ = buffer_for(A)
    buffer.add(answer(A, 0, 3))
    lent = lend(buffer)
    answers: list[object] = []

    def look(records: ConsumerRecords) -> ConsumerRecords:
        def other() -> None:
            answers.append(lent.recall(threading.get_ident()))

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return records

    assert lent.take(1, 0.0, look)
    assert answers == [False]
    assert not lent.is_recalled


def test_a_recall_by_the_thread_that_takes_leaves_the_records_unread() -> None:
    """A signal handler that calls the consumer."""
    buffer, subscriptions = buffer_for(A)
    buffer.add(answer(A, 0, 3))
    lent = lend(buffer)
    fetched = lent.lent[0].fetched
    taking = fetched.take

    def interrupted(max_records: int) -> Any:
        assert lent.recall(threading.get_ident())
        return taking(max_records)

    fetched.take = interrupted  # type: ignore[method-assign]
    assert lent.take(2, 0.0, same) is None
    assert subscriptions.state(A).position == FetchPosition(0, -1, LEADER)


def test_a_signal_handler_that_polls_does_not_wait_for_the_poll_that_it_interrupts() -> None:
    buffer, _ = buffer_for(A)
    buffer.add(answer(A, 0, 3))
    lent = lend(buffer)
    inner: list[object] = []

    def look(records: ConsumerRecords) -> ConsumerRecords:
        inner.append(lent.take(1, 0.0, same))
        return records

    assert lent.take(1, 0.0, look)
    assert inner == [None]
    assert take(lent, 1) == {A: [1]}


@pytest.mark.parametrize("place", range(1, 30))
def test_a_call_never_waits_for_the_one_that_it_interrupts(place: int) -> None:
    """A signal handler runs between any two steps of the thread that takes records."""
    buffer, subscriptions = buffer_for(A)
    buffer.add(answer(A, 0, 3))
    lent = lend(buffer)
    interrupting: list[list[int]] = []
    steps = 0

    def interrupt(frame: FrameType, event: str, argument: object) -> None:
        nonlocal steps
        if not frame.f_code.co_filename.endswith("lent_records.py"):
            return
        steps += 1
        if steps == place:
            interrupting.append(take(lent, 1).get(A, []))

    taken: list[list[int]] = []

    def take_two() -> None:
        sys.setprofile(interrupt)
        try:
            records = lent.take(2, 0.0, same)
        finally:
            sys.setprofile(None)
        taken.append([] if records is None else [record.offset for record in records])

    thread = threading.Thread(target=take_two, daemon=True)
    thread.start()
    thread.join(10.0)
    assert not thread.is_alive(), "it waits for itself"
    seen = sorted(offset for offsets in (*interrupting, *taken) for offset in offsets)
    position = subscriptions.state(A).position
    assert position is not None
    assert seen == list(range(position.offset))


def test_a_thread_that_takes_while_another_does_asks_the_loop() -> None:
    buffer, _ = buffer_for(A)
    buffer.add(answer(A, 0, 3))
    lent = lend(buffer)
    others: list[object] = []

    def look(records: ConsumerRecords) -> ConsumerRecords:
        thread = threading.Thread(
            target=lambda: others.append(lent.take(1, 0.0, same)), daemon=True
        )
        thread.start()
        thread.join(10.0)
        assert lent.is_reading
        return records

    assert lent.take(1, 0.0, look)
    assert others == [None]
    assert not lent.is_reading
    assert take(lent, 1) == {A: [1]}


def test_aborted_transactions_are_skipped_in_a_loan() -> None:
    buffer, subscriptions = buffer_for(PARTITION)
    parts = [
        transactional(0, 2, 7),
        marker(2, 7, MarkerType.ABORT),
        transactional(3, 2, 7),
        marker(5, 7, MarkerType.COMMIT),
    ]
    data = PartitionData(
        partition_index=3,
        error_code=0,
        high_watermark=6,
        aborted_transactions=[AbortedTransaction(producer_id=7, first_offset=0)],
        records=memoryview(b"".join(parts)),
    )
    buffer.add(FetchedPartition(PARTITION, 0, data, ReadSettings(read_committed=True)))
    lent = lend(buffer)
    assert take(lent, 1) == {PARTITION: [3]}
    assert take(lent, 9) == {PARTITION: [4]}
    assert subscriptions.position(PARTITION) == 6


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("poll"), st.integers(1, 4)),
        st.tuples(st.just("lent poll"), st.integers(1, 4)),
        st.tuples(st.just("interrupted"), st.integers(1, 4)),
        st.tuples(st.sampled_from(["fetch", "lend", "leader", "pause", "resume"]), st.just(0)),
        st.tuples(st.just("seek"), st.integers(0, 20)),
    ),
    max_size=60,
)


@given(ACTIONS)
def test_every_record_comes_once_and_in_order(actions: list[tuple[str, int]]) -> None:
    buffer, subscriptions = buffer_for(A)
    state = subscriptions.state(A)
    lent: LentRecords | None = None
    expected = epoch = 0
    seen: list[int] = []

    def fail(records: ConsumerRecords) -> None:
        raise StoppedError

    def end_loan() -> None:
        nonlocal lent
        if lent is not None:
            assert lent.recall(None)
            buffer.take_back(lent)
            lent = None

    for action, number in actions:
        if action == "lent poll":
            if lent is not None:
                seen += take(lent, number).get(A, [])
        elif action == "interrupted":
            if lent is not None:
                with suppress(StoppedError):
                    lent.take(number, 0.0, fail)
        elif action == "leader":
            epoch += 1
            state.follow_leader(LeaderAndEpoch(1, 10 + epoch))
        elif action == "fetch":
            assert state.position is not None
            offset = buffer.fetch_offset(A, state.position.offset)
            if offset is not None:
                buffer.add(answer(A, offset, 3))
        else:
            # All of these are calls of the program, or polls on the loop: they end a loan.
            end_loan()
            state.skip_validation()
            if action == "pause":
                state.paused = True
            elif action == "resume":
                state.paused = False
            elif action == "seek":
                state.seek_validated(FetchPosition(number, -1, LEADER))
                expected = number
            else:
                fetched = buffer.next_in_line()
                if fetched is not None and action == "poll":
                    start = fetched.next_offset
                    taken = fetched.take(number)
                    assert buffer.taken(fetched, start)
                    seen += [record.offset for record in taken]
                elif action == "lend":
                    lent = buffer.lend(END)
        assert seen == list(range(expected, expected + len(seen)))
        expected += len(seen)
        seen.clear()
        assert state.position is not None
        assert state.position.offset == expected


def test_a_loan_needs_records() -> None:
    buffer, _ = buffer_for(A)
    assert buffer.lend(END) is None
