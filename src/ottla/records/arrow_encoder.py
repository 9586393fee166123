"""Arrow columns to record batches, without a Python object per record."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from ottla.records.arrow_kernel import SectionsEncoder
from ottla.records.arrow_schema import UNITS_PER_MS, pa
from ottla.records.batch import HEADER_BYTES, BatchFlag, build_around
from ottla.records.columns import Blobs, HeaderLists, Numbers, Rows, Section
from ottla.records.compression import Codec

# 12 bytes less than the default max.message.bytes of brokers.
DEFAULT_BATCH_SIZE_BYTES: Final = 1024 * 1024


class EncodedBatch(NamedTuple):
    """A batch without producer id, epoch and sequence, which `batch.header_with_producer` sets."""

    topic: str
    partition: int
    record_count: int
    data: bytes


class ColumnsEncoder:
    """Makes record batches from Arrow columns, for all partitions in one pass.

    The columns are those of Spark's Kafka sink: `value`, and optionally `key`, `headers`, `topic` (unless
    one topic is given for all rows), `partition` and `timestamp`; others are ignored. A row without a
    partition goes where Java's default partitioner puts its key. Rows without a key fill `sticky_bytes`
    of one partition after another, from `first_partition` on; 1 means round-robin. `partition_count_of`
    is called once for each topic.

    A batch has at most `batch_size_bytes` before compression, unless it has a single record. After an
    error the encoder cannot be used any more: some rows of the call may have been encoded.
    """

    def __init__(
        self,
        partition_count_of: Callable[[str], int],
        *,
        topic: str | None = None,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        flags: BatchFlag = BatchFlag.NONE,
        batch_size_bytes: int = DEFAULT_BATCH_SIZE_BYTES,
        sticky_bytes: int | None = None,
        first_partition: int = 0,
    ) -> None:
        self._partition_count_of = partition_count_of
        self._topic = topic
        self._codec = codec
        self._level = level
        self._flags = flags
        self._encoder = SectionsEncoder(
            batch_size_bytes - HEADER_BYTES,
            batch_size_bytes if sticky_bytes is None else sticky_bytes,
            first_partition,
        )
        self._topics: dict[str, int] = {}
        self._names: list[str] = []
        self._has_failed = False

    @property
    def row_count(self) -> int:
        """The number of rows encoded."""
        return self._encoder.row_count

    def append(
        self, rows: pa.RecordBatch | pa.Table, timestamp_ms: int | None = None
    ) -> list[EncodedBatch]:
        """Encode rows; returns the batches that are full, in order for each partition.

        Rows without a timestamp get `timestamp_ms`, or the current time.
        """
        if self._has_failed:
            raise ValueError("rows before these were refused: begin with another encoder")
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        self._has_failed = True
        encoded: list[EncodedBatch] = []
        for part in rows.to_batches() if isinstance(rows, pa.Table) else [rows]:
            encoded += self._encoder.append(self._rows(part), timestamp_ms, self._sealed)
        self._has_failed = False
        return encoded

    def finish(self) -> list[EncodedBatch]:
        """The remaining batches, in order for each partition; the encoder can then be used again."""
        if self._has_failed:
            raise ValueError("rows were refused: begin with another encoder")
        return self._encoder.finish(self._sealed)

    def _sealed(self, section: Section) -> EncodedBatch:
        data = build_around(
            memoryview(section.data),
            section.record_count,
            section.base_timestamp,
            section.max_timestamp,
            codec=self._codec,
            level=self._level,
            flags=self._flags,
        )
        return EncodedBatch(
            self._names[section.topic], section.partition, section.record_count, data
        )

    def _rows(self, rows: pa.RecordBatch) -> Rows:
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        if len(columns) < rows.num_columns:
            raise ValueError("there are columns with the same name")
        if "value" not in columns:
            raise ValueError(f"there is no column 'value', only {list(columns)}")
        timestamps, units_per_ms = _timestamps(columns.get("timestamp"))
        return Rows(
            rows.num_rows,
            _blobs("key", columns.get("key")),
            _blobs("value", columns["value"]),
            _header_lists(columns.get("headers")),
            timestamps,
            units_per_ms,
            _partitions(columns.get("partition")),
            self._topic_numbers(columns.get("topic"), rows.num_rows),
        )

    def _topic_numbers(self, column: Any, row_count: int) -> Numbers | None:
        """The topic number of each row; None if all rows have the given topic."""
        if self._topic is not None:
            self._number_of(self._topic)
            return None
        if column is None:
            raise ValueError("there is no column 'topic', and no topic was given for all rows")
        if pa.types.is_null(column.type) or column.null_count:
            if not row_count:
                return None
            row = self.row_count + column.is_null().index(True).as_py()
            raise ValueError(f"row {row}: topic is null")
        if not pa.types.is_dictionary(column.type):
            _check_type("topic", column.type, _is_text, "a string")
            column = column.dictionary_encode()
        names = column.dictionary.to_pylist()
        # A dictionary may have entries that no row uses.
        used = set(column.indices.unique().to_pylist()) if row_count else set()
        numbers = [
            self._number_of(name) if place in used else -1 for place, name in enumerate(names)
        ]
        taken = pa.array(numbers, pa.int32()).take(column.indices)
        return _numbers(taken)

    def _number_of(self, topic: Any) -> int:
        number = self._topics.get(topic)
        if number is None:
            if not isinstance(topic, str):
                raise TypeError("a topic has to be a string")
            number = self._encoder.add_topic(self._partition_count_of(topic))
            self._topics[topic] = number
            self._names.append(topic)
        return number


def _check_type(name: str, kind: Any, fits: Callable[[Any], bool], wanted: str) -> None:
    if not fits(kind):
        raise TypeError(f"column {name!r} has to be {wanted}, not {kind}")


def _is_text(kind: Any) -> bool:
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_direct(kind: Any) -> bool:
    """Whether the buffers are offsets and data."""
    types = pa.types
    return any(
        is_one(kind)
        for is_one in (
            types.is_binary,
            types.is_string,
            types.is_large_binary,
            types.is_large_string,
        )
    )


def _is_indirect(kind: Any) -> bool:
    """Whether the array can be cast to a type whose buffers are offsets and data."""
    types = pa.types
    return any(
        is_one(kind)
        for is_one in (types.is_binary_view, types.is_string_view, types.is_fixed_size_binary)
    )


def _decoded(array: Any) -> Any:
    """The array without dictionary encoding and extension types."""
    while True:
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        elif pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        else:
            return array


def _validity(array: Any) -> Any:
    return array.buffers()[0] if array.null_count else None


def _or_empty(buffer: Any) -> Any:
    return b"" if buffer is None else buffer


def _blobs(name: str, array: Any) -> Blobs | None:
    """A column of bytes or text; None if all of it is null."""
    if array is None:
        return None
    array = _decoded(array)
    if pa.types.is_null(array.type):
        return None
    if _is_indirect(array.type):
        array = array.cast(pa.large_binary())
    _check_type(name, array.type, _is_direct, "binary or a string")
    is_large = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
    _, offsets, data = array.buffers()
    return Blobs(
        _validity(array),
        _or_empty(offsets),
        _or_empty(data),
        array.offset,
        8 if is_large else 4,
    )


def _numbers(array: Any) -> Numbers:
    return Numbers(
        _validity(array), _or_empty(array.buffers()[1]), array.offset, array.type.bit_width // 8
    )


def _partitions(array: Any) -> Numbers | None:
    if array is None or pa.types.is_null(array.type):
        return None
    array = _decoded(array)
    _check_type("partition", array.type, pa.types.is_integer, "an integer")
    if array.type not in (pa.int32(), pa.int64()):
        array = array.cast(pa.int64())
    return _numbers(array)


def _timestamps(array: Any) -> tuple[Numbers | None, int]:
    """A column of timestamps, or of integers in milliseconds, and the units per millisecond."""
    if array is None or pa.types.is_null(array.type):
        return None, 1
    array = _decoded(array)
    if pa.types.is_timestamp(array.type):
        return _numbers(array), UNITS_PER_MS[array.type.unit]
    if pa.types.is_date(array.type):
        return _numbers(array.cast(pa.timestamp("ms"))), 1
    _check_type("timestamp", array.type, pa.types.is_int64, "a timestamp, a date or an int64")
    return _numbers(array), 1


def _header_lists(array: Any) -> HeaderLists | None:
    if array is None:
        return None
    array = _decoded(array)
    if pa.types.is_null(array.type):
        return None
    types = pa.types
    if types.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_type))
    _check_type(
        "headers",
        array.type,
        lambda kind: types.is_list(kind) or types.is_large_list(kind),
        "a list of structs of key and value",
    )
    entries = array.values
    keys, values = _header_fields(entries)
    return HeaderLists(
        _validity(array),
        _or_empty(array.buffers()[1]),
        array.offset,
        8 if types.is_large_list(array.type) else 4,
        len(entries),
        _validity(entries),
        entries.offset,
        keys,
        values,
    )


def _header_fields(entries: Any) -> tuple[Blobs | None, Blobs | None]:
    """The keys and values of headers."""
    if pa.types.is_null(entries.type):
        return None, None
    _check_type("headers", entries.type, pa.types.is_struct, "a list of structs of key and value")
    places = [entries.type.get_field_index(name) for name in ("key", "value")]
    if min(places) < 0:
        raise TypeError(f"headers have to have a key and a value, not {entries.type}")
    # These begin where the structs do.
    keys, values = (entries.field(place) for place in places)
    return _blobs("headers.key", keys), _blobs("headers.value", values)
