"""ProducerStates against Kafka's rules, written down a second time in the simplest way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla.core.producer_state import (
    AlreadyAppended,
    Append,
    ProducerBatch,
    ProducerStates,
    Verification,
)

SEQUENCES = 2**31
EXPIRATION_MS = 1000
PRODUCER_IDS = st.integers(0, 1)
EPOCHS = st.sampled_from([0, 1, 2, 32766, 32767])


@dataclass
class Known:
    """A producer as the model knows it; batches of its epoch only: first, last, base offset."""

    epoch: int
    batches: list[tuple[int, int, int]] = field(default_factory=list)
    last_write_ms: int = 0
    transaction_at: int | None = None


@dataclass
class Waiting:
    """First batches of a transaction that wait for the coordinator's word, as the model knows them."""

    lowest_sequence: int
    seen_at_ms: int | None = None


class Rules:
    """Kafka's rules for the batches of a producer, one sentence each."""

    def __init__(self) -> None:
        self.known: dict[int, Known] = {}
        self.waiting: dict[tuple[int, int], Waiting] = {}  # by producer and epoch

    def wait(self, batch: ProducerBatch) -> None:
        """A transactional batch waits for the coordinator's word unless its transaction is open or it is fenced."""
        known = self.known.get(batch.producer_id)
        if not batch.is_transactional or (known is not None and batch.producer_epoch < known.epoch):
            return
        if (
            known is not None
            and batch.producer_epoch == known.epoch
            and known.transaction_at is not None
        ):
            return
        key = batch.producer_id, batch.producer_epoch
        waiting = self.waiting.setdefault(key, Waiting(batch.first_sequence))
        waiting.lowest_sequence = min(waiting.lowest_sequence, batch.first_sequence)

    def decide(self, batch: ProducerBatch) -> str | int:
        """'append', the offset of the batch that this one repeats, or the name of an error."""
        known = self.known.get(batch.producer_id)
        if known is None:
            # Any sequence may be the next one of a producer that was forgotten, but not one that comes after another
            # that was seen and not appended: Kafka's VerificationStateEntry keeps the lowest until an append, a marker
            # or its own expiry.
            waiting = self.waiting.get((batch.producer_id, batch.producer_epoch))
            overtakes = waiting is not None and batch.first_sequence > waiting.lowest_sequence
            is_refused = batch.is_transactional and overtakes
            return "OUT_OF_ORDER_SEQUENCE_NUMBER" if is_refused else "append"
        if batch.producer_epoch < known.epoch:
            return "INVALID_PRODUCER_EPOCH"
        if batch.producer_epoch > known.epoch:
            in_order = batch.first_sequence == 0
        else:
            for first, last, base_offset in known.batches[-5:]:
                # What was written in a transaction is repeated in it or not at all.
                has_ended = batch.is_transactional and (
                    known.transaction_at is None or base_offset < known.transaction_at
                )
                if (first, last) == (batch.first_sequence, batch.last_sequence) and not has_ended:
                    return base_offset
                numbers = (last - first) % SEQUENCES
                if has_ended and (batch.first_sequence - first) % SEQUENCES <= numbers:
                    return "INVALID_TXN_STATE"
            expected = (known.batches[-1][1] + 1) % SEQUENCES if known.batches else 0
            in_order = batch.first_sequence == expected
        if not in_order:
            return "OUT_OF_ORDER_SEQUENCE_NUMBER"
        if known.transaction_at is not None and (
            not batch.is_transactional or batch.producer_epoch != known.epoch
        ):
            return "INVALID_TXN_STATE"
        return "append"

    def append(self, batch: ProducerBatch, base_offset: int, now_ms: int) -> None:
        known = self._at_epoch(batch.producer_id, batch.producer_epoch)
        known.batches.append((batch.first_sequence, batch.last_sequence, base_offset))
        known.last_write_ms = now_ms
        self._nobody_waits(batch.producer_id)
        if batch.is_transactional and known.transaction_at is None:
            known.transaction_at = base_offset

    def end(self, producer_id: int, epoch: int, now_ms: int) -> int | None:
        known = self._at_epoch(producer_id, epoch)
        known.last_write_ms = now_ms
        self._nobody_waits(producer_id)
        first_offset, known.transaction_at = known.transaction_at, None
        return first_offset

    def expire(self, now_ms: int) -> int:
        """Forgets who wrote nothing for long, and who waits since a look for them that is as long ago."""
        gone = [
            producer_id
            for producer_id, known in self.known.items()
            if known.transaction_at is None and now_ms - known.last_write_ms >= EXPIRATION_MS
        ]
        for producer_id in gone:
            del self.known[producer_id]
        for key, waiting in list(self.waiting.items()):
            if waiting.seen_at_ms is None:
                waiting.seen_at_ms = now_ms
            elif now_ms - waiting.seen_at_ms >= EXPIRATION_MS:
                del self.waiting[key]
        return len(gone)

    def _nobody_waits(self, producer_id: int) -> None:
        for key in [key for key in self.waiting if key[0] == producer_id]:
            del self.waiting[key]

    def _at_epoch(self, producer_id: int, epoch: int) -> Known:
        known = self.known.setdefault(producer_id, Known(epoch))
        if known.epoch != epoch:
            known.epoch = epoch
            known.batches = []
        return known


class ProducerStateMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.states = ProducerStates()
        self.rules_ = Rules()
        self.now_ms = 1
        self.end_offset = 0

    def _try(self, batch: ProducerBatch) -> None:
        self.rules_.wait(batch)
        expected = self.rules_.decide(batch)
        decision = self.states.decide(batch, self._verification(batch))
        if isinstance(decision, AlreadyAppended):
            assert decision.batch.base_offset == expected
            return
        assert ("append" if isinstance(decision, Append) else decision.error.name) == expected
        if isinstance(decision, Append):
            count = (batch.last_sequence - batch.first_sequence) % SEQUENCES + 1
            base_offset = self.end_offset
            self.end_offset += count
            self.states.apply_batch(batch, base_offset, self.end_offset - 1, self.now_ms)
            self.rules_.append(batch, base_offset, self.now_ms)

    def _verification(self, batch: ProducerBatch) -> Verification | None:
        if not batch.is_transactional:
            return None
        found = self.states.verification_for(batch, 1)
        return found if isinstance(found, Verification) else None

    @rule(
        producer_id=PRODUCER_IDS,
        epoch=EPOCHS,
        first=st.sampled_from([0, 1, 5, SEQUENCES - 3, SEQUENCES - 1]),
        count=st.integers(1, 3),
        transactional=st.booleans(),
    )
    def any_batch(
        self, producer_id: int, epoch: int, first: int, count: int, transactional: bool
    ) -> None:
        last = (first + count - 1) % SEQUENCES
        self._try(ProducerBatch(producer_id, epoch, first, last, transactional))

    @rule(
        producer_id=PRODUCER_IDS,
        gap=st.sampled_from([0, 0, 0, 0, 1, -1]),
        count=st.integers(1, 3),
        bump=st.sampled_from([0, 0, 0, 1, -1]),
        plain=st.booleans(),
    )
    def next_batch(self, producer_id: int, gap: int, count: int, bump: int, plain: bool) -> None:
        known = self.rules_.known.get(producer_id)
        if known is None or not known.batches:
            return
        first = (known.batches[-1][1] + 1 + gap) % SEQUENCES
        epoch = min(max(known.epoch + bump, 0), 32767)
        transactional = known.transaction_at is not None or not plain
        last = (first + count - 1) % SEQUENCES
        self._try(ProducerBatch(producer_id, epoch, first, last, transactional))

    @rule(producer_id=PRODUCER_IDS, count=st.integers(1, 2))
    def first_batch_of_a_new_epoch(self, producer_id: int, count: int) -> None:
        known = self.rules_.known.get(producer_id)
        epoch = 0 if known is None else min(known.epoch + 1, 32767)
        self._try(ProducerBatch(producer_id, epoch, 0, count - 1, True))

    @rule(producer_id=PRODUCER_IDS, back=st.integers(1, 7), shrink=st.integers(0, 1))
    def repeated_batch(self, producer_id: int, back: int, shrink: int) -> None:
        known = self.rules_.known.get(producer_id)
        if known is None or len(known.batches) < back:
            return
        first, last, _ = known.batches[-back]
        last = (last - shrink) % SEQUENCES if last != first else last
        self._try(ProducerBatch(producer_id, known.epoch, first, last, True))

    @rule(producer_id=PRODUCER_IDS, bump=st.integers(0, 1), aborts=st.booleans())
    def marker(self, producer_id: int, bump: int, aborts: bool) -> None:
        known = self.rules_.known.get(producer_id)
        epoch = 0 if known is None else min(known.epoch + bump, 32767)
        offset = self.end_offset
        self.end_offset += 1
        ended = self.states.apply_marker(producer_id, epoch, 1, aborts, offset, self.now_ms)
        first_offset = self.rules_.end(producer_id, epoch, self.now_ms)
        if first_offset is None:
            assert ended is None
        else:
            assert ended == (producer_id, first_offset, offset, aborts)

    @rule(passed_ms=st.sampled_from([1, 400, EXPIRATION_MS]))
    def time_passes(self, passed_ms: int) -> None:
        self.now_ms += passed_ms

    @rule()
    def expire(self) -> None:
        assert self.states.expire(self.now_ms, EXPIRATION_MS) == self.rules_.expire(self.now_ms)

    @precondition(lambda self: self.rules_.known)
    @rule()
    def restart(self) -> None:
        """At any moment a snapshot says all that later decisions need."""
        self.states = ProducerStates.from_snapshot(self.states.to_snapshot())
        self.rules_.waiting.clear()

    @invariant()
    def open_transactions_are_known(self) -> None:
        opened = [
            known.transaction_at
            for known in self.rules_.known.values()
            if known.transaction_at is not None
        ]
        assert self.states.first_open_offset == min(opened, default=None)

    @invariant()
    def nobody_is_forgotten(self) -> None:
        assert {producer.producer_id for producer in self.states} == set(self.rules_.known)


TestProducerStates: Any = ProducerStateMachine.TestCase
TestProducerStates.settings = settings(max_examples=250, stateful_step_count=50, deadline=None)
