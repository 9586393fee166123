# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The codec of plain requests to group coordinators, compiled: the same results as _group_kernel_py.py."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from ottla.wire.primitives import uuid_bytes, uuid_of

cdef extern from "Python.h":
    object PyUnicode_DecodeUTF8(const char *text, Py_ssize_t size, const char *errors)
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL
    object PyByteArray_FromStringAndSize(const char *text, Py_ssize_t size)
    char *PyByteArray_AS_STRING(object array)
    int PyByteArray_Resize(object array, Py_ssize_t size) except -1

cdef enum:
    OFFSET_COMMIT = 8
    JOIN_GROUP = 11
    HEARTBEAT = 12
    SYNC_GROUP = 14
    MAX_STRING = 32767
    SMALLEST_FRAME = 8
    MAX_PROTOCOLS = 64
    MAX_ASSIGNMENTS = 4096
    MAX_TOPICS = 64
    MAX_OFFSETS = 512
    # The bytes of a response apart from strings and elements, at most; and those of a length.
    RESPONSE_BYTES = 64
    LENGTH_BYTES = 5


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
    bint flexible
    bint is_plain  # nothing has been found that another encoder would write otherwise
    int64_t version
    int64_t correlation_id


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
    """No tagged fields, where there may be some."""
    if not reader.flexible:
        return
    if reader.at >= reader.end or reader.at[0] != 0:
        reader.is_plain = False
    else:
        reader.at += 1


cdef inline object text_or_null(Reader *reader):
    cdef int64_t size = length(reader, reader.flexible, 2)
    cdef const uint8_t *at = reader.at
    if size < 0:
        return None
    if size > MAX_STRING:
        reader.is_plain = False
        return None
    reader.at += size
    return PyUnicode_DecodeUTF8(<const char *> at, size, NULL)


cdef inline object text(Reader *reader):
    found = text_or_null(reader)
    if found is None:
        reader.is_plain = False
    return found


cdef inline object data(Reader *reader):
    cdef int64_t size = length(reader, reader.flexible, 4)
    cdef const uint8_t *at = reader.at
    if size < 0:
        reader.is_plain = False
        return None
    reader.at += size
    return PyBytes_FromStringAndSize(<const char *> at, size)


cdef object begin(Reader *reader, int api_key, int first_version, int last_version, int first_flexible):
    """Reads the header; the client id, or None where it is null."""
    if number(reader, 2) != api_key:
        reader.is_plain = False
        return None
    reader.version = number(reader, 2)
    if not first_version <= reader.version <= last_version:
        reader.is_plain = False
        return None
    reader.correlation_id = number(reader, 4)
    reader.flexible = False  # the length of the client id is not
    client_id = text_or_null(reader)
    reader.flexible = reader.version >= first_flexible
    no_tags(reader)
    return client_id


cdef inline bint is_whole(Reader *reader) noexcept nogil:
    """Whether all of the frame was read, and was plain."""
    no_tags(reader)
    return reader.is_plain and reader.at == reader.end


cdef object read_heartbeat(Reader *reader, Py_ssize_t following):
    client_id = begin(reader, HEARTBEAT, 0, 4, 4)
    if not reader.is_plain:
        return None
    group_id = text(reader)
    generation = number(reader, 4)
    member_id = text(reader)
    instance_id = text_or_null(reader) if reader.version >= 3 else None
    if not is_whole(reader):
        return None
    return (
        following, reader.version, reader.correlation_id, client_id,
        group_id, generation, member_id, instance_id,
    )


cdef object read_sync(Reader *reader, Py_ssize_t following):
    cdef list assignments = []
    cdef int64_t count
    client_id = begin(reader, SYNC_GROUP, 0, 5, 4)
    if not reader.is_plain:
        return None
    group_id = text(reader)
    generation = number(reader, 4)
    member_id = text(reader)
    instance_id = text_or_null(reader) if reader.version >= 3 else None
    protocol_type = text_or_null(reader) if reader.version >= 5 else None
    protocol = text_or_null(reader) if reader.version >= 5 else None
    count = length(reader, reader.flexible, 4)
    if not reader.is_plain or not 0 <= count <= MAX_ASSIGNMENTS:
        return None
    for _ in range(count):
        named = text(reader)
        assignment = data(reader)
        no_tags(reader)
        if not reader.is_plain:
            return None
        assignments.append((named, assignment))
    if not is_whole(reader):
        return None
    return (
        following, reader.version, reader.correlation_id, client_id,
        group_id, generation, member_id, instance_id, protocol_type, protocol, assignments,
    )


