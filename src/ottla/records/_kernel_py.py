"""The record kernel in pure Python: the same results and errors as _kernel.pyx, which is faster.

A record is: length, attributes, timestamp delta, offset delta, key, value, headers; lengths, deltas
and counts are zigzag varints, length -1 is null. Decoding first reads a record on the assumption
that it is well formed. Positions only grow, so if the last one is where the record has to end, none
was out of bounds. If not, `_parse` reads it again with every check and finds the reason.
"""

import struct
from collections.abc import Sequence
from typing import Final, NoReturn, TypeAlias, TypeVar

from ottla.records.errors import CorruptRecordsError
from ottla.records.record import (
    INT32_MAX,
    INT64_MAX,
    INT64_MIN,
    MIN_HEADER_BYTES,
    MIN_RECORD_BYTES,
    Buffer,
    Header,
    Record,
    Scan,
)

_BATCH_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_CRC_FIELD: Final = 4
_ATTRIBUTES_FIELD: Final = 5
_CRC_FROM: Final = 21
_CODEC_MASK: Final = 0x07
_Header = TypeVar("_Header", bound=tuple[int, ...])
_Extent = TypeVar("_Extent", bound=tuple[int, ...])
_BASE_OFFSET: Final = struct.Struct(">q")
_LEADER_EPOCH: Final = struct.Struct(">i")
_MAGIC: Final = 2
_LENGTH_FROM: Final = 12  # the length counts the bytes from here on
_TRANSACTIONAL: Final = 0x10
_LAST_OFFSET_DELTA_FIELD: Final = 6
_MAX_TIMESTAMP_FIELD: Final = 8
# Times beyond it are left to code whose numbers do not overflow.
_LATEST_PLAIN_MS: Final = 1 << 61

_VARINT_BYTES: Final = 5
_VARLONG_BYTES: Final = 10


# A record's timestamp delta, offset delta, key position, key length, value position, value length,
# header position, header count and end; a length of -1 is null.
_Fields: TypeAlias = tuple[int, int, int, int, int, int, int, int, int]


class _MalformedError(Exception):
    """A record is malformed; its number is known to the caller only."""


def _read_varint(data: Buffer, position: int, end: int, most_bytes: int) -> tuple[int, int]:
    """A zigzag varint of 32 bits (in up to 5 bytes) or 64 bits (in up to 10), and where it ends."""
    result = 0
    for index in range(most_bytes):
        if position >= end:
            raise _MalformedError("a varint is truncated")
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            break
    else:
        raise _MalformedError("a varint is too long")
    if result >> (32 if most_bytes == _VARINT_BYTES else 64):
        raise _MalformedError("a varint is too long")
    return (result >> 1) ^ -(result & 1), position


def _read_length(data: Buffer, position: int, end: int) -> tuple[int, int]:
    """The length of a nullable field that has to end by `end`, and where the field starts."""
    length, position = _read_varint(data, position, end, _VARINT_BYTES)
    if length < -1:
        raise _MalformedError("a length is negative")
    if length > end - position:
        raise _MalformedError("a field overruns its record")
    return length, position


def _parse(data: Buffer, position: int, end: int) -> _Fields:
    """Read one record with every check."""
    length, position = _read_varint(data, position, end, _VARINT_BYTES)
    if length < 0:
        raise _MalformedError("a length is negative")
    if length > end - position:
        raise _MalformedError("it overruns the batch")
    end = position + length
    if position >= end:
        raise _MalformedError("a field overruns its record")
    position += 1
    timestamp_delta, position = _read_varint(data, position, end, _VARLONG_BYTES)
    offset_delta, position = _read_varint(data, position, end, _VARINT_BYTES)
    if offset_delta < 0:
        raise _MalformedError("its offset delta is negative")
    key_bytes, key_position = _read_length(data, position, end)
    position = key_position + max(key_bytes, 0)
    value_bytes, value_position = _read_length(data, position, end)
    position = value_position + max(value_bytes, 0)
    header_count, header_position = _read_varint(data, position, end, _VARINT_BYTES)
    if header_count < 0:
        raise _MalformedError("a length is negative")
    if header_count > (end - header_position) // MIN_HEADER_BYTES:
        raise _MalformedError("it has more headers than bytes for them")
    position = header_position
    for _ in range(header_count):
        header_bytes, position = _read_length(data, position, end)
        if header_bytes < 0:
            raise _MalformedError("a header key is null")
        header_bytes, position = _read_length(data, position + header_bytes, end)
        position += max(header_bytes, 0)
    if position != end:
        raise _MalformedError("its length is not that of its fields")
    return (
        timestamp_delta,
        offset_delta,
        key_position,
        key_bytes,
        value_position,
        value_bytes,
        header_position,
        header_count,
        end,
    )


