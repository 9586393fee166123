from __future__ import annotations

import dataclasses
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.client_batches import NOW_MS, client_batch, header_of, marker_batch

from ottla.config.topic import TopicConfig
from ottla.core.append import NO_TIMESTAMP, Prepared, check_plain, plain_limits, prepare
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.records.batch import (
    BatchFlag,
    BatchHeader,
    TimestampType,
    build_batch,
    crc_matches,
    read_batch,
    read_header,
    with_records,
)
from ottla.records.compression import Codec
from ottla.records.control import MarkerType
from ottla.records.crc import crc32c
from ottla.records.record import Record

PLAIN = TopicConfig()
VERSION = 9


def config(**changes: Any) -> TopicConfig:
    return dataclasses.replace(PLAIN, **changes)


def refused(data: bytes | None, topic: TopicConfig = PLAIN, version: int = VERSION) -> Refused:
    made = prepare(data, topic, NOW_MS, version)
    assert isinstance(made, Refused), made
    assert made.message
    return made


def prepared(data: bytes | bytearray | memoryview, topic: TopicConfig = PLAIN) -> Prepared:
    made = prepare(data, topic, NOW_MS, VERSION)
    assert isinstance(made, Prepared), made
    assert made.header == read_header(made.data, 0)
    assert crc_matches(made.data, 0, made.header)
    return made


def remade(data: bytes, **changes: Any) -> bytes:
    """The same records under a changed header, with a checksum that is right."""
    header: BatchHeader = header_of(data)._replace(**changes)
    return with_records(header, read_batch(data, 0), None)


def test_a_batch_in_order_is_not_copied() -> None:
    data = client_batch(3)
    assert prepared(data).data is data


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_is_taken_as_it_comes(codec: Codec) -> None:
    data = client_batch(3, codec=codec)
    assert prepared(data).data is data


@pytest.mark.parametrize("data", [None, b""])
def test_no_batch_is_refused(data: bytes | None) -> None:
    assert refused(data).error is ErrorCode.INVALID_RECORD


def test_two_batches_are_refused() -> None:
    assert refused(client_batch() + client_batch()).error is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("magic", [0, 1])
def test_older_magics_are_refused(magic: int) -> None:
    data = bytearray(client_batch())
    data[16] = magic
    assert refused(bytes(data)).error is ErrorCode.INVALID_RECORD


@given(st.integers(61 * 8, len(client_batch(3)) * 8 - 1))
def test_a_flipped_bit_in_the_records_is_found(bit: int) -> None:
    data = bytearray(client_batch(3))
    data[bit // 8] ^= 1 << bit % 8
    assert refused(bytes(data)).error is ErrorCode.CORRUPT_MESSAGE


@given(st.integers(1, len(client_batch(3)) - 1))
def test_a_cut_batch_is_refused(size: int) -> None:
    assert refused(client_batch(3)[:size]).error is ErrorCode.CORRUPT_MESSAGE


@given(st.binary(max_size=200))
def test_garbage_is_refused(data: bytes) -> None:
    assert isinstance(prepare(data, PLAIN, NOW_MS, VERSION), Refused)


@given(st.data())
def test_any_damage_is_refused_or_harmless(data: st.DataObject) -> None:
    """Whatever passes has a right checksum, and records that can be read."""
    batch = bytearray(client_batch(3, producer_id=1, producer_epoch=0, first_sequence=0))
    position = data.draw(st.integers(0, len(batch) - 1))
    batch[position] = data.draw(st.integers(0, 255))
    made = prepare(bytes(batch), PLAIN, NOW_MS, VERSION)
    if isinstance(made, Prepared):
        assert crc_matches(made.data, 0, made.header)
        assert len(read_batch(made.data, 0)) == 3


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (marker_batch(1, 0, MarkerType.COMMIT), "control"),
        (client_batch(producer_id=1, producer_epoch=0), "sequence"),
        (client_batch(producer_id=1, first_sequence=0), "epoch"),
        (client_batch(transactional=True), "transactional"),
        (build_batch([], last_offset=3), "0 records"),
        (remade(client_batch(3), last_offset_delta=7), "last offset delta"),
    ],
)
def test_headers_that_make_no_sense_are_refused(data: bytes, reason: str) -> None:
    made = refused(data)
    assert made.error is ErrorCode.INVALID_RECORD
    assert reason in made.text


def test_a_count_that_the_records_do_not_have_is_refused() -> None:
    data = remade(client_batch(3), record_count=4, last_offset_delta=3)
    assert refused(data).error is ErrorCode.INVALID_RECORD


def test_the_largest_epoch_and_sequence_are_taken() -> None:
    """Trap 8, at the door: 32767 and 2^31 - 1 are values like any other."""
    data = client_batch(2, producer_id=1, producer_epoch=32767, first_sequence=2**31 - 1)
    assert prepared(data).header.last_sequence == 0