cdef object read_join(Reader *reader, Py_ssize_t following):
    cdef list protocols = []
    cdef int64_t count
    client_id = begin(reader, JOIN_GROUP, 0, 9, 6)
    if not reader.is_plain:
        return None
    group_id = text(reader)
    session_timeout_ms = number(reader, 4)
    rebalance_timeout_ms = number(reader, 4) if reader.version >= 1 else -1
    member_id = text(reader)
    instance_id = text_or_null(reader) if reader.version >= 5 else None
    protocol_type = text(reader)
    count = length(reader, reader.flexible, 4)
    if not reader.is_plain or not 0 <= count <= MAX_PROTOCOLS:
        return None
    for _ in range(count):
        name = text(reader)
        metadata = data(reader)
        no_tags(reader)
        if not reader.is_plain:
            return None
        protocols.append((name, metadata))
    reason = text_or_null(reader) if reader.version >= 8 else None
    if not is_whole(reader):
        return None
    return (
        following, reader.version, reader.correlation_id, client_id,
        group_id, session_timeout_ms, rebalance_timeout_ms, member_id, instance_id, protocol_type,
        protocols, reason,
    )


cdef object read_offsets(Reader *reader, int64_t *room):
    """A topic with its offsets, as columns; None if it is not plain."""
    cdef int64_t count
    cdef object topic
    cdef list partitions = []
    cdef list offsets = []
    cdef list leader_epochs = []
    cdef list metadata = []
    if reader.version >= 10:
        if reader.end - reader.at < 16:
            return None
        topic = uuid_of(PyBytes_FromStringAndSize(<const char *> reader.at, 16))
        reader.at += 16
    else:
        topic = text(reader)
    count = length(reader, reader.flexible, 4)
    room[0] -= count
    if not reader.is_plain or count <= 0 or room[0] < 0:
        return None
    for _ in range(count):
        partitions.append(number(reader, 4))
        offsets.append(number(reader, 8))
        leader_epochs.append(number(reader, 4) if reader.version >= 6 else -1)
        metadata.append(text_or_null(reader))
        no_tags(reader)
        if not reader.is_plain:
            return None
    no_tags(reader)
    return (topic, partitions, offsets, leader_epochs, metadata)


cdef object read_commit(Reader *reader, Py_ssize_t following):
    cdef list topics = []
    cdef int64_t count
    cdef int64_t room = MAX_OFFSETS
    client_id = begin(reader, OFFSET_COMMIT, 2, 10, 8)
    if not reader.is_plain:
        return None
    group_id = text(reader)
    generation = number(reader, 4)
    member_id = text(reader)
    instance_id = text_or_null(reader) if reader.version >= 7 else None
    retention_ms = number(reader, 8) if reader.version <= 4 else -1
    count = length(reader, reader.flexible, 4)
    if not reader.is_plain or not 0 < count <= MAX_TOPICS:
        return None
    for _ in range(count):
        topic = read_offsets(reader, &room)
        if topic is None:
            return None
        topics.append(topic)
    if not is_whole(reader):
        return None
    return (
        following, reader.version, reader.correlation_id, client_id,
        group_id, generation, member_id, instance_id, retention_ms, topics,
    )


