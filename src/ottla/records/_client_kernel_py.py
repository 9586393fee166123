"""The client's part of the record kernel in pure Python; _client_kernel.pyx is the same, but faster.

Building appends one record at a time to a growing section; reading takes records out of a section
a few at a time; keys are hashed as in Java's client.
"""

from collections.abc import Callable, Sequence
from threading import RLock
from time import time_ns
from typing import Any, Final, Generic, TypeAlias, TypeVar

from ottla.records._kernel_py import (
    _BATCH_HEADER,
    _LENGTH_FROM,
    _MAGIC,
    _check_count,
    _check_int64,
    _encode_bytes,
    _encode_headers,
    _Fields,
    _MalformedError,
    _parse_quickly,
    _quick_varint,
    _read_headers,
    _trailing,
)
from ottla.records.errors import CorruptRecordsError
from ottla.records.record import (
    INT32_MAX,
    INT64_MAX,
    INT64_MIN,
    Buffer,
    Header,
    TimestampType,
)

R = TypeVar("R", bound=tuple[Any, ...])
S = TypeVar("S", bound="SentRecord")
Deserialize: TypeAlias = Callable[[str, tuple[Header, ...], bytes], object]

_NO_TIMESTAMP: Final = -1
_CREATE_TIME: Final = TimestampType.CREATE_TIME
_LOG_APPEND_TIME: Final = TimestampType.LOG_APPEND_TIME
# A batch has a length of 32 bits, which also counts 49 bytes of its header.
_MOST_BYTES: Final = INT32_MAX - 49
_DOES_NOT_FIT: Final = -1


class SentRecord:
    """A record of a batch: its index, and what is known of it before it is sent."""

    __slots__ = ("_batch", "_index", "_key_size", "_timestamp", "_value_size")

    def __init__(
        self, batch: Any, index: int, timestamp: int, key_size: int, value_size: int
    ) -> None:
        self._batch = batch
        self._index = index
        self._timestamp = timestamp
        self._key_size = key_size
        self._value_size = value_size


