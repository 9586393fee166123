"""Record batches of magic 2: header, checksum, and conversion of records to batches and back."""

import struct
from collections.abc import Iterator, Sequence
from enum import IntFlag
from operator import itemgetter
from typing import Final, NamedTuple

from ottla.records.client_kernel import RecordsBuilder
from ottla.records.compression import Codec, compress, decompress
from ottla.records.crc import crc32c, crc32c_shifted
from ottla.records.errors import CorruptRecordsError, UnsupportedMagicError
from ottla.records.kernel import decode_records, encode_records, inspect_batch, records_end
from ottla.records.record import INT32_MAX, Buffer, Record, Scan
from ottla.records.record import TimestampType as TimestampType

HEADER_BYTES: Final = 61
# Base offset and length, which the length does not count.
OVERHEAD_BYTES: Final = 12
MAGIC: Final = 2
NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER_EPOCH: Final = -1
# The default limit of the decompressed size of a batch.
DEFAULT_LIMIT_BYTES: Final = 2**30
# The number of records per list of `read_in_parts`: a batch may have millions.
RECORDS_AT_ONCE: Final = 4096

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_BASE_OFFSET: Final = struct.Struct(">q")
_INT32: Final = struct.Struct(">i")
_UINT32: Final = struct.Struct(">I")
_INT16: Final = struct.Struct(">h")
_INT64: Final = struct.Struct(">q")
# Producer id, producer epoch and base sequence.
_PRODUCER: Final = struct.Struct(">qhi")

_LEADER_EPOCH_AT: Final = 12
MAGIC_AT: Final = 16
_CRC_AT: Final = 17
_ATTRIBUTES_AT: Final = 21
_MAX_TIMESTAMP_AT: Final = 35
_PRODUCER_AT: Final = 43

_CODEC_MASK: Final = 0x07
_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
_FLAGS_MASK: Final = 0x70
_CODECS: Final = tuple(Codec)
_timestamp_of: Final = itemgetter(Record._fields.index("timestamp"))


class BatchFlag(IntFlag):
    """Attributes of a batch besides codec and timestamp type."""

    NONE = 0
    TRANSACTIONAL = 0x10
    CONTROL = 0x20
    # The base timestamp is the time from which tombstones and markers may be deleted (KIP-534).
    DELETE_HORIZON = 0x40


class BatchHeader(NamedTuple):
    """The 61 bytes before the records."""

    base_offset: int
    length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The size of the whole batch."""
        return OVERHEAD_BYTES + self.length

    @property
    def last_offset(self) -> int:
        """The offset of the last record, also when compaction has removed it."""
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> Codec:
        """The codec of the records; CorruptRecordsError for the three unused numbers."""
        number = self.attributes & _CODEC_MASK
        if number >= len(_CODECS):
            raise CorruptRecordsError(f"there is no compression codec {number}")
        return _CODECS[number]

    @property
    def timestamp_type(self) -> TimestampType:
        """Whether the timestamps are of the producer or of the broker."""
        if self.attributes & _APPEND_TIME_BIT:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction, markers included."""
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        """Whether the record is a marker and not data."""
        return self.attributes & 0x20 != 0

    @property
    def has_delete_horizon(self) -> bool:
        """Whether the base timestamp is a delete horizon."""
        return self.attributes & 0x40 != 0

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; 2^31 - 1 is followed by 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)


def increment_sequence(sequence: int, by: int) -> int:
    """The sequence number `by` after `sequence`; 2^31 - 1 is followed by 0."""
    return (sequence + by) & INT32_MAX


def read_header(buf: Buffer, position: int) -> BatchHeader:
    """The header at `position`; the buffer may end after it."""
    available_bytes = len(buf) - position
    if available_bytes <= MAGIC_AT:
        raise CorruptRecordsError(f"a batch header is truncated to {available_bytes} bytes")
    # At the same place in magic 0 and 1, whose messages may be smaller than our header.
    magic = buf[position + MAGIC_AT]
    if magic != MAGIC:
        if magic < MAGIC:
            raise UnsupportedMagicError(magic)
        raise CorruptRecordsError(f"there is no record batch format with magic {magic}")
    if available_bytes < HEADER_BYTES:
        raise CorruptRecordsError(f"a batch header is truncated to {available_bytes} bytes")
    # As BatchHeader._make, without its checks.
    header = tuple.__new__(BatchHeader, _HEADER.unpack_from(buf, position))
    if header.length < HEADER_BYTES - OVERHEAD_BYTES:
        raise CorruptRecordsError(f"a batch cannot have length {header.length}")
    return header


def begins_transactional(buf: Buffer) -> bool:
    """Whether the buffer begins with the header of a transactional batch; it may hold anything."""
    return (
        len(buf) >= HEADER_BYTES
        and buf[MAGIC_AT] == MAGIC
        and buf[_ATTRIBUTES_AT + 1] & TRANSACTIONAL_BIT != 0
    )


