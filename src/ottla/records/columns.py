"""Columns as the buffers that Arrow's format describes, and what the Arrow kernels make of them.

A validity buffer has a bit per row, the first in the lowest; without one, no row is null. `first` is
the row of the buffers with which the column begins: slices of Arrow arrays share their buffers.
"""

from typing import Final, NamedTuple, TypeAlias

from ottla.records.record import Buffer

# Columns that a ColumnsBuilder fills, as bits; the offset is always there.
KEY: Final = 1
VALUE: Final = 2
TIMESTAMP: Final = 4
HEADERS: Final = 8

# What 32 bits of an offset can say.
MOST_COLUMN_BYTES: Final = 2**31 - 1


# ---------------------------------------------------------------- from records

BlobBuffers: TypeAlias = tuple[int, Buffer | None, Buffer, Buffer]
"""The number of nulls, and validity, offsets (32 bits each) and data, as Arrow's `binary` has them."""


class BuiltColumns(NamedTuple):
    """The columns of records: native byte order, no Python object per record."""

    row_count: int
    offsets: Buffer
    timestamp_null_count: int
    timestamp_validity: Buffer | None
    timestamps: Buffer
    key: BlobBuffers
    value: BlobBuffers
    # Records without headers have null, as with Spark's own source.
    headers_null_count: int
    headers_validity: Buffer | None
    headers_offsets: Buffer
    header_count: int
    header_key: BlobBuffers
    header_value: BlobBuffers


# ---------------------------------------------------------------- to records


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
    """A column of lists of headers; `entries_first` and the rest are of the structs in them."""

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
    """Rows to encode; a column that is None has nothing but nulls."""

    row_count: int
    key: Blobs | None = None
    value: Blobs | None = None
    headers: HeaderLists | None = None
    # In units of which `units_per_ms` make a millisecond; negative: one unit is so many milliseconds.
    timestamps: Numbers | None = None
    units_per_ms: int = 1
    partitions: Numbers | None = None
    # Numbers of topics, none of them null; None: all rows are of topic 0.
    topics: Numbers | None = None


class Section(NamedTuple):
    """The records section of one batch, for the partition with that number of that topic."""

    topic: int
    partition: int
    record_count: int
    base_timestamp: int
    max_timestamp: int
    data: Buffer
