"""A world for the producer's state: a broker that keeps Kafka's rules, and a network that loses things."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from ottla.client.state.producer.accumulator import Accumulator
from ottla.client.state.producer.batch_actions import BatchAction, BatchState, action_for
from ottla.client.state.producer.memory import Reservation
from ottla.client.state.producer.partition_queue import AccumulatorSettings, PartitionQueue
from ottla.client.state.producer.producer_batch import ProducerBatch, ProducerIdentity
from ottla.client.state.producer.sequences import Sequences
from ottla.errors import AbortableError, ErrorCode, TimedOutError
from ottla.model import TopicPartition
from ottla.records.batch import increment_sequence
from ottla.records.record import INT32_MAX

KEY = TopicPartition("t", 0)
MAX_IN_FLIGHT = 5


def make_batch(order: int, records: int = 1, created_ms: float = 0.0) -> ProducerBatch:
    batch = ProducerBatch(KEY, (order,), 10_000, 0, created_ms)
    assert batch.builder is not None
    for index in range(records):
        batch.builder.append(0, None, b"%d/%d" % (order, index), ())
    batch.close()
    return batch


def may_retry(
    sequences: Sequences, batch: ProducerBatch, code: ErrorCode, log_start_offset: int
) -> bool:
    """Decide about a batch as the producer does, and prepare its retry."""
    state = BatchState(sequences.kind, sequence=sequences.state_of(batch, log_start_offset))
    action = action_for(code, state)
    sequences.prepare_retry(batch, action)
    return action.name.startswith(BatchAction.RETRY.name)


def make_accumulator(**changes: object) -> Accumulator:
    given: dict[str, object] = {
        "batch_bytes": 1000,
        "linger_ms": 10.0,
        "delivery_timeout_ms": 1000.0,
        "memory_bytes": 10_000,
        "max_request_bytes": 5000,
        **changes,
    }
    return Accumulator(AccumulatorSettings(**given))  # type: ignore[arg-type]


def reserve(
    accumulator: Accumulator,
    queue: PartitionQueue,
    size_bytes: int,
    wake: Callable[[], object] = lambda: None,
) -> Reservation:
    """Memory for a new batch, or a place among those that wait for it."""
    reservation = accumulator.reservation(queue, size_bytes, wake)
    accumulator.ask_for(reservation)
    return reservation


@dataclass
class Remembered:
    """What a partition knows of a producer."""

    epoch: int
    last_sequence: int
    batches: list[tuple[int, int, int]] = field(default_factory=list)
    """First and last sequence and base offset of the last five."""


class ModelBroker:
    """One partition's leader; before Kafka 2.5 it refused producers that it had forgotten."""

    def __init__(self, refuses_strangers: bool) -> None:
        self.refuses_strangers = refuses_strangers
        self.log: list[tuple[int, ...]] = []
        self.start_offset = 0
        self.known: dict[int, Remembered] = {}

    def forget(self) -> None:
        """Retention takes everything, and with it what is known of producers."""
        self.start_offset = len(self.log)
        self.known.clear()

    def produce(
        self, identity: ProducerIdentity, first: int, count: int, order: tuple[int, ...]
    ) -> tuple[ErrorCode, int]:
        last = increment_sequence(first, count - 1)
        known = self.known.get(identity.producer_id)
        if known is None and first and self.refuses_strangers:
            return ErrorCode.UNKNOWN_PRODUCER_ID, -1
        if known is not None:
            if identity.epoch < known.epoch:
                return ErrorCode.INVALID_PRODUCER_EPOCH, -1
            if identity.epoch == known.epoch:
                for each_first, each_last, offset in known.batches:
                    if (each_first, each_last) == (first, last):
                        return ErrorCode.NONE, offset
                if first != increment_sequence(known.last_sequence, 1):
                    return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            elif first != 0:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        if known is None or known.epoch != identity.epoch:
            known = self.known[identity.producer_id] = Remembered(identity.epoch, last)
        offset = len(self.log)
        known.last_sequence = last
        known.batches = [*known.batches[-4:], (first, last, offset)]
        self.log.extend((*order, index) for index in range(count))
        return ErrorCode.NONE, offset


@dataclass
class Sent:
    """A batch on the wire, with the numbers that it had when it was sent."""

    batch: ProducerBatch
    identity: ProducerIdentity
    first: int
    is_answer_lost: bool
    is_lost: bool


