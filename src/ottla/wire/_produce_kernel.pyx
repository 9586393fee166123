# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The codec of plain Produce requests, compiled: the same results as _produce_kernel_py.py."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from ottla.wire.primitives import uuid_bytes, uuid_of

cdef extern from "Python.h":
    object PyUnicode_DecodeUTF8(const char *text, Py_ssize_t size, const char *errors)
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL
    object PyByteArray_FromStringAndSize(const char *text, Py_ssize_t size)
    char *PyByteArray_AS_STRING(object array)
    int PyByteArray_Resize(object array, Py_ssize_t size) except -1

cdef enum:
    FIRST_VERSION = 3
    FIRST_WITH_START_OFFSET = 5
    FIRST_WITH_RECORD_ERRORS = 8
    FIRST_FLEXIBLE = 9
    FIRST_WITH_TOPIC_IDS = 13
    LAST_VERSION = 13
    MAX_BATCHES = 64
    MAX_STRING = 32767
    SMALLEST_FRAME = 8
    # The bytes of a response apart from names: of a frame, of a topic and of a partition, at most.
    RESPONSE_BYTES = 32
    TOPIC_BYTES = 32
    PARTITION_BYTES = 48


cdef inline int64_t big_endian(const uint8_t *at, int size_bytes) noexcept nogil:
    """A signed number of two, four or eight bytes."""
    cdef uint64_t number = 0
    cdef int index
    for index in range(size_bytes):
        number = number << 8 | at[index]
    if size_bytes == 2:
        return <int16_t> number
    if size_bytes == 4:
        return <int32_t> number
    return <int64_t> number


# ---------------------------------------------------------------- reading

cdef struct Reader:
    const uint8_t *at
    const uint8_t *end
    bint is_plain  # nothing has been found that another encoder would write otherwise


cdef inline int64_t number(Reader *reader, int size_bytes) noexcept nogil:
    cdef int64_t value
    if reader.end - reader.at < size_bytes:
        reader.is_plain = False
        return 0
    value = big_endian(reader.at, size_bytes)
    reader.at += size_bytes
    return value


cdef inline int64_t compact(Reader *reader) noexcept nogil:
    """A compact length, -1 for null; only in the fewest bytes."""
    cdef uint64_t value = 0
    cdef uint64_t byte
    cdef int shift = 0
    while True:
        if reader.at >= reader.end or shift > 28:
            reader.is_plain = False
            return -1
        byte = reader.at[0]
        reader.at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    if (shift and byte == 0) or value > 0x7FFFFFFF:
        reader.is_plain = False
        return -1
    return <int64_t> value - 1


cdef inline int64_t length(Reader *reader, bint flexible, int size_bytes) noexcept nogil:
    """The length of a string, of bytes or of a list that is in the rest of the frame; -1 for null."""
    cdef int64_t value = compact(reader) if flexible else number(reader, size_bytes)
    if value < -1 or value > reader.end - reader.at:
        reader.is_plain = False
        return -1
    return value


cdef inline void no_tags(Reader *reader) noexcept nogil:
    """No tagged fields."""
    if reader.at >= reader.end or reader.at[0] != 0:
        reader.is_plain = False
    else:
        reader.at += 1


cdef inline object text_of(const uint8_t *at, int64_t size_bytes):
    return PyUnicode_DecodeUTF8(<const char *> at, size_bytes, NULL)


cdef struct LastTopic:
    # Neighbouring requests mostly name the same topic.
    const uint8_t *at
    int64_t size_bytes


