# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Records to Arrow's buffers and back, compiled: the same results and errors as _arrow_kernel_py.py.

Offsets of Arrow columns are checked against the end of their data before anything is read, so that
a column that breaks Arrow's own rules costs an error and no more.
"""

cimport cython
from cpython.buffer cimport (
    PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
)
from libc.stdint cimport int32_t, uint32_t
from libc.stdlib cimport calloc
from libc.string cimport memset

from ottla.records import columns
from ottla.records.columns import BuiltColumns, Section

include "_one_record.pxi"
include "_murmur2.pxi"
include "_arrow_views.pxi"
include "_batch_header.pxi"
include "_crc32c.pxi"
include "_spare_memory.pxi"

cdef enum:
    # A section with at least this number of bytes is likely to reach its limit.
    GROWING_BYTES = 131072
    # Reserved bytes that are not used cost address space, but no memory.
    MOST_ROOM_BYTES = 4194304
    KEY = 1
    VALUE = 2
    TIMESTAMP = 4
    HEADERS = 8
    # Bits of a batch's attributes: a codec, and control batches.
    ATTRIBUTES_OF_OTHERS = 0x27

assert (KEY, VALUE, TIMESTAMP, HEADERS) == (
    columns.KEY, columns.VALUE, columns.TIMESTAMP, columns.HEADERS
)

# A batch has a length of 32 bits, which also counts 49 bytes of its header.
cdef int64_t MOST_BYTES = <int64_t> INT32_MAX - 49


cdef class Memory:
    """Memory that the builder has filled; it belongs to its views from then on."""

    cdef uint8_t *start
    cdef Py_ssize_t size
    cdef int64_t view_count
    # How large the memory is that columns use again later; 0: it is not kept.
    cdef size_t spare_size

    def __dealloc__(self):
        if self.spare_size:
            keep_memory(self.start, self.spare_size)
        else:
            free(self.start)

    def __len__(self):
        return self.size

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.start, self.size, 1, flags)
        self.view_count += 1

    def __releasebuffer__(self, Py_buffer *view):
        self.view_count -= 1


cdef Memory taken(Output *output):
    """The written bytes, as an object; the output is empty after that."""
    cdef Memory memory = Memory.__new__(Memory)
    # Arrow needs an address even for zero bytes.
    if output.start == NULL:
        reserve(output, 1)
    memory.start = output.start
    memory.size = output.used
    output[0] = Output(NULL, 0, 0)
    return memory


# ---------------------------------------------------------------- records to columns

cdef struct Bits:
    # Of no meaning while all rows are valid, or none.
    Output output
    int64_t null_count


cdef struct BlobColumn:
    Bits valid
    Output offsets
    Output data


cdef struct Built:
    int64_t row_count
    int64_t header_count
    Output offsets
    Bits timestamps_valid
    Output timestamps
    BlobColumn key
    BlobColumn value
    Bits headers_valid
    Output headers_offsets
    BlobColumn header_key
    BlobColumn header_value


cdef Memory taken_column(Output *output):
    """As `taken`, of a column: its memory is used again when the program has dropped it."""
    cdef size_t size = output.size
    cdef uint8_t *start
    cdef Memory memory
    if size > 2 * output.used + LEAST_SPARE_BYTES:
        # The program may keep it for long.
        size = max(output.used, <size_t> 1)
        start = <uint8_t *> realloc(output.start, size)
        if start != NULL:
            output.start = start
            output.size = size
    memory = taken(output)
    memory.spare_size = size
    return memory


cdef int prepare(Output *output, size_t size) except -1:
    """Give an output without content memory of about the size that it will have."""
    cdef Spare found
    if size > output.size and size >= LEAST_SPARE_BYTES:
        found = find_memory(size)
        free(output.start)
        output[0] = Output(found.start, 0, found.size)
    return 0


cdef int fill_bits(Bits *bits, int64_t row, int byte) except -1:
    """Store that of the rows so far all are valid, or none."""
    cdef size_t size = (row >> 3) + 1
    bits.output.used = 0
    reserve(&bits.output, size)
    memset(bits.output.start, byte, size)
    bits.output.used = size
    return 0


cdef int mark_slowly(Bits *bits, int64_t row, bint valid) except -1:
    cdef size_t at = row >> 3
    cdef uint8_t below = <uint8_t> ((1 << (row & 7)) - 1)
    if not bits.null_count:
        fill_bits(bits, row, 0xFF)
    elif bits.null_count == row:
        fill_bits(bits, row, 0)
    elif at >= bits.output.used:
        reserve(&bits.output, 1)
        bits.output.start[at] = 0
    bits.output.used = at + 1
    bits.output.start[at] = (bits.output.start[at] & below) | <uint8_t> (valid << (row & 7))
    if not valid:
        bits.null_count += 1
    return 0


cdef inline int mark(Bits *bits, int64_t row, bint valid) except -1:
    """Record whether the next row is valid; bits are stored once there are both valid rows and nulls."""
    if valid:
        if not bits.null_count:
            return 0
    elif bits.null_count == row:
        bits.null_count += 1
        return 0
    return mark_slowly(bits, row, valid)


cdef inline int put_int32(Output *output, int64_t number) except -1:
    """Add a number that is known to have 32 bits."""
    cdef int32_t narrow = <int32_t> number
    reserve(output, 4)
    memcpy(output.start + output.used, &narrow, 4)
    output.used += 4
    return 0


cdef inline void put_field(BlobColumn *column, const uint8_t *data, int64_t size) noexcept:
    """Add bytes for which there is room."""
    memcpy(column.data.start + column.data.used, data, size)
    column.data.used += size


cdef inline int put_blob(
    BlobColumn *column, int64_t row, const uint8_t *data, int64_t size
) except -1:
    """Add a field; the size of null is -1."""
    mark(&column.valid, row, size >= 0)
    if size > 0:
        reserve(&column.data, size)
        put_field(column, data, size)
    return put_int32(&column.offsets, column.data.used)


cdef object too_large():
    return OverflowError("a column would be larger than its limit")


cdef int put_text(
    BlobColumn *column, int64_t row, const uint8_t *data, int64_t size, int64_t limit_bytes
) except -1:
    """Add a field as UTF-8, which Arrow requires; other bytes are replaced, as in Java's client."""
    cdef int64_t index
    cdef uint8_t seen = 0
    cdef bytes replaced
    for index in range(size):
        seen |= data[index]
    if seen < 0x80:
        # Earlier replacements may have taken the space.
        if <int64_t> column.data.used + size > limit_bytes:
            raise too_large()
        return put_blob(column, row, data, size)
    replaced = PyUnicode_DecodeUTF8(<char *> data, size, "replace").encode("utf-8")
    # A byte that is not UTF-8 became three.
    if <int64_t> column.data.used + PyBytes_GET_SIZE(replaced) > limit_bytes:
        raise too_large()
    return put_blob(
        column, row, <const uint8_t *> PyBytes_AS_STRING(replaced), PyBytes_GET_SIZE(replaced)
    )


