"""Record batches to Arrow columns, without a Python object per record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from ottla.records.arrow_kernel import ColumnsBuilder, free_spare_memory, repeated_numbers
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

_KERNEL_COLUMNS: Final = {"key": KEY, "value": VALUE, "timestamp": TIMESTAMP, "headers": HEADERS}


# Of columns with the same value in all rows at most this number of rows is kept for the next record batch.
_MOST_CONSTANT_ROWS: Final = 100_000


class _RowRun(NamedTuple):
    """The fields that consecutive rows have in common, and the number of these rows."""

    topic: str
    partition: int
    timestamp_type: int
    row_count: int


# The columns that runs have, and where their values are in a run.
_RUN_PLACES: Final = {
    "topic": _RowRun._fields.index("topic"),
    "partition": _RowRun._fields.index("partition"),
    "timestampType": _RowRun._fields.index("timestamp_type"),
}


class AppendedBatches(NamedTuple):
    """The position behind batches, their next offset, and the leader epoch of the last one."""

    end_position: int
    next_offset: int
    leader_epoch: int


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
        self._constants: dict[str, tuple[object, pa.Array]] = {}

    @property
    def row_count(self) -> int:
        """The number of rows collected."""
        return self._finished_rows + self._builder.row_count

    def expect(self, size_bytes: int) -> None:
        """Say about how many bytes of batches will be appended, so that the columns need not grow in steps."""
        self._builder.expected_bytes = size_bytes

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

    def append_plain(
        self,
        buf: Buffer,
        position: int,
        topic: str,
        partition: int,
        *,
        start_offset: int,
        end_offset: int,
        checks_crcs: bool,
        takes_transactional: bool,
    ) -> AppendedBatches | None:
        """Add the batches from `position` on in one call, as far as they are plain; None if the first is not.

        Plain ones are complete, not compressed, below the end offset and data. Batches that cannot be read are not
        plain either: `append_checked` says what is wrong with them.
        """
        end, next_offset, leader_epoch, timestamp_type, added = self._builder.append_batches(
            buf, position, start_offset, end_offset, checks_crcs, takes_transactional
        )
        if end == position:
            return None
        if added:
            self._add_run(_RowRun(topic, partition, timestamp_type, added))
        return AppendedBatches(end, next_offset, leader_epoch)

    def finish(self) -> list[pa.RecordBatch]:
        """The collected columns, usually in one record batch; an empty list if there are no records."""
        self._close_columns()
        finished = self._finished
        self._finished = []
        self._finished_rows = 0
        return finished

    def free_spare_memory(self) -> None:
        """Give the memory that is kept for later columns, also of others, back to the system."""
        self._constants.clear()
        free_spare_memory()

    def _add_run(self, run: _RowRun) -> None:
        if self._runs and self._runs[-1][:3] == run[:3]:
            run = run._replace(row_count=run.row_count + self._runs.pop().row_count)
        self._runs.append(run)

    def _close_columns(self) -> None:
        """Make a record batch of the current rows."""
        if not self._builder.row_count:
            return
        built = self._builder.finish()
        arrays = [
            self._array_of_runs(field, built.row_count)
            if field.name in _RUN_COLUMN_OF
            else _COLUMN_OF[field.name](field.type, built)
            for field in self.schema
        ]
        self._runs = []
        self._finished_rows += built.row_count
        self._finished.append(pa.RecordBatch.from_arrays(arrays, schema=self.schema))

    def _array_of_runs(self, field: pa.Field, row_count: int) -> pa.Array:
        """A column of what runs of rows have in common; if all rows have, a slice of one that was made before."""
        make, place = _RUN_COLUMN_OF[field.name], _RUN_PLACES[field.name]
        value = self._runs[0][place]
        if any(run[place] != value for run in self._runs):
            return make(field.type, self._runs)
        known = self._constants.get(field.name)
        if known is None or known[0] != value or len(known[1]) < row_count:
            run = self._runs[0]._replace(row_count=row_count)
            known = (value, make(field.type, [run]))
            self._constants.pop(field.name, None)
            if row_count <= _MOST_CONSTANT_ROWS:
                self._constants[field.name] = known
        return known[1][:row_count]


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


def _number_runs(values: Iterable[int], runs: list[_RowRun]) -> pa.Array:
    """A 32-bit number for each run, repeated for each of its rows."""
    counts = [run.row_count for run in runs]
    # Several times as fast as pa.repeat, which appends one by one.
    data = repeated_numbers(list(zip(values, counts, strict=True)))
    return _number_array(pa.int32(), sum(counts), data, None, 0)


def _topic_array(kind: pa.DataType, runs: list[_RowRun]) -> pa.Array:
    if pa.types.is_dictionary(kind):
        names = dict.fromkeys(run.topic for run in runs)
        places = {topic: place for place, topic in enumerate(names)}
        indices = _number_runs([places[run.topic] for run in runs], runs)
        return pa.DictionaryArray.from_arrays(indices, pa.array(list(places), pa.string()))
    parts = [pa.repeat(pa.scalar(run.topic, kind), run.row_count) for run in runs]
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


_RUN_COLUMN_OF: Final[dict[str, Callable[[pa.DataType, list[_RowRun]], pa.Array]]] = {
    "topic": _topic_array,
    "partition": lambda _, runs: _number_runs([run.partition for run in runs], runs),
    "timestampType": lambda _, runs: _number_runs([run.timestamp_type for run in runs], runs),
}
_COLUMN_OF: Final[dict[str, Callable[[pa.DataType, BuiltColumns], pa.Array]]] = {
    "key": lambda kind, built: _blob_array(kind, built.row_count, built.key),
    "value": lambda kind, built: _blob_array(kind, built.row_count, built.value),
    "offset": lambda kind, built: _number_array(kind, built.row_count, built.offsets, None, 0),
    "timestamp": lambda kind, built: _number_array(
        kind,
        built.row_count,
        built.timestamps,
        built.timestamp_validity,
        built.timestamp_null_count,
    ),
    "headers": lambda kind, built: _header_array(kind, built),
}
