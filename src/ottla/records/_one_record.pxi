# Included by the compiled kernels: how one record is read and written.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_ITEM
from cpython.tuple cimport PyTuple_GET_ITEM
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from ottla.records.errors import CorruptRecordsError
from ottla.records.record import MIN_HEADER_BYTES, MIN_RECORD_BYTES

cdef extern from *:
    object PyLong_FromLongLong(long long number)
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow) except? -1
    tuple PyTuple_New(Py_ssize_t size)
    void PyTuple_SET_ITEM(tuple target, Py_ssize_t index, object item)
    void Py_INCREF(object item)

cdef int64_t RECORD_BYTES = MIN_RECORD_BYTES
cdef int64_t HEADER_BYTES = MIN_HEADER_BYTES

cdef enum Malformed:
    FINE = 0
    VARINT_TRUNCATED
    VARINT_TOO_LONG
    NEGATIVE_LENGTH
    OVERRUNS_BATCH
    OVERRUNS_RECORD
    NEGATIVE_OFFSET_DELTA
    TOO_MANY_HEADERS
    NULL_HEADER_KEY
    LENGTH_MISMATCH
    OFFSET_RANGE
    TIMESTAMP_RANGE

cdef tuple REASONS = (
    "",
    "a varint is truncated",
    "a varint is too long",
    "a length is negative",
    "it overruns the batch",
    "a field overruns its record",
    "its offset delta is negative",
    "it has more headers than bytes for them",
    "a header key is null",
    "its length is not that of its fields",
    "its offset is out of range",
    "its timestamp is out of range",
)


cdef struct Fields:
    int64_t timestamp_delta
    int64_t offset_delta
    const uint8_t *key
    int64_t key_bytes
    const uint8_t *value
    int64_t value_bytes
    int64_t header_count
    const uint8_t *headers
    const uint8_t *end


cdef object corrupt(int64_t index, int why):
    return CorruptRecordsError(f"record {index}: {REASONS[why]}")


cdef inline int read_varint(
    const uint8_t **position, const uint8_t *end, int bits, int64_t *result
) noexcept nogil:
    """A zigzag varint of 32 or 64 bits; moves `position` behind it."""
    cdef const uint8_t *at = position[0]
    cdef uint64_t raw, byte
    cdef int shift = 7
    if at >= end:
        return VARINT_TRUNCATED
    raw = at[0]
    at += 1
    if raw >= 0x80 and at < end and at[0] < 0x80:
        # Most varints have one byte or two.
        raw = (raw & 0x7F) | <uint64_t> at[0] << 7
        at += 1
    elif raw >= 0x80:
        raw &= 0x7F
        while True:
            if shift >= bits:
                return VARINT_TOO_LONG
            if at >= end:
                return VARINT_TRUNCATED
            byte = at[0]
            at += 1
            # The last byte may only fill the bits that are left.
            if shift + 7 > bits and byte < 0x80 and byte >> (bits - shift):
                return VARINT_TOO_LONG
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
    position[0] = at
    result[0] = <int64_t> (raw >> 1) ^ -<int64_t> (raw & 1)
    return FINE


cdef inline int read_length(
    const uint8_t **position, const uint8_t *end, int64_t *length
) noexcept nogil:
    """The length of a nullable field that has to end by `end`; -1 is null."""
    cdef int why = read_varint(position, end, 32, length)
    if why:
        return why
    if length[0] < -1:
        return NEGATIVE_LENGTH
    if length[0] > end - position[0]:
        return OVERRUNS_RECORD
    return FINE


cdef enum:
    # From here on the first fields of a record fit, whatever they are, if their varints have two bytes at most.
    QUICK_BYTES = 16


cdef inline bint read_short(const uint8_t **position, int64_t *result) noexcept nogil:
    """A zigzag varint of at most two bytes, which can be read; False for a longer one."""
    cdef const uint8_t *at = position[0]
    cdef uint64_t raw = at[0]
    if raw < 0x80:
        position[0] = at + 1
    elif at[1] < 0x80:
        raw = (raw & 0x7F) | <uint64_t> at[1] << 7
        position[0] = at + 2
    else:
        return False
    result[0] = <int64_t> (raw >> 1) ^ -<int64_t> (raw & 1)
    return True


