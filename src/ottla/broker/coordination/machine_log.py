"""The log of a coordinator's state machine: the events of a turn become record batches, and a replay applies them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, Final, NamedTuple, Protocol

from ottla.broker.crashpoints import CrashPoint
from ottla.broker.partitions.shard import Shard
from ottla.core.turn import AppliedEvent, ProducerIdentity, Turn
from ottla.ports import DamagedError, ReadPendingError
from ottla.records.batch import (
    BatchFlag,
    BatchHeader,
    build_around,
    crc_matches,
    read_batch,
    split_batches,
)
from ottla.records.compression import Codec
from ottla.records.control import MarkerType, marker_of
from ottla.records.kernel import encode_records
from ottla.records.record import Record
from ottla.wire.types import MalformedMessageError

# A turn that writes more goes into several batches.
BATCH_BYTES: Final = 512 * 1024

Event = Any
Buffer = bytes | bytearray | memoryview


class Machine(Protocol):
    """The interface of a state machine for its coordinator; handlers call its other methods."""

    def apply(self, event: Event, producer_id: int | None) -> None: ...

    def apply_commit_marker(self, producer_id: int) -> None: ...

    def apply_abort_marker(self, producer_id: int) -> None: ...

    def start(self, turn: Turn) -> None: ...

    def wake(self, turn: Turn) -> None: ...

    def next_wake_ms(self) -> int | None: ...


class WrongChecksumError(DamagedError):
    """A batch of the log has a wrong checksum."""


class ColumnsEncoding(NamedTuple):
    """The encoding of the events of one class that are many records each."""

    event: type[Any]
    # The records from a number on that fit into so many bytes, at least one, of which the first has an offset delta in
    # its batch; and the number of the next one, None if there is none.
    encode: Callable[[Event, int, int, int], tuple[bytes, int, int | None]]


class EventCodec(NamedTuple):
    """The encoding of events as records."""

    encode: Callable[[Event], tuple[bytes, bytes | None]]
    decode: Callable[[Buffer | None, Buffer | None], Event | None]
    compression: Codec
    # Where a test may let the broker die: before an event is appended, and after.
    crash_points: Callable[[Event], tuple[CrashPoint, CrashPoint]]
    columns: ColumnsEncoding | None = None


# Writing.


def batches_of(turn: Turn, codec: EventCodec) -> Iterator[bytes]:
    """The batches of a turn: one for events outside of transactions, and one for each transaction."""
    if not turn.written:
        return
    inseparable = {place for start, end in turn.together for place in range(start + 1, end)}
    columns = codec.columns
    many = None if columns is None else columns.event
    for producer, run in groupby(enumerate(turn.written), key=_producer_of):
        batch = OpenBatch(turn.now_ms)
        for place, written in run:
            event = written.event
            if type(event) is many:
                assert columns is not None
                following = batch.add_columns(event, columns, 0)
                if following is not None:
                    yield from _add_columns(
                        batch, event, columns, following, producer, codec.compression
                    )
            else:
                batch.add(*codec.encode(event))
            if batch.size_bytes >= BATCH_BYTES and place + 1 not in inseparable:
                yield batch.take(producer, codec.compression)
        if batch.record_count:
            yield batch.take(producer, codec.compression)


def _producer_of(placed: tuple[int, AppliedEvent]) -> ProducerIdentity | None:
    return placed[1].producer


def _add_columns(
    batch: OpenBatch,
    event: Event,
    columns: ColumnsEncoding,
    first: int,
    producer: ProducerIdentity | None,
    compression: Codec,
) -> Iterator[bytes]:
    """Adds the records of one event from a number on; in between, the batches that become full."""
    following: int | None = first
    while following is not None:
        if batch.size_bytes >= BATCH_BYTES:
            yield batch.take(producer, compression)
        following = batch.add_columns(event, columns, following)


class OpenBatch:
    """A batch to which records are added; all of them have the time of the turn."""

    __slots__ = ("_now_ms", "_records", "_sections", "record_count", "size_bytes")

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._sections: list[bytes] = []
        # Records that are not encoded yet.
        self._records: list[Record] = []
        self.record_count = 0
        self.size_bytes = 0

    def add(self, key: bytes, value: bytes | None) -> None:
        self._records.append(Record(self.record_count, 0, key, value))
        self.record_count += 1
        self.size_bytes += len(key) + len(value or b"")

    def add_columns(self, event: Event, columns: ColumnsEncoding, first: int) -> int | None:
        """Adds the records of an event from a number on that fit; the number of the next one."""
        if self._records:
            self._encode()
        section, record_count, following = columns.encode(
            event, first, BATCH_BYTES - self.size_bytes, self.record_count
        )
        self._sections.append(section)
        self.record_count += record_count
        self.size_bytes += len(section)
        return following

    def _encode(self) -> None:
        if self._records:
            self._sections.append(encode_records(self._records, 0, 0))
            self._records = []

    def take(self, producer: ProducerIdentity | None, compression: Codec) -> bytes:
        """The batch; the next one is empty."""
        self._encode()
        sections, record_count = self._sections, self.record_count
        self._sections, self.record_count, self.size_bytes = [], 0, 0
        section = sections[0] if len(sections) == 1 else b"".join(sections)
        if producer is None:
            return build_around(
                section, record_count, self._now_ms, self._now_ms, codec=compression
            )
        # Kafka gives these batches the sequence 0 and does not check it: a retry is recognised by what it commits.
        return build_around(
            section,
            record_count,
            self._now_ms,
            self._now_ms,
            codec=compression,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=0,
            flags=BatchFlag.TRANSACTIONAL,
        )


# Replaying.


def replay_log(
    shard: Shard, machine: Machine, codec: EventCodec, read_bytes: int
) -> Iterator[int | asyncio.Future[None]]:
    """Applies the whole log, a batch at a time; yields the number of records of each batch, and what to wait for."""
    partition = shard.partition
    offset = partition.start_offset
    while offset < partition.end_offset:
        try:
            chunk = shard.read(offset, read_bytes, partition.end_offset)
        except ReadPendingError as pending:
            yield pending.done
            continue
        if not chunk:
            return
        view = memoryview(chunk)
        for position, header in split_batches(view):
            _replay_batch(machine, codec, header, view[position : position + header.size_bytes])
            yield header.record_count
        if header.last_offset < offset:
            raise DamagedError(f"the batches at offset {offset} are out of order")
        offset = header.last_offset + 1


def _replay_batch(
    machine: Machine, codec: EventCodec, header: BatchHeader, batch: memoryview
) -> None:
    # No client checks these records: a flipped bit would be taken for a committed offset.
    if not crc_matches(batch, 0, header):
        raise WrongChecksumError(
            f"the batch at offset {header.base_offset} is damaged: the checksum is wrong. "
            "Put the segment back from a copy"
        )
    if header.is_control:
        marker = marker_of(batch, header)
        if marker is not None:
            apply_marker(machine, marker.type, header.producer_id)
        return
    producer_id = header.producer_id if header.is_transactional else None
    for record in read_batch(batch, 0):
        try:
            event = codec.decode(record.key, record.value)
        except MalformedMessageError as error:
            raise DamagedError(f"the record at offset {record.offset}: {error}") from error
        if event is not None:
            machine.apply(event, producer_id)


def apply_marker(machine: Machine, marker_type: MarkerType, producer_id: int) -> None:
    """Ends a transaction for the machine: events that were written in it become current, or are dropped."""
    if marker_type is MarkerType.COMMIT:
        machine.apply_commit_marker(producer_id)
    else:
        machine.apply_abort_marker(producer_id)
