# Included by the compiled kernels that read the headers of batches.

from libc.stdint cimport int16_t, int32_t

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


cdef inline int64_t whole_batch_bytes(const uint8_t *at, int64_t available_bytes) noexcept nogil:
    """The size of the batch of magic 2 that begins there; 0 if it is none, or not complete."""
    cdef int64_t length
    if available_bytes < 61 or at[16] != 2:
        return 0
    length = <int32_t> big_endian(at + 8, 4)
    return length + 12 if 49 <= length <= available_bytes - 12 else 0
