"""A batch of records of one partition, which are sent, succeed and fail together."""

from __future__ import annotations

import logging
import os
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any, Final, NamedTuple

from ottla.client.model import NO_OFFSET, NO_TIMESTAMP, RecordMetadata
from ottla.client.plugins.interceptors import Acknowledgement
from ottla.client.send.completion import CALLBACK_FAILURES, Completion
from ottla.client.state.producer.failed_records import FailedRecords
from ottla.errors import AbortableError, ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.records.batch import (
    HEADER_BYTES,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchFlag,
    build_from,
    crc_matches,
    header_with_producer,
    increment_sequence,
    read_batch,
    read_header,
)
from ottla.records.client_kernel import Callbacks, RecordsBuilder
from ottla.records.compression import Codec
from ottla.records.record import Buffer
from ottla.wire.encoder import INLINE_RECORDS_BYTES
from ottla.wire.types import InPieces

log = logging.getLogger("ottla.client")

OnDelivery = Callable[[RecordMetadata | None, Exception | None], Any]


class ProducerIdentity(NamedTuple):
    """The producer id and epoch of a batch: brokers refuse older epochs."""

    producer_id: int
    epoch: int


# One lock for all batches: failures are rare.
_seen_lock = Lock()

NO_IDENTITY: Final = ProducerIdentity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class ProducerBatch(Completion):
    """A batch from its first record until the last of its callbacks has run.

    `order` is its place among the batches of its partition, to which it returns for a retry.
    """

    __slots__ = (
        "append_time_ms",
        "attempts",
        "attempts_at_leader_change",
        "base_offset",
        "base_sequence",
        "builder",
        "callbacks",
        "created_ms",
        "drained_ms",
        "encoded",
        "error",
        "failed_records",
        "header",
        "identity",
        "key",
        "last_attempt_ms",
        "last_error",
        "leader_epoch",
        "loop",
        "order",
        "part_starts",
        "parts",
        "process_id",
        "record_count",
        "record_errors",
        "reserved_bytes",
        "retry_backoff_ms",
        "sequence_was_reset",
        "size_bytes",
        "stamped",
        "unseen_count",
    )

    def __init__(
        self,
        key: TopicPartition,
        order: tuple[int, ...],
        limit_bytes: int,
        reserved_bytes: int,
        created_ms: float,
    ) -> None:
        super().__init__()
        self.key = key
        self.order = order
        self.builder: RecordsBuilder | None = RecordsBuilder(limit_bytes)
        self.reserved_bytes = reserved_bytes
        self.created_ms = created_ms
        self.callbacks: Callbacks | None = None
        # Of its producer.
        self.loop: object = None
        """The event loop on which it completes, if there is one."""
        self.process_id = os.getpid()
        """The process that sends it: a fork's child has a copy, which never completes."""
        self.failed_records: FailedRecords | None = None
        """Where its records are counted if it fails; None: nowhere."""
        # Known once it is closed.
        self.record_count = 0
        self.size_bytes = 0
        self.encoded: Buffer | None = None
        self.header: bytes | None = None
        """Replaces the header of `encoded`, if the batch was stamped again."""
        self.stamped: tuple[ProducerIdentity, int] | None = None
        """The identity and the sequence in the encoded batch."""
        # How it was sent.
        self.identity = NO_IDENTITY
        self.base_sequence = NO_SEQUENCE
        self.sequence_was_reset = False
        self.attempts = 0
        self.last_attempt_ms = created_ms
        self.retry_backoff_ms = 0.0
        self.drained_ms = created_ms
        self.leader_epoch = -1
        self.attempts_at_leader_change = -1
        self.last_error: Exception | None = None
        """Why the last attempt failed."""
        # How it ended.
        self.base_offset = NO_OFFSET
        self.append_time_ms = NO_TIMESTAMP
        self.error: Exception | None = None
        self.record_errors: Mapping[int, str] | None = None
        self.unseen_count = 0
        """How many of its records are counted in `failed_records`."""
        self.parts: Sequence[ProducerBatch] = ()
        self.part_starts: Sequence[int] = ()

    @classmethod
    def ready_made(
        cls,
        key: TopicPartition,
        order: tuple[int, ...],
        encoded: Buffer,
        reserved_bytes: int,
        created_ms: float,
    ) -> ProducerBatch:
        """A batch that the caller has encoded; it gets producer id and sequence when it is sent."""
        batch = cls(key, order, 1, reserved_bytes, created_ms)
        batch.builder = None
        batch.encoded = encoded
        batch.record_count = read_header(encoded, 0).record_count
        batch.size_bytes = len(encoded) - HEADER_BYTES
        return batch

    @property
    def topic(self) -> str:
        return self.key.topic

    @property
    def partition(self) -> int:
        return self.key.partition

    @property
    def has_sequence(self) -> bool:
        """Whether it was sent, or is about to be."""
        return self.base_sequence != NO_SEQUENCE

    @property
    def last_sequence(self) -> int:
        return increment_sequence(self.base_sequence, self.record_count - 1)

    @property
    def is_retry(self) -> bool:
        return self.attempts > 0

    @property
    def is_full(self) -> bool:
        """Whether it has reached its limit."""
        return self.builder is None or self.builder.is_full

    @property
    def estimated_bytes(self) -> int:
        """About how many bytes it takes in a request."""
        if self.encoded is not None:
            return len(self.encoded)
        return HEADER_BYTES + (self.size_bytes if self.builder is None else self.builder.size_bytes)

    # Sending

    def set_sequence(self, identity: ProducerIdentity, base_sequence: int) -> None:
        """Set producer and sequence; if it was sent before, the broker will take it for another batch."""
        self.sequence_was_reset = self.has_sequence
        self.identity = identity
        self.base_sequence = base_sequence

    def encode(self, codec: Codec, level: int | None, flags: BatchFlag) -> Buffer | InPieces:
        """The bytes to send; records are compressed once, and stamped again if the sequence changed."""
        producer_id, producer_epoch = self.identity
        if self.encoded is None:
            assert self.builder is not None
            self.encoded = build_from(
                self.builder,
                codec=codec,
                level=level,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=self.base_sequence,
                flags=flags,
            )
        elif self.stamped != (self.identity, self.base_sequence):
            self.header = header_with_producer(
                self.encoded,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=self.base_sequence,
                flags=flags,
            )
        self.sequence_was_reset = False
        self.stamped = (self.identity, self.base_sequence)
        if self.header is None:
            return self.encoded
        stamped = InPieces(self.header, memoryview(self.encoded)[HEADER_BYTES:])
        return stamped if len(stamped) >= INLINE_RECORDS_BYTES else b"".join(stamped.pieces)

    def is_intact(self) -> bool:
        """Whether its checksum is right; of a batch that the caller encoded, that may not have been checked."""
        encoded = self.encoded
        return encoded is None or crc_matches(encoded, 0, read_header(encoded, 0))

    def close(self) -> None:
        """Take no more records."""
        if self.builder is not None:
            self.builder.close()
            if self.callbacks is None:
                self.callbacks = self.builder.callbacks
            self.record_count = self.builder.record_count
            self.size_bytes = self.builder.size_bytes

    def note_leader(self, leader_epoch: int) -> None:
        """Note at which attempt the partition got a new leader, which is tried without a pause (KIP-951)."""
        if leader_epoch > self.leader_epoch:
            if self.leader_epoch >= 0:
                self.attempts_at_leader_change = self.attempts
            self.leader_epoch = leader_epoch

    def waits(self, now_ms: float) -> bool:
        """Whether the backoff after a failure is not over."""
        if not self.attempts or self.attempts == self.attempts_at_leader_change:
            return False
        return now_ms - self.last_attempt_ms < self.retry_backoff_ms

    def retried(self, now_ms: float, backoff_ms: float) -> None:
        """Count an attempt that failed, after which it is sent again."""
        self.attempts += 1
        self.last_attempt_ms = max(self.last_attempt_ms, now_ms)
        self.retry_backoff_ms = backoff_ms

    # The end

    def offset_of(self, index: int) -> int:
        return NO_OFFSET if self.base_offset < 0 else self.base_offset + index

    def error_of(self, index: int) -> Exception | None:
        """Why a record was not written; the broker may name the records that it refuses (KIP-467)."""
        if self.record_errors is None or not isinstance(self.error, KafkaError):
            return self.error
        error = self.error
        if index not in self.record_errors:
            message = "It was in a batch with records that the broker refused."
            return AbortableError(ErrorCode.INVALID_RECORD, message, error.context)
        # Of several refused records, each may have another error code than the partition.
        code = error.code if len(self.record_errors) == 1 else ErrorCode.INVALID_RECORD
        return type(error)(code, self.record_errors[index], error.context)

    def succeed(self, base_offset: int, append_time_ms: int) -> bool:
        """The records are written; False if the outcome is already known."""
        if self.is_done:
            return False
        self.base_offset = base_offset
        self.append_time_ms = append_time_ms
        self._end()
        return True

    def fail(self, error: Exception, record_errors: Mapping[int, str] | None = None) -> bool:
        """The records are not written, or that is not known; False if the outcome is already known."""
        if self.is_done:
            return False
        self.error = error
        self.record_errors = record_errors or None
        self._count_failed(error)
        self._end()
        return True

    def _count_failed(self, error: Exception) -> None:
        """Count the records without a callback of the program, which may never ask for their outcome."""
        self.close()
        entries = [] if self.callbacks is None else self.callbacks.entries()
        unseen_count = self.record_count - sum(_is_of_program(entry[-1]) for entry in entries)
        if self.failed_records is not None and unseen_count > 0:
            self.unseen_count = unseen_count
            self.failed_records.add(self.key.topic, unseen_count, error)

    def note_seen(self) -> None:
        """The program has asked for the outcome."""
        with _seen_lock:
            unseen_count, self.unseen_count = self.unseen_count, 0
        if unseen_count and self.failed_records is not None:
            self.failed_records.remove(self.key.topic, unseen_count)

    def _end(self) -> None:
        """Run the callbacks, then wake the threads and tasks that wait: the order of Kafka's client."""
        self.close()
        self.builder = None
        self.encoded = None
        callbacks, self.callbacks = self.callbacks, None
        if callbacks is None:
            pass
        elif self.error is None:
            callbacks.deliver(
                RecordMetadata,
                *self.key,
                self.base_offset,
                self.append_time_ms,
                self._callback_failed,
            )
        else:
            for index, _, _, _, on_delivery in callbacks.entries():
                try:
                    on_delivery(None, self.error_of(index))
                except CALLBACK_FAILURES:
                    self._callback_failed()
        self.complete()

    def _callback_failed(self) -> None:
        log.exception("on_delivery of a record for %s failed", self.key)

    # Splitting

    def split(self, limit_bytes: int) -> list[ProducerBatch]:
        """The same records in batches of at most `limit_bytes`, or one record; this one is done.

        They have the order, the creation time and the sequence of this one.
        """
        assert self.encoded is not None, "only a batch that was sent can have been too large"
        records = read_batch(self.encoded, 0)
        parts: list[ProducerBatch] = []
        starts: list[int] = []
        for index, record in enumerate(records):
            part = parts[-1].builder if parts else None
            fields = (record.timestamp, record.key, record.value, record.headers)
            if part is None or part.append(*fields) < 0:
                new = ProducerBatch(
                    self.key, (*self.order, len(parts)), limit_bytes, 0, self.created_ms
                )
                new.loop, new.failed_records = self.loop, self.failed_records
                assert new.builder is not None
                new.builder.append(*fields)
                parts.append(new)
                starts.append(index)
        sequence = self.base_sequence
        for part_batch in parts:
            part_batch.close()
            if self.has_sequence:
                part_batch.identity = self.identity
                part_batch.base_sequence = sequence
                sequence = increment_sequence(sequence, part_batch.record_count)
        self._hand_callbacks_to(parts, starts)
        return parts

    def _hand_callbacks_to(self, parts: Sequence[ProducerBatch], starts: Sequence[int]) -> None:
        """Callbacks move to the parts; futures that wait for this batch are woken, and find their part."""
        self.part_starts = starts
        self.parts = parts
        for index, *fields in [] if self.callbacks is None else self.callbacks.entries():
            number = bisect_right(starts, index) - 1
            part = parts[number]
            if part.callbacks is None:
                part.callbacks = Callbacks()
            part.callbacks.add(index - starts[number], *fields)
        self.callbacks = None
        self.builder = None
        self.encoded = None
        self.complete()


def _is_of_program(callback: OnDelivery) -> bool:
    """Whether the program gave the callback, rather than only interceptors being called."""
    return not isinstance(callback, Acknowledgement) or callback.on_delivery is not None