cdef inline void rewind_bits(Bits *bits, const Bits *before) noexcept:
    bits.output.used = before.output.used
    bits.null_count = before.null_count


cdef inline void rewind_blobs(BlobColumn *column, const BlobColumn *before) noexcept:
    rewind_bits(&column.valid, &before.valid)
    column.offsets.used = before.offsets.used
    column.data.used = before.data.used


cdef void rewind(Built *built, const Built *before) noexcept:
    """Forget the rows that came after; the memory may have moved."""
    built.row_count = before.row_count
    built.header_count = before.header_count
    built.offsets.used = before.offsets.used
    rewind_bits(&built.timestamps_valid, &before.timestamps_valid)
    built.timestamps.used = before.timestamps.used
    rewind_blobs(&built.key, &before.key)
    rewind_blobs(&built.value, &before.value)
    rewind_bits(&built.headers_valid, &before.headers_valid)
    built.headers_offsets.used = before.headers_offsets.used
    rewind_blobs(&built.header_key, &before.header_key)
    rewind_blobs(&built.header_value, &before.header_value)


cdef void free_blobs(BlobColumn *column) noexcept:
    free(column.valid.output.start)
    free(column.offsets.start)
    free(column.data.start)


cdef object taken_bits(Bits *bits, int64_t row_count):
    """The validity of `row_count` rows; None if all are valid."""
    if not bits.null_count:
        return None
    if bits.null_count == row_count:
        fill_bits(bits, row_count - 1, 0)
    # Rows that were forgotten may have left bits behind the last.
    bits.output.used = (row_count + 7) >> 3
    if row_count & 7:
        bits.output.start[row_count >> 3] &= <uint8_t> ((1 << (row_count & 7)) - 1)
    bits.null_count = 0
    return taken_column(&bits.output)


