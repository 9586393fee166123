"""Kafka's compression codecs for the records section of a batch."""

import mmap
import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Final, NamedTuple

import cramjam

from ottla.fresh_pages import fresh_pages
from ottla.records.errors import CorruptRecordsError, TooLargeError
from ottla.records.record import Buffer


class Codec(IntEnum):
    """The codec in the lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class Levels(NamedTuple):
    """Kafka's range and default of a codec's `compression.<codec>.level`."""

    lowest: int
    highest: int
    default: int


# gzip also takes its default, -1, which is not in its range (CompressionType in Kafka).
LEVELS: Final = {
    Codec.GZIP: Levels(1, 9, -1),
    Codec.LZ4: Levels(1, 17, 9),
    Codec.ZSTD: Levels(-131072, 22, 3),
}

# The header of a snappy-java stream: magic, its version, and the oldest version that can read it.
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_BLOCK_LENGTH: Final = struct.Struct(">i")
# A copy of 64 bytes takes 3: no snappy block can grow more than this.
_SNAPPY_MAX_RATIO: Final = 22

_LZ4_HEADER: Final = struct.Struct("<IBB")
_LZ4_WORD: Final = struct.Struct("<I")
_LZ4_FAST_LEVEL: Final = 0
_LZ4_MIN_HC_LEVEL: Final = 3
_LZ4_MAX_HC_LEVEL: Final = 12

_ZSTD_MIN_FRAME_BYTES: Final = 9
_ZSTD_BLOCK_BYTES: Final = 128 * 1024
_ZSTD_RLE_BLOCK: Final = 1

# How far an estimate of the decompressed size is trusted, and how buffers grow after that.
_FIRST_RATIO: Final = 64
_FIRST_BYTES: Final = 64 * 1024
_GROWTH: Final = 8
# A larger result is returned as a view of the buffer, without a copy.
_COPIED_BYTES: Final = 1 << 20

# The text of Rust's io::ErrorKind::WriteZero: the output buffer was too small.
_BUFFER_FULL: Final = "failed to write whole buffer"


def compress(codec: Codec, data: Buffer, level: int | None) -> bytes:
    """Compress as Kafka's clients expect it; level None is the default, ValueError out of range."""
    level = _checked_level(codec, level)
    if codec is Codec.GZIP:
        # zlib's default, which Kafka calls -1, is 6.
        return bytes(cramjam.gzip.compress(data, level=6 if level == -1 else level))
    if codec is Codec.SNAPPY:
        return _compress_xerial(data)
    if codec is Codec.LZ4:
        return _compress_lz4(data, level)
    if codec is Codec.ZSTD:
        return bytes(cramjam.zstd.compress(data, level=level))
    return bytes(data)


def decompress(codec: Codec, data: Buffer, limit_bytes: int) -> bytes | memoryview:
    """Decompress at most `limit_bytes`; more than that, or malformed input, is corrupt."""
    if codec is Codec.NONE:
        if len(data) > limit_bytes:
            raise _too_large(codec, limit_bytes)
        return bytes(data)
    if codec is Codec.SNAPPY:
        return _decompress_snappy(memoryview(data), limit_bytes)
    estimate_bytes, decompress_into = _STREAMS[codec]
    return _decompress_bounded(
        codec, decompress_into, data, estimate_bytes(data, limit_bytes), limit_bytes
    )


def _checked_level(codec: Codec, level: int | None) -> int:
    """The level to use, refusing what Kafka refuses; codecs without levels ignore it."""
    levels = LEVELS.get(codec)
    if levels is None:
        return 0
    if level is None:
        return levels.default
    if level != levels.default and not levels.lowest <= level <= levels.highest:
        raise ValueError(
            f"{codec.name.lower()} has no compression level {level}: "
            f"use {levels.lowest} to {levels.highest}, or {levels.default} for the default"
        )
    return level