def _longer_varint(data: Buffer, position: int, first: int, bits: int) -> tuple[int, int]:
    """A varint, not yet unzigzagged, whose first byte has the continuation bit."""
    result = first & 0x7F
    for shift in range(7, bits, 7):
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    else:
        raise IndexError
    if result >> bits:
        raise IndexError
    return result, position


def _parse_quickly(data: Buffer, start: int, end: int) -> _Fields:
    """Read one record as if it were well formed and without headers; if it is not, `_parse` it."""
    position = start
    try:
        length = data[position]
        position += 1
        if length >= 0x80:
            length, position = _longer_varint(data, position, length, 32)
        record_end = position + (length >> 1)
        timestamp_delta = data[position + 1]
        position += 2
        if timestamp_delta >= 0x80:
            timestamp_delta, position = _longer_varint(data, position, timestamp_delta, 64)
        offset_delta = data[position]
        position += 1
        if offset_delta >= 0x80:
            offset_delta, position = _longer_varint(data, position, offset_delta, 32)
        # Lengths -1, 0, 1, 2 … are written as 1, 0, 2, 4 …
        key_bytes = data[position]
        position += 1
        if key_bytes >= 0x80:
            key_bytes, position = _longer_varint(data, position, key_bytes, 32)
        key_position = position
        odd = length | offset_delta
        if key_bytes == 1:
            key_bytes = -1
        else:
            odd |= key_bytes
            key_bytes >>= 1
            position += key_bytes
        value_bytes = data[position]
        position += 1
        if value_bytes >= 0x80:
            value_bytes, position = _longer_varint(data, position, value_bytes, 32)
        value_position = position
        if value_bytes == 1:
            value_bytes = -1
        else:
            odd |= value_bytes
            value_bytes >>= 1
            position += value_bytes
        header_count = data[position]
        position += 1
    except IndexError:
        return _parse(data, start, end)
    # Odd numbers are negative: none of these may be, except for the lengths of null.
    if header_count or odd & 1 or position != record_end or position > end:
        return _parse(data, start, end)
    return (
        (timestamp_delta >> 1) ^ -(timestamp_delta & 1),
        offset_delta >> 1,
        key_position,
        key_bytes,
        value_position,
        value_bytes,
        position,
        0,
        position,
    )


def _read_headers(data: bytes, position: int, end: int, count: int) -> tuple[Header, ...]:
    """The headers of a record that `_parse` accepted."""
    headers: list[Header] = []
    for _ in range(count):
        length, position = _read_length(data, position, end)
        # Keys that are not UTF-8 survive decoding and encoding.
        key = data[position : position + length].decode("utf-8", "surrogateescape")
        length, position = _read_length(data, position + length, end)
        if length < 0:
            headers.append((key, None))
        else:
            headers.append((key, data[position : position + length]))
            position += length
    return tuple(headers)


def _check_count(count: int, size_bytes: int) -> None:
    """Refuse a number of records that the bytes cannot hold."""
    if count < 0:
        raise CorruptRecordsError("the number of records is negative")
    if count > size_bytes // MIN_RECORD_BYTES:
        raise CorruptRecordsError("there are more records than bytes for them")


