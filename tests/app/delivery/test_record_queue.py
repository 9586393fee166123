"""Queues against a model: what has to stay in order does, nothing is lost, nothing is given to two workers."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.app.delivery.raw_records import raw

from ottla.app.declarations.listener_spec import Order, RawRecord
from ottla.app.delivery.record_queue import create_queue

KEYS = [None, b"a", b"b", b"c"]


class QueueMachine(RuleBasedStateMachine):
    """Workers that take records, bring them to an end, put them back, or have them again later."""

    order: Order

    def __init__(self) -> None:
        super().__init__()
        self.queue = create_queue(self.order)
        self.next_offset = 0
        self.now_ms = 0
        self.taken: list[list[RawRecord]] = []
        self.pending: dict[int, RawRecord] = {}  # neither done nor with a worker
        self.due_ms: dict[int, int] = {}

    def lane(self, record: RawRecord) -> object:
        """What keeps records in order: those of the same lane follow each other."""
        if self.order is Order.PARTITION:
            return "all"
        return record.offset if self.order is Order.NONE or record.key is None else record.key

    @initialize()
    def begin(self) -> None:
        self.add([None, b"a"], False)

    @rule(keys=st.lists(st.sampled_from(KEYS), max_size=8), is_delayed=st.booleans())
    def add(self, keys: list[bytes | None], is_delayed: bool) -> None:
        records = [raw(self.next_offset + place, key) for place, key in enumerate(keys)]
        self.next_offset += len(keys)
        due_ms = {each.offset: self.now_ms + 5 for each in records[:2]} if is_delayed else {}
        self.queue.add(records, due_ms)
        self.pending |= {each.offset: each for each in records}
        self.due_ms |= due_ms

    @rule(limit=st.integers(1, 5))
    def take(self, limit: int) -> None:
        records = self.queue.take(limit, self.now_ms)
        assert len(records) <= limit
        self.check_taken(records)
        if not records:
            assert not self.takeable(), "a record could have been worked on"

    @rule(data=st.data())
    def take_only(self, data: st.DataObject) -> None:
        if self.pending:
            offset = data.draw(st.sampled_from(sorted(self.pending)))
            records = self.queue.take_only(offset, self.now_ms)
            assert [each.offset for each in records] in ([], [offset])
            assert bool(records) == (offset in self.takeable())
            self.check_taken(records)

    def takeable(self) -> set[int]:
        busy = {self.lane(each) for some in self.taken for each in some}
        found: dict[object, RawRecord] = {}
        for record in sorted(self.pending.values(), key=lambda each: each.offset):
            found.setdefault(self.lane(record), record)
        return {
            record.offset
            for lane, record in found.items()
            if lane not in busy and self.due_ms.get(record.offset, 0) <= self.now_ms
        }

    def check_taken(self, records: list[RawRecord]) -> None:
        assert [each.offset for each in records] == sorted(each.offset for each in records)
        for record in records:
            assert record.offset in self.takeable() or any(
                self.lane(other) == self.lane(record) and other.offset < record.offset
                for other in records
            )
        for lane in {self.lane(each) for each in records}:
            mine = [each.offset for each in records if self.lane(each) == lane]
            before = [each.offset for each in self.pending.values() if self.lane(each) == lane]
            assert mine == sorted(before)[: len(mine)], "out of order"
        for record in records:
            del self.pending[record.offset]
            self.due_ms.pop(record.offset, None)
        if records:
            self.taken.append(records)

    @precondition(lambda self: self.taken)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        records = self.taken.pop(data.draw(st.integers(0, len(self.taken) - 1)))
        again = [each for each in records if data.draw(st.booleans())]
        due_ms = {each.offset: self.now_ms + 3 for each in again if data.draw(st.booleans())}
        self.queue.settle(records, again, due_ms)
        self.pending |= {each.offset: each for each in again}
        self.due_ms |= due_ms

    @rule()
    def time_passes(self) -> None:
        self.now_ms += 4

    @invariant()
    def nothing_is_lost(self) -> None:
        assert len(self.queue) == len(self.pending)

    @invariant()
    def the_next_due_time_wakes_in_time(self) -> None:
        busy = {self.lane(each) for some in self.taken for each in some}
        heads: dict[object, RawRecord] = {}
        for record in sorted(self.pending.values(), key=lambda each: each.offset):
            heads.setdefault(self.lane(record), record)
        waiting = [
            self.due_ms[head.offset]
            for lane, head in heads.items()
            if lane not in busy and head.offset in self.due_ms
        ]
        if waiting and min(waiting) > self.now_ms:
            assert self.queue.next_due_ms is not None
            assert self.queue.next_due_ms <= min(waiting)


@pytest.mark.parametrize("order", list(Order))
def test_queue_keeps_its_order_and_loses_nothing(order: Order) -> None:
    machine = type("Machine", (QueueMachine,), {"order": order})
    run_state_machine_as_test(
        machine, settings=settings(max_examples=60, stateful_step_count=40, deadline=None)
    )


@pytest.mark.parametrize("order", [Order.PARTITION, Order.KEY])
@pytest.mark.parametrize("put_back", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_records_that_are_put_back_come_in_the_order_of_the_log(
    order: Order, put_back: tuple[int, ...]
) -> None:
    """Their units were refused after the next record of the key had become the first one."""
    queue = create_queue(order)
    records = [raw(offset, b"k") for offset in range(5)]
    queue.add(records)
    for _ in range(3):
        queue.settle(queue.take(1, now_ms=0))
    for offset in put_back:
        queue.requeue(records[offset], due_ms=10)
    taken = []
    while len(queue):
        taken += queue.take(1, now_ms=10)
        queue.settle(taken[-1:])
    assert [record.offset for record in taken] == [0, 1, 2, 3, 4]


def test_a_record_that_is_put_back_while_a_worker_has_later_ones_goes_before_what_is_left() -> None:
    queue = create_queue(Order.PARTITION)
    records = [raw(offset) for offset in range(5)]
    queue.add(records)
    queue.settle(queue.take(1, now_ms=0))
    taken = queue.take(3, now_ms=0)
    queue.requeue(records[0], due_ms=0)
    queue.settle(taken, again=taken[1:])
    assert [record.offset for record in queue.take(9, now_ms=0)] == [0, 2, 3, 4]


def test_a_record_that_is_put_back_while_a_worker_has_later_ones_of_its_key_goes_before_them() -> (
    None
):
    queue = create_queue(Order.KEY)
    records = [raw(offset, b"tea") for offset in range(5)]
    queue.add(records)
    queue.settle(queue.take(1, now_ms=0))
    taken = queue.take(3, now_ms=0)
    queue.requeue(records[0], due_ms=0)
    queue.settle(taken, again=taken[1:])
    found = []
    while len(queue):
        found += queue.take(1, now_ms=0)
        queue.settle(found[-1:])
    assert [record.offset for record in found] == [0, 2, 3, 4]