cdef object read_plain(int api_key, object received, Py_ssize_t start, Py_ssize_t end):
    cdef Py_buffer view
    cdef Reader reader
    cdef int64_t size
    cdef Py_ssize_t following
    PyObject_GetBuffer(received, &view, PyBUF_SIMPLE)
    try:
        if not 0 <= start <= end <= view.len:
            raise ValueError("no range of the received bytes")
        if end - start < 4:
            return None
        reader.at = <const uint8_t *> view.buf + start + 4
        size = big_endian(reader.at - 4, 4)
        if size < SMALLEST_FRAME or size > end - start - 4:
            return None
        reader.end = reader.at + size
        reader.is_plain = True
        following = start + 4 + size
        if api_key == HEARTBEAT:
            return read_heartbeat(&reader, following)
        if api_key == OFFSET_COMMIT:
            return read_commit(&reader, following)
        if api_key == JOIN_GROUP:
            return read_join(&reader, following)
        return read_sync(&reader, following)
    except UnicodeDecodeError:
        return None
    finally:
        PyBuffer_Release(&view)


def read_plain_heartbeat(received, Py_ssize_t start, Py_ssize_t end):
    """The Heartbeat at `start`, if it is plain and complete before `end`."""
    return read_plain(HEARTBEAT, received, start, end)


def read_plain_sync(received, Py_ssize_t start, Py_ssize_t end):
    """The SyncGroup at `start`, if it is plain and complete before `end`."""
    return read_plain(SYNC_GROUP, received, start, end)


def read_plain_join(received, Py_ssize_t start, Py_ssize_t end):
    """The JoinGroup at `start`, if it is plain and complete before `end`."""
    return read_plain(JOIN_GROUP, received, start, end)


def read_plain_commit(received, Py_ssize_t start, Py_ssize_t end):
    """The OffsetCommit at `start`, if it is plain and complete before `end`."""
    return read_plain(OFFSET_COMMIT, received, start, end)


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


cdef inline Py_ssize_t text_bytes(object value) except -1:
    """At least the bytes of a text or null, with its length."""
    cdef Py_ssize_t size = 0
    if value is not None:
        PyUnicode_AsUTF8AndSize(value, &size)
        if size > MAX_STRING:
            raise ValueError("a text that is too long for the protocol")
    return size + LENGTH_BYTES


cdef inline uint8_t *put_text(uint8_t *at, object value, bint flexible) except NULL:
    cdef Py_ssize_t size
    cdef const char *source
    if value is None:
        return put_length(at, -1, flexible, 2)
    source = PyUnicode_AsUTF8AndSize(value, &size)
    at = put_length(at, size, flexible, 2)
    memcpy(at, source, size)
    return at + size


cdef inline uint8_t *put_data(uint8_t *at, bytes value, bint flexible) except NULL:
    cdef Py_ssize_t size = PyBytes_GET_SIZE(value)
    at = put_length(at, size, flexible, 4)
    memcpy(at, PyBytes_AS_STRING(value), size)
    return at + size


cdef inline object allocated(Py_ssize_t size):
    return PyByteArray_FromStringAndSize(NULL, size)


cdef inline uint8_t *start_of(object out) noexcept:
    return <uint8_t *> PyByteArray_AS_STRING(out)


cdef inline uint8_t *put_header(
    uint8_t *start, int64_t correlation_id, bint flexible
) noexcept nogil:
    cdef uint8_t *at = put(start + 4, correlation_id, 4)
    return put(at, 0, 1) if flexible else at


cdef inline object finished(object out, uint8_t *start, uint8_t *at, bint flexible):
    """Ends the response and fills in its size."""
    if flexible:
        at = put(at, 0, 1)
    put(start, at - start - 4, 4)
    PyByteArray_Resize(out, at - start)
    return out


def write_heartbeat_response(int64_t version, int64_t correlation_id, int64_t error):
    """The frame of a response to a Heartbeat."""
    cdef bint flexible = version >= 4
    cdef object out = allocated(RESPONSE_BYTES)
    cdef uint8_t *start = start_of(out)
    cdef uint8_t *at = put_header(start, correlation_id, flexible)
    if version >= 1:
        at = put(at, 0, 4)
    at = put(at, error, 2)
    return finished(out, start, at, flexible)


