"""Batches of kafka-python and aiokafka are read here, and ours there."""

from typing import Any

import pytest
from aiokafka.record import default_records as aiokafka_records
from aiokafka.record._crecords import default_records as aiokafka_compiled_records
from hypothesis import given
from hypothesis import strategies as st
from kafka import codec as kafka_python_codec
from kafka.record import default_records as kafka_python_records
from tests.records.record_values import BASE_OFFSET, record_lists

from ottla.records.batch import (
    BatchFlag,
    TimestampType,
    build_batch,
    crc_matches,
    read_batch,
    read_header,
)
from ottla.records.compression import Codec
from ottla.records.control import MarkerType, build_marker_batch
from ottla.records.record import Record

# kafka-python compresses with packages of its own choice, each of which may not be installed.
KAFKA_PYTHON_CODECS = {
    Codec.NONE: True,
    Codec.GZIP: True,
    Codec.SNAPPY: kafka_python_codec.has_snappy(),
    Codec.LZ4: kafka_python_codec.has_lz4(),
    Codec.ZSTD: kafka_python_codec.has_zstd(),
}
STRANGERS = [
    pytest.param(
        kafka_python_records.DefaultRecordBatchBuilder,
        kafka_python_records.DefaultRecordBatch,
        codec,
        id=f"kafka-python-{codec.name}",
        marks=pytest.mark.skipif(not available, reason="kafka-python lacks the codec's package"),
    )
    for codec, available in KAFKA_PYTHON_CODECS.items()
] + [
    pytest.param(module_builder, module_batch, codec, id=f"{name}-{codec.name}")
    for name, module_builder, module_batch in (
        (
            "aiokafka",
            aiokafka_records._DefaultRecordBatchBuilderPy,
            aiokafka_records._DefaultRecordBatchPy,
        ),
        (
            "aiokafka-compiled",
            aiokafka_compiled_records.DefaultRecordBatchBuilder,
            aiokafka_compiled_records.DefaultRecordBatch,
        ),
    )
    for codec in Codec
]
every_stranger = pytest.mark.parametrize(("builder_class", "batch_class", "codec"), STRANGERS)

RECORDS = [
    Record(0, 1_700_000_000_000, b"key", b"value"),
    Record(1, 1_700_000_000_500, None, b"no key"),
    Record(2, 1_699_999_999_999, b"no value", None),
    Record(3, 1_700_000_000_000, b"", b""),
    Record(4, 1_700_000_000_000, None, None),
    Record(5, 1_700_000_000_000, b"headers", b"x", (("a", b"1"), ("é", b""), ("n", None))),
    Record(6, 1_700_000_000_001, b"large", b"abcdefgh" * 20_000, (("a", b"y" * 300),)),
]


def as_ours(record: Any) -> Record:
    """A stranger's record as one of ours."""
    return Record(record.offset, record.timestamp, record.key, record.value, tuple(record.headers))


@every_stranger
def test_strangers_batches_are_read_here(
    builder_class: Any, batch_class: Any, codec: Codec
) -> None:
    builder = builder_class(
        magic=2,
        compression_type=codec,
        is_transactional=1,
        producer_id=9,
        producer_epoch=2,
        base_sequence=100,
        batch_size=10_000_000,
    )
    for record in RECORDS:
        offset, timestamp, key, value, headers = record
        assert builder.append(offset, timestamp, key, value, list(headers)) is not None
    batch = bytes(builder.build())
    header = read_header(batch, 0)
    assert header.codec is codec
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, 100)
    assert header.last_sequence == 106
    assert crc_matches(batch, 0, header)
    assert read_batch(batch, 0) == RECORDS


@every_stranger
def test_strangers_read_our_batches(builder_class: Any, batch_class: Any, codec: Codec) -> None:
    ours = build_batch(
        RECORDS,
        codec=codec,
        producer_id=9,
        producer_epoch=2,
        base_sequence=100,
        flags=BatchFlag.TRANSACTIONAL,
    )
    theirs = batch_class(ours)
    assert theirs.validate_crc()
    assert theirs.crc == read_header(ours, 0).crc
    assert theirs.is_transactional
    assert theirs.next_offset == 7
    assert theirs.max_timestamp == 1_700_000_000_500
    assert [as_ours(record) for record in theirs] == RECORDS


@every_stranger
def test_strangers_see_our_append_time(builder_class: Any, batch_class: Any, codec: Codec) -> None:
    ours = build_batch(
        RECORDS,
        codec=codec,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        append_time_ms=1_800_000_000_000,
    )
    theirs = batch_class(ours)
    assert theirs.validate_crc()
    assert theirs.timestamp_type == 1
    assert {record.timestamp for record in theirs} == {1_800_000_000_000}


def test_uncompressed_batches_are_byte_identical() -> None:
    ours = build_batch(RECORDS, producer_id=9, producer_epoch=2, base_sequence=100)
    for builder_class in (
        kafka_python_records.DefaultRecordBatchBuilder,
        aiokafka_records._DefaultRecordBatchBuilderPy,
    ):
        builder = builder_class(
            magic=2,
            compression_type=0,
            is_transactional=0,
            producer_id=9,
            producer_epoch=2,
            base_sequence=100,
            batch_size=10_000_000,
        )
        for offset, timestamp, key, value, headers in RECORDS:
            builder.append(offset, timestamp, key, value, list(headers))
        theirs = bytearray(builder.build())
        # They leave the leader epoch to the broker, with different placeholders.
        theirs[12:16] = ours[12:16]
        assert theirs == ours


@given(records=record_lists().filter(bool), codec=st.sampled_from(Codec))
def test_a_stranger_reads_any_batch_of_ours(records: list[Record], codec: Codec) -> None:
    theirs = aiokafka_records._DefaultRecordBatchPy(
        build_batch(records, base_offset=BASE_OFFSET, codec=codec)
    )
    assert theirs.validate_crc()
    assert [as_ours(record) for record in theirs] == records


@pytest.mark.parametrize("marker_type", MarkerType)
def test_a_stranger_reads_our_markers(marker_type: MarkerType) -> None:
    theirs = kafka_python_records.DefaultRecordBatch(
        build_marker_batch(
            marker_type,
            producer_id=9,
            producer_epoch=2,
            coordinator_epoch=1,
            timestamp_ms=5,
        )
    )
    assert theirs.is_control_batch
    assert theirs.is_transactional
    (marker,) = list(theirs)
    assert marker.version == 0
    assert marker.commit == (marker_type is MarkerType.COMMIT)
    assert marker.abort == (marker_type is MarkerType.ABORT)
