# Included by the compiled kernels that hash keys, as Java's client does.

from libc.stdint cimport uint8_t, uint32_t


cdef uint32_t murmur2_of(const uint8_t *at, Py_ssize_t size) noexcept nogil:
    cdef uint32_t hashed = <uint32_t> 0x9747B28C ^ <uint32_t> size
    cdef uint32_t multiplier = 0x5BD1E995
    cdef uint32_t word
    cdef Py_ssize_t words
    for words in range(size // 4):
        word = at[0] | <uint32_t> at[1] << 8 | <uint32_t> at[2] << 16 | <uint32_t> at[3] << 24
        word *= multiplier
        word = (word ^ word >> 24) * multiplier
        hashed = hashed * multiplier ^ word
        at += 4
    size &= 3
    if size:
        word = at[0]
        if size > 1:
            word |= <uint32_t> at[1] << 8
        if size > 2:
            word |= <uint32_t> at[2] << 16
        hashed = (hashed ^ word) * multiplier
    hashed = (hashed ^ hashed >> 13) * multiplier
    return hashed ^ hashed >> 15
