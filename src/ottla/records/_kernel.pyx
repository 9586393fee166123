# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The record kernel, compiled: the same results and errors as _kernel_py.py.

Every read from the payload is checked against the end of its record, and every record against the
end of the payload, before it happens.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int8_t, int16_t, int32_t, uint32_t

from ottla.records.record import Record, Scan

include "_one_record.pxi"

cdef extern from *:
    """
    /* A Record is a named tuple of bytes, int, str and None: it cannot be part of a cycle, so the
       collector need not know of it. Lists of a million records would cost it dearly. Since 3.14 a
       tuple caches its hash, which only tuple.__new__ would initialise. */
    static PyObject *ottla_new_record(PyObject *type, PyObject *offset, PyObject *timestamp,
                                      PyObject *key, PyObject *value, PyObject *headers) {
        PyObject *record = ((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, 5);
        if (record == NULL) return NULL;
    #if PY_VERSION_HEX >= 0x030E0000
        ((PyTupleObject *)record)->ob_hash = -1;
    #endif
        Py_INCREF(offset); PyTuple_SET_ITEM(record, 0, offset);
        Py_INCREF(timestamp); PyTuple_SET_ITEM(record, 1, timestamp);
        Py_INCREF(key); PyTuple_SET_ITEM(record, 2, key);
        Py_INCREF(value); PyTuple_SET_ITEM(record, 3, value);
        Py_INCREF(headers); PyTuple_SET_ITEM(record, 4, headers);
        PyObject_GC_UnTrack(record);
        return record;
    }

    /* The same for tuples of numbers: those of a batch's header, and the place of a batch in a log. */
    static PyObject *ottla_new_numbers(PyObject *type, const int64_t *fields, int count) {
        PyObject *tuple = ((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, count);
        if (tuple == NULL) return NULL;
    #if PY_VERSION_HEX >= 0x030E0000
        ((PyTupleObject *)tuple)->ob_hash = -1;
    #endif
        for (int index = 0; index < count; index++) {
            PyObject *number = PyLong_FromLongLong(fields[index]);
            if (number == NULL) { Py_DECREF(tuple); return NULL; }
            PyTuple_SET_ITEM(tuple, index, number);
        }
        PyObject_GC_UnTrack(tuple);
        return tuple;
    }

    static PyObject *ottla_new_extent(PyObject *type, int64_t a, int64_t b, int64_t c, int64_t d) {
        int64_t fields[4] = {a, b, c, d};
        return ottla_new_numbers(type, fields, 4);
    }

    static PyObject *ottla_new_header(PyObject *type, int64_t a, int64_t b, int64_t c, int64_t d,
                                      int64_t e, int64_t f, int64_t g, int64_t h, int64_t i,
                                      int64_t j, int64_t k, int64_t l, int64_t m) {
        int64_t fields[13] = {a, b, c, d, e, f, g, h, i, j, k, l, m};
        return ottla_new_numbers(type, fields, 13);
    }
    """
    object ottla_new_extent(object type, int64_t a, int64_t b, int64_t c, int64_t d)
    object ottla_new_header(
        object type, int64_t a, int64_t b, int64_t c, int64_t d, int64_t e, int64_t f, int64_t g,
        int64_t h, int64_t i, int64_t j, int64_t k, int64_t l, int64_t m
    )
    object ottla_new_record(
        object type, object offset, object timestamp, object key, object value, object headers
    )

include "_batch_header.pxi"
include "_crc32c.pxi"

# The size from which the work takes longer than releasing and taking the GIL.
cdef Py_ssize_t LONG_BYTES = 64 * 1024


def crc32c(data, uint32_t start=0):
    """CRC-32C of `data`; `start` is the CRC of the bytes before it."""
    cdef Py_buffer view
    cdef uint32_t crc
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    if view.len < LONG_BYTES:
        crc = ottla_crc32c(start, <const uint8_t *> view.buf, view.len)
    else:
        with nogil:
            crc = ottla_crc32c(start, <const uint8_t *> view.buf, view.len)
    PyBuffer_Release(&view)
    return crc


def crc32c_shifted(uint32_t difference, size_t count):
    """The difference of two CRCs after the same `count` bytes follow in both."""
    return ottla_crc32c_shifted(difference, count)