def split_batches(buf: Buffer) -> list[tuple[int, BatchHeader]]:
    """The position and header of each batch; all must be complete."""
    batches = []
    position = 0
    end = len(buf)
    while position < end:
        header = read_header(buf, position)
        if header.size_bytes > end - position:
            raise _truncated(header, end - position)
        batches.append((position, header))
        position += header.size_bytes
    return batches


def _truncated(header: BatchHeader, available_bytes: int) -> CorruptRecordsError:
    return CorruptRecordsError(
        f"a batch of {header.size_bytes} bytes is truncated to {available_bytes}"
    )


def read_length(batch: Buffer) -> int:
    """The length in the header of a batch: the number of bytes after base offset and length."""
    length: int = _INT32.unpack_from(batch, 8)[0]
    return length


def inspect(batch: Buffer) -> tuple[BatchHeader, bool, Scan | None]:
    """The header of one whole batch, whether its checksum is right, and the result of a scan.

    A batch that is compressed or has a wrong checksum is not scanned. CorruptRecordsError if the
    records are malformed although the checksum is right.
    """
    return inspect_batch(BatchHeader, batch)


def crc_matches(buf: Buffer, position: int, header: BatchHeader) -> bool:
    """Whether the checksum is right; False for a truncated batch."""
    end = position + header.size_bytes
    if end > len(buf):
        return False
    return crc32c(memoryview(buf)[position + _ATTRIBUTES_AT : end]) == header.crc


def stamp(
    buf: bytearray | memoryview, position: int, *, base_offset: int, leader_epoch: int
) -> None:
    """Set base offset and leader epoch, which the checksum does not cover."""
    _BASE_OFFSET.pack_into(buf, position, base_offset)
    _INT32.pack_into(buf, position + _LEADER_EPOCH_AT, leader_epoch)


def stamp_timestamps(
    buf: bytearray | memoryview, position: int, kind: TimestampType, max_timestamp_ms: int
) -> None:
    """Set the timestamp type and the largest timestamp, and renew the checksum."""
    header = read_header(buf, position)
    if position + header.size_bytes > len(buf):
        raise _truncated(header, len(buf) - position)
    attributes = header.attributes & ~_APPEND_TIME_BIT
    if kind is TimestampType.LOG_APPEND_TIME:
        attributes |= _APPEND_TIME_BIT
    head = memoryview(buf)[position : position + HEADER_BYTES]
    before = crc32c(head[_ATTRIBUTES_AT:])
    _INT16.pack_into(head, _ATTRIBUTES_AT, attributes)
    _INT64.pack_into(head, _MAX_TIMESTAMP_AT, max_timestamp_ms)
    _renew_crc(head, header, before)


def payload(
    buf: Buffer, position: int, header: BatchHeader, limit_bytes: int
) -> memoryview | bytes:
    """The records section, decompressed to at most `limit_bytes`."""
    end = position + header.size_bytes
    if end > len(buf):
        raise _truncated(header, len(buf) - position)
    section = memoryview(buf)[position + HEADER_BYTES : end]
    codec = header.codec
    if codec is Codec.NONE:
        return section
    return decompress(codec, section, limit_bytes)


