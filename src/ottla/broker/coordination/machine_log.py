"""Events of coordinators as records, and what a turn wrote as record batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple

from ottla.broker.crashpoints import CrashPoint
from ottla.core.turn import ProducerIdentity, Turn
from ottla.records.batch import BatchFlag, build_batch
from ottla.records.compression import Codec
from ottla.records.record import Record

# A turn that writes more goes into several batches.
BATCH_BYTES: Final = 512 * 1024

Event = Any
Buffer = bytes | bytearray | memoryview


class EventCodec(NamedTuple):
    """How events are records."""

    encode: Callable[[Event], tuple[bytes, bytes | None]]
    decode: Callable[[Buffer | None, Buffer | None], Event | None]
    compression: Codec
    # Where a test may let the broker die: before an event is appended, and after.
    crash_points: Callable[[Event], tuple[CrashPoint, CrashPoint]]


def batches_of(turn: Turn, codec: EventCodec) -> Iterator[bytes]:
    """What a turn wrote as batches: one for what is in no transaction, and one for each that is."""
    for producer, run in groupby(turn.written, key=attrgetter("producer")):
        records: list[Record] = []
        size_bytes = 0
        for written in run:
            key, value = codec.encode(written.event)
            records.append(Record(len(records), turn.now_ms, key, value))
            size_bytes += len(key) + len(value or b"")
            if size_bytes >= BATCH_BYTES:
                yield _batch(records, producer, codec.compression)
                records, size_bytes = [], 0
        if records:
            yield _batch(records, producer, codec.compression)


def _batch(records: list[Record], producer: ProducerIdentity | None, compression: Codec) -> bytes:
    if producer is None:
        return build_batch(records, codec=compression)
    # Kafka gives these the sequence 0, which nobody checks: a retry is recognised by what it commits.
    return build_batch(
        records,
        codec=compression,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=0,
        flags=BatchFlag.TRANSACTIONAL,
    )
