"""Transactions on a partition: the guard of their first append (KIP-890), their markers, what readers see."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.client_batches import NOW_MS, client_batch, header_of, marker_batch

from ottla.core.outcomes import Refused
from ottla.core.partition import READ_COMMITTED, Partition
from ottla.core.producer_state import (
    APPEND,
    VERIFICATION_NOT_NEEDED,
    AlreadyAppended,
    AlreadyEnded,
    Append,
    LoggedBatch,
    ProducerStates,
    Verification,
)
from ottla.errors import ErrorCode
from ottla.records.control import MarkerType

PID = 7
INVALID_STATE = Refused(ErrorCode.INVALID_TXN_STATE)
OLD_EPOCH = Refused(ErrorCode.INVALID_PRODUCER_EPOCH)
OUT_OF_ORDER = Refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
DAY_MS = 86_400_000


class Log:
    """A partition whose appends count at once."""

    def __init__(self) -> None:
        self.partition = Partition(0, 0, 0, ProducerStates())

    def batch(self, sequence: int, epoch: int = 0, count: int = 1, producer_id: int = PID) -> bytes:
        return client_batch(
            count,
            producer_id=producer_id,
            producer_epoch=epoch,
            first_sequence=sequence,
            transactional=True,
        )

    def ask(self, sequence: int, epoch: int = 0, version: int = 2, **fields: Any) -> Any:
        """What the append has to bring."""
        header = header_of(self.batch(sequence, epoch, **fields))
        return self.partition.verification_for(header, version)

    def append(
        self, verification: Verification | None, sequence: int, epoch: int = 0, **fields: Any
    ) -> Append | AlreadyAppended | Refused:
        data = self.batch(sequence, epoch, **fields)
        decision = self.partition.decide_append(header_of(data), verification)
        if decision is APPEND:
            self.partition.apply(header_of(data), self.partition.end_offset, data, NOW_MS)
            self.partition.advance_high_watermark(self.partition.end_offset)
        return decision

    def send(
        self, sequence: int, epoch: int = 0, version: int = 2, **fields: Any
    ) -> Append | AlreadyAppended | Refused:
        """Asks, hears that it is so, and appends."""
        verification = self.ask(sequence, epoch, version, **fields)
        if isinstance(verification, Refused):
            return verification
        return self.append(verification, sequence, epoch, **fields)

    def plain(self, sequence: int, epoch: int = 0) -> Append | AlreadyAppended | Refused:
        data = client_batch(producer_id=PID, producer_epoch=epoch, first_sequence=sequence)
        return self.partition.decide_append(header_of(data))

    def decide_marker(
        self, epoch: int, coordinator_epoch: int = 0, version: int = 2
    ) -> Append | AlreadyEnded | Refused:
        return self.partition.producers.decide_marker(PID, epoch, coordinator_epoch, version)

    def mark(
        self,
        epoch: int,
        kind: MarkerType = MarkerType.COMMIT,
        coordinator_epoch: int = 0,
        producer_id: int = PID,
        version: int = 1,
    ) -> Any:
        data = marker_batch(producer_id, epoch, kind, coordinator_epoch=coordinator_epoch)
        ended = self.partition.apply(header_of(data), self.partition.end_offset, data, NOW_MS)
        self.partition.producers.end_verifications(producer_id, epoch, version)
        self.partition.advance_high_watermark(self.partition.end_offset)
        return ended

    def restart(self) -> None:
        old = self.partition
        producers = ProducerStates.from_snapshot(old.producers.to_snapshot())
        self.partition = Partition(1, old.start_offset, old.end_offset, producers)


# The guard.


def test_nothing_opens_a_transaction_unasked() -> None:
    log = Log()
    assert log.append(None, 0) == INVALID_STATE
    assert log.partition.last_stable_offset == log.partition.end_offset == 0


def test_what_was_confirmed_opens_it_and_the_rest_need_not_ask() -> None:
    log = Log()
    assert log.append(log.ask(0), 0) is APPEND
    assert log.ask(1) is VERIFICATION_NOT_NEEDED
    assert log.append(None, 1) is APPEND


def test_a_marker_in_between_ends_the_guard() -> None:
    """KIP-890: asked, confirmed, ended by a timeout; the append comes last and would hang for ever."""
    log = Log()
    verification = log.ask(0)
    log.mark(1, MarkerType.ABORT)
    assert log.append(verification, 0) == OLD_EPOCH
    log = Log()
    verification = log.ask(0, version=1)
    log.mark(0, MarkerType.ABORT)
    assert log.append(verification, 0) == INVALID_STATE
    assert log.partition.producers.first_open_offset is None


def test_a_marker_leaves_the_next_transaction_its_guard() -> None:
    """Node 1 leads, node 2 coordinates, and their requests cross.

    The producer ends a transaction of epoch 0 and begins the next one, of epoch 1. Node 1 asks node 2 about it. The
    marker arrives at node 1, and its answer at node 2, before the question: so node 2 confirms.
    """
    log = Log()
    assert log.append(log.ask(0), 0) is APPEND
    late = log.ask(1, epoch=0)
    assert late is VERIFICATION_NOT_NEEDED
    verification = log.ask(0, epoch=1)
    log.mark(1, version=2)
    assert log.append(verification, 0, epoch=1) is APPEND
    # Nothing that was asked for an ended transaction serves any more.
    verification = log.ask(0, epoch=2)
    log.mark(3, version=2)
    assert log.append(verification, 0, epoch=2) == OLD_EPOCH
    # Transactions of version 1 share their epoch, so that a guard could be of the ended one.
    verification = log.ask(0, epoch=3)
    log.mark(3, version=1)
    assert log.append(verification, 0, epoch=3) == INVALID_STATE


def test_what_comes_after_a_refused_batch_waits_for_it_although_the_producer_is_forgotten() -> None:
    """Kafka's VerificationStateEntry keeps the lowest sequence that asked, until an append, a marker or its expiry."""
    log = Log()
    log.mark(0)
    assert log.send(1, epoch=2, version=1) == OUT_OF_ORDER  # a new epoch begins at 0
    log.partition.producers.expire(NOW_MS + DAY_MS, DAY_MS)
    assert log.partition.producers.get(PID) is None
    # Of a forgotten producer any sequence may be the next one, but 1 came first and was not appended.
    assert log.send(5, epoch=2, version=1) == OUT_OF_ORDER
    assert log.send(1, epoch=2, version=1) is APPEND
    assert log.send(2, epoch=2, version=1) is APPEND


