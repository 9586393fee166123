"""Records that wait to be sent, in batches by partition.

Any thread may append; the rest belongs to the sender. One lock protects all: its sections are short, and Python runs
one thread at a time anyway. `QuickWriter` of the kernel appends without the lock: a builder takes a record and its
callback in one atomic call, and takes none once its batch is closed. An open batch belongs to the current transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock

from ottla.client.send.delivery import RecordFuture, SentRecords
from ottla.client.state.metadata import ClusterMetadata
from ottla.client.state.producer.failed_records import FailedRecords
from ottla.client.state.producer.memory import Memory, Reservation
from ottla.client.state.producer.ongoing_transaction import OngoingTransaction
from ottla.client.state.producer.partition_queue import (
    FOREVER,
    RATIO_FALL,
    RATIO_RISE,
    AccumulatorSettings,
    BulkRecords,
    PartitionQueue,
    capacity_bytes,
)
from ottla.client.state.producer.producer_batch import OnDelivery, ProducerBatch
from ottla.model import NO_LEADER, TopicPartition
from ottla.records.batch import HEADER_BYTES, read_header
from ottla.records.record import Buffer, Header


@dataclass(slots=True)
class Ready:
    """The queues that can be sent, by leader, and when the next ones will be ready."""

    nodes: dict[int, list[PartitionQueue]] = field(default_factory=dict)
    topics_without_leader: dict[str, None] = field(default_factory=dict)
    next_check_ms: float = FOREVER


class Accumulator:
    """All batches of a producer that have not ended."""

    def __init__(self, settings: AccumulatorSettings) -> None:
        self.settings = settings
        self.lock = Lock()
        self.memory = Memory(settings.memory_bytes)
        self.refusal: Callable[[], BaseException] | None = None
        """Makes the exception that `send` raises while no records are accepted; None while they are."""
        self.transaction: OngoingTransaction | None = None
        """The transaction of new records; None without transactions."""
        self.incomplete: dict[ProducerBatch, None] = {}
        """Batches that wait or are in flight, the oldest first."""
        self.flushing = 0
        """How many calls of `flush` wait: while there are any, no batch lingers."""
        self.full_bytes = 0
        """The bytes in batches that take no more records and have not been sent."""
        self.plain_limit_bytes = capacity_bytes(settings, 1.0)
        """How many bytes of records a batch takes while nothing is known of its compression."""
        self.next_expiry_ms = FOREVER
        self.loop: object = None
        """The event loop on which batches complete, if there is one."""
        self.failed_records: FailedRecords | None = None
        """Where failed records are counted; None with transactions, where the commit fails."""
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._active: dict[PartitionQueue, None] = {}
        self._is_closed = False

    def refuse(self, refusal: Callable[[], BaseException] | None) -> None:
        """Refuse records from now on, or accept them again (None); the caller holds the lock."""
        if not self._is_closed:
            self.refusal = refusal

    def close(self, refusal: Callable[[], BaseException]) -> None:
        """Refuse records for ever."""
        with self.lock:
            self.refusal = refusal
            self._is_closed = True

    # Appending

    def queue(self, key: TopicPartition) -> PartitionQueue:
        """The queue of a partition."""
        found = self._queues.get(key)
        if found is None:
            found = self._queues.setdefault(key, PartitionQueue(key, self.plain_limit_bytes))
        return found

    def append(
        self,
        queue: PartitionQueue,
        timestamp: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        on_delivery: OnDelivery | None,
    ) -> RecordFuture | None:
        """Add a record to the open batch; None if a new batch is needed."""
        with self.lock:
            self._check_accepted()
            batch = queue.open
            if batch is None:
                return None
            assert batch.builder is not None
            future = batch.builder.append_sent(
                RecordFuture, batch, timestamp, key, value, headers, on_delivery
            )
            if future is None:
                self._close_open(queue)
            return future

    def reservation(
        self, queue: PartitionQueue, size_bytes: int, wake: Callable[[], object]
    ) -> Reservation:
        """A reservation for a new batch whose first record has at most this size; it has no memory yet."""
        return Reservation(max(size_bytes, queue.limit_bytes + HEADER_BYTES), wake)

    def ask_for(self, reservation: Reservation) -> None:
        """Take its memory now, or queue up."""
        with self.lock:
            self.memory.ask_for(reservation)

    def cancel(self, reservation: Reservation) -> None:
        """Give up a reservation, unless a batch has it."""
        with self.lock:
            self.memory.cancel(reservation)

    def append_new(
        self,
        queue: PartitionQueue,
        timestamp: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        on_delivery: OnDelivery | None,
        reservation: Reservation,
        now_ms: float,
    ) -> RecordFuture:
        """Add a record to a new batch in granted memory; the caller has to wake the sender after that."""
        with self.lock:
            batch = self._new_batch(queue, reservation, now_ms)
            assert batch.builder is not None
            future = batch.builder.append_sent(
                RecordFuture, batch, timestamp, key, value, headers, on_delivery
            )
            assert future is not None, "the first record always fits"
            self._enter(queue, batch, reservation)
            queue.open = batch
            return future

    def append_encoded(
        self, queue: PartitionQueue, encoded: Buffer, reservation: Reservation, now_ms: float
    ) -> RecordFuture:
        """Add a batch that is encoded already; the future is that of its first record."""
        with self.lock:
            self._check_accepted()
            batch = ProducerBatch.ready_made(
                queue.key, (queue.next_order,), encoded, reservation.size_bytes, now_ms
            )
            future = RecordFuture(batch, 0, read_header(encoded, 0).base_timestamp, -1, -1)
            self._enter(queue, batch, reservation)
            self.full_bytes += batch.size_bytes
            return future

    def extend(
        self, queue: PartitionQueue, sent: SentRecords, many: BulkRecords, start: int
    ) -> int:
        """Add records of `send_many` to the open batch: how many fit."""
        with self.lock:
            self._check_accepted()
            batch = queue.open
            if batch is None:
                return 0
            added = self._extend(batch, sent, many, start)
            if start + added < len(many.values):
                self._close_open(queue)
            return added

    def extend_new(
        self,
        queue: PartitionQueue,
        sent: SentRecords,
        many: BulkRecords,
        start: int,
        reservation: Reservation,
        now_ms: float,
    ) -> int:
        """Add records of `send_many` to a new batch: how many fit, at least one."""
        with self.lock:
            batch = self._new_batch(queue, reservation, now_ms)
            added = self._extend(batch, sent, many, start)
            self._enter(queue, batch, reservation)
            queue.open = batch
            return added

    def _extend(
        self, batch: ProducerBatch, sent: SentRecords, many: BulkRecords, start: int
    ) -> int:
        assert batch.builder is not None
        first_index, added = batch.builder.extend(
            many.timestamp, many.values, many.keys, many.headers, start
        )
        if added:
            sent.add(batch, first_index, many.positions[start : start + added])
        return added

    def _check_accepted(self) -> None:
        """Raise while no records are accepted."""
        if self.refusal is not None:
            raise self.refusal()

    def _new_batch(
        self, queue: PartitionQueue, reservation: Reservation, now_ms: float
    ) -> ProducerBatch:
        """A batch in the reserved memory, which nothing knows of before `_enter`."""
        self._check_accepted()
        return ProducerBatch(
            queue.key, (queue.next_order,), queue.limit_bytes, reservation.size_bytes, now_ms
        )

    def _enter(self, queue: PartitionQueue, batch: ProducerBatch, reservation: Reservation) -> None:
        """Put a new batch with its first record at the end of the queue, behind the one that was open.

        Ctrl-C may raise at any call: until the batch is in the queue, the reservation is the caller's, who cancels it.
        """
        assert reservation.granted
        batch.loop, batch.failed_records = self.loop, self.failed_records
        # Another thread may have begun a batch meanwhile: that one is closed.
        self._close_open(queue)
        self._note_transaction(queue)
        expiry_ms = batch.created_ms + self.settings.delivery_timeout_ms
        if expiry_ms < self.next_expiry_ms:
            self.next_expiry_ms = expiry_ms
        try:
            queue.batches.append(batch)
        except BaseException:
            # The interrupt of the call above, which was made.
            if batch in queue.batches:
                queue.batches.remove(batch)
            raise
        # No calls from here on.
        queue.next_order += 1
        self._active[queue] = None
        self.incomplete[batch] = None
        reservation.is_over = True

    def _note_transaction(self, queue: PartitionQueue) -> None:
        if queue.transaction is not self.transaction:
            assert self.transaction is not None
            self.transaction.note_partition(queue.key)
            queue.transaction = self.transaction

    def _close_open(self, queue: PartitionQueue) -> None:
        batch = queue.open
        if batch is not None:
            batch.close()  # once more, if Ctrl-C interrupted the first time
            self.full_bytes += batch.size_bytes
            queue.open = None

    # Sending

    def ready(self, cluster: ClusterMetadata, now_ms: float) -> Ready:
        """The nodes with a batch that is due, each with all its queues that can be sent in the same request."""
        found = Ready()
        with self.lock:
            eager = bool(self.flushing or self.memory.waiting_count or self._is_ending)
            nodes: dict[int, list[PartitionQueue]] = {}
            for queue in self._active:
                state = cluster.partition(*queue.key)
                if state is None or state.leader == NO_LEADER:
                    found.topics_without_leader[queue.key.topic] = None
                    continue
                if queue.muted:
                    continue
                batch = queue.batches[0]
                batch.note_leader(state.leader_epoch)
                if batch.waits(now_ms):
                    due_ms = batch.last_attempt_ms + batch.retry_backoff_ms
                    found.next_check_ms = min(found.next_check_ms, due_ms)
                    continue
                nodes.setdefault(state.leader, []).append(queue)
                if state.leader in found.nodes:
                    continue
                due_ms = batch.last_attempt_ms + self.settings.linger_ms
                if (
                    eager
                    or now_ms >= due_ms
                    or len(queue.batches) > 1
                    or batch.is_full
                    or batch.is_retry
                ):
                    found.nodes[state.leader] = nodes[state.leader]
                else:
                    found.next_check_ms = min(found.next_check_ms, due_ms)
        return found

    @property
    def _is_ending(self) -> bool:
        """Whether the transaction or the producer is ending: no batch lingers then."""
        return self.refusal is not None

    def drain(
        self,
        queues: Sequence[PartitionQueue],
        max_bytes: int,
        now_ms: float,
        may_send: Callable[[ProducerBatch], bool],
    ) -> list[ProducerBatch]:
        """Take the first batch of each queue, as many as fit into a request.

        Their queues are the last to be drained next time, so that no queue starves the others.
        """
        drained: list[ProducerBatch] = []
        size_bytes = 0
        with self.lock:
            for queue in queues:
                if not queue.batches or queue.muted:
                    continue
                batch = queue.batches[0]
                if not may_send(batch):
                    continue
                # Closed before its size is read: threads append as long as it is open.
                if queue.open is batch:
                    self._close_open(queue)
                size_bytes += batch.estimated_bytes
                if size_bytes > max_bytes and drained:
                    break
                queue.batches.popleft()
                self.full_bytes -= batch.size_bytes
                batch.drained_ms = now_ms
                drained.append(batch)
                del self._active[queue]
                if queue.batches:
                    self._active[queue] = None
        return drained

    def note_compression(self, batch: ProducerBatch) -> None:
        """Adapt the size of a partition's next batches to the compression ratio of this one."""
        if batch.encoded is None or not batch.size_bytes:
            return
        queue = self.queue(batch.key)
        ratio = (len(batch.encoded) - HEADER_BYTES) / batch.size_bytes
        before = queue.compression_ratio
        # As in Kafka: the estimate rises quickly and falls slowly, so that few batches are too large.
        if ratio > before:
            queue.compression_ratio = max(before + RATIO_RISE, ratio)
        else:
            queue.compression_ratio = max(before - RATIO_FALL, ratio)
        queue.limit_bytes = capacity_bytes(self.settings, queue.compression_ratio)

    def mute(self, batch: ProducerBatch) -> None:
        """Send no other batch of the partition until `unmute`."""
        self.queue(batch.key).muted = True

    def unmute(self, batch: ProducerBatch) -> None:
        self.queue(batch.key).muted = False

    def reenqueue(self, batch: ProducerBatch, now_ms: float, backoff_ms: float) -> None:
        """Put a batch back into its place in the queue, for another attempt."""
        batch.retried(now_ms, backoff_ms)
        with self.lock:
            self._insert(batch)

    def split(self, batch: ProducerBatch) -> list[ProducerBatch]:
        """Replace a batch that is too large by smaller ones, in its place."""
        # At most half: a broker whose limit is below batch.size would refuse the same batch for ever (KAFKA-8350).
        limit_bytes = max(1, min(self.settings.batch_bytes, batch.size_bytes // 2))
        parts = batch.split(limit_bytes)
        with self.lock:
            for part in parts:
                self.incomplete[part] = None
                self._insert(part)
            self._forget(batch)
        return parts

    def _insert(self, batch: ProducerBatch) -> None:
        queue = self.queue(batch.key)
        batches = queue.batches
        at = 0
        while at < len(batches) and batches[at].order < batch.order:
            at += 1
        batches.insert(at, batch)
        self.full_bytes += batch.size_bytes
        self._active[queue] = None

    # The end of batches

    def expired(self, now_ms: float) -> list[ProducerBatch]:
        """Remove the batches, waiting or in flight, whose delivery.timeout.ms is over."""
        if now_ms < self.next_expiry_ms:
            return []
        timeout_ms = self.settings.delivery_timeout_ms
        with self.lock:
            late = [b for b in self.incomplete if now_ms - b.created_ms >= timeout_ms]
            for batch in late:
                self._remove(batch)
            rest = (b.created_ms for b in self.incomplete if now_ms - b.created_ms < timeout_ms)
            self.next_expiry_ms = min(rest, default=FOREVER) + timeout_ms
        return late

    def take_unsent(self) -> list[ProducerBatch]:
        """Remove the batches that were never sent, of a transaction that is aborted."""
        with self.lock:
            unsent = [
                batch
                for queue in self._active
                for batch in queue.batches
                if not batch.has_sequence and not batch.is_retry
            ]
            for batch in unsent:
                self._remove(batch)
        return unsent

    def take_all(self) -> list[ProducerBatch]:
        """Remove all batches, including those in flight, of a producer that has failed."""
        with self.lock:
            batches = list(self.incomplete)
            for batch in batches:
                self._remove(batch)
        return batches

    def release(self, batch: ProducerBatch) -> None:
        """Free the memory of a batch that has ended."""
        with self.lock:
            self._forget(batch)

    def _remove(self, batch: ProducerBatch) -> None:
        """Remove a batch from its queue, if it is there."""
        queue = self.queue(batch.key)
        if batch in queue.batches:
            queue.batches.remove(batch)
            if queue.open is batch:
                self._close_open(queue)
            self.full_bytes -= batch.size_bytes
            if not queue.batches:
                self._active.pop(queue, None)

    def _forget(self, batch: ProducerBatch) -> None:
        if batch in self.incomplete:
            del self.incomplete[batch]
            self.memory.release(batch.reserved_bytes)

    def close_incomplete(self) -> dict[str, int]:
        """Close the batches that have not ended; returns how many records they have, by topic."""
        counts: dict[str, int] = {}
        with self.lock:
            for queue in self._active:
                self._close_open(queue)
            for batch in self.incomplete:
                counts[batch.key.topic] = counts.get(batch.key.topic, 0) + batch.record_count
        return counts
