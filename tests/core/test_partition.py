from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.core.client_batches import NOW_MS, client_batch, header_of, marker_batch

from ottla.core.outcomes import Refused
from ottla.core.partition import READ_COMMITTED, READ_UNCOMMITTED, Bounds, Partition
from ottla.core.producer_state import (
    APPEND,
    AlreadyAppended,
    EndedTransaction,
    ProducerStates,
    Verification,
)
from ottla.errors import ErrorCode
from ottla.records.batch import BatchFlag, build_batch
from ottla.records.control import MarkerType


def partition(start_offset: int = 0, end_offset: int = 0) -> Partition:
    return Partition(5, start_offset, end_offset, ProducerStates())


def apply(target: Partition, data: bytes) -> EndedTransaction | None:
    return target.apply(header_of(data), target.end_offset, data, NOW_MS)


@pytest.mark.parametrize(
    ("requested", "outcome"),
    [
        (-1, None),
        (5, None),
        (4, Refused(ErrorCode.FENCED_LEADER_EPOCH)),
        (6, Refused(ErrorCode.UNKNOWN_LEADER_EPOCH)),
    ],
)
def test_requests_of_another_leader_epoch_are_told_so(
    requested: int, outcome: Refused | None
) -> None:
    assert partition().check_leader_epoch(requested) == outcome


def test_batches_without_a_producer_id_are_always_appended() -> None:
    target = partition()
    for _ in range(2):
        header = header_of(client_batch(3))
        assert target.decide_append(header) is APPEND
        apply(target, client_batch(3))
    assert target.end_offset == 6
    assert len(target.producers) == 0


def test_a_repeated_batch_is_recognised_by_its_header() -> None:
    target = partition()
    data = client_batch(3, producer_id=1, producer_epoch=0, first_sequence=0)
    apply(target, client_batch(2))
    apply(target, data)
    decision = target.decide_append(header_of(data))
    assert isinstance(decision, AlreadyAppended)
    assert (decision.batch.base_offset, decision.batch.last_offset) == (2, 4)


def test_what_is_appended_is_shown_only_when_it_is_durable() -> None:
    target = partition()
    apply(target, client_batch(3))
    assert target.bounds(READ_UNCOMMITTED) == Bounds(0, 0, 0, 0)
    assert target.advance_high_watermark(3)
    assert target.bounds(READ_UNCOMMITTED) == Bounds(0, 3, 3, 3)


def test_the_high_watermark_never_goes_back() -> None:
    target = partition()
    apply(target, client_batch(3))
    assert target.advance_high_watermark(2)
    assert not target.advance_high_watermark(1)
    assert not target.advance_high_watermark(2)
    assert target.high_watermark == 2


def test_the_high_watermark_cannot_pass_the_end() -> None:
    with pytest.raises(AssertionError):
        partition().advance_high_watermark(1)


def test_read_committed_ends_at_the_first_open_transaction_and_read_uncommitted_does_not() -> None:
    """Trap 6: the last stable offset is not the high watermark."""
    target = partition()
    apply(target, client_batch(2))
    apply(
        target,
        client_batch(3, producer_id=1, producer_epoch=0, first_sequence=0, transactional=True),
    )
    apply(target, client_batch(1))
    target.advance_high_watermark(6)
    assert target.bounds(READ_UNCOMMITTED) == Bounds(0, 6, 6, 2)
    assert target.bounds(READ_COMMITTED) == Bounds(0, 2, 6, 2)
    assert apply(target, marker_batch(1, 0, MarkerType.COMMIT)) == (1, 2, 6, False)
    target.advance_high_watermark(7)
    assert target.bounds(READ_COMMITTED) == Bounds(0, 7, 7, 7)


def test_a_transaction_is_open_until_its_marker_is_below_the_high_watermark() -> None:
    """Readers of committed data must not see records whose marker may still be lost."""
    target = partition()
    apply(
        target,
        client_batch(2, producer_id=1, producer_epoch=0, first_sequence=0, transactional=True),
    )
    target.advance_high_watermark(2)
    apply(target, marker_batch(1, 0, MarkerType.ABORT))
    assert target.last_stable_offset == 0
    apply(target, client_batch(1))
    target.advance_high_watermark(3)
    assert target.last_stable_offset == 3