def test_the_last_epoch_is_no_exception_when_the_producer_is_forgotten() -> None:
    log = Log()
    log.mark(32767)
    assert log.send(5, epoch=32767, version=1) == OUT_OF_ORDER
    assert log.send(0, epoch=32766, version=1) == OLD_EPOCH
    log.partition.producers.expire(NOW_MS + DAY_MS, DAY_MS)
    assert log.send(6, epoch=32767, version=1) == OUT_OF_ORDER
    log.partition.producers.expire_verifications(0, DAY_MS)
    log.partition.producers.expire_verifications(DAY_MS, DAY_MS)  # by now nobody waits any more
    assert log.send(6, epoch=32767, version=1) is APPEND


def test_a_guard_of_before_a_marker_does_not_serve_a_later_transaction() -> None:
    log = Log()
    old = log.ask(0, version=1)
    log.mark(0)
    new = log.ask(0, version=1)
    assert new is not old
    assert log.append(old, 0) == INVALID_STATE
    assert log.append(new, 0) is APPEND


def test_requests_that_ask_at_the_same_time_share_the_guard() -> None:
    log = Log()
    first, second = log.ask(0), log.ask(1)
    assert first is second
    assert log.append(first, 0) is APPEND
    assert log.append(second, 1) is APPEND


def test_every_epoch_has_a_guard_of_its_own() -> None:
    """The confirmation of the one opens no transaction of another, and nobody's question is in another's way."""
    log = Log()
    new = log.ask(0, epoch=1)
    old = log.ask(0, epoch=0)
    made_up = log.ask(0, epoch=32767)
    assert len({id(new), id(old), id(made_up)}) == 3
    assert log.append(new, 0, epoch=0) == INVALID_STATE
    assert log.append(old, 0, epoch=1) == INVALID_STATE
    assert log.append(new, 0, epoch=1) is APPEND
    assert log.append(old, 0, epoch=0) == OLD_EPOCH


def test_the_epoch_is_checked_before_the_guard() -> None:
    log = Log()
    log.send(0, epoch=5)
    assert log.ask(0, epoch=4) == OLD_EPOCH
    assert log.append(None, 0, epoch=4) == OLD_EPOCH


