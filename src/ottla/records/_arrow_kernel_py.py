"""Records to Arrow's buffers and back in pure Python; _arrow_kernel.pyx is the same, but faster."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, TypeVar

from ottla.records._client_kernel_py import RecordsBuilder, partition_of_key
from ottla.records._kernel_py import (
    _BATCH_HEADER,
    _LENGTH_FROM,
    _MAGIC,
    _TRANSACTIONAL,
    _check_count,
    _check_int64,
    _Fields,
    _MalformedError,
    _parse_quickly,
    _read_length,
    _trailing,
)
from ottla.records.columns import (
    HEADERS,
    KEY,
    MOST_COLUMN_BYTES,
    TIMESTAMP,
    VALUE,
    BlobBuffers,
    Blobs,
    BuiltColumns,
    HeaderLists,
    Numbers,
    Rows,
    Section,
)
from ottla.records.errors import CorruptRecordsError
from ottla.records.record import INT32_MAX, INT64_MAX, INT64_MIN, Buffer, Header

T = TypeVar("T")

_INT32: Final = struct.Struct("=i")
_MOST_ROWS: Final = 1 << 56
# What the checksum of a batch begins with.
_CRC_FROM: Final = 21
# Bits of a batch's attributes: a codec, and control batches.
_ATTRIBUTES_OF_OTHERS: Final = 0x27


def free_spare_memory() -> int:
    """Give the memory that is kept for later columns back to the system; returns how many bytes it was."""
    return 0


# Records to columns


def _validity(valid: Sequence[bool]) -> tuple[int, bytes | None]:
    """The number of nulls, and a bit per row unless there are none."""
    null_count = len(valid) - sum(valid)
    if not null_count:
        return 0, None
    bits = bytearray((len(valid) + 7) // 8)
    for row, is_valid in enumerate(valid):
        bits[row >> 3] |= is_valid << (row & 7)
    return null_count, bytes(bits)


def _too_large() -> OverflowError:
    return OverflowError("a column would be larger than its limit")


class _BlobColumn:
    """A column of bytes that grows."""

    def __init__(self) -> None:
        self.fields: list[bytes | None] = []
        self.size_bytes = 0

    def append(self, one: bytes | None) -> None:
        self.fields.append(one)
        self.size_bytes += len(one or b"")

    def rewind(self, row_count: int) -> None:
        """Drop the rows from `row_count` on."""
        self.size_bytes -= sum(len(one or b"") for one in self.fields[row_count:])
        del self.fields[row_count:]

    def take(self) -> BlobBuffers:
        """The buffers; the column is empty afterwards."""
        offsets = array("i", [0])
        end = 0
        for one in self.fields:
            end += len(one or b"")
            offsets.append(end)
        data = b"".join(one or b"" for one in self.fields)
        null_count, validity = _validity([one is not None for one in self.fields])
        self.rewind(0)
        return null_count, validity, offsets.tobytes(), data


class ColumnsBuilder:
    """Collects records as columns; `wanted` selects them, and timestamps are `units_per_ms` times theirs."""

    def __init__(
        self, wanted: int, units_per_ms: int = 1, limit_bytes: int = MOST_COLUMN_BYTES
    ) -> None:
        _check_int64(wanted, units_per_ms, limit_bytes)
        if units_per_ms <= 0:
            raise ValueError("there have to be units in a millisecond")
        if not 0 <= limit_bytes <= MOST_COLUMN_BYTES:
            raise ValueError("a column has at most 2 GiB")
        self.expected_bytes = 0
        """How many bytes of records will be appended, as far as the caller knows; here lists grow by themselves."""
        self._limit_bytes = limit_bytes
        self._wanted = wanted
        self._units_per_ms = units_per_ms
        self._key = _BlobColumn()
        self._value = _BlobColumn()
        self._header_key = _BlobColumn()
        self._header_value = _BlobColumn()
        self._offsets = array("q")
        self._timestamps: list[int | None] = []
        self._headers_offsets = array("i", [0])

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return len(self._offsets)

    @property
    def size_bytes(self) -> int:
        """The size of the largest column of bytes."""
        columns = (self._key, self._value, self._header_key, self._header_value)
        return max(column.size_bytes for column in columns)

    def append(
        self,
        payload: Buffer,
        count: int,
        base_offset: int,
        base_timestamp: int,
        append_time_ms: int | None,
        start_offset: int = 0,
        end_offset: int = INT64_MAX,
    ) -> int:
        """Add the records of a batch that are within the bounds; returns how many.

        If one is corrupt, none is added. OverflowError if a column might get larger than the limit.
        """
        _check_int64(count, base_offset, base_timestamp, append_time_ms or 0)
        _check_int64(start_offset, end_offset)
        data = bytes(payload)
        _check_count(count, len(data))
        # Headers without bytes of their own are counted by 32 bits as well.
        largest = max(self.size_bytes, len(self._header_key.fields))
        if largest + len(data) > self._limit_bytes:
            raise _too_large()
        rows_before = self.row_count
        headers_before = len(self._header_key.fields)
        bounds = range(start_offset, end_offset)
        position = 0
        try:
            for index in range(count):
                try:
                    fields = _parse_quickly(data, position, len(data))
                except _MalformedError as error:
                    raise CorruptRecordsError(f"record {index}: {error}") from None
                position = fields[8]
                offset = base_offset + fields[1]
                if offset > INT64_MAX:
                    raise CorruptRecordsError(f"record {index}: its offset is out of range")
                timestamp = append_time_ms
                if timestamp is None:
                    timestamp = base_timestamp + fields[0]
                    if not INT64_MIN <= timestamp <= INT64_MAX:
                        raise CorruptRecordsError(f"record {index}: its timestamp is out of range")
                if offset in bounds:
                    self._append(data, fields, offset, timestamp)
            if position != len(data):
                _trailing()
        except BaseException:
            self._rewind(rows_before, headers_before)
            raise
        return self.row_count - rows_before

    def append_batches(
        self,
        buf: Buffer,
        position: int,
        start_offset: int,
        end_offset: int,
        checks_crcs: bool,
        takes_transactional: bool,
    ) -> tuple[int, int, int, int, int]:
        """Add the plain batches from a position of the buffer on, as far as they are below the end offset.

        Plain ones are complete, of magic 2, not compressed, and data. Returns the position behind them, the next
        offset, the last one's leader epoch, the timestamp type, and the number of rows. It stops, without an error, at
        every other batch, at transactional ones that it does not take, at a new timestamp type, and at what is corrupt
        or too large.
        """
        from ottla.records.crc import crc32c  # which asks the chosen kernel for its own first

        _check_int64(position, start_offset, end_offset)
        view = memoryview(buf)
        if not 0 <= position <= len(view):
            raise ValueError("there is no such position")
        refused = _ATTRIBUTES_OF_OTHERS | (0 if takes_transactional else _TRANSACTIONAL)
        rows_before = self.row_count
        room_bytes = self._limit_bytes - max(self.size_bytes, len(self._header_key.fields))
        epoch, timestamp_type = -1, -1
        while len(view) - position >= _BATCH_HEADER.size:
            fields = _BATCH_HEADER.unpack_from(view, position)
            base_offset, length, batch_epoch, magic, crc, attributes, last_delta = fields[:7]
            end = position + _LENGTH_FROM + length
            if (
                magic != _MAGIC
                or length < _BATCH_HEADER.size - _LENGTH_FROM
                or end > len(view)
                or attributes & refused
                or timestamp_type not in (-1, attributes >> 3 & 1)
                or min(last_delta, base_offset) < 0
                or base_offset + last_delta >= end_offset
                or end - position - _BATCH_HEADER.size > room_bytes
                or (checks_crcs and crc32c(view[position + _CRC_FROM : end]) != crc)
            ):
                break
            append_time_ms = fields[8] if attributes >> 3 & 1 else None
            section = view[position + _BATCH_HEADER.size : end]
            bounds = (start_offset, end_offset)
            try:
                self.append(section, fields[12], base_offset, fields[7], append_time_ms, *bounds)
            except (CorruptRecordsError, OverflowError):
                break
            room_bytes -= len(section)
            timestamp_type = attributes >> 3 & 1
            epoch = batch_epoch
            start_offset = max(start_offset, base_offset + last_delta + 1)
            position = end
        return position, start_offset, epoch, timestamp_type, self.row_count - rows_before

    def _append(self, data: bytes, fields: _Fields, offset: int, timestamp: int) -> None:
        """Add a record that was parsed."""
        _, _, key_at, key_bytes, value_at, value_bytes, header_at, header_count, end = fields
        if self._wanted & TIMESTAMP:
            most = INT64_MAX // self._units_per_ms
            valid = -most <= timestamp <= most
            self._timestamps.append(timestamp * self._units_per_ms if valid else None)
        if self._wanted & KEY:
            self._key.append(None if key_bytes < 0 else data[key_at : key_at + key_bytes])
        if self._wanted & VALUE:
            self._value.append(None if value_bytes < 0 else data[value_at : value_at + value_bytes])
        if self._wanted & HEADERS:
            self._append_headers(data, header_at, end, header_count)
        self._offsets.append(offset)

    def _append_headers(self, data: bytes, position: int, end: int, count: int) -> None:
        for _ in range(count):
            length, position = _read_length(data, position, end)
            key = data[position : position + length]
            # Arrow wants UTF-8; what is not is replaced, as in Java's client.
            self._header_key.append(key.decode("utf-8", "replace").encode())
            if self._header_key.size_bytes > self._limit_bytes:
                raise _too_large()
            length, position = _read_length(data, position + length, end)
            self._header_value.append(None if length < 0 else data[position : position + length])
            position += max(length, 0)
        self._headers_offsets.append(len(self._header_key.fields))

    def _rewind(self, row_count: int, header_count: int) -> None:
        """Drop the rows that came after."""
        del self._offsets[row_count:]
        del self._timestamps[row_count:]
        self._key.rewind(row_count)
        self._value.rewind(row_count)
        del self._headers_offsets[row_count + 1 :]
        self._header_key.rewind(header_count)
        self._header_value.rewind(header_count)

    def finish(self) -> BuiltColumns:
        """The columns; the builder is empty afterwards."""
        timestamp_nulls, timestamp_validity = _validity([t is not None for t in self._timestamps])
        ends = self._headers_offsets
        headers_nulls, headers_validity = _validity([start < end for start, end in pairwise(ends)])
        finished = BuiltColumns(
            self.row_count,
            self._offsets.tobytes(),
            timestamp_nulls,
            timestamp_validity,
            array("q", [timestamp or 0 for timestamp in self._timestamps]).tobytes(),
            self._key.take(),
            self._value.take(),
            headers_nulls,
            headers_validity,
            ends.tobytes(),
            len(self._header_key.fields),
            self._header_key.take(),
            self._header_value.take(),
        )
        self._rewind(0, 0)
        return finished


def repeated_numbers(runs: Sequence[tuple[int, int]]) -> Buffer:
    """A column of 32-bit numbers: each (number, count) of the list, repeated."""
    if any(not 0 <= count <= INT32_MAX for _, count in runs):
        raise ValueError("a number cannot be repeated that often")
    return b"".join(_INT32.pack(number) * count for number, count in runs)


# Columns to records


def _check_rows(first: int, count: int) -> None:
    # Arrow has no longer arrays.
    if not (0 <= first <= _MOST_ROWS and 0 <= count <= _MOST_ROWS):
        raise ValueError("a column cannot have such a number of rows")


def _held(buffer: Buffer, least_bytes: int) -> memoryview:
    view = memoryview(buffer).cast("B")
    if len(view) < least_bytes:
        raise ValueError("a buffer of a column is too short")
    return view


class _Bits:
    """Which rows are valid."""

    def __init__(self, validity: Buffer | None, first: int, count: int) -> None:
        _check_rows(first, count)
        self._first = first
        self._bits: memoryview | None = None
        if validity is not None and count:
            self._bits = _held(validity, (first + count + 7) >> 3)

    def __getitem__(self, row: int) -> bool:
        at = self._first + row
        return self._bits is None or bool(self._bits[at >> 3] >> (at & 7) & 1)


def _numbers(values: Buffer, first: int, value_bytes: int, count: int) -> memoryview:
    """The numbers of `count` rows."""
    if value_bytes not in (4, 8):
        raise ValueError("numbers have 4 or 8 bytes")
    _check_rows(first, count)
    # Arrow lets the offsets of no rows be missing.
    end = (first + count) * value_bytes if count else 0
    view = _held(values, end)
    start = first * value_bytes if count else 0
    return view[start:end].cast("i" if value_bytes == 4 else "q")


class _NumbersView:
    """A column of numbers; one that is None has nothing but nulls."""

    def __init__(self, numbers: Numbers | None, count: int) -> None:
        self._values: memoryview | None = None
        if numbers is not None:
            self._values = _numbers(numbers.values, numbers.first, numbers.value_bytes, count)
            self._valid = _Bits(numbers.validity, numbers.first, count)

    def __getitem__(self, row: int) -> int | None:
        if self._values is None or not self._valid[row]:
            return None
        number: int = self._values[row]
        return number


def _range_at(offsets: memoryview, row: int, most: int) -> tuple[int, int]:
    start, end = offsets[row], offsets[row + 1]
    if not 0 <= start <= end <= most:
        raise ValueError("a column's offsets are not those of its data")
    return start, end


class _BlobsView:
    """A column of bytes; one that is None has nothing but nulls."""

    def __init__(self, blobs: Blobs | None, count: int) -> None:
        self._data: memoryview | None = None
        if blobs is not None:
            self._valid = _Bits(blobs.validity, blobs.first, count)
            self._offsets = _numbers(
                blobs.offsets, blobs.first, blobs.offset_bytes, count + 1 if count else 0
            )
            self._data = _held(blobs.data, 0)

    def __getitem__(self, row: int) -> bytes | None:
        if self._data is None or not self._valid[row]:
            return None
        start, end = _range_at(self._offsets, row, len(self._data))
        return bytes(self._data[start:end])


class _HeadersView:
    """A column of lists of headers."""

    def __init__(self, lists: HeaderLists | None, count: int) -> None:
        self._present = lists is not None
        if lists is not None:
            self._valid = _Bits(lists.validity, lists.first, count)
            self._offsets = _numbers(
                lists.offsets, lists.first, lists.offset_bytes, count + 1 if count else 0
            )
            self._entry_count = lists.entry_count
            self._entries_valid = _Bits(
                lists.entries_validity, lists.entries_first, lists.entry_count
            )
            self._keys = _BlobsView(lists.keys, lists.entry_count)
            self._values = _BlobsView(lists.values, lists.entry_count)

    def __getitem__(self, row: int) -> tuple[Header, ...] | None:
        """The headers of a row; None if one of them is null or has no key."""
        if not self._present or not self._valid[row]:
            return ()
        start, end = _range_at(self._offsets, row, self._entry_count)
        headers: list[Header] = []
        for entry in range(start, end):
            key = self._keys[entry]
            if key is None or not self._entries_valid[entry]:
                return None
            # As the record kernels do it: it survives their encoding.
            headers.append((key.decode("utf-8", "surrogateescape"), self._values[entry]))
        return tuple(headers)


@dataclass
class _TopicBatches:
    """The open batches of a topic, and the partition for records without a key."""

    partition_count: int
    sticky: int
    sticky_bytes: int = 0
    open: dict[int, RecordsBuilder] = field(default_factory=dict)


class SectionsEncoder:
    """Makes the records sections of batches from rows, for all partitions in one pass.

    The partition is that of the row, else that of its key, else one that changes after `sticky_bytes`.
    A record larger than `limit_bytes` gets a batch of its own. After an error the encoder cannot be used
    any more: some rows may have been encoded.

    `seal` must not keep the data of a section: the buffer is used again.
    """

    def __init__(self, limit_bytes: int, sticky_bytes: int, first_partition: int = 0) -> None:
        _check_int64(limit_bytes, sticky_bytes, first_partition)
        if first_partition < 0:
            raise ValueError("the first partition cannot be negative")
        self.row_count = 0
        self._limit_bytes = limit_bytes
        self._sticky_bytes = sticky_bytes
        self._first_partition = first_partition
        self._topics: list[_TopicBatches] = []

    def add_topic(self, partition_count: int) -> int:
        """The number of a new topic, by which rows refer to it."""
        if not 0 < partition_count <= INT32_MAX:
            raise ValueError("there have to be partitions")
        self._topics.append(_TopicBatches(partition_count, self._first_partition % partition_count))
        return len(self._topics) - 1

    def append(self, rows: Rows, default_timestamp: int, seal: Callable[[Section], T]) -> list[T]:
        """Encode rows; returns the results of `seal` for full sections, in order for each partition.

        Rows without a timestamp get the default one.
        """
        _check_int64(default_timestamp)
        count = rows.row_count
        _check_rows(0, count)
        keys = _BlobsView(rows.key, count)
        values = _BlobsView(rows.value, count)
        headers = _HeadersView(rows.headers, count)
        timestamps = _NumbersView(rows.timestamps, count)
        if not rows.units_per_ms:
            raise ValueError("there have to be units in a millisecond")
        partitions = _NumbersView(rows.partitions, count)
        topics = _NumbersView(rows.topics, count)
        sealed: list[T] = []
        for row in range(count):
            key, value = keys[row], values[row]
            own = timestamps[row]
            timestamp = default_timestamp if own is None else self._in_ms(own, rows.units_per_ms)
            row_headers = headers[row]
            if row_headers is None:
                raise self._refused("a header or its key is null")
            topic = topics[row] or 0
            if not 0 <= topic < len(self._topics):
                raise self._refused(f"there is no topic {topic}")
            full = self._put(topic, partitions[row], timestamp, key, value, row_headers)
            if full is not None:
                sealed.append(seal(full))
            self.row_count += 1
        return sealed

    def _refused(self, why: str) -> ValueError:
        return ValueError(f"row {self.row_count}: {why}")

    def _in_ms(self, number: int, units_per_ms: int) -> int:
        """A timestamp in milliseconds, rounded down."""
        if units_per_ms > 0:
            return number // units_per_ms
        most = INT64_MAX // -units_per_ms
        if not -most <= number <= most:
            raise self._refused("its timestamp is out of range")
        return number * -units_per_ms

    def _put(
        self,
        topic: int,
        partition: int | None,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[Header, ...],
    ) -> Section | None:
        """Write a record to a partition; returns the section that it filled."""
        state = self._topics[topic]
        is_sticky = partition is None and key is None
        if is_sticky:
            partition = state.sticky
        elif partition is None:
            assert key is not None
            # Hashing takes most of the time, and with one partition there is nothing to choose.
            count = state.partition_count
            partition = partition_of_key(key, count) if count > 1 else 0
        elif not 0 <= partition < state.partition_count:
            raise self._refused(f"there is no partition {partition}, only {state.partition_count}")
        full = None
        used_before = 0
        builder = state.open.get(partition)
        size_bytes = -1
        if builder is not None:
            used_before = builder.size_bytes
            if INT64_MIN <= timestamp - builder.base_timestamp <= INT64_MAX:
                size_bytes = builder.append(timestamp, key, value, headers)
            if size_bytes < 0:
                full = self._close_section(topic, partition)
                used_before = 0
        if size_bytes < 0:
            builder = state.open[partition] = RecordsBuilder(self._limit_bytes)
            try:
                size_bytes = builder.append(timestamp, key, value, headers)
            except ValueError:
                raise self._refused("it is larger than 2 GiB") from None
        if is_sticky:
            state.sticky_bytes += size_bytes - used_before
            if state.sticky_bytes >= self._sticky_bytes:
                state.sticky_bytes = 0
                state.sticky = (state.sticky + 1) % state.partition_count
        return full

    def _close_section(self, topic: int, partition: int) -> Section:
        """The section of the partition so far."""
        builder = self._topics[topic].open.pop(partition)
        return Section(
            topic,
            partition,
            builder.record_count,
            builder.base_timestamp,
            builder.max_timestamp,
            builder.section(),
        )

    def finish(self, seal: Callable[[Section], T]) -> list[T]:
        """The results of `seal` for the remaining sections; the encoder is empty afterwards."""
        return [
            seal(self._close_section(topic, partition))
            for topic, state in enumerate(self._topics)
            for partition in sorted(state.open)
        ]