cdef inline bint parse_quickly(
    const uint8_t *at, const uint8_t *end, Fields *fields
) noexcept nogil:
    """Read a record of short varints without headers, as most are; False for every other, also a malformed one."""
    cdef int64_t length = 0
    cdef const uint8_t *last
    if end - at < QUICK_BYTES or not read_short(&at, &length) or not 0 <= length <= end - at:
        return False
    last = at + length
    at += 1
    if not (
        read_short(&at, &fields.timestamp_delta)
        and read_short(&at, &fields.offset_delta)
        and read_short(&at, &fields.key_bytes)
    ):
        return False
    # Behind the key there are two bytes at least: the length of the value, and the number of headers.
    if fields.offset_delta < 0 or not -1 <= fields.key_bytes <= last - at - 2 or last - at < 2:
        return False
    fields.key = at
    if fields.key_bytes > 0:
        at += fields.key_bytes
    if not read_short(&at, &fields.value_bytes) or fields.value_bytes < -1:
        return False
    fields.value = at
    if last - at - 1 != (fields.value_bytes if fields.value_bytes > 0 else 0) or (last - 1)[0]:
        return False
    fields.header_count = 0
    fields.headers = fields.end = last
    return True


cdef inline int parse(const uint8_t *at, const uint8_t *end, Fields *fields) noexcept nogil:
    """Read one record that has to end by `end`."""
    cdef int64_t length = 0
    cdef int64_t number
    cdef int why
    if parse_quickly(at, end, fields):
        return FINE
    why = read_varint(&at, end, 32, &length)
    if why:
        return why
    if length < 0:
        return NEGATIVE_LENGTH
    if length > end - at:
        return OVERRUNS_BATCH
    end = at + length
    if at >= end:
        return OVERRUNS_RECORD
    at += 1
    why = read_varint(&at, end, 64, &fields.timestamp_delta)
    if why:
        return why
    why = read_varint(&at, end, 32, &fields.offset_delta)
    if why:
        return why
    if fields.offset_delta < 0:
        return NEGATIVE_OFFSET_DELTA
    why = read_length(&at, end, &fields.key_bytes)
    if why:
        return why
    fields.key = at
    if fields.key_bytes > 0:
        at += fields.key_bytes
    why = read_length(&at, end, &fields.value_bytes)
    if why:
        return why
    fields.value = at
    if fields.value_bytes > 0:
        at += fields.value_bytes
    why = read_varint(&at, end, 32, &fields.header_count)
    if why:
        return why
    if fields.header_count < 0:
        return NEGATIVE_LENGTH
    if fields.header_count > (end - at) // HEADER_BYTES:
        return TOO_MANY_HEADERS
    fields.headers = at
    for number in range(fields.header_count):
        why = read_length(&at, end, &length)
        if why:
            return why
        if length < 0:
            return NULL_HEADER_KEY
        at += length
        why = read_length(&at, end, &length)
        if why:
            return why
        if length > 0:
            at += length
    if at != end:
        return LENGTH_MISMATCH
    fields.end = end
    return FINE


cdef tuple read_headers(const Fields *fields, int64_t index):
    """The headers of a parsed record; checks again, for a writable payload may have changed."""
    cdef const uint8_t *at = fields.headers
    cdef int64_t length = 0
    cdef int64_t number
    cdef int why
    cdef object value
    cdef object header
    cdef tuple headers = PyTuple_New(fields.header_count)
    for number in range(fields.header_count):
        why = read_length(&at, fields.end, &length)
        if why or length < 0:
            raise corrupt(index, why or NULL_HEADER_KEY)
        # Keys that are not UTF-8 survive decoding and encoding.
        key = PyUnicode_DecodeUTF8(<char *> at, length, "surrogateescape")
        at += length
        why = read_length(&at, fields.end, &length)
        if why:
            raise corrupt(index, why)
        if length < 0:
            value = None
        else:
            value = PyBytes_FromStringAndSize(<char *> at, length)
            at += length
        header = (key, value)
        Py_INCREF(header)
        PyTuple_SET_ITEM(headers, number, header)
    return headers


