"""CRC-32C (Castagnoli), the checksum of record batches."""

import struct
import warnings
from collections.abc import Callable
from functools import cache
from typing import Final

from ottla.records.kernel import compiled_crc32c, compiled_crc32c_shifted
from ottla.records.record import Buffer

# Chunks of this size are copied within the processor's cache and without malloc calling mmap.
CHUNK_BYTES: Final = 64 * 1024

_REVERSED_POLYNOMIAL: Final = 0x82F63B78


def _native_extend() -> Callable[[int, bytes], int] | None:
    """google-crc32c's C function, or None where only its pure Python one is installed."""
    with warnings.catch_warnings():
        # Without its C part the package warns on import; our own fallback is faster than its.
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            import google_crc32c
        except ImportError:
            return None
    if google_crc32c.implementation != "c":
        return None
    extend: Callable[[int, bytes], int] = google_crc32c.extend
    return extend


@cache
def _tables() -> tuple[tuple[int, ...], ...]:
    """Eight tables for eight bytes at a time (slicing-by-8); made on first use."""
    first = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (_REVERSED_POLYNOMIAL if crc & 1 else 0)
        first.append(crc)
    tables = [tuple(first)]
    for _ in range(7):
        tables.append(tuple((crc >> 8) ^ first[crc & 0xFF] for crc in tables[-1]))
    return tuple(tables)


def crc32c_pure(data: Buffer, start: int = 0) -> int:
    """CRC-32C in pure Python; `start` is the CRC of the bytes before `data`."""
    t0, t1, t2, t3, t4, t5, t6, t7 = _tables()
    view = memoryview(data)
    aligned_bytes = len(view) & ~7
    crc = start ^ 0xFFFFFFFF
    for low, high in struct.iter_unpack("<II", view[:aligned_bytes]):
        crc ^= low
        crc = (
            t7[crc & 0xFF]
            ^ t6[crc >> 8 & 0xFF]
            ^ t5[crc >> 16 & 0xFF]
            ^ t4[crc >> 24]
            ^ t3[high & 0xFF]
            ^ t2[high >> 8 & 0xFF]
            ^ t1[high >> 16 & 0xFF]
            ^ t0[high >> 24]
        )
    for byte in view[aligned_bytes:]:
        crc = (crc >> 8) ^ t0[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def crc32c_shifted_pure(difference: int, count: int) -> int:
    """As `crc32c_shifted`, in pure Python: a multiplication by x^(8*count) modulo the polynomial."""
    for exponent in range(count.bit_length()):
        if count >> exponent & 1:
            difference = _product(difference, _power(exponent))
    return difference


@cache
def _power(exponent: int) -> int:
    """x^(8 * 2^exponent), by repeated squaring."""
    return 1 << 23 if not exponent else _product(_power(exponent - 1), _power(exponent - 1))


def _product(a: int, b: int) -> int:
    """Of two polynomials modulo that of the CRC; bit 31 is the coefficient of x^0."""
    product = 0
    for shift in range(31, -1, -1):
        if a >> shift & 1:
            product ^= b
        b = (b >> 1) ^ (_REVERSED_POLYNOMIAL if b & 1 else 0)
    return product


_extend: Final = _native_extend() if compiled_crc32c is None else None


def crc32c_copying(data: Buffer, start: int = 0) -> int:
    """CRC-32C by google-crc32c, or by tables where it has no C part.

    Its function takes no memoryview, not even a read-only one: anything whose buffer needs a release
    call is refused. Copying chunk by chunk costs much less than one large copy.
    """
    if _extend is None:
        return crc32c_pure(data, start)
    if isinstance(data, bytes):
        return _extend(start, data)
    if len(data) <= CHUNK_BYTES:
        return _extend(start, bytes(data))
    view = memoryview(data)
    crc = start
    for position in range(0, len(view), CHUNK_BYTES):
        crc = _extend(crc, bytes(view[position : position + CHUNK_BYTES]))
    return crc


# CRC-32C of `data`; `start` is the CRC of the bytes before it.
crc32c: Final[Callable[..., int]] = compiled_crc32c or crc32c_copying
# The difference of two CRCs after the same `count` bytes follow in both. With it a checksum is updated when the
# beginning changes, without reading the rest; a wrong one stays wrong.
crc32c_shifted: Final[Callable[[int, int], int]] = compiled_crc32c_shifted or crc32c_shifted_pure