def crc32c_software(data, uint32_t start=0):
    """The same by tables, as on processors without the instruction."""
    cdef Py_buffer view
    cdef uint32_t crc
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    crc = ottla_crc32c_software(start, <const uint8_t *> view.buf, view.len)
    PyBuffer_Release(&view)
    return crc


cdef extern from "Python.h":
    object PyByteArray_FromStringAndSize(const char *text, Py_ssize_t size)
    char *PyByteArray_AS_STRING(object array)

cdef object RECORD = Record
cdef object SCAN = Scan


# ---------------------------------------------------------------- reading

def decode_records(
    payload, int64_t count, int64_t base_offset, int64_t base_timestamp, append_time_ms
):
    """The `count` records that fill `payload`; an append time replaces their timestamps."""
    cdef Py_buffer view
    cdef bint appended = append_time_ms is not None
    cdef int64_t append_time = append_time_ms if appended else 0
    PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
    try:
        check_count(count, view.len)
        return decode(
            <const uint8_t *> view.buf,
            view.len,
            count,
            base_offset,
            base_timestamp,
            appended,
            append_time,
        )
    finally:
        PyBuffer_Release(&view)


cdef list decode(
    const uint8_t *at,
    Py_ssize_t size_bytes,
    int64_t count,
    int64_t base_offset,
    int64_t base_timestamp,
    bint appended,
    int64_t append_time,
):
    cdef const uint8_t *end = at + size_bytes
    cdef Fields fields
    cdef int64_t index
    cdef int64_t timestamp = append_time
    cdef int64_t last_timestamp = append_time
    cdef object timestamp_object = PyLong_FromLongLong(append_time)
    cdef object key, value, record
    cdef tuple headers
    cdef int why
    cdef list records = []
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
            # Neighbours often share their millisecond.
            if timestamp != last_timestamp:
                timestamp_object = PyLong_FromLongLong(timestamp)
                last_timestamp = timestamp
        key = None
        if fields.key_bytes >= 0:
            key = PyBytes_FromStringAndSize(<char *> fields.key, fields.key_bytes)
        value = None
        if fields.value_bytes >= 0:
            value = PyBytes_FromStringAndSize(<char *> fields.value, fields.value_bytes)
        headers = ()
        if fields.header_count > 0:
            headers = read_headers(&fields, index)
        record = ottla_new_record(
            RECORD,
            PyLong_FromLongLong(base_offset + fields.offset_delta),
            timestamp_object,
            key,
            value,
            headers,
        )
        records.append(record)
    if at != end:
        raise CorruptRecordsError("bytes follow the last record")
    return records


# A scan of at least this number of bytes releases the GIL.
cdef enum:
    LONG_SCAN_BYTES = 1 << 20


cdef struct Sums:
    int64_t least
    int64_t most
    int64_t offset_delta_of_most
    int64_t null_key_count
    bint consecutive
    int64_t index  # of the record that is malformed
    bint is_rest  # whether bytes follow the last record


cdef int sum_up(
    const uint8_t *at, Py_ssize_t size_bytes, int64_t count, Sums *sums
) noexcept nogil:
    """Check all records; returns the flaw of the first malformed one, or 0."""
    cdef const uint8_t *end = at + size_bytes
    cdef Fields fields
    cdef int64_t index
    cdef int why
    sums.least = sums.most = sums.offset_delta_of_most = sums.null_key_count = 0
    sums.consecutive = True
    for index in range(count):
        why = parse(at, end, &fields)
        if why:
            sums.index = index
            return why
        at = fields.end
        if index == 0:
            sums.least = sums.most = fields.timestamp_delta
            sums.offset_delta_of_most = fields.offset_delta
        elif fields.timestamp_delta > sums.most:
            sums.most = fields.timestamp_delta
            sums.offset_delta_of_most = fields.offset_delta
        elif fields.timestamp_delta < sums.least:
            sums.least = fields.timestamp_delta
        if fields.offset_delta != index:
            sums.consecutive = False
        if fields.key_bytes < 0:
            sums.null_key_count += 1
    sums.is_rest = at != end
    return 0