cdef int check_count(int64_t count, Py_ssize_t size_bytes) except -1:
    """Refuse a number of records that the bytes cannot hold."""
    if count < 0:
        raise CorruptRecordsError("the number of records is negative")
    if count > size_bytes // RECORD_BYTES:
        raise CorruptRecordsError("there are more records than bytes for them")
    return 0


cdef inline int timestamp_of(
    int64_t base_timestamp, const Fields *fields, int64_t *timestamp
) noexcept nogil:
    """The timestamp of a record whose batch has not got one for all."""
    if fields.timestamp_delta >= 0:
        if base_timestamp > INT64_MAX - fields.timestamp_delta:
            return TIMESTAMP_RANGE
    elif base_timestamp < INT64_MIN - fields.timestamp_delta:
        return TIMESTAMP_RANGE
    timestamp[0] = base_timestamp + fields.timestamp_delta
    return FINE


cdef inline int delta_of(int64_t timestamp, int64_t base_timestamp, int64_t *delta) noexcept nogil:
    """How far a timestamp is from the base timestamp, if 64 bits can say that."""
    if (base_timestamp > 0 and timestamp < INT64_MIN + base_timestamp) or (
        base_timestamp < 0 and timestamp > INT64_MAX + base_timestamp
    ):
        return TIMESTAMP_RANGE
    delta[0] = timestamp - base_timestamp
    return FINE


# ---------------------------------------------------------------- writing

cdef struct Output:
    uint8_t *start
    size_t used
    size_t size


cdef int grow(Output *output, size_t more) except -1:
    cdef size_t size = output.size * 2 + more
    cdef uint8_t *start = <uint8_t *> realloc(output.start, size)
    if start == NULL:
        raise MemoryError
    output.start = start
    output.size = size
    return 0


cdef inline int reserve(Output *output, size_t more) except -1:
    """Make room for `more` bytes, which the next writes need not check for."""
    if output.size - output.used < more:
        return grow(output, more)
    return 0


cdef inline uint64_t zigzag(int64_t number) noexcept nogil:
    return (<uint64_t> number << 1) ^ <uint64_t> (-1 if number < 0 else 0)


cdef inline int varint_bytes(int64_t number) noexcept nogil:
    cdef uint64_t rest = zigzag(number)
    cdef int size = 1
    while rest >= 0x80:
        rest >>= 7
        size += 1
    return size


cdef inline uint8_t *put_varint(uint8_t *at, int64_t number) noexcept nogil:
    cdef uint64_t rest = zigzag(number)
    while rest >= 0x80:
        at[0] = <uint8_t> (rest | 0x80)
        at += 1
        rest >>= 7
    at[0] = <uint8_t> rest
    return at + 1


cdef inline uint8_t *put_bytes(uint8_t *at, const char *data, int64_t size) noexcept nogil:
    at = put_varint(at, size)
    if size > 0:
        memcpy(at, data, size)
        at += size
    return at


cdef enum:
    # The longest varint that is written.
    VARINT_BYTES = 10


cdef inline object item(object items, Py_ssize_t index):
    """An item of a list or tuple that is long enough; None of None."""
    if isinstance(items, list):
        return <object> PyList_GET_ITEM(items, index)
    if isinstance(items, tuple):
        return <object> PyTuple_GET_ITEM(items, index)
    return None


