"""Batches as clients and coordinators write them, for tests of the partition's state."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.records.batch import BatchFlag, BatchHeader, TimestampType, build_batch, read_header
from ottla.records.compression import Codec
from ottla.records.control import MarkerType, build_marker_batch
from ottla.records.record import Record

NOW_MS = 1_700_000_000_000


def client_batch(
    count: int = 1,
    *,
    producer_id: int = -1,
    producer_epoch: int = -1,
    first_sequence: int = -1,
    transactional: bool = False,
    timestamps_ms: Sequence[int] | None = None,
    keys: Sequence[bytes | None] | None = None,
    codec: Codec = Codec.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    value: bytes = b"value",
) -> bytes:
    times = [NOW_MS] * count if timestamps_ms is None else timestamps_ms
    records = [
        Record(number, times[number], b"key" if keys is None else keys[number], value)
        for number in range(count)
    ]
    return build_batch(
        records,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=first_sequence,
        timestamp_type=timestamp_type,
        flags=BatchFlag.TRANSACTIONAL if transactional else BatchFlag.NONE,
    )


def marker_batch(
    producer_id: int, epoch: int, kind: MarkerType, *, coordinator_epoch: int = 0
) -> bytes:
    return build_marker_batch(
        kind,
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp_ms=NOW_MS,
    )


def header_of(data: bytes) -> BatchHeader:
    return read_header(data, 0)