cdef object scan(const uint8_t *at, Py_ssize_t size_bytes, int64_t count):
    cdef Sums sums
    cdef int why
    check_count(count, size_bytes)
    if size_bytes < LONG_SCAN_BYTES:
        why = sum_up(at, size_bytes, count, &sums)
    else:
        with nogil:
            why = sum_up(at, size_bytes, count, &sums)
    if why:
        raise corrupt(sums.index, why)
    if sums.is_rest:
        raise CorruptRecordsError("bytes follow the last record")
    return ottla_new_record(
        SCAN,
        sums.least,
        sums.most,
        sums.offset_delta_of_most,
        sums.null_key_count,
        True if sums.consecutive else False,
    )


def scan_records(payload, int64_t count):
    """Check the `count` records that fill `payload` and sum them up, without making objects."""
    cdef Py_buffer view
    PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
    try:
        return scan(<const uint8_t *> view.buf, view.len, count)
    finally:
        PyBuffer_Release(&view)


cdef struct Found:
    bint is_found
    int64_t offset
    int64_t timestamp
    int64_t index  # of the record that is malformed


cdef int find(
    const uint8_t *at,
    Py_ssize_t size_bytes,
    int64_t count,
    int64_t base_offset,
    int64_t base_timestamp,
    bint appended,
    int64_t append_time,
    int64_t wanted_ms,
    int64_t start_offset,
    Found *found,
) noexcept nogil:
    """Read records until one is late enough; returns the flaw of a malformed one before it, or 0."""
    cdef const uint8_t *end = at + size_bytes
    cdef Fields fields
    cdef int64_t index
    cdef int64_t timestamp = append_time
    cdef int why
    found.is_found = False
    for index in range(count):
        found.index = index
        why = parse(at, end, &fields)
        if why:
            return why
        at = fields.end
        if base_offset > INT64_MAX - fields.offset_delta:
            return OFFSET_RANGE
        if not appended:
            why = timestamp_of(base_timestamp, &fields, &timestamp)
            if why:
                return why
        if timestamp >= wanted_ms and base_offset + fields.offset_delta >= start_offset:
            found.is_found = True
            found.offset = base_offset + fields.offset_delta
            found.timestamp = timestamp
            return 0
    return 0


def find_by_time(
    payload,
    int64_t count,
    int64_t base_offset,
    int64_t base_timestamp,
    append_time_ms,
    int64_t wanted_ms,
    int64_t start_offset,
):
    """Offset and timestamp of the first record that is late enough and not below an offset; None if there is none."""
    cdef Py_buffer view
    cdef bint appended = append_time_ms is not None
    cdef int64_t append_time = append_time_ms if appended else 0
    cdef Found found
    cdef int why
    PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
    try:
        check_count(count, view.len)
        with nogil:
            why = find(
                <const uint8_t *> view.buf,
                view.len,
                count,
                base_offset,
                base_timestamp,
                appended,
                append_time,
                wanted_ms,
                start_offset,
                &found,
            )
    finally:
        PyBuffer_Release(&view)
    if why:
        raise corrupt(found.index, why)
    return (found.offset, found.timestamp) if found.is_found else None


def records_end(payload, Py_ssize_t start, int64_t count):
    """Where `count` records end that begin at `start`."""
    cdef Py_buffer view
    cdef const uint8_t *at
    cdef Fields fields
    cdef int64_t index
    cdef int why
    PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
    try:
        if not 0 <= start <= view.len:
            raise ValueError("a start outside of the records")
        at = <const uint8_t *> view.buf + start
        for index in range(count):
            why = parse(at, <const uint8_t *> view.buf + view.len, &fields)
            if why:
                raise corrupt(index, why)
            at = fields.end
        return at - <const uint8_t *> view.buf
    finally:
        PyBuffer_Release(&view)


cdef object header_of(header_class, const uint8_t *at):
    return ottla_new_header(
        header_class,
        big_endian(at, 8),
        big_endian(at + 8, 4),
        big_endian(at + 12, 4),
        <int8_t> at[16],
        <uint32_t> big_endian(at + 17, 4),
        big_endian(at + 21, 2),
        big_endian(at + 23, 4),
        big_endian(at + 27, 8),
        big_endian(at + 35, 8),
        big_endian(at + 43, 8),
        big_endian(at + 51, 2),
        big_endian(at + 53, 4),
        big_endian(at + 57, 4),
    )


