# Included by the compiled Arrow kernel: buffers of Arrow columns, and how to read a row of them.


# The garbage collector must not follow the view: see RecordsReader.
@cython.no_gc
cdef class Held:
    """A buffer that cannot go away while this is there."""

    cdef Py_buffer view
    cdef bint holding

    def __cinit__(self, buffer):
        PyObject_GetBuffer(buffer, &self.view, PyBUF_SIMPLE)
        self.holding = True

    def __dealloc__(self):
        if self.holding:
            PyBuffer_Release(&self.view)


cdef struct BitsView:
    # NULL: all are valid.
    const uint8_t *start
    int64_t first


cdef struct NumbersView:
    bint present
    BitsView valid
    const uint8_t *start
    int64_t first
    int64_t value_bytes


cdef struct BlobsView:
    bint present
    BitsView valid
    NumbersView offsets
    const uint8_t *data
    int64_t data_bytes


cdef struct HeadersView:
    bint present
    BitsView valid
    NumbersView offsets
    int64_t entry_count
    BitsView entries_valid
    BlobsView keys
    BlobsView values


cdef Held hold(list held, object buffer, int64_t least_bytes):
    """A buffer of at least that size, which stays as long as the list."""
    cdef Held one = Held(buffer)
    held.append(one)
    if one.view.len < least_bytes:
        raise ValueError("a buffer of a column is too short")
    return one


cdef int check_rows(int64_t first, int64_t count) except -1:
    # Arrow has no longer arrays; what is computed of these stays far within 64 bits.
    if first < 0 or count < 0 or first > <int64_t> 1 << 56 or count > <int64_t> 1 << 56:
        raise ValueError("a column cannot have such a number of rows")
    return 0


cdef int view_bits(
    BitsView *view, list held, object validity, int64_t first, int64_t count
) except -1:
    cdef Held bits
    check_rows(first, count)
    view.start = NULL
    view.first = first
    if validity is not None and count:
        bits = hold(held, validity, (first + count + 7) >> 3)
        view.start = <const uint8_t *> bits.view.buf
    return 0


cdef int view_numbers(
    NumbersView *view, list held, object validity, object values, int64_t first,
    int64_t value_bytes, int64_t count,
) except -1:
    cdef Held numbers
    if value_bytes != 4 and value_bytes != 8:
        raise ValueError("numbers have 4 or 8 bytes")
    view_bits(&view.valid, held, validity, first, count)
    view.present = True
    view.first = first
    view.value_bytes = value_bytes
    # Arrow lets the offsets of no rows be missing.
    numbers = hold(held, values, (first + count) * value_bytes if count else 0)
    view.start = <const uint8_t *> numbers.view.buf
    return 0


cdef int view_nullable_numbers(
    NumbersView *view, list held, object numbers, int64_t count
) except -1:
    memset(view, 0, sizeof(NumbersView))
    if numbers is None:
        return 0
    return view_numbers(
        view, held, numbers.validity, numbers.values, numbers.first, numbers.value_bytes, count
    )


cdef int view_offsets(NumbersView *view, list held, object column, int64_t count) except -1:
    """There is one more of them than rows."""
    return view_numbers(
        view, held, None, column.offsets, column.first, column.offset_bytes,
        count + 1 if count else 0,
    )


cdef int view_blobs(BlobsView *view, list held, object blobs, int64_t count) except -1:
    cdef Held data
    memset(view, 0, sizeof(BlobsView))
    if blobs is None:
        return 0
    view.present = True
    view_bits(&view.valid, held, blobs.validity, blobs.first, count)
    view_offsets(&view.offsets, held, blobs, count)
    data = hold(held, blobs.data, 0)
    view.data = <const uint8_t *> data.view.buf
    view.data_bytes = data.view.len
    return 0


cdef int view_headers(HeadersView *view, list held, object lists, int64_t count) except -1:
    memset(view, 0, sizeof(HeadersView))
    if lists is None:
        return 0
    view.present = True
    view_bits(&view.valid, held, lists.validity, lists.first, count)
    view_offsets(&view.offsets, held, lists, count)
    view.entry_count = lists.entry_count
    view_bits(
        &view.entries_valid, held, lists.entries_validity, lists.entries_first, view.entry_count
    )
    view_blobs(&view.keys, held, lists.keys, view.entry_count)
    view_blobs(&view.values, held, lists.values, view.entry_count)
    return 0


cdef inline bint is_valid(const BitsView *view, int64_t row) noexcept nogil:
    cdef int64_t at = view.first + row
    return view.start == NULL or view.start[at >> 3] >> (at & 7) & 1


cdef inline int64_t number_at(const NumbersView *view, int64_t row) noexcept nogil:
    # Nobody promises that buffers are aligned.
    cdef int32_t narrow
    cdef int64_t wide
    if view.value_bytes == 4:
        memcpy(&narrow, view.start + (view.first + row) * 4, 4)
        return narrow
    memcpy(&wide, view.start + (view.first + row) * 8, 8)
    return wide


cdef inline int find_range(
    const NumbersView *offsets, int64_t row, int64_t most, int64_t *start, int64_t *end
) except -1:
    """Which of the things that offsets count belong to a row, of which there are `most`."""
    start[0] = number_at(offsets, row)
    end[0] = number_at(offsets, row + 1)
    if start[0] < 0 or end[0] < start[0] or end[0] > most:
        raise ValueError("a column's offsets are not those of its data")
    return 0


cdef inline int find_blob(
    const BlobsView *view, int64_t row, const char **data, int64_t *size
) except -1:
    """Where a field is and its size; that of null is -1."""
    cdef int64_t start = 0
    cdef int64_t end = 0
    data[0] = NULL
    size[0] = -1
    if not view.present or not is_valid(&view.valid, row):
        return 0
    find_range(&view.offsets, row, view.data_bytes, &start, &end)
    data[0] = <const char *> view.data + start
    size[0] = end - start
    return 0
