"""The codecs: round trips, foreign framings, malformed data, bombs."""

import gzip
import random
import struct
import time
import tracemalloc
from collections.abc import Callable

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.records.compression import LEVELS, Codec, compress, decompress
from ottla.records.errors import CorruptRecordsError

MIB = 1024 * 1024
COMPRESSED = [codec for codec in Codec if codec is not Codec.NONE]
SAMPLE = random.Random(1).randbytes(3000) * 3 + b"kafka" * 20_000


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("size", [0, 1, 100, 32 * 1024, 65_536, 65_537, 3 * MIB])
def test_data_of_any_size_comes_back(codec: Codec, size: int) -> None:
    data = (SAMPLE * (size // len(SAMPLE) + 1))[:size]
    compressed = compress(codec, data, None)
    assert decompress(codec, compressed, size) == data
    assert decompress(codec, memoryview(bytearray(compressed)), 2**30) == data
    assert compress(codec, memoryview(bytearray(data)), None) == compressed


@pytest.mark.parametrize("codec", Codec)
def test_incompressible_data_comes_back(codec: Codec) -> None:
    data = random.Random(2).randbytes(200_000)
    assert decompress(codec, compress(codec, data, None), len(data)) == data


@pytest.mark.parametrize(
    ("codec", "level"),
    [
        (Codec.GZIP, -1),
        *((Codec.GZIP, level) for level in (1, 6, 9)),
        *((Codec.LZ4, level) for level in range(1, 18)),
        *((Codec.ZSTD, level) for level in (-131072, -5, 0, 1, 3, 19)),
        (Codec.SNAPPY, 5),
    ],
)
def test_kafkas_levels_are_taken(codec: Codec, level: int) -> None:
    data = SAMPLE[:20_000]
    assert decompress(codec, compress(codec, data, level), len(data)) == data


@pytest.mark.parametrize(
    ("codec", "level"),
    [
        (Codec.GZIP, 0),
        (Codec.GZIP, 10),
        (Codec.LZ4, 0),
        (Codec.LZ4, 18),
        (Codec.ZSTD, 23),
        (Codec.ZSTD, -131073),
    ],
)
def test_levels_that_kafka_refuses_are_refused(codec: Codec, level: int) -> None:
    with pytest.raises(ValueError, match=f"has no compression level {level}"):
        compress(codec, b"", level)


def test_levels_make_a_difference() -> None:
    words = [b"%x" % (number * 7919 % 5003) for number in range(20_000)]
    data = b" ".join(words)
    for codec, low, high in ((Codec.GZIP, 1, 9), (Codec.LZ4, 9, 12), (Codec.ZSTD, -50, 19)):
        assert len(compress(codec, data, high)) < len(compress(codec, data, low))
        default = LEVELS[codec].default
        assert compress(codec, data, None) == compress(codec, data, default)


def test_lz4_frames_are_what_the_java_client_reads() -> None:
    frame = compress(Codec.LZ4, SAMPLE, None)
    magic, flags, block_descriptor = struct.unpack_from("<IBB", frame)
    assert magic == 0x184D2204
    assert flags >> 6 == 1
    # Kafka's Lz4BlockInputStream refuses blocks that depend on each other and reserved bits.
    assert flags & 0b0010_0000
    assert not flags & 0b0000_0011
    assert block_descriptor >> 4 in (4, 5, 6, 7)
    assert not block_descriptor & 0b1000_1111


def test_snappy_is_written_in_blocks_of_snappy_java() -> None:
    data = SAMPLE[:70_000]
    stream = compress(Codec.SNAPPY, data, None)
    assert stream[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    position = 16
    sizes = []
    while position < len(stream):
        (length,) = struct.unpack_from(">i", stream, position)
        position += 4
        sizes.append(cramjam.snappy.decompress_raw_len(stream[position : position + length]))
        position += length
    assert sizes == [32_768, 32_768, 70_000 - 65_536]


def test_raw_snappy_of_librdkafka_is_read() -> None:
    raw = bytes(cramjam.snappy.compress_raw(SAMPLE))
    assert decompress(Codec.SNAPPY, raw, len(SAMPLE)) == SAMPLE


def test_snappy_streams_may_follow_each_other() -> None:
    stream = compress(Codec.SNAPPY, SAMPLE, None)
    assert decompress(Codec.SNAPPY, stream + stream, 10 * MIB) == SAMPLE * 2


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_several_members_or_frames_are_read(codec: Codec) -> None:
    parts = [b"a" * 10, SAMPLE, b"", b"b" * 3 * MIB]
    stream = b"".join(compress(codec, part, None) for part in parts)
    whole = b"".join(parts)
    assert decompress(codec, stream, len(whole)) == whole
    with pytest.raises(CorruptRecordsError, match="grows beyond the limit"):
        decompress(codec, stream, len(whole) - 1)


def test_gzip_of_the_standard_library_is_read_and_reads_ours() -> None:
    assert decompress(Codec.GZIP, gzip.compress(SAMPLE), len(SAMPLE)) == SAMPLE
    assert gzip.decompress(compress(Codec.GZIP, SAMPLE, None)) == SAMPLE


@pytest.mark.parametrize("size", [1, 5000, 500_000])
def test_zstd_frames_without_a_content_size_are_read(size: int) -> None:
    data = (SAMPLE * (size // len(SAMPLE) + 1))[:size]
    compressor = cramjam.zstd.Compressor()
    compressor.compress(data)
    frame = bytes(compressor.finish())
    assert frame[4] >> 5 == 0, "the frame was to have no content size"
    assert decompress(Codec.ZSTD, frame, len(data)) == data


def test_linked_lz4_blocks_and_checksums_are_read() -> None:
    compressor = cramjam.lz4.Compressor(level=0, content_checksum=True, block_linked=True)
    compressor.compress(SAMPLE)
    assert decompress(Codec.LZ4, bytes(compressor.finish()), len(SAMPLE)) == SAMPLE


@pytest.mark.parametrize("codec", Codec)
def test_the_limit_is_exact(codec: Codec) -> None:
    compressed = compress(codec, SAMPLE, None)
    assert len(decompress(codec, compressed, len(SAMPLE))) == len(SAMPLE)
    with pytest.raises(CorruptRecordsError, match="grows beyond the limit"):
        decompress(codec, compressed, len(SAMPLE) - 1)


def zstd_without_size(data: bytes) -> bytes:
    compressor = cramjam.zstd.Compressor()
    compressor.compress(data)
    return bytes(compressor.finish())


BOMB_BYTES = 256 * MIB
BOMBS: dict[str, tuple[Codec, Callable[[], bytes]]] = {
    "gzip": (Codec.GZIP, lambda: gzip.compress(bytes(BOMB_BYTES), 1)),
    "snappy": (Codec.SNAPPY, lambda: bytes(cramjam.snappy.compress_raw(bytes(BOMB_BYTES)))),
    "lz4": (Codec.LZ4, lambda: compress(Codec.LZ4, bytes(BOMB_BYTES), None)),
    "zstd": (Codec.ZSTD, lambda: compress(Codec.ZSTD, bytes(BOMB_BYTES), None)),
    "zstd, size unknown": (Codec.ZSTD, lambda: zstd_without_size(bytes(BOMB_BYTES))),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_within_the_limit(name: str) -> None:
    codec, make = BOMBS[name]
    bomb = make()
    limit_bytes = 8 * MIB
    tracemalloc.start()
    started = time.thread_time()
    with pytest.raises(CorruptRecordsError, match="grows beyond the limit"):
        decompress(codec, bomb, limit_bytes)
    seconds = time.thread_time() - started
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 2 * limit_bytes
    assert seconds < 2


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (Codec.SNAPPY, b"\xff\xff\xff\x7f" + b"\x00" * 8),
        (Codec.GZIP, gzip.compress(b"x", mtime=0)[:-4] + b"\xff\xff\xff\xff"),
        (Codec.ZSTD, b"\x28\xb5\x2f\xfd\xe0" + b"\xff" * 8 + b"\x01\x00\x00"),
        (Codec.LZ4, compress(Codec.LZ4, b"", None)[:-4] + b"\x01\x00\x00\x80x" * 1000),
    ],
)
def test_a_lie_about_the_size_costs_no_memory(codec: Codec, data: bytes) -> None:
    tracemalloc.start()
    with pytest.raises(CorruptRecordsError):
        decompress(codec, data, 2**30)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < MIB


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("data", [b"", b"\x05", b"no compressed data at all", b"\xff" * 40])
def test_what_is_not_compressed_is_refused(codec: Codec, data: bytes) -> None:
    with pytest.raises(CorruptRecordsError):
        decompress(codec, data, MIB)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_every_truncation_is_refused(codec: Codec) -> None:
    data = SAMPLE[:500]
    compressed = compress(codec, data, None)
    for size in range(len(compressed)):
        if codec is Codec.SNAPPY and size == 16:
            continue  # The header alone is a complete stream of nothing.
        with pytest.raises(CorruptRecordsError):
            decompress(codec, compressed[:size], MIB)


@pytest.mark.parametrize("codec", COMPRESSED)
@settings(max_examples=200)
@given(data=st.data())
def test_mutated_data_gives_bytes_or_an_error(codec: Codec, data: st.DataObject) -> None:
    compressed = bytearray(compress(codec, data.draw(st.binary(max_size=200)) * 3, None))
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(compressed) - 1))
        compressed[position] = data.draw(st.integers(0, 255))
    try:
        result = decompress(codec, compressed, 10_000)
    except CorruptRecordsError:
        return
    assert type(result) is bytes
    assert len(result) <= 10_000


@pytest.mark.parametrize("codec", COMPRESSED)
@settings(max_examples=200)
@given(garbage=st.binary(max_size=60), magic=st.booleans())
def test_garbage_gives_bytes_or_an_error(codec: Codec, garbage: bytes, magic: bool) -> None:
    start = compress(codec, b"", None)[: 8 if codec is Codec.SNAPPY else 4]
    try:
        result = decompress(codec, (start if magic else b"") + garbage, 10_000)
    except CorruptRecordsError:
        return
    assert len(result) <= 10_000
