# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The column kernel, compiled: the same results and errors as _columns_kernel_py.py.

Every read is checked against the end of the buffer before it happens.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_ITEM, PyList_New, PyList_SET_ITEM
from cpython.ref cimport Py_INCREF
from cpython.unicode cimport PyUnicode_AsUTF8String, PyUnicode_DecodeUTF8
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from struct import error as struct_error

from ottla.wire.primitives import check_length, read_uvarint, skip_tagged, write_uvarint
from ottla.wire.types import MalformedMessageError

cdef enum:
    MAX_COLUMNS = 16
    MAX_STRING_BYTES = 32767


cdef inline uint64_t big_endian(const uint8_t *at, int size) noexcept nogil:
    cdef uint64_t value = 0
    cdef int index
    for index in range(size):
        value = value << 8 | at[index]
    return value


cdef inline int size_of(uint8_t kind) noexcept nogil:
    """The bytes of a number; 0 for text."""
    if kind == c"b" or kind == c"?":
        return 1
    if kind == c"h" or kind == c"H":
        return 2
    if kind == c"i" or kind == c"I":
        return 4
    if kind == c"q":
        return 8
    return 0


cdef object number_at(const uint8_t *at, uint8_t kind):
    if kind == c"i":
        return <int32_t> big_endian(at, 4)
    if kind == c"q":
        return <int64_t> big_endian(at, 8)
    if kind == c"h":
        return <int16_t> big_endian(at, 2)
    if kind == c"H":
        return <uint16_t> big_endian(at, 2)
    if kind == c"I":
        return <uint32_t> big_endian(at, 4)
    if kind == c"?":
        return at[0] != 0
    return <int8_t> at[0]


def read_columns(buf, Py_ssize_t position, Py_ssize_t count, bytes kinds, bint flexible):
    """The columns of `count` structs, and the position after them."""
    cdef Py_buffer view
    cdef const uint8_t *start
    cdef Py_ssize_t size, row, length
    cdef Py_ssize_t width = len(kinds)
    cdef const uint8_t *kind = <const uint8_t *> PyBytes_AS_STRING(kinds)
    cdef int column, number_size
    cdef object value
    cdef list columns = []
    cdef void *lists[MAX_COLUMNS]
    if width > MAX_COLUMNS:
        raise ValueError(f"{width} columns")
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    try:
        start = <const uint8_t *> view.buf
        size = view.len
        if count < 0 or count > size - position:
            check_length(count, size - position)
        for column in range(width):
            value = PyList_New(count)
            lists[column] = <void *> value
            columns.append(value)
        for row in range(count):
            for column in range(width):
                number_size = size_of(kind[column])
                if number_size:
                    if size - position < number_size:
                        raise MalformedMessageError("a list ends within an element")
                    value = number_at(start + position, kind[column])
                    position += number_size
                else:
                    if flexible:
                        if position >= size:
                            raise MalformedMessageError("a list ends within an element")
                        length = start[position]
                        if length < 128:
                            position += 1
                        else:
                            length, position = read_long(buf, position, size)
                        length -= 1
                    else:
                        if size - position < 2:
                            raise MalformedMessageError("a list ends within an element")
                        length = <int16_t> big_endian(start + position, 2)
                        position += 2
                    if length == -1:
                        if kind[column] != c"S":
                            raise MalformedMessageError("a text is null")
                        value = None
                    else:
                        if length < 0 or length > size - position:
                            check_length(length, size - position)
                        if length > MAX_STRING_BYTES:
                            check_length(length, MAX_STRING_BYTES)
                        value = PyUnicode_DecodeUTF8(<char *> start + position, length, NULL)
                        position += length
                Py_INCREF(value)
                PyList_SET_ITEM(<object> lists[column], row, value)
            if flexible:
                if position >= size:
                    raise MalformedMessageError("a list ends within an element")
                length = start[position]
                if length == 0:
                    position += 1
                else:
                    length, position = read_long(buf, position, size)
                    position = skip_tagged(buf, position, length)
        return columns, position
    finally:
        PyBuffer_Release(&view)


cdef tuple read_long(object buf, Py_ssize_t position, Py_ssize_t size):
    try:
        return read_uvarint(buf, position)
    except IndexError:
        raise MalformedMessageError("a list ends within an element") from None


cdef int put_number(uint8_t *at, object value, uint8_t kind, int size) except -1:
    cdef int64_t number
    cdef int64_t low, high
    cdef int index
    if kind == c"?":
        at[0] = 1 if value else 0
        return 0
    try:
        number = value
    except OverflowError:
        raise struct_error(f"{value} does not fit") from None
    if size < 8:
        if kind == c"H" or kind == c"I":
            low = 0
            high = (<int64_t> 1 << (8 * size)) - 1
        else:
            high = (<int64_t> 1 << (8 * size - 1)) - 1
            low = -high - 1
        if number < low or number > high:
            raise struct_error(f"{value} does not fit")
    for index in range(size):
        at[index] = <uint8_t> (<uint64_t> number >> (8 * (size - 1 - index)))
    return 0


def write_columns(bytearray out, values, Py_ssize_t count, bytes kinds, bint flexible):
    """Appends `count` structs that are given as columns."""
    cdef Py_ssize_t width = len(kinds)
    cdef const uint8_t *kind = <const uint8_t *> PyBytes_AS_STRING(kinds)
    cdef Py_ssize_t row, used, most
    cdef Py_ssize_t fixed_bytes = 1 if flexible else 0
    cdef int column, size
    cdef bint has_text = False
    cdef list columns = [one if type(one) is list else list(one) for one in values]
    cdef object value
    cdef bytes text, prefix
    if len(columns) != width:
        raise ValueError(f"{len(columns)} columns instead of {width}")
    for column in range(width):
        if len(<list> columns[column]) != count:
            raise ValueError("columns of different lengths")
        size = size_of(kind[column])
        fixed_bytes += size
        has_text = has_text or size == 0
    used = PyByteArray_GET_SIZE(out)
    most = used + count * fixed_bytes
    PyByteArray_Resize(out, most)
    try:
        for row in range(count):
            for column in range(width):
                value = <object> PyList_GET_ITEM(<list> columns[column], row)
                size = size_of(kind[column])
                if size:
                    put_number(<uint8_t *> PyByteArray_AS_STRING(out) + used, value, kind[column], size)
                    used += size
                    continue
                if value is None:
                    if kind[column] != c"S":
                        raise TypeError("a text is null")
                    text = b""
                    prefix = b"\0" if flexible else b"\xff\xff"
                else:
                    text = PyUnicode_AsUTF8String(value)
                    if flexible:
                        prefix = write_uvarint(len(text) + 1)
                    elif len(text) > MAX_STRING_BYTES:
                        raise struct_error(f"a text of {len(text)} bytes")
                    else:
                        prefix = bytes((len(text) >> 8, len(text) & 0xFF))
                most += len(prefix) + len(text)
                PyByteArray_Resize(out, most)
                memcpy(PyByteArray_AS_STRING(out) + used, PyBytes_AS_STRING(prefix), len(prefix))
                used += len(prefix)
                memcpy(PyByteArray_AS_STRING(out) + used, PyBytes_AS_STRING(text), len(text))
                used += len(text)
            if flexible:
                PyByteArray_AS_STRING(out)[used] = 0
                used += 1
    finally:
        PyByteArray_Resize(out, used)
