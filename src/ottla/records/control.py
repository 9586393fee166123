"""Control records: the markers that end transactions."""

import struct
from enum import IntEnum
from functools import lru_cache
from typing import Final, NamedTuple

from ottla.records.batch import (
    HEADER_BYTES,
    NO_LEADER_EPOCH,
    BatchFlag,
    BatchHeader,
    build_batch,
    read_batch,
    read_header,
)
from ottla.records.compression import Codec
from ottla.records.errors import CorruptRecordsError
from ottla.records.kernel import decode_records
from ottla.records.record import Buffer, Record

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
_KEY_VERSION: Final = 0
_VALUE_VERSION: Final = 0
_MARKER_FLAGS: Final = BatchFlag.TRANSACTIONAL | BatchFlag.CONTROL
MARKERS_KEPT: Final = 64
# A record of a marker has 17 bytes.
LARGEST_KEPT_RECORD_BYTES: Final = 64


class MarkerType(IntEnum):
    """How a transaction ended."""

    ABORT = 0
    COMMIT = 1


class EndTxnMarker(NamedTuple):
    """The contents of a marker: the outcome, and the epoch of the coordinator."""

    type: MarkerType
    coordinator_epoch: int


def encode_marker_key(marker_type: MarkerType) -> bytes:
    """The key of a marker's record."""
    return _KEY.pack(_KEY_VERSION, marker_type)


def encode_marker_value(coordinator_epoch: int) -> bytes:
    """The value of a marker's record."""
    return _VALUE.pack(_VALUE_VERSION, coordinator_epoch)


def parse_control_type(key: bytes | None) -> int:
    """The type number of a control record; `MarkerType` has those of markers."""
    # Later versions only add fields at the end, so they are read as version 0.
    if key is None or len(key) < _KEY.size:
        raise CorruptRecordsError("the key of a control record is too short")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptRecordsError(f"the key of a control record has version {version}")
    return int(number)


def parse_marker_type(key: bytes | None) -> MarkerType | None:
    """The type of a control record by its key; None for types that end no transaction, which are ignored."""
    number = parse_control_type(key)
    if number not in (MarkerType.ABORT, MarkerType.COMMIT):
        return None
    return MarkerType(number)


def parse_marker(record: Record) -> EndTxnMarker | None:
    """The marker in a control record; None for types that end no transaction, which are ignored."""
    marker_type = parse_marker_type(record.key)
    if marker_type is None:
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise CorruptRecordsError("the value of an end transaction marker is too short")
    version, coordinator_epoch = _VALUE.unpack_from(record.value)
    if version < 0:
        raise CorruptRecordsError(f"an end transaction marker has version {version}")
    return EndTxnMarker(marker_type, coordinator_epoch)


def marker_of(data: Buffer, header: BatchHeader) -> EndTxnMarker | None:
    """The marker in a control batch; None if it ends no transaction.

    Compaction leaves an empty control batch where it has removed the whole transaction.
    """
    record_bytes = header.size_bytes - HEADER_BYTES
    if (
        header.record_count == 1
        and record_bytes <= LARGEST_KEPT_RECORD_BYTES
        and header.codec is Codec.NONE
    ):
        return _marker_of_record(bytes(data[HEADER_BYTES : header.size_bytes]))
    records = read_batch(data, 0)
    return parse_marker(records[0]) if records else None


# They differ only in the coordinator's epoch.
@lru_cache(maxsize=MARKERS_KEPT)
def _marker_of_record(data: bytes) -> EndTxnMarker | None:
    (record,) = decode_records(data, 1, 0, 0, None)
    return parse_marker(record)


class MarkerBatch(NamedTuple):
    """The batch of a marker without its offset, and what a reader of it would find."""

    data: bytes
    header: BatchHeader
    marker: EndTxnMarker


# The markers of a transaction are the same on all of its partitions.
@lru_cache(maxsize=MARKERS_KEPT)
def marker_batch(
    is_abort: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
) -> MarkerBatch:
    """The batch that ends a producer's transaction on its partitions."""
    marker_type = MarkerType.ABORT if is_abort else MarkerType.COMMIT
    data = build_marker_batch(
        marker_type,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp_ms=timestamp_ms,
    )
    return MarkerBatch(data, read_header(data, 0), EndTxnMarker(marker_type, coordinator_epoch))


def build_marker_batch(
    marker_type: MarkerType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """The batch that ends a producer's transaction on a partition."""
    record = Record(
        base_offset,
        timestamp_ms,
        encode_marker_key(marker_type),
        encode_marker_value(coordinator_epoch),
    )
    return build_batch(
        [record],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        flags=_MARKER_FLAGS,
    )