def inspect_batch(header_class, batch):
    """As batch.inspect: the header, whether the checksum is right, and the result of a scan.

    The caller has made sure that `batch` is one whole batch of magic 2. There is no scan of a batch
    that is compressed or whose checksum is wrong.
    """
    cdef Py_buffer view
    cdef const uint8_t *at
    cdef uint32_t crc
    cdef bint matches
    cdef object header
    cdef object found = None
    PyObject_GetBuffer(batch, &view, PyBUF_SIMPLE)
    try:
        if view.len < 61:
            raise CorruptRecordsError(f"a batch header is truncated to {view.len} bytes")
        at = <const uint8_t *> view.buf
        crc = <uint32_t> big_endian(at + 17, 4)
        matches = ottla_crc32c(0, at + 21, view.len - 21) == crc
        header = header_of(header_class, at)
        if matches and at[22] & 7 == 0:
            found = scan(at + 61, view.len - 61, big_endian(at + 57, 4))
        return header, matches, found
    finally:
        PyBuffer_Release(&view)


# Times beyond it are left to code whose numbers do not overflow.
cdef int64_t LATEST_PLAIN_MS = <int64_t> 1 << 61


cdef bint is_plain(
    const uint8_t *at, Py_ssize_t size_bytes, int64_t earliest_ms, int64_t latest_ms, bint needs_keys
) noexcept nogil:
    cdef int64_t record_count = big_endian(at + 57, 4)
    cdef int64_t base_timestamp = big_endian(at + 27, 8)
    cdef int64_t producer_id = big_endian(at + 43, 8)
    cdef int64_t attributes = big_endian(at + 21, 2)
    cdef Sums sums
    if (
        at[16] != 2
        or big_endian(at, 8) != 0
        or big_endian(at + 8, 4) != size_bytes - 12
        or attributes & ~0x10
        or record_count <= 0
        # Each has at least this many bytes.
        or record_count > (size_bytes - 61) // RECORD_BYTES
        or big_endian(at + 23, 4) != record_count - 1
    ):
        return False
    if producer_id >= 0:
        if big_endian(at + 51, 2) < 0 or big_endian(at + 53, 4) < 0:
            return False
    elif attributes:
        return False
    if ottla_crc32c(0, at + 21, size_bytes - 21) != <uint32_t> big_endian(at + 17, 4):
        return False
    if sum_up(at + 61, size_bytes - 61, record_count, &sums) or sums.is_rest:
        return False
    return (
        sums.consecutive
        and not (needs_keys and sums.null_key_count)
        and -LATEST_PLAIN_MS < base_timestamp < LATEST_PLAIN_MS
        and -LATEST_PLAIN_MS < sums.least
        and sums.most < LATEST_PLAIN_MS
        and earliest_ms <= base_timestamp + sums.least
        and base_timestamp + sums.most <= latest_ms
        and base_timestamp + sums.most == big_endian(at + 35, 8)
    )


def plain_header(
    header_class, batch, Py_ssize_t most_bytes, int64_t earliest_ms, int64_t latest_ms, bint needs_keys
):
    """The header of a batch that a log takes as its producer has sent it; None for every other.

    One whole batch of right checksum with well formed, consecutive and not compressed records, whose times are in
    order and within the bounds.
    """
    cdef Py_buffer view
    cdef const uint8_t *at
    cdef bint plain
    PyObject_GetBuffer(batch, &view, PyBUF_SIMPLE)
    try:
        if not 61 <= view.len <= most_bytes:
            return None
        at = <const uint8_t *> view.buf
        if view.len < LONG_BYTES:
            plain = is_plain(at, view.len, earliest_ms, latest_ms, needs_keys)
        else:
            with nogil:
                plain = is_plain(at, view.len, earliest_ms, latest_ms, needs_keys)
        return header_of(header_class, at) if plain else None
    finally:
        PyBuffer_Release(&view)


# ---------------------------------------------------------------- joining