def read_batch(buf: Buffer, position: int, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> list[Record]:
    """The records of the batch at `position`; the checksum is not checked."""
    header = read_header(buf, position)
    append_time_ms = None
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        append_time_ms = header.max_timestamp
    return decode_records(
        payload(buf, position, header, limit_bytes),
        header.record_count,
        header.base_offset,
        header.base_timestamp,
        append_time_ms,
    )


def read_in_parts(section: Buffer, header: BatchHeader) -> Iterator[list[Record]]:
    """The records of a decompressed section in lists of a few thousand; at least one list."""
    append_time_ms = header.max_timestamp if header.attributes & _APPEND_TIME_BIT else None
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    left = header.record_count
    if left > RECORDS_AT_ONCE:
        view, start = memoryview(section), 0
        while left > RECORDS_AT_ONCE:
            end = records_end(view, start, RECORDS_AT_ONCE)
            part = view[start:end]
            yield decode_records(part, RECORDS_AT_ONCE, base_offset, base_timestamp, append_time_ms)
            start = end
            left -= RECORDS_AT_ONCE
        section = view[start:]
    yield decode_records(section, left, base_offset, base_timestamp, append_time_ms)


def recompress(
    buf: Buffer,
    position: int,
    header: BatchHeader,
    codec: Codec,
    level: int | None,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
) -> bytes:
    """The batch with its records compressed by another codec."""
    section = compress(codec, payload(buf, position, header, limit_bytes), level)
    return _assemble(header._replace(attributes=header.attributes & ~_CODEC_MASK | codec), section)


def with_records(header: BatchHeader, records: Sequence[Record], level: int | None) -> bytes:
    """A batch with the header of another and the same number of other records."""
    return with_section(
        header, encode_records(records, header.base_offset, header.base_timestamp), level
    )


def with_section(header: BatchHeader, section: bytes, level: int | None) -> bytes:
    """As `with_records`, with encoded records."""
    if header.codec is not Codec.NONE:
        section = compress(header.codec, section, level)
    return _assemble(header, section)


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    last_offset: int | None = None,
    leader_epoch: int = NO_LEADER_EPOCH,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    append_time_ms: int = NO_TIMESTAMP,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    flags: BatchFlag = BatchFlag.NONE,
) -> bytes:
    """A batch of records whose offsets increase from `base_offset` on, with or without gaps.

    Compaction passes `last_offset`: it may have removed the last record, or all.
    """
    if last_offset is None:
        if not records:
            raise ValueError("a batch without records needs its last offset")
        last_offset = records[-1].offset
    last_offset_delta = last_offset - base_offset
    if not 0 <= last_offset_delta <= INT32_MAX:
        raise ValueError(f"offset {last_offset} cannot be in a batch from offset {base_offset} on")
    base_timestamp = records[0].timestamp if records else NO_TIMESTAMP
    max_timestamp = max(map(_timestamp_of, records), default=NO_TIMESTAMP)
    attributes = codec | flags
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes |= _APPEND_TIME_BIT
        max_timestamp = append_time_ms
    section = encode_records(records, base_offset, base_timestamp)
    if codec is not Codec.NONE:
        section = compress(codec, section, level)
    header = BatchHeader(
        base_offset=base_offset,
        length=0,
        partition_leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    return _assemble(header, section)


def build_from(
    builder: RecordsBuilder,
    *,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    flags: BatchFlag = BatchFlag.NONE,
) -> bytes:
    """A batch to produce, with the records of a builder."""
    return build_around(
        builder.section(),
        builder.record_count,
        builder.base_timestamp,
        builder.max_timestamp,
        codec=codec,
        level=level,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        flags=flags,
    )


def build_around(
    section: Buffer,
    record_count: int,
    base_timestamp: int,
    max_timestamp: int,
    *,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    flags: BatchFlag = BatchFlag.NONE,
) -> bytes:
    """A batch to produce, with an uncompressed records section whose offsets start at 0."""
    if not record_count:
        raise ValueError("a batch to produce needs a record")
    if codec is not Codec.NONE:
        section = compress(codec, section, level)
    attributes = int(codec) | int(flags)
    # A BatchHeader would cost more than the rest of this function.
    head = _HEADER.pack(
        0,
        _length_of(section),
        NO_LEADER_EPOCH,
        MAGIC,
        0,
        attributes,
        record_count - 1,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    return _seal(bytearray(head), section)


def header_with_producer(
    batch: Buffer,
    *,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    flags: BatchFlag,
) -> bytes:
    """The header for the same records with another producer id, epoch, sequence and flags (KIP-360).

    Its checksum is right for the batch with this header. The batch itself is not changed: it may be being sent.
    """
    header = read_header(batch, 0)
    if header.size_bytes != len(batch):
        raise _truncated(header, len(batch))
    head = bytearray(memoryview(batch)[:HEADER_BYTES])
    before = crc32c(head[_ATTRIBUTES_AT:])
    _INT16.pack_into(head, _ATTRIBUTES_AT, header.attributes & ~_FLAGS_MASK | flags)
    _PRODUCER.pack_into(head, _PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    _renew_crc(head, header, before)
    return bytes(head)


def _renew_crc(head: bytearray | memoryview, before: BatchHeader, crc_before: int) -> None:
    """Update the checksum for a changed header without reading the records, so that a wrong one stays wrong.

    `crc_before` is the checksum of the old header alone, from the attributes on.
    """
    difference = crc_before ^ crc32c(head[_ATTRIBUTES_AT:])
    crc = before.crc ^ crc32c_shifted(difference, before.size_bytes - HEADER_BYTES)
    _UINT32.pack_into(head, _CRC_AT, crc)


def _assemble(header: BatchHeader, section: Buffer) -> bytes:
    """A batch of the header and records section, with length and checksum set."""
    fields = header._replace(length=_length_of(section), crc=0)
    return _seal(bytearray(_HEADER.pack(*fields)), section)


def _length_of(section: Buffer) -> int:
    """The length in the header of a batch with this records section."""
    length = HEADER_BYTES - OVERHEAD_BYTES + len(section)
    if length > INT32_MAX:
        raise ValueError(f"a batch cannot have {length} bytes")
    return length


def _seal(head: bytearray, section: Buffer) -> bytes:
    """A batch of the header and records section, with the checksum set."""
    _UINT32.pack_into(head, _CRC_AT, crc32c(section, crc32c(head[_ATTRIBUTES_AT:])))
    return b"".join((head, section))