def _check_int64(*numbers: int) -> None:
    for number in numbers:
        if not INT64_MIN <= number <= INT64_MAX:
            raise OverflowError("int too large to convert")


def _trailing() -> NoReturn:
    raise CorruptRecordsError("bytes follow the last record")


def decode_records(
    payload: Buffer,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time_ms: int | None,
) -> list[Record]:
    """The `count` records that fill `payload`; an append time replaces their timestamps."""
    _check_int64(count, base_offset, base_timestamp, append_time_ms or 0)
    data = bytes(payload)
    end = len(data)
    _check_count(count, end)
    new_record = tuple.__new__
    records = []
    position = 0
    for index in range(count):
        try:
            fields = _parse_quickly(data, position, end)
        except _MalformedError as error:
            raise CorruptRecordsError(f"record {index}: {error}") from None
        (
            timestamp_delta,
            offset_delta,
            key_position,
            key_bytes,
            value_position,
            value_bytes,
            header_position,
            header_count,
            position,
        ) = fields
        offset = base_offset + offset_delta
        if offset > INT64_MAX:
            raise CorruptRecordsError(f"record {index}: its offset is out of range")
        if append_time_ms is None:
            timestamp = base_timestamp + timestamp_delta
            if not INT64_MIN <= timestamp <= INT64_MAX:
                raise CorruptRecordsError(f"record {index}: its timestamp is out of range")
        else:
            timestamp = append_time_ms
        key = None if key_bytes < 0 else data[key_position : key_position + key_bytes]
        value = None if value_bytes < 0 else data[value_position : value_position + value_bytes]
        headers = (
            _read_headers(data, header_position, position, header_count) if header_count else ()
        )
        records.append(new_record(Record, (offset, timestamp, key, value, headers)))
    if position != end:
        _trailing()
    return records


def scan_records(payload: Buffer, count: int) -> Scan:
    """Check the `count` records that fill `payload` and sum them up, without making objects."""
    _check_int64(count)
    data = bytes(payload)
    end = len(data)
    _check_count(count, end)
    least = most = offset_delta_of_most = null_key_count = 0
    consecutive = True
    position = 0
    for index in range(count):
        try:
            fields = _parse_quickly(data, position, end)
        except _MalformedError as error:
            raise CorruptRecordsError(f"record {index}: {error}") from None
        timestamp_delta, offset_delta, _, key_bytes, _, _, _, _, position = fields
        if index == 0:
            least = most = timestamp_delta
            offset_delta_of_most = offset_delta
        elif timestamp_delta > most:
            most = timestamp_delta
            offset_delta_of_most = offset_delta
        elif timestamp_delta < least:
            least = timestamp_delta
        if offset_delta != index:
            consecutive = False
        if key_bytes < 0:
            null_key_count += 1
    if position != end:
        _trailing()
    return Scan(least, most, offset_delta_of_most, null_key_count, consecutive)


def find_by_time(
    payload: Buffer,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time_ms: int | None,
    wanted_ms: int,
    start_offset: int,
) -> tuple[int, int] | None:
    """Offset and timestamp of the first record that is late enough and not below an offset; None if there is none."""
    _check_int64(count, base_offset, base_timestamp, append_time_ms or 0, wanted_ms, start_offset)
    data = bytes(payload)
    end = len(data)
    _check_count(count, end)
    position = 0
    for index in range(count):
        try:
            fields = _parse_quickly(data, position, end)
        except _MalformedError as error:
            raise CorruptRecordsError(f"record {index}: {error}") from None
        position = fields[-1]
        offset = base_offset + fields[1]
        if offset > INT64_MAX:
            raise CorruptRecordsError(f"record {index}: its offset is out of range")
        timestamp = base_timestamp + fields[0] if append_time_ms is None else append_time_ms
        if not INT64_MIN <= timestamp <= INT64_MAX:
            raise CorruptRecordsError(f"record {index}: its timestamp is out of range")
        if timestamp >= wanted_ms and offset >= start_offset:
            return offset, timestamp
    return None