def _too_large(codec: Codec, limit_bytes: int) -> TooLargeError:
    return TooLargeError(
        f"the {codec.name.lower()} data grows beyond the limit of {limit_bytes} bytes"
    )


def _malformed(codec: Codec, why: object) -> CorruptRecordsError:
    return CorruptRecordsError(f"malformed {codec.name.lower()} data: {why}")


def _decompress_bounded(
    codec: Codec,
    decompress_into: Callable[[Buffer, bytearray | mmap.mmap], int],
    data: Buffer,
    estimate_bytes: int,
    limit_bytes: int,
) -> bytes | memoryview:
    """Decompress into a buffer of the estimated size, and into larger ones while it overflows.

    The estimate is usually right. It is limited to a ratio of the input, and a larger buffer follows only if the last
    one was filled, so that a false size costs memory only in proportion to the input.
    """
    size_bytes = min(estimate_bytes, len(data) * _FIRST_RATIO + _FIRST_BYTES, limit_bytes)
    while True:
        output = _output(size_bytes)
        try:
            written_bytes = decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if str(error) != _BUFFER_FULL:
                raise _malformed(codec, error) from error
            if size_bytes >= limit_bytes:
                raise _too_large(codec, limit_bytes) from error
            size_bytes = min(max(size_bytes * _GROWTH, _FIRST_BYTES), limit_bytes)
            continue
        view = memoryview(output)[:written_bytes]
        return bytes(view) if written_bytes <= _COPIED_BYTES else view


def _output(size_bytes: int) -> bytearray | mmap.mmap:
    """A buffer to write to; a large one gets its pages when they are written, which may be outside the GIL."""
    return bytearray(size_bytes) if size_bytes <= _COPIED_BYTES else fresh_pages(size_bytes)


def _gzip_estimate_bytes(data: Buffer, limit_bytes: int) -> int:
    """The size in the trailer of the last member, which is exact if there is only one."""
    del limit_bytes
    return int.from_bytes(data[-4:], "little")


def _compress_xerial(data: Buffer) -> bytes:
    """A snappy-java stream: a header, then raw snappy blocks with their lengths."""
    parts = [_XERIAL_HEADER]
    view = memoryview(data)
    for position in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[position : position + _XERIAL_BLOCK_BYTES]))
        parts.append(_BLOCK_LENGTH.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, limit_bytes: int) -> bytes | memoryview:
    """Decompress snappy-java's framing (Java, Python) or one raw block (librdkafka, Go)."""
    blocks = _xerial_blocks(data) if _is_xerial_header(data, 0) else [data]
    sizes_bytes = []
    try:
        for block in blocks:
            size_bytes = cramjam.snappy.decompress_raw_len(block)
            if size_bytes > len(block) * _SNAPPY_MAX_RATIO:
                raise _malformed(Codec.SNAPPY, f"{len(block)} bytes cannot become {size_bytes}")
            sizes_bytes.append(size_bytes)
        total_bytes = sum(sizes_bytes)
        if total_bytes > limit_bytes:
            raise _too_large(Codec.SNAPPY, limit_bytes)
        view = memoryview(_output(total_bytes))
        position = 0
        for block, size_bytes in zip(blocks, sizes_bytes, strict=True):
            end = position + size_bytes
            cramjam.snappy.decompress_raw_into(block, view[position:end])
            position = end
        return bytes(view) if total_bytes <= _COPIED_BYTES else view
    except cramjam.DecompressionError as error:
        raise _malformed(Codec.SNAPPY, error) from error