class Callbacks:
    """The callbacks of records of a batch, with the record's index and what is known of it before it is sent."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, int, int, Any]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def add(
        self, index: int, timestamp: int, key_size: int, value_size: int, function: Any
    ) -> None:
        """Add the callback of a record."""
        self._entries.append((index, timestamp, key_size, value_size, function))

    def entries(self) -> list[tuple[int, int, int, int, Any]]:
        """Index, timestamp, sizes of key and value, and callback of each record."""
        return list(self._entries)

    def deliver(
        self,
        metadata_class: Any,
        topic: str,
        partition: int,
        base_offset: int,
        append_time_ms: int,
        failed: Callable[[], object],
    ) -> None:
        """Call each with its record's metadata and None; `failed` after an exception of one.

        Without a base offset (-1) the records have none; without an append time (-1) they keep their own time.
        """
        if not (isinstance(metadata_class, type) and issubclass(metadata_class, tuple)):
            raise TypeError("the class of the metadata has to be a named tuple")
        for index, timestamp, key_size, value_size, function in self._entries:
            fields = (
                topic,
                partition,
                base_offset + index if base_offset >= 0 else -1,
                append_time_ms if append_time_ms >= 0 else timestamp,
                key_size,
                value_size,
            )
            try:
                function(tuple.__new__(metadata_class, fields), None)
            except (Exception, SystemExit):
                failed()


class RecordsBuilder:
    """A records section that grows record by record up to a limit.

    A timestamp of None means the current time. Threads may append at the same time; after `close` no
    record fits.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.record_count = 0
        self.base_timestamp = _NO_TIMESTAMP
        self.max_timestamp = _NO_TIMESTAMP
        self.is_closed = False
        self.callbacks: Callbacks | None = None
        self._section = bytearray()
        self._lock = RLock()

    @property
    def size_bytes(self) -> int:
        """The size of the section so far."""
        return len(self._section)

    @property
    def is_full(self) -> bool:
        """Whether the limit is reached; one record may be larger than the limit."""
        return len(self._section) >= self.limit_bytes

    def append(
        self,
        timestamp: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header] = (),
    ) -> int:
        """Add a record; returns the size of the section, or -1 if it would pass the limit.

        The first record is taken whatever its size: it gets a batch of its own.
        """
        with self._lock:
            return self._append(_now_ms() if timestamp is None else timestamp, key, value, headers)

    def _append(
        self, timestamp: int, key: bytes | None, value: bytes | None, headers: Sequence[Header]
    ) -> int:
        index = self.record_count
        if not isinstance(timestamp, int):
            raise TypeError(f"record {index}: timestamp has to be int")
        timestamp_delta = timestamp - self.base_timestamp if index else 0
        if not (INT64_MIN <= timestamp <= INT64_MAX and INT64_MIN <= timestamp_delta <= INT64_MAX):
            raise ValueError(f"record {index}: its timestamp is too far from the base timestamp")
        encoded_headers = _encode_headers(headers, index) if headers != () else b"\x00"
        body = b"".join(
            (
                b"\x00",
                _quick_varint(timestamp_delta),
                _quick_varint(index),
                _encode_bytes(key, "key", index),
                _encode_bytes(value, "value", index),
                encoded_headers,
            )
        )
        length = _quick_varint(len(body))
        size_bytes = len(self._section) + len(length) + len(body)
        if size_bytes > _MOST_BYTES and not index:
            raise ValueError(f"record {index}: it is larger than 2 GiB")
        if self.is_closed or (size_bytes > min(self.limit_bytes, _MOST_BYTES) and index):
            return _DOES_NOT_FIT
        self._section += length
        self._section += body
        if not index:
            self.base_timestamp = self.max_timestamp = timestamp
        elif timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.record_count = index + 1
        return size_bytes

    def append_sent(
        self,
        sent_class: type[S],
        batch: object,
        timestamp: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header] = (),
        on_delivery: object = None,
    ) -> S | None:
        """As `append`, but returns a SentRecord for `batch`, or None if the record does not fit.

        `callbacks` gets `on_delivery`, if there is one, before any other thread sees the record.
        """
        when = _now_ms() if timestamp is None else timestamp
        with self._lock:
            if self._append(when, key, value, headers) < 0:
                return None
            key_size = -1 if key is None else len(key)
            value_size = -1 if value is None else len(value)
            sent = sent_class(batch, self.record_count - 1, when, key_size, value_size)
            if on_delivery is not None:
                if self.callbacks is None:
                    self.callbacks = Callbacks()
                self.callbacks.add(sent._index, when, key_size, value_size, on_delivery)
            return sent

    def extend(
        self,
        timestamp: int | None,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[Header] = (),
        start: int = 0,
    ) -> tuple[int, int]:
        """Add records of one timestamp from `values[start]` on; returns the index of the first, and how many fit.

        All have the same headers. If one is refused by an exception, none was added.
        """
        if not isinstance(values, list | tuple):
            raise TypeError("values have to be a list or a tuple")
        if keys is not None and not isinstance(keys, list | tuple):
            raise TypeError("keys have to be a list or a tuple")
        if keys is not None and len(keys) != len(values):
            raise ValueError(f"there are {len(keys)} keys for {len(values)} values")
        if start < 0:
            raise ValueError("start cannot be negative")
        when = _now_ms() if timestamp is None else timestamp
        with self._lock:
            before = (self.record_count, self.base_timestamp, self.max_timestamp)
            size_bytes = len(self._section)
            try:
                for index in range(start, len(values)):
                    key = None if keys is None else keys[index]
                    if self._append(when, key, values[index], headers) < 0:
                        break
            except BaseException:
                self.record_count, self.base_timestamp, self.max_timestamp = before
                del self._section[size_bytes:]
                raise
            return before[0], self.record_count - before[0]

    def close(self) -> None:
        """Take no more records."""
        with self._lock:
            self.is_closed = True

    def section(self) -> bytes:
        """A copy of the section."""
        return bytes(self._section)


def _now_ms() -> int:
    return time_ns() // 1_000_000