def records_end(payload: Buffer, start: int, count: int) -> int:
    """Where `count` records end that begin at `start`."""
    _check_int64(start, count)
    end = len(payload)
    if not 0 <= start <= end:
        raise ValueError("a start outside of the records")
    for index in range(count):
        try:
            start = _parse_quickly(payload, start, end)[-1]
        except _MalformedError as error:
            raise CorruptRecordsError(f"record {index}: {error}") from None
    return start


def inspect_batch(header_class: type[_Header], batch: Buffer) -> tuple[_Header, bool, Scan | None]:
    """As batch.inspect: the header, whether the checksum is right, and the result of a scan.

    The caller has made sure that `batch` is one whole batch of magic 2. There is no scan of a batch
    that is compressed or whose checksum is wrong.
    """
    from ottla.records.crc import crc32c  # which asks the chosen kernel for its own first

    view = memoryview(batch)
    if len(view) < _BATCH_HEADER.size:
        raise CorruptRecordsError(f"a batch header is truncated to {len(view)} bytes")
    fields = _BATCH_HEADER.unpack_from(view)
    matches = crc32c(view[_CRC_FROM:]) == fields[_CRC_FIELD]
    found = None
    if matches and not fields[_ATTRIBUTES_FIELD] & _CODEC_MASK:
        found = scan_records(view[_BATCH_HEADER.size :], fields[-1])
    return tuple.__new__(header_class, fields), matches, found


def plain_header(
    header_class: type[_Header],
    batch: Buffer,
    most_bytes: int,
    earliest_ms: int,
    latest_ms: int,
    needs_keys: bool,
) -> _Header | None:
    """The header of a batch that a log takes as its producer has sent it; None for every other.

    One whole batch of right checksum with well formed, consecutive and not compressed records, whose times are in
    order and within the bounds.
    """
    for bound in (most_bytes, earliest_ms, latest_ms):
        _check_int64(bound)
    size_bytes = len(batch)
    if not _BATCH_HEADER.size <= size_bytes <= most_bytes:
        return None
    fields = _BATCH_HEADER.unpack_from(batch)
    base_offset, length, _, magic, _, attributes, last_offset_delta, base_timestamp = fields[:8]
    max_timestamp, producer_id, producer_epoch, base_sequence, record_count = fields[8:]
    if (
        magic != _MAGIC
        or base_offset != 0
        or length != size_bytes - _LENGTH_FROM
        or attributes & ~_TRANSACTIONAL
        or not 0 < record_count <= (size_bytes - _BATCH_HEADER.size) // MIN_RECORD_BYTES
        or last_offset_delta != record_count - 1
        or (attributes if producer_id < 0 else producer_epoch < 0 or base_sequence < 0)
    ):
        return None
    try:
        header, crc_matches, scan = inspect_batch(header_class, batch)
    except CorruptRecordsError:
        return None
    if not crc_matches or scan is None:
        return None
    lowest_ms = base_timestamp + scan.min_timestamp_delta
    highest_ms = base_timestamp + scan.max_timestamp_delta
    is_plain = (
        scan.offsets_consecutive
        and not (needs_keys and scan.null_key_count)
        and abs(base_timestamp) < _LATEST_PLAIN_MS
        and scan.min_timestamp_delta > -_LATEST_PLAIN_MS
        and scan.max_timestamp_delta < _LATEST_PLAIN_MS
        and earliest_ms <= lowest_ms
        and highest_ms <= latest_ms
        and highest_ms == max_timestamp
    )
    return header if is_plain else None