cdef tuple taken_blobs(BlobColumn *column, int64_t row_count):
    cdef int64_t null_count = column.valid.null_count
    return (
        null_count,
        taken_bits(&column.valid, row_count),
        taken_column(&column.offsets),
        taken_column(&column.data),
    )


cdef class ColumnsBuilder:
    """Collects records as columns; `wanted` selects them, and timestamps are `units_per_ms` times theirs."""

    cdef Built built
    cdef int64_t limit_bytes
    cdef int64_t wanted
    cdef int64_t units_per_ms
    cdef bint busy
    # How many bytes of records will be appended, as far as the caller knows.
    cdef public int64_t expected_bytes
    # What the last columns had: the next ones are likely to have as much.
    cdef size_t last_key_bytes

    def __cinit__(
        self, int64_t wanted, int64_t units_per_ms=1, int64_t limit_bytes=INT32_MAX
    ):
        if units_per_ms <= 0:
            raise ValueError("there have to be units in a millisecond")
        if limit_bytes < 0 or limit_bytes > INT32_MAX:
            raise ValueError("a column has at most 2 GiB")
        memset(&self.built, 0, sizeof(Built))
        self.wanted = wanted
        self.units_per_ms = units_per_ms
        self.limit_bytes = limit_bytes
        self.busy = False
        self.begin()

    def __dealloc__(self):
        free(self.built.offsets.start)
        free(self.built.timestamps_valid.output.start)
        free(self.built.timestamps.start)
        free_blobs(&self.built.key)
        free_blobs(&self.built.value)
        free(self.built.headers_valid.output.start)
        free(self.built.headers_offsets.start)
        free_blobs(&self.built.header_key)
        free_blobs(&self.built.header_value)

    cdef int begin(self) except -1:
        """Offsets begin with 0."""
        self.built.key.offsets.used = self.built.value.offsets.used = 0
        self.built.headers_offsets.used = 0
        self.built.header_key.offsets.used = self.built.header_value.offsets.used = 0
        put_int32(&self.built.key.offsets, 0)
        put_int32(&self.built.value.offsets, 0)
        put_int32(&self.built.headers_offsets, 0)
        put_int32(&self.built.header_key.offsets, 0)
        put_int32(&self.built.header_value.offsets, 0)
        return 0

    @property
    def row_count(self):
        """The number of rows."""
        return self.built.row_count

    @property
    def size_bytes(self):
        """The size of the largest column of bytes."""
        return self.largest()

    cdef int64_t largest(self) noexcept:
        return max(
            max(self.built.key.data.used, self.built.value.data.used),
            max(self.built.header_key.data.used, self.built.header_value.data.used),
        )

    cdef int make_room(self, int64_t rows, size_t value_bytes) except -1:
        """Reserve memory for that many more rows with values of so many bytes; keys and headers get theirs later."""
        cdef Built *built = &self.built
        cdef int64_t likely_bytes, likely_rows
        if not built.row_count:
            likely_bytes = min(max(self.expected_bytes, <int64_t> value_bytes), self.limit_bytes)
            likely_rows = rows + 1
            if value_bytes:
                likely_rows = 1 + <int64_t> (<double> rows * likely_bytes / value_bytes)
            prepare(&built.offsets, 8 * likely_rows)
            if self.wanted & TIMESTAMP:
                prepare(&built.timestamps, 8 * likely_rows)
            if self.wanted & KEY:
                prepare(&built.key.offsets, 4 * likely_rows)
                prepare(&built.key.data, self.last_key_bytes)
            if self.wanted & VALUE:
                prepare(&built.value.offsets, 4 * likely_rows)
                prepare(&built.value.data, likely_bytes)
            if self.wanted & HEADERS:
                prepare(&built.headers_offsets, 4 * likely_rows)
            self.begin()
        reserve(&built.offsets, 8 * rows)
        if self.wanted & TIMESTAMP:
            reserve(&built.timestamps, 8 * rows)
        if self.wanted & KEY:
            reserve(&built.key.offsets, 4 * rows)
        if self.wanted & VALUE:
            reserve(&built.value.offsets, 4 * rows)
            reserve(&built.value.data, value_bytes)
        if self.wanted & HEADERS:
            reserve(&built.headers_offsets, 4 * rows)
        return 0

    def append(
        self, payload, int64_t count, int64_t base_offset, int64_t base_timestamp, append_time_ms,
        int64_t start_offset=0, int64_t end_offset=INT64_MAX,
    ):
        """Add those of the `count` records of a batch that are within the bounds: how many.

        If one is corrupt, none was added. OverflowError if a column might get larger than the limit.
        """
        cdef Py_buffer view
        cdef Built before
        cdef bint appended = append_time_ms is not None
        cdef int64_t append_time = append_time_ms if appended else 0
        if self.busy:
            raise RuntimeError("another call appends to the columns")
        PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
        try:
            self.busy = True
            check_count(count, view.len)
            # Headers without bytes of their own are counted by 32 bits as well.
            if max(self.largest(), self.built.header_count) + view.len > self.limit_bytes:
                raise too_large()
            self.make_room(count, view.len)
            before = self.built
            try:
                self.decode(
                    <const uint8_t *> view.buf, view.len, count, base_offset, base_timestamp,
                    appended, append_time, start_offset, end_offset,
                )
            except BaseException:
                rewind(&self.built, &before)
                raise
            return self.built.row_count - before.row_count
        finally:
            self.busy = False
            PyBuffer_Release(&view)

    def append_batches(
        self, buf, Py_ssize_t position, int64_t start_offset, int64_t end_offset,
        bint checks_crcs, bint takes_transactional,
    ):
        """Add the plain batches from a position of the buffer on, as far as they are below the end offset.

        Plain ones are complete, of magic 2, not compressed, and data. Returns the position behind them, the next
        offset, the last one's leader epoch, the timestamp type, and the number of rows. It stops, without an error, at
        every other batch, at transactional ones that it does not take, at a new timestamp type, and at what is corrupt
        or too large.
        """
        cdef Py_buffer view
        cdef Built before, first
        cdef const uint8_t *at
        cdef int64_t size, last_offset
        cdef int64_t rows = 0
        cdef int64_t value_bytes = 0
        cdef int64_t room_bytes
        cdef int64_t epoch = -1
        cdef int timestamp_type = -1
        cdef Py_ssize_t begin = position
        cdef Py_ssize_t end
        cdef int refused = ATTRIBUTES_OF_OTHERS if takes_transactional else ATTRIBUTES_OF_OTHERS | 0x10
        if self.busy:
            raise RuntimeError("another call appends to the columns")
        PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
        try:
            self.busy = True
            if position < 0 or position > view.len:
                raise ValueError("there is no such position")
            end_offset = max(end_offset, 0)
            room_bytes = self.limit_bytes - max(self.largest(), self.built.header_count)
            end = position
            while True:
                at = <const uint8_t *> view.buf + end
                size = whole_batch_bytes(at, view.len - end)
                if not size or big_endian(at + 21, 2) & refused:
                    break
                if timestamp_type >= 0 and timestamp_type != at[22] >> 3 & 1:
                    break
                if not 0 <= big_endian(at + 57, 4) <= (size - 61) // RECORD_BYTES:
                    break
                last_offset = big_endian(at + 23, 4)
                if last_offset < 0 or not 0 <= big_endian(at, 8) < end_offset - last_offset:
                    break
                if value_bytes + size - 61 > room_bytes:
                    break
                timestamp_type = at[22] >> 3 & 1
                rows += big_endian(at + 57, 4)
                value_bytes += size - 61
                end += size
            if end == position:
                return position, start_offset, epoch, timestamp_type, 0
            self.make_room(rows, value_bytes)
            first = self.built
            try:
                while position < end:
                    at = <const uint8_t *> view.buf + position
                    size = whole_batch_bytes(at, end - position)
                    rows -= big_endian(at + 57, 4)
                    value_bytes -= size - 61
                    if not size or rows < 0 or value_bytes < 0:
                        break  # a writable buffer has changed since
                    if checks_crcs and ottla_crc32c(0, at + 21, size - 21) != (
                        <uint32_t> big_endian(at + 17, 4)
                    ):
                        break
                    before = self.built
                    try:
                        self.decode(
                            at + 61, size - 61, big_endian(at + 57, 4), big_endian(at, 8),
                            big_endian(at + 27, 8), timestamp_type, big_endian(at + 35, 8),
                            start_offset, end_offset,
                        )
                    except (CorruptRecordsError, OverflowError):
                        rewind(&self.built, &before)
                        break
                    epoch = big_endian(at + 12, 4)
                    start_offset = max(start_offset, big_endian(at, 8) + big_endian(at + 23, 4) + 1)
                    position += size
            except BaseException:
                rewind(&self.built, &first)
                raise
            if position == begin:
                timestamp_type = -1
            return (
                position, start_offset, epoch, timestamp_type,
                self.built.row_count - first.row_count,
            )
        finally:
            self.busy = False
            PyBuffer_Release(&view)

    cdef int decode(
        self, const uint8_t *at, Py_ssize_t size_bytes, int64_t count, int64_t base_offset,
        int64_t base_timestamp, bint appended, int64_t append_time, int64_t start_offset,
        int64_t end_offset,
    ) except -1:
        """Read records into memory that `make_room` has reserved."""
        cdef const uint8_t *end = at + size_bytes
        cdef Fields fields
        cdef int64_t index, offset
        cdef int64_t timestamp = append_time
        cdef int64_t wanted = self.wanted
        cdef int64_t most_timestamp = INT64_MAX // self.units_per_ms
        cdef Built *built = &self.built
        cdef int64_t row = built.row_count
        cdef int64_t *offsets = <int64_t *> built.offsets.start
        cdef int64_t *timestamps = <int64_t *> built.timestamps.start
        cdef int32_t *key_ends = <int32_t *> built.key.offsets.start
        cdef int32_t *value_ends = <int32_t *> built.value.offsets.start
        cdef bint valid
        cdef int why
        for index in range(count):
            why = parse(at, end, &fields)
            if why:
                raise corrupt(index, why)
            at = fields.end
            if base_offset > INT64_MAX - fields.offset_delta:
                raise corrupt(index, OFFSET_RANGE)
            if not appended:
                why = timestamp_of(base_timestamp, &fields, &timestamp)
                if why:
                    raise corrupt(index, why)
            offset = base_offset + fields.offset_delta
            if offset < start_offset or offset >= end_offset:
                continue
            offsets[row] = offset
            if wanted & TIMESTAMP:
                valid = -most_timestamp <= timestamp <= most_timestamp
                mark(&built.timestamps_valid, row, valid)
                timestamps[row] = timestamp * self.units_per_ms if valid else 0
            if wanted & KEY:
                mark(&built.key.valid, row, fields.key_bytes >= 0)
                if fields.key_bytes > 0:
                    reserve(&built.key.data, fields.key_bytes)
                    put_field(&built.key, fields.key, fields.key_bytes)
                key_ends[row + 1] = <int32_t> built.key.data.used
            if wanted & VALUE:
                mark(&built.value.valid, row, fields.value_bytes >= 0)
                if fields.value_bytes > 0:
                    put_field(&built.value, fields.value, fields.value_bytes)
                value_ends[row + 1] = <int32_t> built.value.data.used
            if wanted & HEADERS:
                if fields.header_count:
                    self.put_header_list(&fields, row, index)
                else:
                    mark(&built.headers_valid, row, False)
                    put_int32(&built.headers_offsets, built.header_count)
            row += 1
        if at != end:
            raise CorruptRecordsError("bytes follow the last record")
        built.row_count = row
        built.offsets.used = 8 * row
        if wanted & TIMESTAMP:
            built.timestamps.used = 8 * row
        if wanted & KEY:
            built.key.offsets.used = 4 * (row + 1)
        if wanted & VALUE:
            built.value.offsets.used = 4 * (row + 1)
        return 0

    cdef int put_header_list(self, const Fields *fields, int64_t row, int64_t index) except -1:
        """The headers of a parsed record; checks again, for a writable payload may have changed."""
        cdef Built *built = &self.built
        cdef const uint8_t *at = fields.headers
        cdef int64_t length = 0
        cdef int64_t number
        cdef int why
        mark(&built.headers_valid, row, True)
        for number in range(fields.header_count):
            why = read_length(&at, fields.end, &length)
            if why or length < 0:
                raise corrupt(index, why or NULL_HEADER_KEY)
            put_text(&built.header_key, built.header_count, at, length, self.limit_bytes)
            at += length
            why = read_length(&at, fields.end, &length)
            if why:
                raise corrupt(index, why)
            put_blob(&built.header_value, built.header_count, at, length)
            if length > 0:
                at += length
            built.header_count += 1
        return put_int32(&built.headers_offsets, built.header_count)

    def finish(self):
        """The columns; the builder is empty after that."""
        cdef Built *built = &self.built
        cdef int64_t rows = built.row_count
        cdef int64_t timestamp_nulls = built.timestamps_valid.null_count
        cdef int64_t headers_nulls = built.headers_valid.null_count
        cdef size_t key_bytes = built.key.data.used
        if self.busy:
            raise RuntimeError("another call appends to the columns")
        finished = BuiltColumns(
            rows,
            taken_column(&built.offsets),
            timestamp_nulls,
            taken_bits(&built.timestamps_valid, rows),
            taken_column(&built.timestamps),
            taken_blobs(&built.key, rows),
            taken_blobs(&built.value, rows),
            headers_nulls,
            taken_bits(&built.headers_valid, rows),
            taken_column(&built.headers_offsets),
            built.header_count,
            taken_blobs(&built.header_key, built.header_count),
            taken_blobs(&built.header_value, built.header_count),
        )
        self.last_key_bytes = key_bytes
        built.row_count = built.header_count = 0
        self.begin()
        return finished