def test_a_batch_as_large_as_allowed_is_taken_and_one_byte_more_is_not() -> None:
    data = client_batch()
    prepared(data, config(max_message_bytes=len(data)))
    made = refused(data, config(max_message_bytes=len(data) - 1))
    assert made.error is ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_larger_than_a_segment_is_refused() -> None:
    data = client_batch()
    prepared(data, config(segment_bytes=len(data)))
    made = refused(data, config(segment_bytes=len(data) - 1))
    assert made.error is ErrorCode.RECORD_LIST_TOO_LARGE


def test_zstd_needs_a_client_that_knows_of_it() -> None:
    """KIP-110."""
    data = client_batch(codec=Codec.ZSTD)
    assert refused(data, version=6).error is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert isinstance(prepare(data, PLAIN, NOW_MS, 7), Prepared)


@pytest.mark.parametrize("policy", [("compact",), ("compact", "delete")])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_keyless_records_are_refused_on_a_compacted_topic(
    policy: tuple[str, ...], codec: Codec
) -> None:
    """Trap 10: and the answer says which records they are; an empty key is a key."""
    data = client_batch(4, keys=[b"a", None, b"", None], codec=codec)
    made = refused(data, config(cleanup_policy=policy))
    assert made.error is ErrorCode.INVALID_RECORD
    assert [found.batch_index for found in made.record_errors] == [1, 3]
    prepared(data)
    prepared(client_batch(2, keys=[b"a", b""], codec=codec), config(cleanup_policy=policy))


@pytest.mark.parametrize(
    ("compression_type", "codec"),
    [
        ("uncompressed", Codec.NONE),
        ("gzip", Codec.GZIP),
        ("snappy", Codec.SNAPPY),
        ("lz4", Codec.LZ4),
        ("zstd", Codec.ZSTD),
    ],
)
@pytest.mark.parametrize("sent_as", [Codec.NONE, Codec.GZIP])
def test_the_topics_codec_wins(compression_type: str, codec: Codec, sent_as: Codec) -> None:
    data = client_batch(
        5, codec=sent_as, value=b"v" * 500, producer_id=4, producer_epoch=2, first_sequence=8
    )
    made = prepared(data, config(compression_type=compression_type))
    assert made.header.codec is codec
    assert read_batch(made.data, 0) == read_batch(data, 0)
    assert (made.header.producer_id, made.header.base_sequence) == (4, 8)
    assert (made.data is data) == (sent_as is codec)


def test_a_batch_that_the_topics_codec_makes_too_large_is_refused() -> None:
    data = client_batch(50, value=b"v" * 500, codec=Codec.GZIP)
    topic = config(compression_type="uncompressed", max_message_bytes=len(data))
    assert refused(data, topic).error is ErrorCode.MESSAGE_TOO_LARGE


def test_log_append_time_is_the_brokers() -> None:
    topic = config(message_timestamp_type="LogAppendTime")
    made = prepared(client_batch(2, timestamps_ms=[1, 2]), topic)
    assert made.append_time_ms == NOW_MS
    assert made.header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [record.timestamp for record in read_batch(made.data, 0)] == [NOW_MS, NOW_MS]


def test_create_time_is_the_producers() -> None:
    made = prepared(client_batch(2, timestamps_ms=[NOW_MS - 5, NOW_MS - 9]))
    assert made.append_time_ms == NO_TIMESTAMP
    assert made.header.max_timestamp == NOW_MS - 5


@pytest.mark.parametrize("read_only", [True, False])
def test_a_wrong_largest_timestamp_is_put_right(read_only: bool) -> None:
    """Otherwise a search by time and retention would believe it."""
    data = remade(client_batch(3, timestamps_ms=[5, 9, 7]), max_timestamp=NOW_MS * 2)
    buffer = memoryview(data) if read_only else memoryview(bytearray(data))
    made = prepared(buffer)
    assert made.header.max_timestamp == 9
    assert read_header(data, 0).max_timestamp == NOW_MS * 2, "the caller's bytes are untouched"


def test_timestamps_out_of_range_are_refused_one_by_one() -> None:
    topic = config(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=10)
    times = [NOW_MS - 1001, NOW_MS - 1000, NOW_MS + 10, NOW_MS + 11, NO_TIMESTAMP]
    made = refused(client_batch(5, timestamps_ms=times), topic)
    assert made.error is ErrorCode.INVALID_TIMESTAMP
    assert [found.batch_index for found in made.record_errors] == [0, 3]