def _is_xerial_header(data: memoryview, position: int) -> bool:
    return bytes(data[position : position + len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC


def _xerial_blocks(data: memoryview) -> list[memoryview]:
    """The raw blocks of a snappy-java stream; streams may follow each other."""
    blocks = []
    position = 0
    end = len(data)
    while position < end:
        if _is_xerial_header(data, position):
            position += len(_XERIAL_HEADER)
            if position > end:
                raise _malformed(Codec.SNAPPY, "truncated stream header")
            continue
        if end - position < _BLOCK_LENGTH.size:
            raise _malformed(Codec.SNAPPY, "truncated block length")
        (block_bytes,) = _BLOCK_LENGTH.unpack_from(data, position)
        position += _BLOCK_LENGTH.size
        if not 0 < block_bytes <= end - position:
            raise _malformed(Codec.SNAPPY, f"a block of {block_bytes} bytes")
        blocks.append(data[position : position + block_bytes])
        position += block_bytes
    return blocks


def _compress_lz4(data: Buffer, level: int) -> bytes:
    """An LZ4 frame; Kafka's level 9 is its fast compressor, all others are high compression."""
    if level == LEVELS[Codec.LZ4].default:
        frame_level = _LZ4_FAST_LEVEL
    else:
        # LZ4 has high compression levels 3 to 12; lz4-java takes the nearest as well.
        frame_level = min(max(level, _LZ4_MIN_HC_LEVEL), _LZ4_MAX_HC_LEVEL)
    # Kafka's Java reader refuses frames whose blocks refer to each other.
    compressor = cramjam.lz4.Compressor(
        level=frame_level, content_checksum=False, block_linked=False
    )
    # The compressor takes bytes only.
    compressor.compress(data if isinstance(data, bytes) else bytes(data))
    return bytes(compressor.finish())


def _lz4_estimate_bytes(data: Buffer, limit_bytes: int) -> int:
    """The most that the first frame can hold, by its number of blocks."""
    if len(data) < _LZ4_HEADER.size:
        return 0
    _, flags, block_descriptor = _LZ4_HEADER.unpack_from(data)
    block_limit_bytes = 1 << (8 + 2 * (block_descriptor >> 4 & 7))
    block_checksum_bytes = 4 if flags & 0x10 else 0
    # After them: the optional content size and dictionary id, and the header's checksum.
    position = _LZ4_HEADER.size + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0) + 1
    bound_bytes = 0
    while bound_bytes < limit_bytes and position + _LZ4_WORD.size <= len(data):
        (word,) = _LZ4_WORD.unpack_from(data, position)
        if word == 0:
            break
        bound_bytes += block_limit_bytes
        # The highest bit is set for a block that is not compressed.
        position += _LZ4_WORD.size + (word & 0x7FFFFFFF) + block_checksum_bytes
    return bound_bytes


def _zstd_estimate_bytes(data: Buffer, limit_bytes: int) -> int:
    """The size that the first frame declares, else the most that its blocks can hold."""
    if len(data) < _ZSTD_MIN_FRAME_BYTES:
        return 0
    descriptor = data[4]
    single_segment = descriptor >> 5 & 1
    size_flag = descriptor >> 6
    size_field_bytes = (single_segment, 2, 4, 8)[size_flag]
    position = 5 + (1 - single_segment) + (0, 1, 2, 4)[descriptor & 3]
    if size_field_bytes:
        declared = int.from_bytes(data[position : position + size_field_bytes], "little")
        return declared + (256 if size_flag == 1 else 0)
    bound_bytes = 0
    while bound_bytes < limit_bytes and position + 3 <= len(data):
        block = int.from_bytes(data[position : position + 3], "little")
        bound_bytes += _ZSTD_BLOCK_BYTES
        if block & 1:
            break
        position += 3 + (1 if block >> 1 & 3 == _ZSTD_RLE_BLOCK else block >> 3)
    return bound_bytes


_STREAMS: Final[
    dict[
        Codec,
        tuple[Callable[[Buffer, int], int], Callable[[Buffer, bytearray | mmap.mmap], int]],
    ]
] = {
    Codec.GZIP: (_gzip_estimate_bytes, cramjam.gzip.decompress_into),
    Codec.LZ4: (_lz4_estimate_bytes, cramjam.lz4.decompress_into),
    Codec.ZSTD: (_zstd_estimate_bytes, cramjam.zstd.decompress_into),
}
