"""Control batches: the markers that end transactions."""

import pytest

from ottla.records.batch import BatchFlag, build_batch, crc_matches, read_batch, read_header
from ottla.records.compression import Codec
from ottla.records.control import (
    EndTxnMarker,
    MarkerType,
    build_marker_batch,
    encode_marker_key,
    encode_marker_value,
    marker_of,
    parse_marker,
    parse_marker_type,
)
from ottla.records.errors import CorruptRecordsError
from ottla.records.record import Record


@pytest.mark.parametrize("marker_type", MarkerType)
def test_a_marker_batch_is_what_kafka_writes(marker_type: MarkerType) -> None:
    batch = build_marker_batch(
        marker_type,
        producer_id=1234,
        producer_epoch=7,
        coordinator_epoch=19,
        timestamp_ms=555,
        base_offset=42,
        leader_epoch=3,
    )
    header = read_header(batch, 0)
    assert header.is_control
    assert header.is_transactional
    assert crc_matches(batch, 0, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (1234, 7, -1)
    assert (header.base_offset, header.partition_leader_epoch) == (42, 3)
    assert header.last_sequence == -1
    assert header.max_timestamp == 555
    (record,) = read_batch(batch, 0)
    assert record.key == b"\x00\x00\x00" + bytes([marker_type])
    assert record.value == b"\x00\x00\x00\x00\x00\x13"
    assert (record.offset, record.timestamp) == (42, 555)
    assert parse_marker(record) == EndTxnMarker(marker_type, 19)
    # Kafka's size of such a batch: header, length, five one-byte fields, 4 + 6 bytes, no headers.
    assert len(batch) == 61 + 1 + 5 + 4 + 6 + 1


@pytest.mark.parametrize("number", [2, 3, 4, 5, 6, 99, -1])
def test_other_control_records_are_no_markers(number: int) -> None:
    key = b"\x00\x00" + number.to_bytes(2, "big", signed=True)
    assert parse_marker_type(key) is None
    assert parse_marker(Record(0, 0, key, None)) is None


def test_later_versions_are_read_by_their_known_fields() -> None:
    record = Record(0, 0, b"\x00\x01\x00\x01more", b"\x00\x05\x00\x00\x00\x08more")
    assert parse_marker(record) == EndTxnMarker(MarkerType.COMMIT, 8)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, encode_marker_value(1)),
        (b"", encode_marker_value(1)),
        (b"\x00\x00\x00", encode_marker_value(1)),
        (b"\xff\xff\x00\x01", encode_marker_value(1)),
        (encode_marker_key(MarkerType.ABORT), None),
        (encode_marker_key(MarkerType.ABORT), b"\x00" * 5),
        (encode_marker_key(MarkerType.ABORT), b"\xff\xff" + b"\x00" * 4),
    ],
)
def test_malformed_markers_are_corrupt(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(CorruptRecordsError):
        parse_marker(Record(0, 0, key, value))


def marker_record(marker_type: MarkerType, coordinator_epoch: int, padding: int = 0) -> Record:
    value = encode_marker_value(coordinator_epoch) + b"x" * padding
    return Record(0, 0, encode_marker_key(marker_type), value)


@pytest.mark.parametrize("marker_type", MarkerType)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("padding", [0, 500])
def test_the_marker_of_a_batch_is_found_whatever_else_its_record_has(
    marker_type: MarkerType, codec: Codec, padding: int
) -> None:
    for epoch in (0, 3, 2**31 - 1):
        record = marker_record(marker_type, epoch, padding)
        batch = build_batch([record], codec=codec, flags=BatchFlag.CONTROL)
        found = marker_of(memoryview(batch), read_header(batch, 0))
        assert found == EndTxnMarker(marker_type, epoch)


def test_only_the_first_record_of_a_batch_is_its_marker() -> None:
    records = [marker_record(MarkerType.COMMIT, 1), marker_record(MarkerType.ABORT, 2)]
    batch = build_batch(
        [record._replace(offset=place) for place, record in enumerate(records)],
        flags=BatchFlag.CONTROL,
    )
    assert marker_of(batch, read_header(batch, 0)) == EndTxnMarker(MarkerType.COMMIT, 1)


def test_a_control_batch_without_its_record_is_no_marker() -> None:
    batch = build_marker_batch(
        MarkerType.ABORT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0
    )
    header = read_header(batch, 0)
    emptied = header._replace(record_count=0, length=header.length - len(batch) + 61)
    head = bytearray(batch[:61])
    head[8:12] = emptied.length.to_bytes(4, "big")
    head[57:61] = bytes(4)
    assert marker_of(head, emptied) is None


def test_damage_in_a_marker_is_found_every_time() -> None:
    batch = bytearray(
        build_marker_batch(
            MarkerType.ABORT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0
        )
    )
    batch[61] = 0x70  # the size of the record
    header = read_header(batch, 0)
    for _ in range(2):
        with pytest.raises(CorruptRecordsError):
            marker_of(batch, header)
