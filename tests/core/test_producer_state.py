from __future__ import annotations

import struct

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.outcomes import Refused
from ottla.core.producer_snapshot import CorruptSnapshotError
from ottla.core.producer_state import (
    APPEND,
    MAX_SEQUENCE,
    RECENT_BATCHES,
    AlreadyAppended,
    Append,
    EndedTransaction,
    LoggedBatch,
    ProducerBatch,
    ProducerStates,
    Verification,
    continues,
    sequence_after,
    sequence_before,
)
from ottla.errors import ErrorCode

PID = 7
DAY_MS = 86_400_000


def batch(
    first: int, count: int = 1, *, epoch: int = 0, transactional: bool = False
) -> ProducerBatch:
    return ProducerBatch(PID, epoch, first, sequence_after(first, count - 1), transactional)


class Log:
    """States with the next offset at hand."""

    def __init__(self) -> None:
        self.states = ProducerStates()
        self.end_offset = 100

    def append(
        self, first: int, count: int = 1, *, epoch: int = 0, transactional: bool = False
    ) -> int:
        made = batch(first, count, epoch=epoch, transactional=transactional)
        assert self.verify_and_decide(made) is APPEND
        base_offset = self.end_offset
        self.end_offset += count
        self.states.apply_batch(made, base_offset, self.end_offset - 1, 1000)
        return base_offset

    def verify_and_decide(self, made: ProducerBatch) -> Append | AlreadyAppended | Refused:
        """What becomes of a batch that the coordinator knows of."""
        verification = self.states.verification_for(made, 1) if made.is_transactional else None
        return self.states.decide(
            made, verification if isinstance(verification, Verification) else None
        )

    def mark(self, epoch: int, *, coordinator_epoch: int = 0) -> EndedTransaction | None:
        offset = self.end_offset
        self.end_offset += 1
        return self.states.apply_marker(PID, epoch, coordinator_epoch, True, offset, 2000)

    def restart(self) -> None:
        self.states = ProducerStates.from_snapshot(self.states.to_snapshot())


def kafka_snapshot(*entries: tuple[int, int, int, int, int, int, int, int]) -> bytes:
    """A snapshot as ProducerStateManager.writeSnapshot makes it: one entry per producer."""
    body = struct.pack(">i", len(entries))
    body += b"".join(struct.pack(">qhiqiqiq", *entry) for entry in entries)
    return struct.pack(">hI", 1, google_crc32c.value(body)) + body


def test_a_retry_of_any_of_the_last_five_batches_is_answered_with_its_first_offset() -> None:
    log = Log()
    offsets = [log.append(number * 3, 3) for number in range(7)]
    for number in range(2, 7):
        decision = log.states.decide(batch(number * 3, 3))
        assert isinstance(decision, AlreadyAppended)
        assert decision.batch.base_offset == offsets[number]


def test_a_retry_older_than_five_batches_is_out_of_order() -> None:
    log = Log()
    for number in range(RECENT_BATCHES + 1):
        log.append(number)
    assert log.states.decide(batch(0)) == Refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


def test_half_a_repeated_batch_is_out_of_order() -> None:
    log = Log()
    log.append(0, 4)
    assert log.states.decide(batch(0, 2)) == Refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert log.states.decide(batch(2, 2)) == Refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


def test_a_gap_is_out_of_order() -> None:
    log = Log()
    log.append(0)
    assert log.states.decide(batch(2)) == Refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


def test_an_unknown_producer_may_begin_at_any_sequence() -> None:
    """Retention may have taken everything it wrote, and its state with it (KIP-360)."""
    assert ProducerStates().decide(batch(1234)) is APPEND


def test_an_old_epoch_is_fenced_even_if_its_batch_was_appended_once() -> None:
    log = Log()
    log.append(0, epoch=3)
    log.append(0, epoch=4)
    assert log.states.decide(batch(0, epoch=3)) == Refused(ErrorCode.INVALID_PRODUCER_EPOCH)
    assert log.states.decide(batch(1, epoch=3)) == Refused(ErrorCode.INVALID_PRODUCER_EPOCH)


def test_a_new_epoch_begins_at_sequence_0() -> None:
    log = Log()
    log.append(0)
    assert log.states.decide(batch(1, epoch=1)) == Refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    log.append(0, epoch=1)


def test_a_new_epoch_forgets_the_batches_of_the_old_one() -> None:
    """Sequences begin again: what looks like a retry of the old epoch's batch is new data."""
    log = Log()
    old = [log.append(number) for number in range(3)]
    new = [log.append(number, epoch=1) for number in range(3)]
    assert not set(old) & set(new)


def test_the_largest_epoch_is_an_epoch_like_any_other() -> None:
    """Trap 8: epochs are 16 bits with a sign, and 32767 is the last one."""
    log = Log()
    log.append(0, epoch=32766)
    log.append(0, epoch=32767)
    log.restart()
    assert log.states.decide(batch(0, epoch=32766)) == Refused(ErrorCode.INVALID_PRODUCER_EPOCH)
    assert isinstance(log.states.decide(batch(0, epoch=32767)), AlreadyAppended)
    log.append(1, epoch=32767)