def test_a_marker_at_the_high_watermark_is_not_below_it() -> None:
    target = partition()
    apply(
        target,
        client_batch(2, producer_id=1, producer_epoch=0, first_sequence=0, transactional=True),
    )
    apply(target, marker_batch(1, 0, MarkerType.COMMIT))
    target.advance_high_watermark(2)
    assert target.bounds(READ_COMMITTED) == Bounds(0, 0, 2, 0)


def test_a_trim_into_an_open_transaction_takes_the_last_stable_offset_along() -> None:
    target = partition()
    apply(
        target,
        client_batch(5, producer_id=1, producer_epoch=0, first_sequence=0, transactional=True),
    )
    target.advance_high_watermark(5)
    target.trim(3)
    assert target.bounds(READ_COMMITTED) == Bounds(3, 3, 5, 3)


def test_the_start_never_goes_back() -> None:
    target = partition(start_offset=4, end_offset=9)
    target.trim(2)
    assert target.start_offset == 4


def test_an_emptied_control_batch_changes_nothing_but_the_end() -> None:
    """Compaction leaves one where a whole transaction is gone."""
    target = partition()
    data = build_batch(
        [],
        last_offset=0,
        producer_id=1,
        producer_epoch=3,
        flags=BatchFlag.CONTROL | BatchFlag.TRANSACTIONAL,
    )
    assert apply(target, data) is None
    assert target.end_offset == 1
    assert len(target.producers) == 0


class PartitionMachine(RuleBasedStateMachine):
    """Appends, markers, durability and trims in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.partition = partition()
        self.sequences: dict[int, int] = {}
        # Producer, first offset, and the offset of the marker once there is one.
        self.transactions: list[list[int | None]] = []
        self.start_offset = 0

    @rule(count=st.integers(1, 5))
    def append_plain(self, count: int) -> None:
        apply(self.partition, client_batch(count))

    @rule(producer_id=st.integers(0, 3), count=st.integers(1, 5))
    def append_in_transaction(self, producer_id: int, count: int) -> None:
        base_offset = self.partition.end_offset
        data = client_batch(
            count,
            producer_id=producer_id,
            producer_epoch=0,
            first_sequence=self.sequences.get(producer_id, 0),
            transactional=True,
        )
        needed = self.partition.verification_for(header_of(data), 1)
        assert not isinstance(needed, Refused)
        verification = needed if isinstance(needed, Verification) else None
        assert self.partition.decide_append(header_of(data), verification) is APPEND
        apply(self.partition, data)
        self.sequences[producer_id] = self.sequences.get(producer_id, 0) + count
        if not any(found[0] == producer_id and found[2] is None for found in self.transactions):
            self.transactions.append([producer_id, base_offset, None])

    @rule(producer_id=st.integers(0, 3), kind=st.sampled_from(MarkerType))
    def end_transaction(self, producer_id: int, kind: MarkerType) -> None:
        offset = self.partition.end_offset
        ended = apply(self.partition, marker_batch(producer_id, 0, kind))
        mine = [
            found for found in self.transactions if found[0] == producer_id and found[2] is None
        ]
        assert (ended is not None) == bool(mine)
        for found in mine:
            found[2] = offset

    @rule(data=st.data())
    def become_durable(self, data: st.DataObject) -> None:
        low, high = self.partition.high_watermark, self.partition.end_offset
        self.partition.advance_high_watermark(data.draw(st.integers(low, high)))

    @rule(data=st.data())
    def trim(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.partition.high_watermark))
        self.partition.trim(offset)
        self.start_offset = max(self.start_offset, offset)

    @invariant()
    def offsets_are_in_order(self) -> None:
        found = self.partition
        assert found.start_offset == self.start_offset
        assert (
            found.start_offset
            <= found.last_stable_offset
            <= found.high_watermark
            <= found.end_offset
        )

    @invariant()
    def the_last_stable_offset_is_what_the_rule_says(self) -> None:
        high_watermark = self.partition.high_watermark
        undecided = [
            first
            for _, first, marker in self.transactions
            if first is not None and (marker is None or marker >= high_watermark)
        ]
        stable = max(self.start_offset, min([high_watermark, *undecided]))
        assert self.partition.last_stable_offset == stable
        assert self.partition.bounds(READ_COMMITTED).end_offset == stable
        assert self.partition.bounds(READ_UNCOMMITTED).end_offset == high_watermark


TestPartition: Any = PartitionMachine.TestCase
TestPartition.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