cdef object read_frame(
    object received, const uint8_t *origin, const uint8_t *start, const uint8_t *end,
    LastTopic *last, list last_topic,
):
    """One frame without its size; None if it is not plain."""
    cdef Reader reader
    cdef int64_t size, topic_count, topic_number, partition_count, batch_count
    cdef int64_t version, correlation_id, acks, partition
    cdef const uint8_t *name
    cdef bint flexible
    cdef object transactional_id = None
    cdef object topic
    cdef list batches
    reader.at = start
    reader.end = end
    reader.is_plain = True
    if number(&reader, 2) != 0:
        return None
    version = number(&reader, 2)
    if not FIRST_VERSION <= version <= LAST_VERSION:
        return None
    flexible = version >= FIRST_FLEXIBLE
    correlation_id = number(&reader, 4)
    size = length(&reader, False, 2)
    if not reader.is_plain:
        return None
    if size > 0:
        text_of(reader.at, size)
        reader.at += size
    if flexible:
        no_tags(&reader)
    size = length(&reader, flexible, 2)
    if not reader.is_plain or size > MAX_STRING:
        return None
    if size >= 0:
        transactional_id = text_of(reader.at, size)
        reader.at += size
    acks = number(&reader, 2)
    number(&reader, 4)
    topic_count = length(&reader, flexible, 4)
    if not reader.is_plain or not 0 < topic_count <= MAX_BATCHES:
        return None
    batches = []
    batch_count = 0
    for topic_number in range(topic_count):
        if version >= FIRST_WITH_TOPIC_IDS:
            size = 16
            if reader.end - reader.at < size:
                return None
        else:
            size = length(&reader, flexible, 2)
            if not reader.is_plain or not 0 <= size <= MAX_STRING:
                return None
        name = reader.at
        reader.at += size
        if version >= FIRST_WITH_TOPIC_IDS:
            topic = uuid_of(PyBytes_FromStringAndSize(<const char *> name, size))
        elif last.at != NULL and last.size_bytes == size and memcmp(last.at, name, size) == 0:
            topic = last_topic[0]
        else:
            topic = text_of(name, size)
            last.at = name
            last.size_bytes = size
            last_topic[0] = topic
        partition_count = length(&reader, flexible, 4)
        batch_count += partition_count
        if not reader.is_plain or partition_count <= 0 or batch_count > MAX_BATCHES:
            return None
        for _ in range(partition_count):
            partition = number(&reader, 4)
            size = length(&reader, flexible, 4)
            if not reader.is_plain or size < 0:
                return None
            batches.append(
                (topic_number, topic, partition, received[reader.at - origin:reader.at - origin + size])
            )
            reader.at += size
            if flexible:
                no_tags(&reader)
        if flexible:
            no_tags(&reader)
    if flexible:
        no_tags(&reader)
    if not reader.is_plain or reader.at != reader.end:
        return None
    return (end - origin, version, correlation_id, acks, transactional_id, batches)


def read_plain_requests(received, Py_ssize_t start, Py_ssize_t end):
    """The plain Produce requests from `start` on, as far as they are complete before `end`."""
    cdef Py_buffer view
    cdef const uint8_t *at
    cdef const uint8_t *stop
    cdef int64_t size
    cdef LastTopic last
    cdef list last_topic = [None]
    cdef list found = []
    last.at = NULL
    last.size_bytes = 0
    PyObject_GetBuffer(received, &view, PyBUF_SIMPLE)
    try:
        if not 0 <= start <= end <= view.len:
            raise ValueError("no range of the received bytes")
        at = <const uint8_t *> view.buf + start
        stop = <const uint8_t *> view.buf + end
        while stop - at >= 4:
            size = big_endian(at, 4)
            if size < SMALLEST_FRAME or size > stop - at - 4:
                break
            try:
                frame = read_frame(
                    received, <const uint8_t *> view.buf, at + 4, at + 4 + size, &last, last_topic
                )
            except UnicodeDecodeError:
                break
            if frame is None:
                break
            found.append(frame)
            at += 4 + size
        return found
    finally:
        PyBuffer_Release(&view)


# ---------------------------------------------------------------- writing

cdef inline uint8_t *put(uint8_t *at, int64_t value, int size_bytes) noexcept nogil:
    cdef uint64_t rest = <uint64_t> value
    cdef int index
    for index in range(size_bytes - 1, -1, -1):
        at[index] = rest & 0xFF
        rest >>= 8
    return at + size_bytes


cdef inline uint8_t *put_length(
    uint8_t *at, int64_t value, bint flexible, int size_bytes
) noexcept nogil:
    cdef uint64_t rest = value + 1
    if not flexible:
        return put(at, value, size_bytes)
    while rest > 0x7F:
        at[0] = rest & 0x7F | 0x80
        at += 1
        rest >>= 7
    at[0] = rest
    return at + 1