class QuickWriter(Generic[S]):
    """Writes records of bytes that need no waiting: their topic is known, and an open batch has room.

    `topics` has the queues of each topic: `count`, `queues`, and `sticky_queue` for records without a key, also for
    all records if keys are ignored. A queue has its `open` batch, and that its `builder`. The records of `accumulator`
    are refused while it has a `refusal`. Timestamps below `least_timestamp` are left to the caller.
    """

    def __init__(
        self,
        topics: dict[str, Any],
        accumulator: Any,
        sent_class: type[S],
        ignores_keys: bool,
        least_timestamp: int,
    ) -> None:
        if not isinstance(topics, dict):
            raise TypeError("topics have to be a dict")
        self._topics = topics
        self._accumulator = accumulator
        self._sent_class = sent_class
        self._ignores_keys = ignores_keys
        self._least_timestamp = least_timestamp

    def try_send(
        self,
        topic: Any,
        value: Any,
        key: Any,
        partition: Any,
        headers: Any,
        timestamp: Any,
        on_delivery: Any,
    ) -> S | None:
        """The record's future; None if something has to be waited for, or if an argument is wrong."""
        try:
            known = self._topics.get(topic)
            if known is None:
                return None
            if timestamp is not None and (
                type(timestamp) is not int or timestamp < self._least_timestamp
            ):
                return None
            if on_delivery is not None and not callable(on_delivery):
                return None
            if partition is None:
                if key is None or self._ignores_keys:
                    queue = known.sticky_queue
                elif type(key) is bytes:
                    queue = known.queues[partition_of_key(key, known.count)]
                else:
                    return None
            elif type(partition) is int and 0 <= partition < known.count:
                queue = known.queues[partition]
            else:
                return None
            batch = None if queue is None else queue.open
            if batch is None or self._accumulator.refusal is not None:
                return None
            builder = batch.builder
            if type(builder) is not RecordsBuilder:
                return None
            return builder.append_sent(
                self._sent_class, batch, timestamp, key, value, headers or (), on_delivery
            )
        except (TypeError, ValueError, AttributeError):
            # The caller takes the long way, which raises the error that says what is wrong.
            return None


class RecordsReader(Generic[R]):
    """Reads the records of a section, a few at a time, as tuples of `record_class`.

    Its fields are those of ConsumerRecord: topic, partition, offset, timestamp, timestamp type, key,
    value, headers, leader epoch, and the serialized sizes of key and value (-1 for null).
    `key_of(topic, headers, bytes)` and `value_of(topic, headers, bytes)` deserialize keys and values that
    are not null.
    """

    def __init__(
        self,
        record_class: type[R],
        payload: Buffer,
        count: int,
        base_offset: int,
        base_timestamp: int,
        append_time_ms: int | None,
        topic: str,
        partition: int,
        leader_epoch: int | None,
        start_offset: int = 0,
        key_of: Deserialize | None = None,
        value_of: Deserialize | None = None,
    ) -> None:
        _check_int64(count, base_offset, base_timestamp, append_time_ms or 0, start_offset)
        # The compiled kernel makes plain tuples only, and has to check that.
        unchecked: Any = record_class
        if not issubclass(unchecked, tuple) or unchecked.__dictoffset__:
            raise TypeError("the record class has to be a named tuple")
        self._data = bytes(payload)
        _check_count(count, len(self._data))
        self._record_class = record_class
        self._count = count
        self._base_offset = base_offset
        self._base_timestamp = base_timestamp
        self._append_time_ms = append_time_ms
        self._topic = topic
        self._partition = partition
        self._leader_epoch = leader_epoch
        self._start_offset = start_offset
        self._key_of = key_of
        self._value_of = value_of
        self._index = 0
        self._position = 0

    @property
    def done(self) -> bool:
        """Whether all records were read; bytes after the last one are not checked yet."""
        return self._index == self._count and self._position == len(self._data)

    def read(self, max_records: int) -> list[R]:
        """The next records, at most `max_records`; none at the end.

        A record that is corrupt or cannot be deserialized raises when it is the first to be read:
        those before it are returned first, and reading does not get past it.
        """
        records: list[R] = []
        try:
            while len(records) < max_records and self._index < self._count:
                fields = self._next_fields()
                offset, end = fields[1], fields[8]
                if offset >= self._start_offset:
                    records.append(self._record(fields, self._key_of, self._value_of))
                self._index += 1
                self._position = end
            if len(records) < max_records and not self.done:
                _trailing()
        except Exception:
            if not records:
                raise
        return records

    def peek(self) -> R | None:
        """The next record with key and value as bytes, without going past it."""
        while self._index < self._count:
            fields = self._next_fields()
            if fields[1] >= self._start_offset:
                return self._record(fields, None, None)
            self._index += 1
            self._position = fields[8]
        return None

    def _next_fields(self) -> _Fields:
        """The fields of the next record, with timestamp and offset instead of their deltas."""
        index = self._index
        try:
            fields = _parse_quickly(self._data, self._position, len(self._data))
        except _MalformedError as error:
            raise CorruptRecordsError(f"record {index}: {error}") from None
        offset = self._base_offset + fields[1]
        if offset > INT64_MAX:
            raise CorruptRecordsError(f"record {index}: its offset is out of range")
        if self._append_time_ms is None:
            timestamp = self._base_timestamp + fields[0]
            if not INT64_MIN <= timestamp <= INT64_MAX:
                raise CorruptRecordsError(f"record {index}: its timestamp is out of range")
        else:
            timestamp = self._append_time_ms
        return timestamp, offset, *fields[2:]

    def _record(
        self,
        fields: _Fields,
        key_of: Deserialize | None,
        value_of: Deserialize | None,
    ) -> R:
        timestamp, offset, key_at, key_bytes, value_at, value_bytes, header_at, count, end = fields
        data = self._data
        headers = _read_headers(data, header_at, end, count) if count else ()
        key: object = None
        if key_bytes >= 0:
            key_data = data[key_at : key_at + key_bytes]
            key = key_data if key_of is None else key_of(self._topic, headers, key_data)
        value: object = None
        if value_bytes >= 0:
            value_data = data[value_at : value_at + value_bytes]
            value = value_data if value_of is None else value_of(self._topic, headers, value_data)
        return tuple.__new__(
            self._record_class,
            (
                self._topic,
                self._partition,
                offset,
                timestamp,
                _CREATE_TIME if self._append_time_ms is None else _LOG_APPEND_TIME,
                key,
                value,
                headers,
                self._leader_epoch,
                key_bytes,
                value_bytes,
            ),
        )


