# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The kernel of committed offsets, compiled: the same results and errors as _offset_kernel_py.py."""

from cpython.unicode cimport PyUnicode_AsUTF8String
from libc.stdint cimport int32_t, uint32_t

from struct import error as struct_error

include "_one_record.pxi"

cdef extern from *:
    """
    /* A committed offset is a named tuple of str, int, UUID and None: it cannot be part of a cycle, so the collector
       need not know of it. Since 3.14 a tuple caches its hash, which only tuple.__new__ would initialise. */
    static PyObject *ottla_new_entry(PyObject *type, PyObject **fields, Py_ssize_t count) {
        PyObject *entry = ((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, count);
        if (entry == NULL) return NULL;
    #if PY_VERSION_HEX >= 0x030E0000
        ((PyTupleObject *)entry)->ob_hash = -1;
    #endif
        for (Py_ssize_t index = 0; index < count; index++) {
            Py_INCREF(fields[index]);
            PyTuple_SET_ITEM(entry, index, fields[index]);
        }
        PyObject_GC_UnTrack(entry);
        return entry;
    }
    """
    object ottla_new_entry(object type, void **fields, Py_ssize_t count)
    int PyDict_SetItem(object target, object key, object value) except -1

cdef enum:
    VERSION = 3
    VERSION_WITH_ID = 4
    TOPIC_ID_BYTES = 16
    MAX_TEXT_BYTES = 32767
    # Version, offset, leader epoch, length of the metadata, time, and the tag with the topic's id.
    LARGEST_FIXED_BYTES = 2 + 8 + 4 + 5 + 8 + 3 + TOPIC_ID_BYTES


cdef inline uint8_t *put_number(uint8_t *at, int64_t number, int size) noexcept nogil:
    cdef int index
    for index in range(size):
        at[index] = <uint8_t> (<uint64_t> number >> (8 * (size - 1 - index)))
    return at + size


cdef int64_t number_of(list numbers, Py_ssize_t index, int64_t low, int64_t high) except? -1:
    cdef int64_t number
    try:
        number = <object> PyList_GET_ITEM(numbers, index)
    except OverflowError:
        raise struct_error("a number does not fit") from None
    if number < low or number > high:
        raise struct_error("a number does not fit")
    return number


def put_offsets(
    dict table, type entry, str group_id, str topic, list partitions, list offsets,
    list leader_epochs, list metadata, committed_at_ms, expires_at_ms, topic_id, int64_t position,
):
    """Puts an entry for each offset into a table, by topic and partition; they have the positions behind `position`."""
    cdef Py_ssize_t index
    cdef Py_ssize_t count = len(partitions)
    cdef void *fields[10]
    cdef object place
    if not issubclass(entry, tuple):
        raise TypeError("an entry has to be a tuple")
    if not count == len(offsets) == len(leader_epochs) == len(metadata):
        raise ValueError("columns of different lengths")
    fields[0] = <void *> group_id
    fields[1] = <void *> topic
    fields[6] = <void *> committed_at_ms
    fields[7] = <void *> expires_at_ms
    fields[8] = <void *> topic_id
    for index in range(count):
        place = position + index + 1
        fields[2] = <void *> PyList_GET_ITEM(partitions, index)
        fields[3] = <void *> PyList_GET_ITEM(offsets, index)
        fields[4] = <void *> PyList_GET_ITEM(leader_epochs, index)
        fields[5] = <void *> PyList_GET_ITEM(metadata, index)
        fields[9] = <void *> place
        PyDict_SetItem(
            table, (topic, <object> fields[2]), ottla_new_entry(entry, fields, 10)
        )


def encode_offsets(
    bytes key_start, list partitions, list offsets, list leader_epochs, list metadata,
    int64_t committed_at_ms, bytes topic_id, Py_ssize_t first, Py_ssize_t end, int64_t first_delta,
):
    """The records of the offsets from `first` to `end`, of which the first has this offset delta in its batch."""
    cdef Output output = Output(NULL, 0, 0)
    cdef Output value = Output(NULL, 0, 0)
    cdef Output key = Output(NULL, 0, 0)
    cdef Output no_headers = Output(NULL, 0, 0)
    cdef Py_ssize_t index
    cdef Py_ssize_t key_start_bytes = len(key_start)
    cdef bytes text
    cdef uint8_t *at
    cdef uint64_t rest
    cdef Py_ssize_t count = len(partitions)
    if not 0 <= first <= end <= count:
        raise ValueError(f"rows {first} to {end} of {count}")
    if not count == len(offsets) == len(leader_epochs) == len(metadata):
        raise ValueError("columns of different lengths")
    if topic_id is not None and len(topic_id) != TOPIC_ID_BYTES:
        raise ValueError(f"a topic id of {len(topic_id)} bytes")
    try:
        reserve(&key, key_start_bytes + 4)
        memcpy(key.start, PyBytes_AS_STRING(key_start), key_start_bytes)
        reserve(&output, (end - first) * (key_start_bytes + 4 + LARGEST_FIXED_BYTES + 16) + 1)
        for index in range(first, end):
            text = PyUnicode_AsUTF8String(<object> PyList_GET_ITEM(metadata, index))
            put_number(
                key.start + key_start_bytes,
                number_of(partitions, index, -(<int64_t> 1 << 31), (<int64_t> 1 << 31) - 1), 4,
            )
            value.used = 0
            reserve(&value, LARGEST_FIXED_BYTES + len(text))
            at = put_number(value.start, VERSION if topic_id is None else VERSION_WITH_ID, 2)
            at = put_number(at, number_of(offsets, index, INT64_MIN, INT64_MAX), 8)
            at = put_number(
                at, number_of(leader_epochs, index, -(<int64_t> 1 << 31), (<int64_t> 1 << 31) - 1), 4
            )
            if topic_id is None:
                if len(text) > MAX_TEXT_BYTES:
                    raise struct_error(f"a text of {len(text)} bytes")
                at = put_number(at, len(text), 2)
            else:
                rest = len(text) + 1
                while rest > 0x7F:
                    at[0] = <uint8_t> (rest & 0x7F | 0x80)
                    at += 1
                    rest >>= 7
                at[0] = <uint8_t> rest
                at += 1
            memcpy(at, PyBytes_AS_STRING(text), len(text))
            at = put_number(at + len(text), committed_at_ms, 8)
            if topic_id is not None:
                at[0] = 1
                at[1] = 0
                at[2] = TOPIC_ID_BYTES
                memcpy(at + 3, PyBytes_AS_STRING(topic_id), TOPIC_ID_BYTES)
                at += 3 + TOPIC_ID_BYTES
            put_parts(
                &output, &no_headers, index - first, 0, first_delta + index - first,
                <char *> key.start, key_start_bytes + 4, <char *> value.start, at - value.start,
                INT64_MAX,
            )
        return PyBytes_FromStringAndSize(<char *> output.start, output.used)
    finally:
        free(output.start)
        free(value.start)
        free(key.start)