cdef Py_ssize_t size_of(list requests) except -1:
    """At least the number of bytes of the responses."""
    cdef Py_ssize_t total = 0
    cdef Py_ssize_t name_bytes
    cdef object topic
    cdef tuple request, batch
    cdef list batches
    for request in requests:
        batches = request[5]
        total += RESPONSE_BYTES + len(batches) * (TOPIC_BYTES + PARTITION_BYTES)
        if <int64_t> request[1] < FIRST_WITH_TOPIC_IDS:
            for batch in batches:
                topic = batch[1]
                PyUnicode_AsUTF8AndSize(topic, &name_bytes)
                total += name_bytes
    return total


cdef uint8_t *put_topic(uint8_t *at, object topic, int64_t version, bint flexible) except NULL:
    cdef Py_ssize_t name_bytes
    cdef const char *name
    if version >= FIRST_WITH_TOPIC_IDS:
        topic = uuid_bytes(topic)
        memcpy(at, PyBytes_AS_STRING(topic), 16)
        return at + 16
    name = PyUnicode_AsUTF8AndSize(topic, &name_bytes)
    at = put_length(at, name_bytes, flexible, 2)
    memcpy(at, name, name_bytes)
    return at + name_bytes


cdef uint8_t *put_response(
    uint8_t *start, tuple request, list base_offsets, list append_times, list start_offsets,
    Py_ssize_t first,
) except NULL:
    """One response, whose batches begin at `first` of the lists; returns where it ends."""
    cdef int64_t version = request[1]
    cdef bint flexible = version >= FIRST_FLEXIBLE
    cdef list batches = request[5]
    cdef Py_ssize_t count = len(batches)
    cdef Py_ssize_t index = 0
    cdef Py_ssize_t following
    cdef int64_t topic_number
    cdef tuple batch
    cdef uint8_t *at = put(start + 4, request[2], 4)
    if flexible:
        at = put(at, 0, 1)
    batch = batches[count - 1]
    at = put_length(at, <int64_t> batch[0] + 1, flexible, 4)
    while index < count:
        batch = batches[index]
        topic_number = batch[0]
        at = put_topic(at, batch[1], version, flexible)
        following = index + 1
        while following < count and <int64_t> (<tuple> batches[following])[0] == topic_number:
            following += 1
        at = put_length(at, following - index, flexible, 4)
        while index < following:
            batch = batches[index]
            at = put(at, batch[2], 4)
            at = put(at, 0, 2)
            at = put(at, base_offsets[first + index], 8)
            at = put(at, append_times[first + index], 8)
            if version >= FIRST_WITH_START_OFFSET:
                at = put(at, start_offsets[first + index], 8)
            if version >= FIRST_WITH_RECORD_ERRORS:
                at = put_length(at, 0, flexible, 4)
                at = put_length(at, -1, flexible, 2)
            if flexible:
                at = put(at, 0, 1)
            index += 1
        if flexible:
            at = put(at, 0, 1)
    at = put(at, 0, 4)
    if flexible:
        at = put(at, 0, 1)
    put(start, at - start - 4, 4)
    return at


def write_plain_responses(
    list requests, list base_offsets, list append_times, list start_offsets
):
    """The responses to plain requests whose batches were all appended; those with acks=0 have none."""
    cdef object out = PyByteArray_FromStringAndSize(NULL, size_of(requests))
    cdef uint8_t *start = <uint8_t *> PyByteArray_AS_STRING(out)
    cdef uint8_t *at = start
    cdef Py_ssize_t first = 0
    cdef tuple request
    cdef list batches
    for request in requests:
        batches = request[5]
        if first + len(batches) > len(base_offsets):
            raise ValueError("a batch without an offset")
        if <int64_t> request[3] != 0:
            at = put_response(at, request, base_offsets, append_times, start_offsets, first)
        first += len(batches)
    PyByteArray_Resize(out, at - start)
    return out