@pytest.mark.parametrize("topic_type", ["CreateTime", "LogAppendTime"])
@pytest.mark.parametrize("base_timestamp_ms", [2**63 - 1, -(2**63)])
def test_a_timestamp_that_is_no_64_bit_number_is_refused(
    topic_type: str, base_timestamp_ms: int
) -> None:
    """Found by fuzzing: base and delta are 64-bit numbers, their sum was not."""
    data = client_batch(2, timestamps_ms=[NOW_MS, NOW_MS + (1 if base_timestamp_ms > 0 else -1)])
    damaged = bytearray(data)
    struct.pack_into(">q", damaged, 27, base_timestamp_ms)
    struct.pack_into(">I", damaged, 17, crc32c(bytes(damaged[21:])))
    topic = config(message_timestamp_type=topic_type, message_timestamp_after_max_ms=2**63 - 1)
    assert refused(bytes(damaged), topic).error is ErrorCode.INVALID_RECORD


def test_records_without_a_timestamp_are_in_no_range() -> None:
    topic = config(message_timestamp_before_max_ms=1000)
    prepared(client_batch(2, timestamps_ms=[NO_TIMESTAMP, NO_TIMESTAMP]), topic)


def test_log_append_time_takes_any_timestamp() -> None:
    topic = config(
        message_timestamp_type="LogAppendTime",
        message_timestamp_before_max_ms=0,
        message_timestamp_after_max_ms=0,
    )
    prepared(client_batch(timestamps_ms=[5]), topic)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_records_that_are_not_numbered_consecutively_are_numbered_anew(codec: Codec) -> None:
    records = [Record(0, NOW_MS, b"a", b"1"), Record(2, NOW_MS, b"b", b"2")]
    gappy = build_batch(records, codec=codec)
    # The header promises two consecutive records, the second of which says that it is the third.
    data = with_records(header_of(gappy)._replace(last_offset_delta=1), records, None)
    made = prepared(data)
    assert [record.offset for record in read_batch(made.data, 0)] == [0, 1]
    assert [record.value for record in read_batch(made.data, 0)] == [b"1", b"2"]


def test_a_decompression_bomb_is_refused() -> None:
    data = client_batch(8, value=bytes(10 << 20), codec=Codec.ZSTD)
    assert len(data) < 100_000
    made = refused(data, config(max_message_bytes=100_000))
    assert made.error is ErrorCode.INVALID_RECORD


def test_flags_of_a_transaction_survive_recompression() -> None:
    records = [Record(0, NOW_MS, b"a", b"1")]
    data = build_batch(
        records,
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
        flags=BatchFlag.TRANSACTIONAL,
    )
    assert prepared(data, config(compression_type="zstd")).header.is_transactional


# Plain batches.


@given(
    count=st.integers(1, 3),
    offsets=st.sampled_from([0, 1]),
    times=st.lists(st.sampled_from([NOW_MS, NOW_MS - 5000, 0, -1]), min_size=3, max_size=3),
    key=st.sampled_from([b"key", None]),
    codec=st.sampled_from([Codec.NONE, Codec.NONE, Codec.SNAPPY]),
    producer=st.sampled_from([(-1, -1, -1), (7, 0, 0), (7, -1, 0), (7, 0, -1)]),
    flags=st.sampled_from([*BatchFlag]),
    kind=st.sampled_from(TimestampType),
    place=st.none() | st.tuples(st.integers(0, 90), st.integers(0, 255), st.booleans()),
    topic=st.sampled_from(
        [
            PLAIN,
            config(cleanup_policy=("compact",)),
            config(compression_type="uncompressed"),
            config(compression_type="zstd"),
            config(message_timestamp_type="LogAppendTime"),
            config(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=1000),
            config(max_message_bytes=80),
            config(segment_bytes=80),
        ]
    ),
)
def test_a_plain_batch_would_be_prepared_as_it_is(
    count: int,
    offsets: int,
    times: list[int],
    key: bytes | None,
    codec: Codec,
    producer: tuple[int, int, int],
    flags: BatchFlag,
    kind: TimestampType,
    place: tuple[int, int, bool] | None,
    topic: TopicConfig,
) -> None:
    records = [Record(n + n * offsets, times[n], key, b"value") for n in range(count)]
    data = bytearray(
        build_batch(
            records,
            codec=codec,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=producer[2],
            flags=flags,
            timestamp_type=kind,
        )
    )
    if place is not None:
        at, byte, renews = place
        data[at % len(data)] = byte
        if renews:
            data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    sent = bytes(data)
    limits = plain_limits(topic)
    header = None if limits is None else check_plain(sent, limits, NOW_MS)
    made = prepare(sent, topic, NOW_MS, VERSION)
    if header is not None:
        assert made == Prepared(sent, header, NO_TIMESTAMP)
        assert made.data is sent


@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.parametrize(
    "producer", [{}, {"producer_id": 3, "producer_epoch": 0, "first_sequence": 0}]
)
def test_the_batches_of_most_clients_are_plain(count: int, producer: dict[str, Any]) -> None:
    limits = plain_limits(PLAIN)
    assert limits is not None
    data = client_batch(count, **producer)
    assert check_plain(data, limits, NOW_MS) == header_of(data)