cdef int put_headers(Output *output, object headers, int64_t index) except -1:
    """The number of headers and the headers, from the start of `output`."""
    cdef uint8_t *at
    cdef object header, key, value
    cdef bytes encoded
    cdef const char *data
    cdef int64_t size
    cdef Py_ssize_t number = 0
    if not isinstance(headers, (tuple, list)):
        raise TypeError(f"record {index}: headers have to be a tuple or a list")
    output.used = 0
    reserve(output, VARINT_BYTES)
    output.used = put_varint(output.start, len(headers)) - output.start
    # No iterator is made: that might run the collector and with it other code, which may want to
    # write headers too.
    while number < len(headers):
        header = item(headers, number)
        number += 1
        if (
            not isinstance(header, tuple)
            or len(<tuple> header) != 2
            or not isinstance((<tuple> header)[0], str)
        ):
            raise TypeError(f"record {index}: a header has to be a tuple of str and bytes or None")
        key = (<tuple> header)[0]
        value = (<tuple> header)[1]
        encoded = (<str> key).encode("utf-8", "surrogateescape")
        if value is None:
            data = NULL
            size = -1
        elif isinstance(value, bytes):
            data = PyBytes_AS_STRING(value)
            size = PyBytes_GET_SIZE(value)
        else:
            raise TypeError(f"record {index}: a header value has to be bytes or None")
        reserve(output, 2 * VARINT_BYTES + len(encoded) + (size if size > 0 else 0))
        at = output.start + output.used
        at = put_bytes(at, PyBytes_AS_STRING(encoded), len(encoded))
        at = put_bytes(at, data, size)
        output.used = at - output.start
    return 0


cdef inline int put_fields(
    Output *output, const Output *headers_output, int64_t index, int64_t timestamp_delta,
    int64_t offset_delta, object key, object value, int64_t limit_bytes,
) except -1:
    """Write a record with headers that were written before (none: no headers), if it fits: 1."""
    cdef int64_t key_bytes = -1
    cdef int64_t value_bytes = -1
    cdef const char *key_data = NULL
    cdef const char *value_data = NULL
    if key is not None:
        if not isinstance(key, bytes):
            raise TypeError(f"record {index}: key has to be bytes or None")
        key_data = PyBytes_AS_STRING(key)
        key_bytes = PyBytes_GET_SIZE(key)
    if value is not None:
        if not isinstance(value, bytes):
            raise TypeError(f"record {index}: value has to be bytes or None")
        value_data = PyBytes_AS_STRING(value)
        value_bytes = PyBytes_GET_SIZE(value)
    return put_parts(
        output, headers_output, index, timestamp_delta, offset_delta, key_data, key_bytes,
        value_data, value_bytes, limit_bytes,
    )


cdef inline int put_parts(
    Output *output, const Output *headers_output, int64_t index, int64_t timestamp_delta,
    int64_t offset_delta, const char *key_data, int64_t key_bytes, const char *value_data,
    int64_t value_bytes, int64_t limit_bytes,
) except -1:
    """The same, of a key and a value wherever they are; a size of -1 is null."""
    cdef int64_t body_bytes
    cdef uint8_t *at
    body_bytes = (
        1
        + varint_bytes(timestamp_delta)
        + varint_bytes(offset_delta)
        + varint_bytes(key_bytes)
        + (key_bytes if key_bytes > 0 else 0)
        + varint_bytes(value_bytes)
        + (value_bytes if value_bytes > 0 else 0)
        + (headers_output.used if headers_output.used else 1)
    )
    if <int64_t> output.used + varint_bytes(body_bytes) + body_bytes > limit_bytes:
        return 0
    if body_bytes > INT32_MAX:
        raise ValueError(f"record {index}: it is larger than 2 GiB")
    reserve(output, body_bytes + VARINT_BYTES)
    at = put_varint(output.start + output.used, body_bytes)
    at[0] = 0
    at = put_varint(at + 1, timestamp_delta)
    at = put_varint(at, offset_delta)
    at = put_bytes(at, key_data, key_bytes)
    at = put_bytes(at, value_data, value_bytes)
    if headers_output.used:
        memcpy(at, headers_output.start, headers_output.used)
        at += headers_output.used
    else:
        at[0] = 0
        at += 1
    output.used = at - output.start
    return 1