def test_sequences_go_on_at_0_after_the_largest() -> None:
    log = Log()
    log.append(MAX_SEQUENCE)
    log.append(0)
    log.append(1)


def test_a_batch_may_lie_across_the_wraparound_and_be_repeated() -> None:
    log = Log()
    offset = log.append(MAX_SEQUENCE - 1, 4)
    decision = log.states.decide(batch(MAX_SEQUENCE - 1, 4))
    assert isinstance(decision, AlreadyAppended)
    assert decision.batch.base_offset == offset
    assert (decision.batch.first_sequence, decision.batch.last_sequence) == (MAX_SEQUENCE - 1, 1)
    log.append(2)


@given(st.integers(0, MAX_SEQUENCE), st.integers(0, MAX_SEQUENCE))
def test_sequence_arithmetic_is_its_own_inverse(sequence: int, count: int) -> None:
    after = sequence_after(sequence, count)
    assert 0 <= after <= MAX_SEQUENCE
    assert after == (sequence + count) % 2**31
    assert sequence_before(after, count) == sequence


def test_plain_data_inside_an_open_transaction_is_refused() -> None:
    log = Log()
    log.append(0, transactional=True)
    assert log.states.decide(batch(1)) == Refused(ErrorCode.INVALID_TXN_STATE)
    log.mark(0)
    log.append(1)


def test_the_first_open_offset_is_that_of_the_earliest_transaction() -> None:
    states = ProducerStates()
    for producer_id, offset in [(1, 10), (2, 20), (3, 30)]:
        states.apply_batch(ProducerBatch(producer_id, 0, 0, 0, True), offset, offset, 0)
    assert states.first_open_offset == 10
    states.apply_marker(1, 0, 0, False, 40, 0)
    assert states.first_open_offset == 20
    states = ProducerStates.from_snapshot(states.to_snapshot())
    states.apply_marker(3, 0, 0, False, 41, 0)
    assert states.first_open_offset == 20
    states.apply_marker(2, 0, 0, False, 42, 0)
    assert states.first_open_offset is None


def test_a_marker_ends_the_transaction_that_it_is_for() -> None:
    log = Log()
    first = log.append(0, 2, transactional=True)
    log.append(2, transactional=True)
    assert log.mark(0) == EndedTransaction(PID, first, first + 3, True)
    assert log.mark(0) is None


def test_a_marker_with_a_new_epoch_lets_the_producer_begin_at_0_again() -> None:
    log = Log()
    log.append(0, transactional=True)
    log.mark(1)
    log.restart()
    assert log.states.decide(batch(1, epoch=1)) == Refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert log.states.decide(batch(1, epoch=0)) == Refused(ErrorCode.INVALID_PRODUCER_EPOCH)
    log.append(0, epoch=1)


def test_a_marker_with_the_same_epoch_keeps_the_sequence() -> None:
    log = Log()
    log.append(0, transactional=True)
    log.mark(0)
    assert log.states.decide(batch(0)) is not APPEND
    log.append(1)


@pytest.mark.parametrize("restarts", [False, True])
def test_the_numbers_of_an_ended_transaction_used_again_are_no_repetition_of_it(
    restarts: bool,
) -> None:
    # librdkafka sends 0 and 1, the connection is cut before the answer, the program aborts: the batches that wait to be
    # repeated are dropped, and the next transaction uses 0 and 1 for other records.
    log = Log()
    log.append(0, transactional=True)
    log.append(1, transactional=True)
    log.mark(0)
    if restarts:
        log.restart()
    for reused in (batch(1, transactional=True), batch(1, 3, transactional=True)):
        assert log.verify_and_decide(reused) == Refused(ErrorCode.INVALID_TXN_STATE)
    gap = log.verify_and_decide(batch(3, transactional=True))
    assert gap == Refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    first = log.append(2, transactional=True)
    repeated = log.verify_and_decide(batch(2, transactional=True))
    assert isinstance(repeated, AlreadyAppended)
    assert repeated.batch.base_offset == first
    assert log.verify_and_decide(batch(1, transactional=True)) == Refused(
        ErrorCode.INVALID_TXN_STATE
    )


def test_producers_expire_after_their_last_write() -> None:
    log = Log()
    log.append(0)
    assert log.states.expire(1000 + DAY_MS - 1, DAY_MS) == 0
    assert log.states.expire(1000 + DAY_MS, DAY_MS) == 1
    assert len(log.states) == 0


def test_producers_with_an_open_transaction_do_not_expire() -> None:
    log = Log()
    log.append(0, transactional=True)
    assert log.states.expire(1000 + 2 * DAY_MS, DAY_MS) == 0
    log.mark(0)
    log.restart()
    assert log.states.expire(2000 + DAY_MS - 1, DAY_MS) == 0
    assert log.states.expire(2000 + DAY_MS, DAY_MS) == 1


