# Included by the compiled kernels whose buffers have megabytes: memory that is used again.
#
# The system hands out memory that it has to clear first, page by page, and takes it back when it is freed. For the
# buffers of one fetch after the other that costs as much as everything else together. So a few blocks are kept.
# All of this happens under the interpreter's lock.

from libc.stdlib cimport malloc

cdef enum:
    SPARE_COUNT = 16
    LEAST_SPARE_BYTES = 65536
    MOST_SPARE_BYTES = 33554432


cdef struct Spare:
    uint8_t *start
    size_t size


cdef Spare[SPARE_COUNT] spares
cdef int spare_count = 0
cdef size_t spare_bytes = 0


cdef Spare remove_spare(int index) noexcept:
    global spare_count, spare_bytes
    cdef Spare found = spares[index]
    cdef int later
    spare_count -= 1
    for later in range(index, spare_count):
        spares[later] = spares[later + 1]
    spare_bytes -= found.size
    return found


cdef Spare find_memory(size_t size) except *:
    """A block of at least that size, and at most twice of it: a spare one, or a new one."""
    cdef int index
    cdef int best = -1
    cdef Spare found
    for index in range(spare_count):
        if size <= spares[index].size <= 2 * size and (
            best < 0 or spares[index].size < spares[best].size
        ):
            best = index
    if best >= 0:
        return remove_spare(best)
    found.size = max(size, <size_t> 1)
    found.start = <uint8_t *> malloc(found.size)
    if found.start == NULL:
        raise MemoryError
    return found


cdef void keep_memory(uint8_t *start, size_t size) noexcept:
    """Keep a block for later, instead of those that have waited longest; or free it."""
    global spare_count, spare_bytes
    if start == NULL or size < LEAST_SPARE_BYTES or size > MOST_SPARE_BYTES // 2:
        free(start)
        return
    while spare_count == SPARE_COUNT or spare_bytes + size > MOST_SPARE_BYTES:
        free(remove_spare(0).start)
    spares[spare_count] = Spare(start, size)
    spare_count += 1
    spare_bytes += size


def free_spare_memory():
    """Give the memory that is kept for later buffers back to the system; how many bytes it was."""
    cdef size_t freed = spare_bytes
    while spare_count:
        free(remove_spare(0).start)
    return freed