def join_batches(extent_class, list batches, list headers, int64_t base_offset, int64_t leader_epoch):
    """Batches back to back with the offsets that follow `base_offset`, and the extent of each."""
    cdef Py_ssize_t size_bytes = 0
    cdef Py_ssize_t index
    cdef Py_ssize_t count = len(batches)
    cdef int64_t last_offset
    cdef Py_buffer view
    cdef uint8_t *at
    cdef uint8_t *end
    cdef object header
    cdef list extents = []
    if count != len(headers):
        raise ValueError("a header for each batch is needed")
    for index in range(count):
        size_bytes += len(batches[index])
    joined = PyByteArray_FromStringAndSize(NULL, size_bytes)
    at = <uint8_t *> PyByteArray_AS_STRING(joined)
    end = at + size_bytes
    for index in range(count):
        header = headers[index]
        PyObject_GetBuffer(batches[index], &view, PyBUF_SIMPLE)
        try:
            if view.len < 61 or view.len > end - at:
                raise ValueError("a batch without a header")
            memcpy(at, view.buf, view.len)
            put_big_endian(at, base_offset, 8)
            put_big_endian(at + 12, leader_epoch, 4)
            last_offset = base_offset + <int64_t> header[6]
            extents.append(
                ottla_new_extent(extent_class, base_offset, last_offset, header[8], view.len)
            )
            at += view.len
        finally:
            PyBuffer_Release(&view)
        base_offset = last_offset + 1
    return joined, extents


cdef inline void put_big_endian(uint8_t *at, int64_t value, int size_bytes) noexcept nogil:
    cdef uint64_t rest = <uint64_t> value
    cdef int index
    for index in range(size_bytes - 1, -1, -1):
        at[index] = rest & 0xFF
        rest >>= 8


# ---------------------------------------------------------------- writing

cdef int put_record(
    Output *output, Output *headers_output, object record, int64_t index, int64_t base_offset,
    int64_t base_timestamp,
) except -1:
    cdef object offset, timestamp, key, value, headers
    cdef int64_t offset_delta, timestamp_delta, number
    cdef int overflow = 0
    if not isinstance(record, tuple) or len(<tuple> record) != 5:
        raise TypeError(f"record {index}: it has to be a Record")
    offset = (<tuple> record)[0]
    timestamp = (<tuple> record)[1]
    key = (<tuple> record)[2]
    value = (<tuple> record)[3]
    headers = (<tuple> record)[4]
    if not isinstance(offset, int) or not isinstance(timestamp, int):
        raise TypeError(f"record {index}: offset and timestamp have to be int")
    number = PyLong_AsLongLongAndOverflow(offset, &overflow)
    # Both tests together keep the subtraction within 64 bits.
    if overflow or number < base_offset or (base_offset < 0 and number > base_offset + INT32_MAX):
        raise ValueError(f"record {index}: its offset is too far from the base offset")
    offset_delta = number - base_offset
    if offset_delta > INT32_MAX:
        raise ValueError(f"record {index}: its offset is too far from the base offset")
    number = PyLong_AsLongLongAndOverflow(timestamp, &overflow)
    if overflow or delta_of(number, base_timestamp, &timestamp_delta):
        raise ValueError(f"record {index}: its timestamp is too far from the base timestamp")
    headers_output.used = 0
    if headers is not ():
        put_headers(headers_output, headers, index)
    put_fields(
        output, headers_output, index, timestamp_delta, offset_delta, key, value, INT64_MAX
    )
    return 0


def encode_records(records, int64_t base_offset, int64_t base_timestamp):
    """The records section of a batch, not compressed."""
    cdef Output output = Output(NULL, 0, 0)
    cdef Output headers_output = Output(NULL, 0, 0)
    cdef int64_t index = 0
    cdef object record
    try:
        reserve(&output, 1024)
        if type(records) is list:
            for record in <list> records:
                put_record(&output, &headers_output, record, index, base_offset, base_timestamp)
                index += 1
        else:
            for record in records:
                put_record(&output, &headers_output, record, index, base_offset, base_timestamp)
                index += 1
        return PyBytes_FromStringAndSize(<char *> output.start, output.used)
    finally:
        free(output.start)
        free(headers_output.start)