class World:
    """A sender, reduced to its decisions."""

    def __init__(
        self, random: Random, trouble: float, refuses_strangers: bool, retries: int = INT32_MAX
    ) -> None:
        self.random = random
        self.retries = retries
        self.trouble = trouble
        self.broker = ModelBroker(refuses_strangers)
        self.sequences = Sequences(is_transactional=False)
        self.sequences.set_identity(ProducerIdentity(7, 0))
        self.accumulator = make_accumulator(memory_bytes=1 << 20)
        self.wire: list[Sent] = []
        self.written: list[ProducerBatch] = []
        self.given_up: list[ProducerBatch] = []
        self.now_ms = 0.0

    def run(self, batch_count: int) -> None:
        queue = self.accumulator.queue(KEY)
        left = batch_count
        steps = 0
        while left or self.wire or queue.batches or self.accumulator.incomplete:
            steps += 1
            assert steps < 20_000, "nothing gets on any more"
            self.now_ms += 1
            if steps > 3000:
                self.trouble = 0.0
            choice = self.random.random()
            if left and choice < 0.3:
                left -= 1
                self._append(batch_count - left)
            elif choice < 0.6:
                self._send()
            elif self.wire:
                self._answer()
            if self.random.random() < self.trouble * 0.05:
                self._give_up_one()
            if self.random.random() < self.trouble * 0.05:
                self._forget()
            self._settle()

    def _forget(self) -> None:
        """A broker that takes any number from a stranger would take the second of two batches before the first."""
        if self.broker.refuses_strangers or not self.sequences.of(KEY).in_flight:
            self.broker.forget()

    def _settle(self) -> None:
        self.sequences.resolve()
        if self.sequences.needs_bump and not self.sequences.bump():
            self.sequences.set_identity(ProducerIdentity(8, 0))

    def _append(self, number: int) -> None:
        queue = self.accumulator.queue(KEY)
        reservation = reserve(self.accumulator, queue, 100)
        self.accumulator.append_new(
            queue, 0, None, b"%d" % number, (), None, reservation, self.now_ms
        )
        for index in range(self.random.randrange(3)):
            self.accumulator.append(queue, 0, None, b"%d/%d" % (number, index), (), None)

    def _send(self) -> None:
        if len(self.wire) >= MAX_IN_FLIGHT:
            return
        queue = self.accumulator.queue(KEY)
        if queue.batches and queue.batches[0].waits(self.now_ms):
            return
        for batch in self.accumulator.drain([queue], 5000, self.now_ms, self.sequences.may_send):
            batch.close()
            self.sequences.assign(batch)
            batch.sequence_was_reset = False
            self.wire.append(
                Sent(
                    batch,
                    batch.identity,
                    batch.base_sequence,
                    self.random.random() < self.trouble * 0.5,
                    self.random.random() < self.trouble * 0.5,
                )
            )

    def _answer(self) -> None:
        """The first request of the connection is answered, or the connection breaks."""
        sent = self.wire.pop(0)
        code, offset = ErrorCode.NETWORK_EXCEPTION, -1
        if not sent.is_lost:
            code, offset = self.broker.produce(
                sent.identity, sent.first, sent.batch.record_count, sent.batch.order
            )
            if self.random.random() < self.trouble * 0.1 and code is ErrorCode.NONE:
                # The leader moved after it wrote the batch.
                code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        if not (sent.is_lost or sent.is_answer_lost):
            self._judge(sent.batch, code, offset)
            return
        # What follows on the connection is written up to the first that is lost, and nobody hears of it.
        is_broken = sent.is_lost
        for each in self.wire:
            is_broken = is_broken or each.is_lost
            if not is_broken:
                self.broker.produce(
                    each.identity, each.first, each.batch.record_count, each.batch.order
                )
        for each in (sent, *self.wire):
            self._judge(each.batch, ErrorCode.NETWORK_EXCEPTION, -1)
        self.wire.clear()

    def _judge(self, batch: ProducerBatch, code: ErrorCode, offset: int) -> None:
        if code is ErrorCode.NONE:
            self.sequences.acknowledged(batch, offset)
            if batch.succeed(offset, -1):
                self.written.append(batch)
                self.accumulator.release(batch)
        elif batch.is_done:
            return
        elif batch.attempts < self.retries and may_retry(
            self.sequences, batch, code, self.broker.start_offset
        ):
            self.accumulator.reenqueue(batch, self.now_ms, 1.0)
        elif batch.fail(AbortableError(code)):
            self.sequences.failed(batch, code, batch.attempts < self.retries)
            self.given_up.append(batch)
            self.accumulator.release(batch)

    def _give_up_one(self) -> None:
        """The oldest batch has had delivery.timeout.ms."""
        for batch in list(self.accumulator.incomplete):
            with self.accumulator.lock:
                self.accumulator._remove(batch)
            self.sequences.gave_up(batch)
            batch.fail(TimedOutError())
            self.given_up.append(batch)
            self.accumulator.release(batch)
            return

    def check(self) -> None:
        """What was acknowledged is there once; what is there is in order and there once."""
        log = self.broker.log
        # A batch that was written, not acknowledged and deleted may be there again: that is no duplicate to see.
        visible = log[self.broker.start_offset :]
        assert len(visible) == len(set(visible)), f"duplicates in {visible}"
        lost = {batch.order for batch in self.given_up}
        for batch in self.written:
            expected = [(*batch.order, index) for index in range(batch.record_count)]
            assert log[batch.base_offset : batch.base_offset + batch.record_count] == expected
        kept = [entry for entry in visible if entry[:-1] not in lost]
        assert kept == sorted(kept), f"out of order: {kept}"
        assert self.accumulator.memory.available_bytes == self.accumulator.memory.total_bytes
        assert self.accumulator.full_bytes == 0