def test_kafkas_snapshot_with_its_single_entry_is_read() -> None:
    states = ProducerStates.from_snapshot(
        kafka_snapshot((PID, 2, 9, 109, 4, 5000, 3, 50), (8, 0, -1, -1, 0, 6000, 1, -1))
    )
    decision = states.decide(batch(5, 5, epoch=2, transactional=True))
    assert decision == AlreadyAppended(LoggedBatch(9, 109, 4, 5000))
    assert states.decide(batch(10, epoch=2, transactional=True)) is APPEND
    assert states.first_open_offset == 50
    assert states.decide(ProducerBatch(8, 0, 0, 0, False)) is APPEND
    assert states.decide(ProducerBatch(8, 0, 1, 1, False)) == Refused(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    )
    assert [producer.coordinator_epoch for producer in states] == [3, 1]


def test_a_snapshot_lets_kafka_read_the_last_batch_of_each_producer() -> None:
    """Kafka's reader puts entries into a map: the last one of a producer stays."""
    log = Log()
    for number in range(7):
        log.append(number)
    data = log.states.to_snapshot()
    version, crc, count = struct.unpack_from(">hIi", data)
    assert (version, crc) == (1, google_crc32c.value(data[6:]))
    read = {}
    for entry in struct.iter_unpack(">qhiqiqiq", data[10:]):
        read[entry[0]] = entry
    assert count == RECENT_BATCHES
    assert read == {PID: (PID, 0, 6, 106, 0, 1000, -1, -1)}


def test_an_empty_snapshot_is_read() -> None:
    assert len(ProducerStates.from_snapshot(ProducerStates().to_snapshot())) == 0


@given(st.data())
def test_a_damaged_snapshot_is_refused(data: st.DataObject) -> None:
    log = Log()
    for number in range(3):
        log.append(number)
    snapshot = bytearray(log.states.to_snapshot())
    bit = data.draw(st.integers(0, len(snapshot) * 8 - 1))
    snapshot[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptSnapshotError):
        ProducerStates.from_snapshot(bytes(snapshot))


@given(st.integers(0, 200))
def test_a_cut_or_extended_snapshot_is_refused(size: int) -> None:
    log = Log()
    log.append(0)
    snapshot = log.states.to_snapshot()
    changed = (snapshot + bytes(200))[:size]
    if changed != snapshot:
        with pytest.raises(CorruptSnapshotError):
            ProducerStates.from_snapshot(changed)


@given(st.binary(max_size=200))
def test_garbage_is_no_snapshot(data: bytes) -> None:
    with pytest.raises(CorruptSnapshotError):
        ProducerStates.from_snapshot(data)


def test_a_right_checksum_does_not_make_up_for_a_wrong_count() -> None:
    body = struct.pack(">i", -1)
    data = struct.pack(">hI", 1, google_crc32c.value(body)) + body
    with pytest.raises(CorruptSnapshotError):
        ProducerStates.from_snapshot(data)


@given(
    earlier=st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, 5), st.booleans(), st.booleans()), max_size=8
    ),
    first=st.integers(0, 12) | st.just(MAX_SEQUENCE),
    counts=st.lists(st.integers(1, 4), min_size=2, max_size=6),
    epoch=st.integers(0, 3),
    transactional=st.booleans(),
)
def test_a_batch_that_continues_an_accepted_one_is_accepted(
    earlier: list[tuple[int, int, bool, bool]],
    first: int,
    counts: list[int],
    epoch: int,
    transactional: bool,
) -> None:
    """Whatever the producer has done: such batches are decided about before those in front of them are applied."""
    log = Log()
    for written_epoch, count, is_transactional, ends in earlier:
        known = log.states.get(PID)
        following = 0
        if known is not None and known.epoch == written_epoch:
            following = sequence_after(known.last_sequence, 1)
        made = batch(following, count, epoch=written_epoch, transactional=is_transactional)
        if log.verify_and_decide(made) is APPEND:
            log.states.apply_batch(made, log.end_offset, log.end_offset + count - 1, 1000)
            log.end_offset += count
        if ends:
            log.states.apply_marker(PID, written_epoch, 0, False, log.end_offset, 1000)
            log.end_offset += 1
    known = log.states.get(PID)
    if known is not None and known.epoch == epoch and first < 6:
        first = sequence_after(known.last_sequence, 1)
    previous = batch(first, counts[0], epoch=epoch, transactional=transactional)
    if log.states.decide(previous) is not APPEND:
        return
    for count in counts[1:]:
        log.states.apply_batch(
            previous,
            log.end_offset,
            log.end_offset + previous.last_sequence - previous.first_sequence,
            1000,
        )
        log.end_offset += 10
        subsequent = batch(
            sequence_after(previous.last_sequence, 1),
            count,
            epoch=epoch,
            transactional=transactional,
        )
        assert continues(previous, subsequent)
        assert log.states.decide(subsequent) is APPEND
        previous = subsequent


@pytest.mark.parametrize(
    "other",
    [
        batch(4),
        batch(6),
        batch(5, epoch=1),
        batch(5, transactional=True),
        batch(5)._replace(producer_id=PID + 1),
    ],
)
def test_what_does_not_continue_a_batch(other: ProducerBatch) -> None:
    assert continues(batch(3, 2), batch(5, 3))
    assert not continues(batch(3, 2), other)