def write_sync_response(
    int64_t version, int64_t correlation_id, int64_t error, protocol_type, protocol,
    bytes assignment not None,
):
    """The frame of a response to a SyncGroup."""
    cdef bint flexible = version >= 4
    cdef object out = allocated(
        RESPONSE_BYTES + text_bytes(protocol_type) + text_bytes(protocol) + len(assignment)
    )
    cdef uint8_t *start = start_of(out)
    cdef uint8_t *at = put_header(start, correlation_id, flexible)
    if version >= 1:
        at = put(at, 0, 4)
    at = put(at, error, 2)
    if version >= 5:
        at = put_text(at, protocol_type, flexible)
        at = put_text(at, protocol, flexible)
    at = put_data(at, assignment, flexible)
    return finished(out, start, at, flexible)


def write_join_response(
    int64_t version, int64_t correlation_id, int64_t error, int64_t generation, protocol_type,
    protocol, str leader not None, bint skip_assignment, str member_id not None,
    tuple members not None,
):
    """The frame of a response to a JoinGroup; members are their ids, instance ids and metadata."""
    cdef bint flexible = version >= 6
    cdef Py_ssize_t size = RESPONSE_BYTES + text_bytes(protocol_type) + text_bytes(protocol)
    cdef object out
    cdef uint8_t *start
    cdef uint8_t *at
    if protocol is None and version < 7:
        raise ValueError("a protocol that is null before version 7")
    size += text_bytes(leader) + text_bytes(member_id)
    for member in members:
        size += text_bytes(member[0]) + text_bytes(member[1]) + LENGTH_BYTES + 1
        size += len(<bytes?> member[2])
    out = allocated(size)
    start = start_of(out)
    at = put_header(start, correlation_id, flexible)
    if version >= 2:
        at = put(at, 0, 4)
    at = put(at, error, 2)
    at = put(at, generation, 4)
    if version >= 7:
        at = put_text(at, protocol_type, flexible)
    at = put_text(at, protocol, flexible)
    at = put_text(at, leader, flexible)
    if version >= 9:
        at = put(at, skip_assignment, 1)
    at = put_text(at, member_id, flexible)
    at = put_length(at, len(members), flexible, 4)
    for member in members:
        at = put_text(at, member[0], flexible)
        if version >= 5:
            at = put_text(at, member[1], flexible)
        at = put_data(at, member[2], flexible)
        if flexible:
            at = put(at, 0, 1)
    return finished(out, start, at, flexible)


def write_commit_response(
    int64_t version, int64_t correlation_id, list topics not None, list codes
):
    """The frame of a response to an OffsetCommit; topics as they were read.

    `codes` are the errors of all partitions, None if there is none.
    """
    cdef bint flexible = version >= 8
    cdef Py_ssize_t size = RESPONSE_BYTES
    cdef Py_ssize_t place = 0
    cdef Py_ssize_t count
    cdef object out
    cdef uint8_t *start
    cdef uint8_t *at
    cdef tuple topic
    cdef list partitions
    for topic in topics:
        partitions = topic[1]
        place += len(partitions)
        size += 16 + LENGTH_BYTES + 1 + len(partitions) * 7
        if version < 10:
            size += text_bytes(topic[0])
    if codes is not None and len(codes) != place:
        raise ValueError("an error code for each partition is needed")
    out = allocated(size)
    start = start_of(out)
    at = put_header(start, correlation_id, flexible)
    if version >= 3:
        at = put(at, 0, 4)
    at = put_length(at, len(topics), flexible, 4)
    place = 0
    for topic in topics:
        partitions = topic[1]
        if version >= 10:
            memcpy(at, PyBytes_AS_STRING(uuid_bytes(topic[0])), 16)
            at += 16
        else:
            at = put_text(at, topic[0], flexible)
        at = put_length(at, len(partitions), flexible, 4)
        for partition in partitions:
            at = put(at, partition, 4)
            at = put(at, 0 if codes is None else codes[place], 2)
            place += 1
            if flexible:
                at = put(at, 0, 1)
        if flexible:
            at = put(at, 0, 1)
    return finished(out, start, at, flexible)
