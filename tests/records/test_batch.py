"""Batch headers, checksums, stamping, building and recompressing."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records.record_values import BASE_OFFSET, record_lists
from tests.records.stamping import with_producer

from ottla.records.batch import (
    HEADER_BYTES,
    BatchFlag,
    BatchHeader,
    TimestampType,
    build_batch,
    crc_matches,
    payload,
    read_batch,
    read_header,
    recompress,
    split_batches,
    stamp,
    stamp_timestamps,
)
from ottla.records.compression import Codec
from ottla.records.crc import crc32c
from ottla.records.errors import CorruptRecordsError, UnsupportedMagicError
from ottla.records.record import Record

RECORDS = [
    Record(0, 100, b"k0", b"v0"),
    Record(1, 300, None, b"v1", (("h", b"x"), ("n", None))),
    Record(2, 200, b"", None),
]
INT32_MAX = 2**31 - 1


def full_batch(codec: Codec = Codec.NONE) -> bytes:
    return build_batch(
        RECORDS,
        leader_epoch=4,
        codec=codec,
        producer_id=77,
        producer_epoch=3,
        base_sequence=10,
        flags=BatchFlag.TRANSACTIONAL,
    )


def test_the_header_has_kafkas_fields_in_kafkas_places() -> None:
    batch = full_batch()
    assert struct.unpack_from(">qiib", batch) == (0, len(batch) - 12, 4, 2)
    assert struct.unpack_from(">I", batch, 17) == (crc32c(batch[21:]),)
    assert struct.unpack_from(">hiqqqhii", batch, 21) == (0x10, 2, 100, 300, 77, 3, 10, 3)
    header = read_header(batch, 0)
    assert header == BatchHeader(
        base_offset=0,
        length=len(batch) - 12,
        partition_leader_epoch=4,
        magic=2,
        crc=crc32c(batch[21:]),
        attributes=0x10,
        last_offset_delta=2,
        base_timestamp=100,
        max_timestamp=300,
        producer_id=77,
        producer_epoch=3,
        base_sequence=10,
        record_count=3,
    )
    assert header.size_bytes == len(batch)
    assert header.last_offset == 2
    assert header.last_sequence == 12
    assert header.codec is Codec.NONE
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert header.is_transactional
    assert not header.is_control
    assert not header.has_delete_horizon


@pytest.mark.parametrize("codec", Codec)
def test_records_come_back_through_every_codec(codec: Codec) -> None:
    batch = full_batch(codec)
    assert read_batch(batch, 0) == RECORDS
    assert read_batch(memoryview(bytearray(b"xyz" + batch + b"tail")), 3) == RECORDS
    assert crc_matches(batch, 0, read_header(batch, 0))
    assert read_header(batch, 0).codec is codec


@given(records=record_lists().filter(bool), codec=st.sampled_from(Codec))
def test_any_records_come_back_with_their_offsets(records: list[Record], codec: Codec) -> None:
    batch = build_batch(records, base_offset=BASE_OFFSET, codec=codec)
    header = read_header(batch, 0)
    assert read_batch(batch, 0) == records
    assert header.last_offset == records[-1].offset
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert header.record_count == len(records)


@pytest.mark.parametrize(
    ("base_sequence", "last_offset_delta", "last_sequence"),
    [
        (0, 0, 0),
        (5, 3, 8),
        (-1, 3, -1),
        (INT32_MAX, 0, INT32_MAX),
        (INT32_MAX, 1, 0),
        (INT32_MAX - 1, 4, 2),
        (INT32_MAX, INT32_MAX, INT32_MAX - 1),
    ],
)
def test_sequences_wrap_after_the_largest_int32(
    base_sequence: int, last_offset_delta: int, last_sequence: int
) -> None:
    header = read_header(full_batch(), 0)._replace(
        base_sequence=base_sequence, last_offset_delta=last_offset_delta
    )
    assert header.last_sequence == last_sequence


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("size", [17, 26, 61, 200])
def test_older_formats_are_refused_as_such(magic: int, size: int) -> None:
    old = bytearray(size)
    old[16] = magic
    with pytest.raises(UnsupportedMagicError, match=f"magic {magic}") as raised:
        split_batches(old)
    assert raised.value.magic == magic


@pytest.mark.parametrize("magic", [3, 127, 128, 255])
def test_unknown_formats_are_corrupt(magic: int) -> None:
    batch = bytearray(full_batch())
    batch[16] = magic
    with pytest.raises(CorruptRecordsError, match="no record batch format") as raised:
        split_batches(batch)
    assert not isinstance(raised.value, UnsupportedMagicError)


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48])
def test_impossible_lengths_are_corrupt(length: int) -> None:
    batch = bytearray(full_batch())
    struct.pack_into(">i", batch, 8, length)
    with pytest.raises(CorruptRecordsError, match="cannot have length"):
        split_batches(batch)


def test_batches_are_split_where_they_end() -> None:
    first, second = full_batch(), full_batch(Codec.ZSTD)
    batches = split_batches(first + second + first)
    assert [position for position, _ in batches] == [0, len(first), len(first) + len(second)]
    assert [header.codec for _, header in batches] == [Codec.NONE, Codec.ZSTD, Codec.NONE]
    assert split_batches(b"") == []


def test_every_truncated_tail_is_refused() -> None:
    batches = full_batch() * 2
    for size in range(1, len(batches)):
        if size == len(batches) // 2:
            continue
        with pytest.raises(CorruptRecordsError):
            split_batches(memoryview(batches)[:size])


def test_every_changed_byte_under_the_checksum_is_noticed() -> None:
    batch = full_batch()
    for position in range(17, len(batch)):
        damaged = bytearray(batch)
        damaged[position] ^= 0x40
        assert not crc_matches(damaged, 0, read_header(damaged, 0))


def test_a_truncated_batch_does_not_match_its_checksum_and_has_no_payload() -> None:
    batch = full_batch()
    header = read_header(batch, 0)
    assert not crc_matches(batch[:-1], 0, header)
    with pytest.raises(CorruptRecordsError, match="truncated"):
        payload(batch[:-1], 0, header, 1000)
    with pytest.raises(CorruptRecordsError, match="truncated"):
        read_batch(batch[:-1], 0)
    with pytest.raises(CorruptRecordsError, match="truncated"):
        stamp_timestamps(bytearray(batch[:-1]), 0, TimestampType.LOG_APPEND_TIME, 5)


def test_stamping_moves_a_batch_without_touching_its_checksum() -> None:
    buffer = bytearray(b"--" + full_batch())
    stamp(memoryview(buffer), 2, base_offset=5_000_000_000, leader_epoch=9)
    header = read_header(buffer, 2)
    assert header.base_offset == 5_000_000_000
    assert header.partition_leader_epoch == 9
    assert crc_matches(buffer, 2, header)
    assert [record.offset for record in read_batch(buffer, 2)] == [
        5_000_000_000,
        5_000_000_001,
        5_000_000_002,
    ]
    unmoved = bytearray(buffer[2:])
    stamp(unmoved, 0, base_offset=0, leader_epoch=4)
    assert unmoved == full_batch()


@pytest.mark.parametrize("codec", Codec)
def test_an_append_time_is_stamped_over_compressed_records(codec: Codec) -> None:
    buffer = bytearray(b"--" + full_batch(codec))
    stamp_timestamps(buffer, 2, TimestampType.LOG_APPEND_TIME, 987_654)
    header = read_header(buffer, 2)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.max_timestamp == 987_654
    assert header.base_timestamp == 100
    assert header.codec is codec
    assert header.is_transactional
    assert crc_matches(buffer, 2, header)
    assert read_batch(buffer, 2) == [record._replace(timestamp=987_654) for record in RECORDS]


def test_a_batch_can_be_built_with_its_append_time() -> None:
    built = build_batch(
        RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME, append_time_ms=987_654
    )
    stamped = bytearray(build_batch(RECORDS))
    stamp_timestamps(stamped, 0, TimestampType.LOG_APPEND_TIME, 987_654)
    assert built == stamped


@pytest.mark.parametrize("source", Codec)
@pytest.mark.parametrize("target", Codec)
def test_recompressing_changes_the_codec_only(source: Codec, target: Codec) -> None:
    buffer = bytearray(b"--" + full_batch(source))
    stamp(buffer, 2, base_offset=40, leader_epoch=6)
    stamp_timestamps(buffer, 2, TimestampType.LOG_APPEND_TIME, 55)
    before = read_header(buffer, 2)
    batch = recompress(buffer, 2, before, target, None)
    after = read_header(batch, 0)
    assert after.codec is target
    assert crc_matches(batch, 0, after)
    assert (
        after._replace(length=before.length, crc=before.crc, attributes=before.attributes) == before
    )
    assert after.attributes & ~7 == before.attributes & ~7
    assert split_batches(batch) == [(0, after)]
    assert read_batch(batch, 0) == read_batch(buffer, 2)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_a_payload_beyond_the_limit_is_refused(codec: Codec) -> None:
    batch = build_batch([Record(0, 0, None, bytes(100_000))], codec=codec)
    header = read_header(batch, 0)
    assert len(payload(batch, 0, header, 200_000)) > 100_000
    with pytest.raises(CorruptRecordsError, match="beyond the limit"):
        payload(batch, 0, header, 100_000)
    with pytest.raises(CorruptRecordsError, match="beyond the limit"):
        read_batch(batch, 0, 100_000)


@pytest.mark.parametrize("number", [5, 6, 7])
def test_unknown_codecs_are_corrupt(number: int) -> None:
    batch = bytearray(full_batch())
    batch[22] |= number
    with pytest.raises(CorruptRecordsError, match=f"no compression codec {number}"):
        read_batch(batch, 0)


def test_compaction_keeps_the_offsets_of_what_it_removed() -> None:
    batch = build_batch([RECORDS[1]], base_offset=0, last_offset=2)
    header = read_header(batch, 0)
    assert (header.base_offset, header.last_offset, header.record_count) == (0, 2, 1)
    assert read_batch(batch, 0) == [RECORDS[1]]


def test_an_empty_batch_keeps_its_place() -> None:
    batch = build_batch([], base_offset=5, last_offset=9, producer_id=1)
    header = read_header(batch, 0)
    assert len(batch) == HEADER_BYTES
    assert (header.base_offset, header.last_offset, header.record_count) == (5, 9, 0)
    assert read_batch(batch, 0) == []
    assert crc_matches(batch, 0, header)


def test_batches_that_cannot_be_are_not_built() -> None:
    with pytest.raises(ValueError, match="needs its last offset"):
        build_batch([])
    with pytest.raises(ValueError, match="cannot be in a batch"):
        build_batch(RECORDS, base_offset=3)
    with pytest.raises(ValueError, match="cannot be in a batch"):
        build_batch([Record(2**31, 0, None, None)])


@given(garbage=st.binary(max_size=200))
def test_garbage_is_split_or_corrupt(garbage: bytes) -> None:
    try:
        batches = split_batches(garbage)
    except CorruptRecordsError:
        return
    assert sum(header.size_bytes for _, header in batches) == len(garbage)


@given(data=st.data(), codec=st.sampled_from(Codec))
def test_a_damaged_batch_gives_records_or_is_corrupt(data: st.DataObject, codec: Codec) -> None:
    batch = bytearray(full_batch(codec))
    position = data.draw(st.integers(0, len(batch) - 1))
    batch[position] = data.draw(st.integers(0, 255))
    try:
        records = read_batch(batch, 0, 10_000)
    except CorruptRecordsError:
        return
    assert all(isinstance(record, Record) for record in records)


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_of_another_producer_has_its_numbers_and_a_right_checksum(codec: Codec) -> None:
    before = full_batch(codec)
    after = with_producer(
        memoryview(before),
        producer_id=7_000_000_000,
        producer_epoch=12,
        base_sequence=34,
        flags=BatchFlag.TRANSACTIONAL,
    )
    header = read_header(after, 0)
    assert crc_matches(after, 0, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (
        7_000_000_000,
        12,
        34,
    )
    assert read_batch(after, 0) == read_batch(before, 0)


def test_a_wrong_checksum_stays_wrong_when_it_is_renewed() -> None:
    damaged = bytearray(full_batch())
    damaged[-1] ^= 1
    sent = with_producer(
        damaged, producer_id=1, producer_epoch=2, base_sequence=3, flags=BatchFlag(0)
    )
    assert not crc_matches(sent, 0, read_header(sent, 0))
    stamp_timestamps(damaged, 0, TimestampType.LOG_APPEND_TIME, 55)
    assert not crc_matches(damaged, 0, read_header(damaged, 0))