FrameMemory = bytearray
"""Writable memory for a frame."""


def free_spare_memory() -> int:
    """Give the memory that is kept for later buffers back to the system; returns how many bytes it was."""
    return 0


def longest_bytes(items: Sequence[object]) -> int | None:
    """The size of the largest item, -1 for None; None if an item is neither bytes nor None."""
    if not isinstance(items, list | tuple):
        raise TypeError("what is measured has to be a list or a tuple")
    longest = -1
    for item in items:
        if item is not None:
            if not isinstance(item, bytes):
                return None
            longest = max(longest, len(item))
    return longest


def murmur2(data: bytes) -> int:
    """The hash of a key, as org.apache.kafka.common.utils.Utils.murmur2 returns it: signed, 32 bits."""
    if not isinstance(data, bytes):
        raise TypeError("a key has to be bytes")
    size = len(data)
    most = 0xFFFFFFFF
    multiplier = 0x5BD1E995
    hashed = 0x9747B28C ^ (size & most)
    whole = size & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * multiplier & most
        word = (word ^ word >> 24) * multiplier & most
        hashed = hashed * multiplier & most ^ word
    if size > whole:
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * multiplier & most
    hashed = (hashed ^ hashed >> 13) * multiplier & most
    hashed ^= hashed >> 15
    return hashed - (1 << 32) if hashed >> 31 else hashed


def partition_of_key(key: bytes, partition_count: int) -> int:
    """The partition that every client with Java's default partitioner chooses for the key."""
    if partition_count <= 0:
        raise ValueError("there have to be partitions")
    return (murmur2(key) & INT32_MAX) % partition_count


def partitions_of_keys(keys: Sequence[bytes | None], partition_count: int) -> list[int]:
    """The same for many keys; -1 for null."""
    if not isinstance(keys, list | tuple):
        raise TypeError("keys have to be a list or a tuple")
    if partition_count <= 0:
        raise ValueError("there have to be partitions")
    return [-1 if key is None else partition_of_key(key, partition_count) for key in keys]


def whole_batches(buf: Buffer) -> tuple[int, int]:
    """Where the complete batches at the start of a buffer end, and where the last of them begins; -1: there is none."""
    view = memoryview(buf)
    position, last = 0, -1
    while len(view) - position >= _BATCH_HEADER.size:
        _, length, _, magic, *_ = _BATCH_HEADER.unpack_from(view, position)
        size_bytes = _LENGTH_FROM + length
        if magic != _MAGIC or not _BATCH_HEADER.size <= size_bytes <= len(view) - position:
            break
        last = position
        position += size_bytes
    return position, last
