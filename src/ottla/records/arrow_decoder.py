"""Record batches to Arrow columns, without a Python object per record."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from ottla.records.arrow_kernel import ColumnsBuilder
from ottla.records.arrow_schema import SCHEMA, UNITS_PER_MS, pa
from ottla.records.batch import (
    DEFAULT_LIMIT_BYTES,
    HEADER_BYTES,
    MAGIC,
    MAGIC_AT,
    BatchHeader,
    TimestampType,
    crc_matches,
    payload,
    read_header,
)
from ottla.records.columns import (
    HEADERS,
    KEY,
    MOST_COLUMN_BYTES,
    TIMESTAMP,
    VALUE,
    BlobBuffers,
    BuiltColumns,
)
from ottla.records.errors import CorruptRecordsError
from ottla.records.record import INT64_MAX, Buffer

_INT32: Final = struct.Struct("=i")
_KERNEL_COLUMNS: Final = {"key": KEY, "value": VALUE, "timestamp": TIMESTAMP, "headers": HEADERS}


class _RowRun(NamedTuple):
    """The fields that consecutive rows have in common, and the number of these rows."""

    topic: str
    partition: int
    timestamp_type: int
    row_count: int


class RecordColumns:
    """Collects the records of fetched batches as Arrow columns.

    The schema selects columns of SCHEMA. `topic` may also be a dictionary of strings, and `timestamp` may
    have another unit (milliseconds or smaller) and another time zone or none. A timestamp that does not
    fit its unit is null, and so are the headers of records without headers. A column of bytes holds at
    most `column_limit_bytes`; more records start another record batch.
    """

    def __init__(
        self, schema: pa.Schema = SCHEMA, column_limit_bytes: int = MOST_COLUMN_BYTES
    ) -> None:
        _check_schema(schema)
        self.schema = schema
        wanted = 0
        for name, bit in _KERNEL_COLUMNS.items():
            wanted |= bit if name in schema.names else 0
        units_per_ms = 1
        if wanted & TIMESTAMP:
            units_per_ms = UNITS_PER_MS[schema.field("timestamp").type.unit]
        self._builder = ColumnsBuilder(wanted, units_per_ms, column_limit_bytes)
        self._runs: list[_RowRun] = []
        self._finished: list[pa.RecordBatch] = []
        self._finished_rows = 0

    @property
    def row_count(self) -> int:
        """The number of rows collected."""
        return self._finished_rows + self._builder.row_count

    def append(
        self,
        buf: Buffer,
        position: int,
        header: BatchHeader,
        topic: str,
        partition: int,
        *,
        start_offset: int = 0,
        end_offset: int = INT64_MAX,
        limit_bytes: int = DEFAULT_LIMIT_BYTES,
    ) -> int:
        """Add the records of the batch at `position` within the bounds; returns the next position.

        CorruptRecordsError, and OverflowError if the batch alone is too large for a column, leave the
        collected rows unchanged. The checksum is not checked. Do not append batches of markers or of aborted
        records: they become rows like others.
        """
        append_time_ms = None
        if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
            append_time_ms = header.max_timestamp
        records = (
            payload(buf, position, header, limit_bytes),
            header.record_count,
            header.base_offset,
            header.base_timestamp,
            append_time_ms,
            start_offset,
            end_offset,
        )
        try:
            added = self._builder.append(*records)
        except OverflowError:
            if not self._builder.row_count:
                raise
            self._close_columns()
            added = self._builder.append(*records)
        if added:
            self._add_run(_RowRun(topic, partition, int(header.timestamp_type), added))
        return max(start_offset, min(header.last_offset + 1, end_offset))

    def append_checked(
        self,
        buf: Buffer,
        position: int,
        header: BatchHeader,
        topic: str,
        partition: int,
        *,
        start_offset: int = 0,
        end_offset: int = INT64_MAX,
        limit_bytes: int = DEFAULT_LIMIT_BYTES,
    ) -> int:
        """As `append`, but raises CorruptRecordsError if the checksum is wrong."""
        if not crc_matches(buf, position, header):
            raise CorruptRecordsError(
                f"the checksum of the batch at offset {header.base_offset} is wrong"
            )
        return self.append(
            buf,
            position,
            header,
            topic,
            partition,
            start_offset=start_offset,
            end_offset=end_offset,
            limit_bytes=limit_bytes,
        )

    def finish(self) -> list[pa.RecordBatch]:
        """The collected columns, usually in one record batch; an empty list if there are no records."""
        self._close_columns()
        finished = self._finished
        self._finished = []
        self._finished_rows = 0
        return finished

    def _add_run(self, run: _RowRun) -> None:
        if self._runs and self._runs[-1][:3] == run[:3]:
            run = run._replace(row_count=run.row_count + self._runs.pop().row_count)
        self._runs.append(run)

    def _close_columns(self) -> None:
        """Make a record batch of the current rows."""
        if not self._builder.row_count:
            return
        built = self._builder.finish()
        arrays = [_COLUMN_OF[field.name](field.type, built, self._runs) for field in self.schema]
        self._runs = []
        self._finished_rows += built.row_count
        self._finished.append(pa.RecordBatch.from_arrays(arrays, schema=self.schema))


def is_data(header: BatchHeader) -> bool:
    """Whether the records of a batch are data and not markers."""
    return not header.is_control


class DecodedColumns(NamedTuple):
    """Record batches, and the next offset to read."""

    batches: list[pa.RecordBatch]
    next_offset: int


def decode_batches(
    buf: Buffer,
    topic: str,
    partition: int,
    *,
    schema: pa.Schema = SCHEMA,
    start_offset: int = 0,
    end_offset: int = INT64_MAX,
    wants: Callable[[BatchHeader], bool] = is_data,
) -> DecodedColumns:
    """The columns of fetched batches, with their checksums checked.

    An incomplete batch at the end is left out. UnsupportedMagicError if `legacy.upgrade_legacy` has to convert
    the batches first. `wants` is called for every batch in order; batches that it refuses are skipped.
    """
    columns = RecordColumns(schema)
    next_offset = start_offset
    for position, header in _complete_batches(buf):
        if header.base_offset >= end_offset:
            break
        if header.last_offset < start_offset:
            continue
        if wants(header):
            next_offset = columns.append_checked(
                buf,
                position,
                header,
                topic,
                partition,
                start_offset=start_offset,
                end_offset=end_offset,
            )
        else:
            next_offset = max(start_offset, min(header.last_offset + 1, end_offset))
    return DecodedColumns(columns.finish(), next_offset)


def _complete_batches(buf: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    position = 0
    while len(buf) - position > MAGIC_AT:
        # Messages of magic 0 and 1, which are refused, may be smaller than our header.
        if buf[position + MAGIC_AT] == MAGIC and len(buf) - position < HEADER_BYTES:
            break
        header = read_header(buf, position)
        if header.size_bytes > len(buf) - position:
            break
        yield position, header
        position += header.size_bytes


def _check_schema(schema: pa.Schema) -> None:
    for field in schema:
        expected = SCHEMA.field(field.name).type if field.name in SCHEMA.names else None
        fits = field.type == expected
        if field.name == "timestamp":
            fits = pa.types.is_timestamp(field.type) and field.type.unit != "s"
        elif field.name == "topic" and pa.types.is_dictionary(field.type):
            fits = field.type == pa.dictionary(pa.int32(), pa.string())
        if expected is None:
            raise ValueError(f"records have no column {field.name!r}, only {SCHEMA.names}")
        if not fits:
            raise TypeError(f"column {field.name!r} is {expected}, not {field.type}")
    if len(set(schema.names)) < len(schema.names):
        raise ValueError("the schema has a column twice")


def _buffer(buffer: Any) -> Any:
    return None if buffer is None else pa.py_buffer(buffer)


def _blob_array(kind: pa.DataType, row_count: int, blobs: BlobBuffers) -> pa.Array:
    null_count, *buffers = blobs
    return pa.Array.from_buffers(kind, row_count, [_buffer(one) for one in buffers], null_count)


def _header_array(kind: pa.DataType, built: BuiltColumns) -> pa.Array:
    entries = pa.StructArray.from_arrays(
        [
            _blob_array(pa.string(), built.header_count, built.header_key),
            _blob_array(pa.binary(), built.header_count, built.header_value),
        ],
        fields=list(kind.value_type),
    )
    return pa.Array.from_buffers(
        kind,
        built.row_count,
        [_buffer(built.headers_validity), _buffer(built.headers_offsets)],
        built.headers_null_count,
        children=[entries],
    )


def _number_array(
    kind: pa.DataType, row_count: int, values: Buffer, validity: Buffer | None, null_count: int
) -> pa.Array:
    return pa.Array.from_buffers(kind, row_count, [_buffer(validity), _buffer(values)], null_count)


def _repeated_numbers(values: list[int], runs: list[_RowRun]) -> pa.Array:
    """A 32-bit number for each run, repeated for each of its rows."""
    # Several times as fast as pa.repeat, which appends one by one.
    parts = [_INT32.pack(value) * run.row_count for value, run in zip(values, runs, strict=True)]
    data = parts[0] if len(parts) == 1 else b"".join(parts)
    return _number_array(pa.int32(), len(data) // _INT32.size, data, None, 0)


def _topic_array(kind: pa.DataType, runs: list[_RowRun]) -> pa.Array:
    if pa.types.is_dictionary(kind):
        names = dict.fromkeys(run.topic for run in runs)
        places = {topic: place for place, topic in enumerate(names)}
        indices = _repeated_numbers([places[run.topic] for run in runs], runs)
        return pa.DictionaryArray.from_arrays(indices, pa.array(list(places), pa.string()))
    parts = [pa.repeat(pa.scalar(run.topic, kind), run.row_count) for run in runs]
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


_COLUMN_OF: Final[dict[str, Callable[[pa.DataType, BuiltColumns, list[_RowRun]], pa.Array]]] = {
    "key": lambda kind, built, _: _blob_array(kind, built.row_count, built.key),
    "value": lambda kind, built, _: _blob_array(kind, built.row_count, built.value),
    "topic": lambda kind, _, runs: _topic_array(kind, runs),
    "partition": lambda _, __, runs: _repeated_numbers([run.partition for run in runs], runs),
    "offset": lambda kind, built, _: _number_array(kind, built.row_count, built.offsets, None, 0),
    "timestamp": lambda kind, built, _: _number_array(
        kind,
        built.row_count,
        built.timestamps,
        built.timestamp_validity,
        built.timestamp_null_count,
    ),
    "timestampType": lambda _, __, runs: _repeated_numbers(
        [run.timestamp_type for run in runs], runs
    ),
    "headers": lambda kind, built, _: _header_array(kind, built),
}
