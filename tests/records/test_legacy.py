"""Messages of magic 0 and 1 are read as Kafka's own client reads them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from ottla.records.batch import TimestampType, build_batch, read_batch, split_batches
from ottla.records.compression import Codec
from ottla.records.errors import CorruptRecordsError
from ottla.records.legacy import upgrade_legacy
from ottla.records.record import Record

VECTORS = Path(__file__).with_name("legacy_messages.txt")


class Vector(NamedTuple):
    """What Kafka 2.1 sent for three records."""

    magic: int
    time: str
    codec: str
    data: bytes


def vectors() -> list[Vector]:
    rows = [line.split() for line in VECTORS.read_text(encoding="utf-8").splitlines()[1:]]
    return [
        Vector(int(magic), time, codec, bytes.fromhex(data)) for magic, time, codec, data in rows
    ]


def records_of(data: bytes) -> list[Record]:
    return [record for position, _ in split_batches(data) for record in read_batch(data, position)]


def built(magic: int, codec: Codec, records: list[Record]) -> bytes:
    builder: Any = LegacyRecordBatchBuilder(
        magic=magic, compression_type=int(codec), batch_size=1 << 20
    )
    for record in records:
        assert builder.append(record.offset, record.timestamp, record.key, record.value)
    data = bytes(builder.build())
    # Brokers write the offset of the last record over a compressed message's.
    return data if codec is Codec.NONE else records[-1].offset.to_bytes(8, "big") + data[8:]


def numbered(count: int) -> list[Record]:
    return [Record(i, 1000 + i, b"k%d" % i, b"value %d" % i * 9) for i in range(count)]


@pytest.mark.parametrize("vector", vectors(), ids=lambda one: f"{one.magic}-{one.time}-{one.codec}")
def test_what_kafka_sends_is_read(vector: Vector) -> None:
    data = upgrade_legacy(vector.data)
    found = records_of(data)
    contents = [(record.offset, record.key, record.value) for record in found]
    assert contents == [(0, b"k", b"one"), (1, None, None), (2, None, b"three" * 8)]
    header = split_batches(data)[-1][1]
    if vector.time == "LogAppendTime":
        assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
        assert header.max_timestamp > 1_700_000_000_000
    else:
        expected = [-1, -1, -1] if vector.magic == 0 else [1000, 1001, 1002]
        assert [record.timestamp for record in found] == expected
        assert header.timestamp_type is TimestampType.CREATE_TIME


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_what_aiokafka_builds_is_read(codec: Codec) -> None:
    records = numbered(20)
    assert records_of(upgrade_legacy(built(1, codec, records))) == records
    if codec is not Codec.LZ4:  # which aiokafka does not write with magic 0
        timeless = [record._replace(timestamp=-1) for record in records]
        assert records_of(upgrade_legacy(built(0, codec, records))) == timeless


def test_formats_may_be_mixed_and_the_end_cut_off() -> None:
    old, new = built(1, Codec.GZIP, numbered(3)), [Record(3, 7, None, b"new")]
    whole = old + build_batch(new, base_offset=3)
    assert records_of(upgrade_legacy(whole)) == [*numbered(3), *new]
    assert records_of(upgrade_legacy(whole[:-1])) == numbered(3)
    assert upgrade_legacy(old[:-1]) == b""


def test_the_outer_offset_of_magic_1_is_that_of_the_last_record() -> None:
    data = bytearray(built(1, Codec.GZIP, numbered(3)))
    data[:8] = (102).to_bytes(8, "big")
    assert [record.offset for record in records_of(upgrade_legacy(bytes(data)))] == [100, 101, 102]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_damage_is_told_when_it_is_first_in_line(codec: Codec) -> None:
    good, bad = built(1, codec, numbered(1)), bytearray(built(1, codec, numbered(1)))
    bad[-3] ^= 0x10
    with pytest.raises(CorruptRecordsError, match="checksum"):
        upgrade_legacy(bytes(bad))
    assert len(records_of(upgrade_legacy(good + bytes(bad)))) == 1


@given(
    st.sampled_from([one.data for one in vectors()]),
    st.integers(0, 200),
    st.binary(min_size=1, max_size=8),
)
def test_garbage_is_corrupt_or_read_and_never_something_else(
    data: bytes, at: int, garbage: bytes
) -> None:
    mutated = bytearray(data[:at] + garbage + data[at + len(garbage) :])
    with suppress(CorruptRecordsError):
        split_batches(upgrade_legacy(bytes(mutated)))
    # Damage behind a right checksum goes further.
    end = 12 + int.from_bytes(data[8:12], "big")
    mutated[8:12] = data[8:12]
    mutated[12:16] = crc32(mutated[16:end]).to_bytes(4, "big")
    with suppress(CorruptRecordsError):
        split_batches(upgrade_legacy(bytes(mutated)))