def test_a_repeated_batch_is_recognised_without_asking_while_its_transaction_is_open() -> None:
    log = Log()
    log.send(0)
    assert log.ask(0) is VERIFICATION_NOT_NEEDED
    assert log.append(None, 0) == AlreadyAppended(LoggedBatch(0, 0, 0, NOW_MS))
    log.mark(0)
    assert isinstance(log.ask(0), Verification)
    assert log.append(None, 0) == INVALID_STATE


def test_the_guard_is_not_durable() -> None:
    log = Log()
    verification = log.ask(0)
    log.restart()
    assert log.append(verification, 0) == INVALID_STATE
    assert log.send(0) is APPEND


def test_an_open_transaction_goes_on_after_a_restart() -> None:
    log = Log()
    log.send(0)
    log.restart()
    assert log.ask(1) is VERIFICATION_NOT_NEEDED
    assert log.append(None, 1) is APPEND


def test_first_appends_that_never_come_are_forgotten() -> None:
    log = Log()
    producers = log.partition.producers
    verification = log.ask(0)
    producers.expire_verifications(0, DAY_MS)
    producers.expire_verifications(DAY_MS - 1, DAY_MS)
    assert log.ask(0) is verification
    producers.expire_verifications(DAY_MS, DAY_MS)
    assert producers._verifications == {}
    assert log.append(verification, 0) == INVALID_STATE


# Sequences.


def test_version_2_begins_at_0_where_nobody_knows_the_producer() -> None:
    log = Log()
    assert log.send(5) == OUT_OF_ORDER
    assert log.send(0) is APPEND


def test_version_1_may_begin_anywhere_where_nobody_knows_the_producer() -> None:
    """Retention may have taken everything that it wrote."""
    log = Log()
    assert log.send(5, version=1) is APPEND
    assert log.append(None, 6) is APPEND


def test_version_1_does_not_begin_with_what_was_sent_second() -> None:
    """Two batches ask; the second is confirmed first. Appended, it would make the first out of order for ever."""
    log = Log()
    first, second = log.ask(5, version=1), log.ask(6, version=1)
    assert log.append(second, 6) == OUT_OF_ORDER
    assert log.append(first, 5) is APPEND
    assert log.append(second, 6) is APPEND


def test_the_order_goes_on_over_transactions_of_one_epoch() -> None:
    log = Log()
    log.send(0, version=1)
    log.mark(0)
    assert log.send(2, version=1) == OUT_OF_ORDER
    assert log.send(1, version=1) is APPEND


def test_an_old_batch_that_comes_late_does_not_spoil_the_order_of_the_next() -> None:
    log = Log()
    for sequence in range(6):
        assert log.send(sequence, version=1) is APPEND
    log.mark(0)
    # Older than the five batches that are remembered, so not known to be a repetition.
    assert log.send(0, version=1) == OUT_OF_ORDER
    assert log.send(6, version=1) is APPEND


def test_a_new_epoch_begins_at_0() -> None:
    log = Log()
    log.send(0)
    log.mark(1)
    assert log.send(1, epoch=1) == OUT_OF_ORDER
    assert log.send(0, epoch=1) is APPEND


def test_plain_data_has_no_place_in_a_transaction() -> None:
    log = Log()
    log.send(0)
    assert log.plain(1) == INVALID_STATE
    log.mark(0)
    assert log.plain(1) is APPEND


def test_two_transactions_of_a_producer_do_not_overlap() -> None:
    """Trap 3: readers leave aborted records out by producer id, so the old one must be over first."""
    log = Log()
    log.send(0, epoch=0)
    assert log.send(0, epoch=1) == INVALID_STATE
    log.mark(1, MarkerType.ABORT)
    assert log.send(0, epoch=1) is APPEND


# What the broker writes in a producer's name.


def test_offsets_are_written_only_with_the_guard() -> None:
    log = Log()
    partition = log.partition
    assert partition.check_own(PID, 0, None) == INVALID_STATE
    verification = partition.own_verification_for(PID, 0, 2)
    assert isinstance(verification, Verification)
    assert partition.check_own(PID, 0, verification) is None
    log.mark(1)
    assert partition.check_own(PID, 0, verification) == OLD_EPOCH
    assert partition.own_verification_for(PID, 0, 2) == OLD_EPOCH