def join_batches(
    extent_class: type[_Extent],
    batches: Sequence[Buffer],
    headers: Sequence[tuple[int, ...]],
    base_offset: int,
    leader_epoch: int,
) -> tuple[bytearray, list[_Extent]]:
    """Batches back to back with the offsets that follow `base_offset`, and the extent of each."""
    joined = bytearray()
    extents = []
    if len(batches) != len(headers):
        raise ValueError("a header for each batch is needed")
    for batch, header in zip(batches, headers, strict=True):
        if len(batch) < _BATCH_HEADER.size:
            raise ValueError("a batch without a header")
        position = len(joined)
        joined += batch
        _BASE_OFFSET.pack_into(joined, position, base_offset)
        _LEADER_EPOCH.pack_into(joined, position + _LENGTH_FROM, leader_epoch)
        last_offset = base_offset + header[_LAST_OFFSET_DELTA_FIELD]
        extent = (base_offset, last_offset, header[_MAX_TIMESTAMP_FIELD], len(batch))
        extents.append(tuple.__new__(extent_class, extent))
        base_offset = last_offset + 1
    return joined, extents


def _varint(number: int) -> bytes:
    """A zigzag varint of up to 64 bits."""
    rest = number << 1 if number >= 0 else ~(number << 1)
    output = bytearray()
    while rest >= 0x80:
        output.append(rest & 0x7F | 0x80)
        rest >>= 7
    output.append(rest)
    return bytes(output)


_SMALL_COUNT: Final = 8192
_SMALL_VARINTS: Final = [_varint(number) for number in range(-1, _SMALL_COUNT)]


def _quick_varint(number: int) -> bytes:
    """A zigzag varint; those of lengths and deltas come from a table."""
    return _SMALL_VARINTS[number + 1] if -1 <= number < _SMALL_COUNT else _varint(number)


def _encode_bytes(field: bytes | None, name: str, index: int) -> bytes:
    """A nullable field after its length."""
    if field is None:
        return b"\x01"
    if not isinstance(field, bytes):
        raise TypeError(f"record {index}: {name} has to be bytes or None")
    return _quick_varint(len(field)) + field


def _encode_headers(headers: object, index: int) -> bytes:
    """The number of headers and the headers."""
    if not isinstance(headers, tuple | list):
        raise TypeError(f"record {index}: headers have to be a tuple or a list")
    parts = [_quick_varint(len(headers))]
    for header in headers:
        if not isinstance(header, tuple) or len(header) != 2 or not isinstance(header[0], str):
            raise TypeError(f"record {index}: a header has to be a tuple of str and bytes or None")
        key = header[0].encode("utf-8", "surrogateescape")
        parts.append(_quick_varint(len(key)))
        parts.append(key)
        parts.append(_encode_bytes(header[1], "a header value", index))
    return b"".join(parts)


def encode_records(records: Sequence[Record], base_offset: int, base_timestamp: int) -> bytes:
    """The records section of a batch, not compressed."""
    _check_int64(base_offset, base_timestamp)
    parts = []
    # The compiled kernel has to check types; this one raises the same errors.
    unchecked: Sequence[object] = records
    for index, record in enumerate(unchecked):
        if not isinstance(record, tuple) or len(record) != 5:
            raise TypeError(f"record {index}: it has to be a Record")
        offset, timestamp, key, value, headers = record
        if not isinstance(offset, int) or not isinstance(timestamp, int):
            raise TypeError(f"record {index}: offset and timestamp have to be int")
        offset_delta = offset - base_offset
        if not 0 <= offset_delta <= INT32_MAX or offset > INT64_MAX:
            raise ValueError(f"record {index}: its offset is too far from the base offset")
        timestamp_delta = timestamp - base_timestamp
        if not (INT64_MIN <= timestamp <= INT64_MAX and INT64_MIN <= timestamp_delta <= INT64_MAX):
            raise ValueError(f"record {index}: its timestamp is too far from the base timestamp")
        encoded_headers = _encode_headers(headers, index) if headers != () else b"\x00"
        body = b"".join(
            (
                b"\x00",
                _quick_varint(timestamp_delta),
                _quick_varint(offset_delta),
                _encode_bytes(key, "key", index),
                _encode_bytes(value, "value", index),
                encoded_headers,
            )
        )
        if len(body) > INT32_MAX:
            raise ValueError(f"record {index}: it is larger than 2 GiB")
        parts.append(_quick_varint(len(body)))
        parts.append(body)
    return b"".join(parts)
