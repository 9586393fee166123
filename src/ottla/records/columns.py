"""Columns as buffers in Arrow's format, which the Arrow kernels read and write.

A validity buffer has a bit per row, the first in the lowest; without one, no row is null. `first` is
the row of the buffers at which the column begins: slices of Arrow arrays share their buffers.
"""

from typing import Final, NamedTuple, TypeAlias

from ottla.records.record import Buffer

# Bits for the columns that a ColumnsBuilder fills besides the offset.
KEY: Final = 1
VALUE: Final = 2
TIMESTAMP: Final = 4
HEADERS: Final = 8

# The largest 32-bit offset.
MOST_COLUMN_BYTES: Final = 2**31 - 1


# From records

BlobBuffers: TypeAlias = tuple[int, Buffer | None, Buffer, Buffer]
"""The number of nulls, and validity, offsets (32 bits each) and data, as Arrow's `binary` has them."""


class BuiltColumns(NamedTuple):
    """The columns of records, in native byte order."""

    row_count: int
    offsets: Buffer
    timestamp_null_count: int
    timestamp_validity: Buffer | None
    timestamps: Buffer
    key: BlobBuffers
    value: BlobBuffers
    # Null for records without headers, as in Spark's own source.
    headers_null_count: int
    headers_validity: Buffer | None
    headers_offsets: Buffer
    header_count: int
    header_key: BlobBuffers
    header_value: BlobBuffers


# To records


class Blobs(NamedTuple):
    """A column of Arrow's `binary` or `string`, or of the `large` ones, whose offsets have 64 bits."""

    validity: Buffer | None
    offsets: Buffer
    data: Buffer
    first: int = 0
    offset_bytes: int = 4


class Numbers(NamedTuple):
    """A column of integers of 32 or 64 bits."""

    validity: Buffer | None
    values: Buffer
    first: int = 0
    value_bytes: int = 4


class HeaderLists(NamedTuple):
    """A column of lists of headers; `entries_first` and the fields after it describe the structs in the lists."""

    validity: Buffer | None
    offsets: Buffer
    first: int
    offset_bytes: int
    entry_count: int
    entries_validity: Buffer | None
    entries_first: int
    keys: Blobs | None
    values: Blobs | None


class Rows(NamedTuple):
    """Rows to encode; a column that is None has only nulls."""

    row_count: int
    key: Blobs | None = None
    value: Blobs | None = None
    headers: HeaderLists | None = None
    # In units of 1/units_per_ms milliseconds; if it is negative, a unit has -units_per_ms milliseconds.
    timestamps: Numbers | None = None
    units_per_ms: int = 1
    partitions: Numbers | None = None
    # The topic numbers of rows, without nulls; None if all rows are of topic 0.
    topics: Numbers | None = None


class Section(NamedTuple):
    """The records section of one batch of a partition."""

    topic: int
    partition: int
    record_count: int
    base_timestamp: int
    max_timestamp: int
    data: Buffer