def test_the_sequence_of_what_the_broker_writes_means_nothing() -> None:
    log = Log()
    log.send(0, version=1)
    partition = log.partition
    for _ in range(3):
        assert partition.check_own(PID, 0, None) is None
    log.mark(0)
    verification = partition.own_verification_for(PID, 0, 1)
    assert isinstance(verification, Verification)
    assert partition.check_own(PID, 0, verification) is None


# Markers.


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_marker_for_a_producer_that_nobody_knows_is_written(version: int) -> None:
    assert Log().decide_marker(3, version=version) is APPEND


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_marker_of_an_old_epoch_is_refused(version: int) -> None:
    """Trap 1."""
    log = Log()
    log.send(0, epoch=4)
    assert log.decide_marker(3, version=version) == OLD_EPOCH
    assert log.decide_marker(5, version=version) is APPEND


@pytest.mark.parametrize("version", [0, 1])
def test_before_version_2_a_marker_has_the_epoch_of_its_transaction(version: int) -> None:
    log = Log()
    log.send(0, epoch=4)
    assert log.decide_marker(4, version=version) is APPEND
    log.mark(4)
    assert log.decide_marker(4, version=version) is APPEND


def test_a_marker_of_version_2_with_a_known_epoch_does_not_end_what_that_epoch_began() -> None:
    """KAFKA-19999: a marker was written, its answer lost; the next transaction begins; the marker comes again."""
    log = Log()
    log.send(0, epoch=4)
    assert log.decide_marker(5) is APPEND
    log.mark(5)
    assert isinstance(log.decide_marker(5), AlreadyEnded)
    assert log.send(0, epoch=5) is APPEND
    assert log.decide_marker(5) == OLD_EPOCH
    assert log.partition.producers.first_open_offset == 2


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_marker_of_an_older_coordinator_is_refused(version: int) -> None:
    log = Log()
    log.send(0)
    log.mark(1, coordinator_epoch=5)
    fenced = Refused(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    for epoch in (1, 2):
        assert log.decide_marker(epoch, 4, version) == fenced
    assert log.decide_marker(2, 5, version) is APPEND
    log.restart()
    assert log.decide_marker(2, 4, version) == fenced


def test_a_marker_with_a_new_epoch_makes_the_old_batches_unknown() -> None:
    log = Log()
    log.send(0)
    log.mark(1)
    assert log.send(0) == OLD_EPOCH
    (producer,) = log.partition.producers
    assert list(producer.recent_batches) == []


# What readers see.


def test_the_last_stable_offset_waits_for_the_earliest_of_interleaved_transactions() -> None:
    """Trap 6."""
    log = Log()
    seen = []

    def look() -> None:
        seen.append(log.partition.bounds(READ_COMMITTED).end_offset)

    for step in (
        lambda: log.send(0, producer_id=1),  # 0
        lambda: log.send(0, producer_id=2),  # 1
        lambda: log.send(1, producer_id=1),  # 2
        lambda: log.mark(1, producer_id=2),  # 3
        lambda: log.send(0, epoch=1, producer_id=2),  # 4
        lambda: log.mark(1, producer_id=1),  # 5
        lambda: log.mark(2, producer_id=2),  # 6
    ):
        step()
        look()
    assert seen == [0, 0, 0, 0, 0, 4, 7]
    assert log.partition.high_watermark == 7


def test_the_aborted_spans_of_interleaved_transactions_tell_where_each_began() -> None:
    log = Log()
    log.send(0, producer_id=1)  # 0
    log.send(0, producer_id=2)  # 1
    two = log.mark(1, MarkerType.ABORT, producer_id=2)  # 2
    assert log.partition.aborted_span(two) == (2, 1, 2, 0)
    log.send(0, epoch=1, producer_id=2)  # 3
    one = log.mark(1, MarkerType.ABORT, producer_id=1)  # 4
    assert log.partition.aborted_span(one) == (1, 0, 4, 3)
    again = log.mark(2, MarkerType.ABORT, producer_id=2)  # 5
    assert log.partition.aborted_span(again) == (2, 3, 5, 6)


def test_a_marker_without_a_transaction_ends_nothing_and_is_no_span() -> None:
    """Trap 7: the transaction had nothing on this partition."""
    log = Log()
    assert log.mark(1, MarkerType.ABORT) is None
    assert log.partition.last_stable_offset == 1