def repeated_numbers(runs):
    """A column of 32-bit numbers: each (number, count) of the list, repeated."""
    cdef Output output = Output(NULL, 0, 0)
    cdef int64_t count
    cdef int64_t rows = 0
    cdef int64_t index
    cdef int32_t number
    cdef int32_t *at
    for _, count in runs:
        if count < 0 or count > INT32_MAX:
            raise ValueError("a number cannot be repeated that often")
        rows += count
    prepare(&output, 4 * rows)
    try:
        reserve(&output, 4 * rows)
        for number, count in runs:
            if output.used + 4 * count > <size_t> (4 * rows):
                raise RuntimeError("the list has changed")
            at = <int32_t *> (output.start + output.used)
            for index in range(count):
                at[index] = number
            output.used += 4 * count
        return taken_column(&output)
    finally:
        free(output.start)


# ---------------------------------------------------------------- columns to records

cdef struct Slot:
    Output output
    int64_t record_count
    int64_t base_timestamp
    int64_t max_timestamp


cdef struct TopicState:
    int64_t partition_count
    # The open batch of each partition.
    Slot *slots
    # The partition of records without a key, and the bytes that it has got.
    int64_t sticky
    int64_t sticky_bytes


cdef class SectionsEncoder:
    """Makes the records sections of batches out of rows, for all partitions in one pass.

    The partition is the row's own, else that of its key, else one to which records go until they are
    `sticky_bytes`, and then the next. A record that is larger than `limit_bytes` gets a batch of its
    own. After an error, rows may have been taken or not: the encoder is of no more use.

    A section's data is there for `seal` to look at, and may be gone when that has returned.
    """

    cdef TopicState *topics
    cdef int64_t topic_count
    cdef int64_t limit_bytes
    cdef int64_t sticky_bytes
    cdef int64_t first_partition
    cdef Output headers_output
    cdef readonly int64_t row_count
    cdef bint busy

    def __cinit__(self, int64_t limit_bytes, int64_t sticky_bytes, int64_t first_partition=0):
        if first_partition < 0:
            raise ValueError("the first partition cannot be negative")
        self.limit_bytes = limit_bytes
        self.sticky_bytes = sticky_bytes
        self.first_partition = first_partition

    def __dealloc__(self):
        cdef int64_t topic, partition
        for topic in range(self.topic_count):
            for partition in range(self.topics[topic].partition_count):
                free(self.topics[topic].slots[partition].output.start)
            free(self.topics[topic].slots)
        free(self.topics)
        free(self.headers_output.start)

    def add_topic(self, int64_t partition_count):
        """Add a topic; returns its number, by which rows refer to it."""
        cdef TopicState *topics
        cdef Slot *slots
        if self.busy:
            raise RuntimeError("another call appends to the encoder")
        if partition_count <= 0 or partition_count > INT32_MAX:
            raise ValueError("there have to be partitions")
        topics = <TopicState *> realloc(
            self.topics, (self.topic_count + 1) * sizeof(TopicState)
        )
        if topics == NULL:
            raise MemoryError
        self.topics = topics
        slots = <Slot *> calloc(partition_count, sizeof(Slot))
        if slots == NULL:
            raise MemoryError
        topics[self.topic_count] = TopicState(
            partition_count, slots, self.first_partition % partition_count, 0
        )
        self.topic_count += 1
        return self.topic_count - 1

    def append(self, rows, int64_t default_timestamp, seal):
        """Encode rows; returns the `seal`ed batches of full sections, in order for each partition.

        Rows without a timestamp get the default one.
        """
        cdef list held = []
        cdef list sealed = []
        cdef int64_t count, row, topic, partition, units_per_ms
        cdef int64_t key_bytes, value_bytes, timestamp
        cdef const char *key
        cdef const char *value
        cdef BlobsView keys, values
        cdef HeadersView headers
        cdef NumbersView timestamps, partitions, topics
        if self.busy:
            raise RuntimeError("another call appends to the encoder")
        self.busy = True
        try:
            count = rows.row_count
            check_rows(0, count)
            view_blobs(&keys, held, rows.key, count)
            view_blobs(&values, held, rows.value, count)
            view_headers(&headers, held, rows.headers, count)
            view_nullable_numbers(&timestamps, held, rows.timestamps, count)
            units_per_ms = rows.units_per_ms
            if not units_per_ms:
                raise ValueError("there have to be units in a millisecond")
            view_nullable_numbers(&partitions, held, rows.partitions, count)
            view_nullable_numbers(&topics, held, rows.topics, count)
            for row in range(count):
                find_blob(&keys, row, &key, &key_bytes)
                find_blob(&values, row, &value, &value_bytes)
                timestamp = default_timestamp
                if timestamps.present and is_valid(&timestamps.valid, row):
                    timestamp = self.in_ms(number_at(&timestamps, row), units_per_ms)
                self.headers_output.used = 0
                if headers.present and is_valid(&headers.valid, row):
                    self.put_header_list(&headers, row)
                topic = number_at(&topics, row) if topics.present else 0
                if topic < 0 or topic >= self.topic_count:
                    raise self.refused(f"there is no topic {topic}")
                partition = -1
                if partitions.present and is_valid(&partitions.valid, row):
                    partition = self.check_partition(topic, number_at(&partitions, row))
                elif key_bytes >= 0:
                    partition = self.partition_of(topic, key, key_bytes)
                self.put(
                    topic, partition, timestamp, key, key_bytes, value, value_bytes, seal, sealed
                )
                self.row_count += 1
            return sealed
        finally:
            self.busy = False

    cdef object refused(self, str why):
        return ValueError(f"row {self.row_count}: {why}")

    cdef inline int64_t partition_of(
        self, int64_t topic, const char *key, int64_t key_bytes
    ) noexcept:
        cdef int64_t count = self.topics[topic].partition_count
        if count == 1:
            return 0
        return (murmur2_of(<const uint8_t *> key, key_bytes) & <uint32_t> INT32_MAX) % count

    cdef int64_t check_partition(self, int64_t topic, int64_t partition) except -1:
        if partition < 0 or partition >= self.topics[topic].partition_count:
            raise self.refused(
                f"there is no partition {partition}, only {self.topics[topic].partition_count}"
            )
        return partition

    cdef inline int64_t in_ms(self, int64_t number, int64_t units_per_ms) except? -1:
        """A timestamp in milliseconds, rounded down."""
        cdef int64_t whole
        if units_per_ms == 1:
            return number
        if units_per_ms > 0:
            whole = number // units_per_ms
            return whole - 1 if number % units_per_ms < 0 else whole
        if number > INT64_MAX // -units_per_ms or number < -(INT64_MAX // -units_per_ms):
            raise self.refused("its timestamp is out of range")
        return number * -units_per_ms

    cdef int put_header_list(self, const HeadersView *view, int64_t row) except -1:
        """The number of headers and the headers of a row, if there are any."""
        cdef int64_t start = 0
        cdef int64_t end = 0
        cdef int64_t entry, key_bytes, value_bytes
        cdef const char *key
        cdef const char *value
        cdef Output *output = &self.headers_output
        cdef uint8_t *at
        find_range(&view.offsets, row, view.entry_count, &start, &end)
        if start == end:
            return 0
        if end - start > INT32_MAX:
            raise self.refused("it is larger than 2 GiB")
        reserve(output, VARINT_BYTES)
        output.used = put_varint(output.start, end - start) - output.start
        for entry in range(start, end):
            find_blob(&view.keys, entry, &key, &key_bytes)
            if key_bytes < 0 or not is_valid(&view.entries_valid, entry):
                raise self.refused("a header or its key is null")
            find_blob(&view.values, entry, &value, &value_bytes)
            reserve(output, 2 * VARINT_BYTES + key_bytes + (value_bytes if value_bytes > 0 else 0))
            at = put_bytes(output.start + output.used, key, key_bytes)
            at = put_bytes(at, value, value_bytes)
            output.used = at - output.start
        return 0

    cdef int put(
        self, int64_t topic, int64_t partition, int64_t timestamp, const char *key,
        int64_t key_bytes, const char *value, int64_t value_bytes, object seal, list sealed,
    ) except -1:
        """Write a record to its partition; -1: to any."""
        cdef TopicState *state = &self.topics[topic]
        cdef Slot *slot = &state.slots[partition if partition >= 0 else state.sticky]
        cdef int64_t delta = 0
        cdef size_t used_before = slot.output.used
        if GROWING_BYTES <= used_before <= slot.output.size <= 3 * GROWING_BYTES:
            reserve(&slot.output, min(self.limit_bytes, MOST_ROOM_BYTES))
        if slot.record_count and (
            delta_of(timestamp, slot.base_timestamp, &delta)
            or not put_parts(
                &slot.output, &self.headers_output, 0, delta, slot.record_count, key, key_bytes,
                value, value_bytes, min(self.limit_bytes, MOST_BYTES),
            )
        ):
            sealed.append(self.close_section(slot, topic, seal))
            used_before = 0
        if slot.record_count:
            slot.max_timestamp = max(slot.max_timestamp, timestamp)
        else:
            if not put_parts(
                &slot.output, &self.headers_output, 0, 0, 0, key, key_bytes, value, value_bytes,
                MOST_BYTES,
            ):
                raise self.refused("it is larger than 2 GiB")
            slot.base_timestamp = slot.max_timestamp = timestamp
        slot.record_count += 1
        if partition < 0:
            state.sticky_bytes += slot.output.used - used_before
            if state.sticky_bytes >= self.sticky_bytes:
                state.sticky_bytes = 0
                state.sticky = (state.sticky + 1) % state.partition_count
        return 0

    cdef object close_section(self, Slot *slot, int64_t topic, object seal):
        """The `seal`ed batch of the partition's records so far."""
        cdef int64_t partition = slot - self.topics[topic].slots
        cdef int64_t record_count = slot.record_count
        cdef size_t size = slot.output.size
        cdef Memory memory = taken(&slot.output)
        slot.record_count = 0
        result = seal(
            Section(
                topic, partition, record_count, slot.base_timestamp, slot.max_timestamp, memory
            )
        )
        if not memory.view_count:
            # It has no views any more. Memory that was just used is still in the cache.
            slot.output = Output(memory.start, 0, size)
            memory.start = NULL
            memory.size = 0
        return result

    def finish(self, seal):
        """The `seal`ed batches of all other sections; the encoder is empty after that."""
        cdef int64_t topic, partition
        cdef list sealed = []
        if self.busy:
            raise RuntimeError("another call appends to the encoder")
        self.busy = True
        try:
            for topic in range(self.topic_count):
                for partition in range(self.topics[topic].partition_count):
                    if self.topics[topic].slots[partition].record_count:
                        sealed.append(
                            self.close_section(
                                &self.topics[topic].slots[partition], topic, seal
                            )
                        )
            return sealed
        finally:
            self.busy = False
