"""Produce: which batches are accepted, what they are rewritten to, and how the others are refused."""

from __future__ import annotations

import random
import struct

import pytest
from tests.broker.requests import (
    PRODUCE_VERSION,
    batch_of,
    create,
    delete,
    eventually,
    fetch,
    fill,
    held_thread,
    now_ms,
    on_loop,
    produce,
    produce_request,
    read_values,
    records_in,
    records_of,
    session_with,
    set_options,
)

import ottla
from ottla.broker.runtime import RunningBroker
from ottla.client.raw import RawConnection
from ottla.core.append import MAX_REPORTED_RECORDS
from ottla.errors import ErrorCode
from ottla.records.batch import (
    NO_TIMESTAMP,
    BatchFlag,
    BatchHeader,
    TimestampType,
    build_batch,
    crc_matches,
    read_batch,
    read_header,
    split_batches,
    stamp,
)
from ottla.records.compression import Codec, compress
from ottla.records.crc import crc32c
from ottla.records.record import Record
from ottla.wire.messages.produce import ProduceResponse

CODECS = list(Codec)
COMPRESSED = [codec for codec in CODECS if codec is not Codec.NONE]
CRC_AT, ATTRIBUTES_AT, LAST_DELTA_AT, COUNT_AT, RECORDS_AT = 17, 21, 23, 57, 61
DAY_MS = 24 * 60 * 60 * 1000


def with_crc(batch: bytes | bytearray) -> bytes:
    """The batch with a length and a checksum that are right."""
    made = bytearray(batch)
    struct.pack_into(">i", made, 8, len(made) - 12)
    struct.pack_into(">I", made, CRC_AT, crc32c(memoryview(bytes(made))[ATTRIBUTES_AT:]))
    return bytes(made)


def changed(batch: bytes, position: int, form: str, value: int) -> bytes:
    """The batch with one number of its header changed, and the checksum renewed."""
    made = bytearray(batch)
    struct.pack_into(form, made, position, value)
    return with_crc(made)


def with_payload(codec: Codec, payload: bytes, count: int = 1) -> bytes:
    """A batch of `count` records that says it is compressed, with anything for its payload."""
    header = bytearray(batch_of(*[b"v"] * count, codec=codec)[:RECORDS_AT])
    return with_crc(header + payload)


def stored(connection: RawConnection, topic: str, offset: int = 0) -> tuple[BatchHeader, bytes]:
    """The batch at an offset as the broker keeps it."""
    raw = bytes(fetch(connection, topic, offset).records or b"")
    (position, header), *_ = split_batches(raw)
    assert crc_matches(raw, position, header)
    return header, raw[position : position + header.size_bytes]


def refused(connection: RawConnection, topic: str, data: bytes | None) -> int:
    """The error of a batch, of which nothing may be in the log."""
    before = fetch(connection, topic, 0).high_watermark
    result = produce(connection, topic, data)
    assert result.base_offset == -1
    assert result.error_message
    assert fetch(connection, topic, 0).high_watermark == before
    assert fill(connection, topic, b"the next") == [before]  # the connection is still good
    return result.error_code


# Damage.


@pytest.mark.parametrize("position", [17, 21, 22, 30, 45, 60, 61, -1])
def test_a_wrong_checksum_is_corrupt_wherever_the_damage_is(
    connection: RawConnection, topic: str, position: int
) -> None:
    create(connection, topic)
    damaged = bytearray(batch_of(b"one", b"two"))
    damaged[position] ^= 0x24
    assert refused(connection, topic, bytes(damaged)) == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("size_bytes", [1, 16, 17, 60, 61, -1])
def test_a_truncated_batch_is_corrupt(
    connection: RawConnection, topic: str, size_bytes: int
) -> None:
    create(connection, topic)
    whole = batch_of(b"a value of some length")
    assert refused(connection, topic, whole[:size_bytes]) == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("length", [-1, 0, 48, 2**31 - 1, -(2**31)])
def test_an_absurd_batch_length_is_corrupt(
    connection: RawConnection, topic: str, length: int
) -> None:
    create(connection, topic)
    damaged = bytearray(batch_of(b"v"))
    struct.pack_into(">i", damaged, 8, length)
    assert refused(connection, topic, bytes(damaged)) == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("data", [None, b""])
def test_no_batch_at_all_is_invalid(
    connection: RawConnection, topic: str, data: bytes | None
) -> None:
    create(connection, topic)
    assert refused(connection, topic, data) == ErrorCode.INVALID_RECORD


def test_two_batches_for_one_partition_are_invalid(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    assert refused(connection, topic, batch_of(b"1") + batch_of(b"2")) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("magic", [0, 1])
def test_message_sets_of_old_magic_are_invalid(
    connection: RawConnection, topic: str, magic: int
) -> None:
    create(connection, topic)
    timestamp = struct.pack(">q", now_ms()) if magic == 1 else b""
    body = struct.pack(">bb", magic, 0) + timestamp + struct.pack(">ii", -1, 1) + b"v"
    message = struct.pack(">qii", 0, 4 + len(body), 0) + body
    assert refused(connection, topic, message) == ErrorCode.INVALID_RECORD
    padded = message + bytes(100)
    assert refused(connection, topic, padded) == ErrorCode.INVALID_RECORD


def test_a_magic_from_the_future_is_corrupt(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    damaged = bytearray(batch_of(b"v"))
    damaged[16] = 3
    assert refused(connection, topic, bytes(damaged)) == ErrorCode.CORRUPT_MESSAGE


# Headers that say what clients may not say.


@pytest.mark.parametrize(
    ("position", "form", "value"),
    [
        (COUNT_AT, ">i", 0),
        (COUNT_AT, ">i", -1),
        (COUNT_AT, ">i", 3),
        (COUNT_AT, ">i", 2**31 - 1),
        (LAST_DELTA_AT, ">i", 0),
        (LAST_DELTA_AT, ">i", 2),
        (LAST_DELTA_AT, ">i", -1),
    ],
)
def test_a_count_that_does_not_fit_is_invalid(
    connection: RawConnection, topic: str, position: int, form: str, value: int
) -> None:
    create(connection, topic)
    batch = changed(batch_of(b"one", b"two"), position, form, value)
    assert refused(connection, topic, batch) == ErrorCode.INVALID_RECORD


def test_count_and_last_delta_that_agree_but_not_with_the_records(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic)
    for count in (1, 3):
        batch = changed(batch_of(b"one", b"two"), COUNT_AT, ">i", count)
        batch = changed(batch, LAST_DELTA_AT, ">i", count - 1)
        assert refused(connection, topic, batch) == ErrorCode.INVALID_RECORD


def test_a_base_offset_other_than_0_is_invalid(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    batch = bytearray(batch_of(b"v"))
    stamp(batch, 0, base_offset=7, leader_epoch=-1)
    assert refused(connection, topic, bytes(batch)) == ErrorCode.INVALID_RECORD


def test_a_control_batch_from_a_client_is_invalid(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    batch = build_batch(
        records_of(b"v"),
        flags=BatchFlag.CONTROL | BatchFlag.TRANSACTIONAL,
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
    )
    assert refused(connection, topic, batch) == ErrorCode.INVALID_RECORD


def test_a_producer_id_needs_an_epoch_and_a_sequence(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    for epoch, sequence in ((0, -1), (-1, 0)):
        batch = build_batch(
            records_of(b"v"), producer_id=1, producer_epoch=epoch, base_sequence=sequence
        )
        assert refused(connection, topic, batch) == ErrorCode.INVALID_RECORD


def test_a_transactional_batch_without_a_transactional_id_is_refused(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic)
    batch = build_batch(
        records_of(b"v"),
        flags=BatchFlag.TRANSACTIONAL,
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
    )
    result = produce(connection, topic, batch)
    assert result.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert fetch(connection, topic, 0).high_watermark == 0


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_does_not_exist_is_invalid(
    connection: RawConnection, topic: str, codec: int
) -> None:
    create(connection, topic)
    batch = changed(batch_of(b"v"), ATTRIBUTES_AT, ">h", codec)
    assert refused(connection, topic, batch) == ErrorCode.INVALID_RECORD


# Compression.


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("payload", [b"", b"garbage" * 10, b"\xff" * 300, bytes(300)])
def test_a_payload_that_does_not_decompress_is_invalid(
    connection: RawConnection, topic: str, codec: Codec, payload: bytes
) -> None:
    create(connection, topic)
    assert refused(connection, topic, with_payload(codec, payload)) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_payload_of_other_things_than_records_is_invalid(
    connection: RawConnection, topic: str, codec: Codec
) -> None:
    create(connection, topic)
    payload = compress(codec, b"\x02these are no records" * 20, None)
    assert refused(connection, topic, with_payload(codec, payload)) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_a_decompression_bomb_is_invalid(
    connection: RawConnection, topic: str, codec: Codec
) -> None:
    create(connection, topic)
    payload = compress(codec, bytes(128 << 20), None)
    assert len(payload) < 1 << 20
    assert refused(connection, topic, with_payload(codec, payload)) == ErrorCode.INVALID_RECORD


def test_batches_that_take_long_keep_their_place(
    broker: ottla.Broker, connection: RawConnection, topic: str
) -> None:
    """They are decompressed on a thread; what was sent behind them on the same connection is behind them in the log."""
    create(connection, topic)
    long = build_batch(records_of(bytes(8 << 20)), codec=Codec.ZSTD)
    for number in range(4):
        connection.send(produce_request(topic, long), PRODUCE_VERSION)
        connection.send(produce_request(topic, batch_of(b"%d" % number)), PRODUCE_VERSION)
    connection.send(produce_request(topic, long, acks=0), PRODUCE_VERSION)
    with session_with(broker) as other:
        assert produce(other, topic, batch_of(b"meanwhile")).error_code == ErrorCode.NONE
    for _ in range(8):
        answer = connection.receive(ProduceResponse, PRODUCE_VERSION)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    assert fetch(connection, topic, 0).high_watermark == 10
    values = [value for value in read_values(connection, topic) if value != b"meanwhile"]
    assert [len(value or b"") for value in values] == [8 << 20, 1] * 4 + [8 << 20]
    assert values[1::2] == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize(
    ("version", "error"), [(12, "UNKNOWN_TOPIC_OR_PARTITION"), (13, "UNKNOWN_TOPIC_ID")]
)
def test_a_batch_that_took_long_is_not_for_a_new_topic_of_the_same_name(
    broker: ottla.Broker, connection: RawConnection, topic: str, version: int, error: str
) -> None:
    create(connection, topic)
    request = produce_request(topic, build_batch(records_of(bytes(8 << 20)), codec=Codec.ZSTD))
    request.topic_data[0].topic_id = on_loop(
        broker, lambda found: found.cluster.catalog.topics[topic].topic_id
    )
    with held_thread(broker), session_with(broker) as other:
        connection.send(request, version)
        assert eventually(lambda: on_loop(broker, lambda found: is_waiting(found)))
        assert delete(other, topic).error_code == ErrorCode.NONE
        create(other, topic, config={"max.message.bytes": "1000"})
    answer = connection.receive(ProduceResponse, version)
    (partition,) = answer.responses[0].partition_responses
    assert ErrorCode(partition.error_code).name == error
    assert fetch(connection, topic, 0).high_watermark == 0


def is_waiting(found: RunningBroker) -> bool:
    """Whether something waits for the broker's thread."""
    return bool(found.cluster.share._thread._waiters)


@pytest.mark.parametrize("target", ["gzip", "zstd"])
def test_large_batches_are_recompressed(connection: RawConnection, topic: str, target: str) -> None:
    create(connection, topic, config={"compression.type": target})
    value = random.Random(1).randbytes(1000) * 300
    assert produce(connection, topic, batch_of(value)).error_code == ErrorCode.NONE
    assert stored(connection, topic)[0].codec.name.lower() == target
    assert read_values(connection, topic) == [value]


def test_of_very_many_wrong_records_only_their_batch_is_told(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic, config={"cleanup.policy": "compact"})
    for count, told in (
        (MAX_REPORTED_RECORDS, MAX_REPORTED_RECORDS),
        (MAX_REPORTED_RECORDS + 1, 0),
    ):
        keyless = [record._replace(key=None) for record in records_of(*[b""] * count)]
        batch = build_batch(keyless, codec=Codec.ZSTD)
        result = produce(connection, topic, batch)
        assert result.error_code == ErrorCode.INVALID_RECORD
        assert len(result.record_errors) == told


def test_timestamps_of_very_many_records_are_looked_at_one_by_one(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic, config={"message.timestamp.before.max.ms": "60000"})
    count = MAX_REPORTED_RECORDS + 1
    without = records_of(*[b""] * count, timestamp_ms=NO_TIMESTAMP)
    assert produce(connection, topic, build_batch(without)).error_code == ErrorCode.NONE
    late = [*without[:-1], without[-1]._replace(timestamp=1_700_000_000_000)]
    result = produce(connection, topic, build_batch(late, codec=Codec.ZSTD))
    assert result.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [found.batch_index for found in result.record_errors] == [count - 1]


def test_zstd_needs_version_7(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    batch = batch_of(b"v", codec=Codec.ZSTD)
    result = produce(connection, topic, batch, version=6)
    assert result.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert produce(connection, topic, batch, version=7).error_code == ErrorCode.NONE


@pytest.mark.parametrize("source", CODECS)
@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"])
def test_the_topic_decides_how_batches_are_compressed(
    connection: RawConnection, topic: str, source: Codec, target: str
) -> None:
    create(connection, topic, config={"compression.type": target})
    records = [
        Record(0, now_ms(), b"k", b"value" * 50, (("h", b"1"), ("n", None))),
        Record(1, now_ms() - 5, None, None),
        Record(2, now_ms(), b"", b""),
    ]
    sent = build_batch(records, codec=source, producer_id=3, producer_epoch=0, base_sequence=0)
    result = produce(connection, topic, sent)
    assert result.error_code == ErrorCode.NONE
    header, raw = stored(connection, topic)
    wanted = {"producer": source, "uncompressed": Codec.NONE}.get(target)
    assert header.codec == (Codec[target.upper()] if wanted is None else wanted)
    assert read_batch(raw, 0) == records
    assert (header.producer_id, header.base_sequence) == (3, 0)
    assert header.max_timestamp == max(record.timestamp for record in records)
    # The repetition of a batch that was recompressed is still recognised.
    assert produce(connection, topic, sent).base_offset == 0
    assert fetch(connection, topic, 0).high_watermark == 3


@pytest.mark.parametrize(("codec", "low", "high"), [("gzip", 1, 9), ("zstd", 1, 19)])
def test_compression_levels_are_those_of_the_topic(
    connection: RawConnection, topic: str, codec: str, low: int, high: int
) -> None:
    words = random.Random(1)
    text = b" ".join(b"%d" % words.randrange(3000) for _ in range(20_000))
    sizes = []
    create(connection, topic, config={"compression.type": codec})
    for offset, level in enumerate((low, high)):
        options = {f"compression.{codec}.level": str(level)}
        assert set_options(connection, topic, options) == ErrorCode.NONE
        fill(connection, topic, text)
        sizes.append(stored(connection, topic, offset)[0].size_bytes)
    assert sizes[1] < sizes[0]


@pytest.mark.parametrize("codec", CODECS)
def test_records_are_numbered_anew_if_their_offsets_have_gaps(
    connection: RawConnection, topic: str, codec: Codec
) -> None:
    create(connection, topic)
    at_ms = now_ms()
    records = [Record(offset, at_ms, b"k", b"%d" % offset) for offset in (0, 2, 5)]
    batch = changed(build_batch(records, codec=codec), LAST_DELTA_AT, ">i", 2)
    fill(connection, topic, b"before")
    assert produce(connection, topic, batch).base_offset == 1
    header, raw = stored(connection, topic, 1)
    assert (header.codec, header.record_count, header.last_offset) == (codec, 3, 3)
    assert [(record.offset, record.value) for record in read_batch(raw, 0)] == [
        (1, b"0"),
        (2, b"2"),
        (3, b"5"),
    ]


# Sizes.


def test_max_message_bytes_is_the_size_of_a_batch(connection: RawConnection, topic: str) -> None:
    batch = batch_of(b"x" * 1000)
    create(connection, topic, config={"max.message.bytes": str(len(batch))})
    assert produce(connection, topic, batch).error_code == ErrorCode.NONE
    larger = batch_of(b"x" * 1001)
    result = produce(connection, topic, larger)
    assert result.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert "max.message.bytes" in (result.error_message or "")
    # What counts is the size as it was sent.
    assert produce(connection, topic, batch_of(b"x" * 9000, codec=Codec.GZIP)).error_code == 0


def test_recompression_may_make_a_batch_too_large(connection: RawConnection, topic: str) -> None:
    create(
        connection, topic, config={"max.message.bytes": "500", "compression.type": "uncompressed"}
    )
    batch = batch_of(b"x" * 1000, codec=Codec.GZIP)
    assert len(batch) < 500
    assert produce(connection, topic, batch).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_larger_than_a_segment(connection: RawConnection, topic: str) -> None:
    create(connection, topic, config={"segment.bytes": "500"})
    result = produce(connection, topic, batch_of(b"x" * 1000))
    assert result.error_code == ErrorCode.RECORD_LIST_TOO_LARGE


# Keys.


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_compacted_topic_names_the_records_without_a_key(
    connection: RawConnection, topic: str, policy: str, codec: Codec
) -> None:
    create(connection, topic, config={"cleanup.policy": policy})
    at_ms = now_ms()
    keys = [b"k", None, b"", None]
    batch = build_batch(
        [Record(offset, at_ms, key, b"v") for offset, key in enumerate(keys)], codec=codec
    )
    result = produce(connection, topic, batch)
    assert result.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in result.record_errors] == [1, 3]
    assert all(error.batch_index_error_message for error in result.record_errors)
    assert produce(connection, topic, batch, version=7).error_code == ErrorCode.INVALID_RECORD
    assert read_values(connection, topic) == []
    assert fill(connection, topic, b"with a key") == [0]


# Timestamps.


def test_timestamps_out_of_range_are_named(connection: RawConnection, topic: str) -> None:
    create(
        connection,
        topic,
        config={
            "message.timestamp.before.max.ms": str(DAY_MS),
            "message.timestamp.after.max.ms": str(DAY_MS),
        },
    )
    now = now_ms()
    times = [now, now - 2 * DAY_MS, now + 2 * DAY_MS, now - DAY_MS // 2, -1]
    batch = build_batch([Record(at, ms, b"k", b"v") for at, ms in enumerate(times)])
    result = produce(connection, topic, batch)
    assert result.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in result.record_errors] == [1, 2]
    assert read_values(connection, topic) == []


def test_the_default_takes_any_past_and_an_hour_of_future(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic)
    hour_ms = 60 * 60 * 1000
    past = build_batch([Record(0, 1, b"k", b"v")])
    assert produce(connection, topic, past).error_code == ErrorCode.NONE
    future = build_batch([Record(0, now_ms() + 2 * hour_ms, b"k", b"v")])
    assert produce(connection, topic, future).error_code == ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("codec", CODECS)
def test_log_append_time_rewrites_any_timestamp(
    connection: RawConnection, topic: str, codec: Codec
) -> None:
    create(connection, topic, config={"message.timestamp.type": "LogAppendTime"})
    far_ms = now_ms() + 100 * DAY_MS
    batch = build_batch([Record(0, far_ms, b"k", b"v"), Record(1, 5, b"k", b"w")], codec=codec)
    result = produce(connection, topic, batch)
    assert result.error_code == ErrorCode.NONE
    header, _ = stored(connection, topic)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.max_timestamp == result.log_append_time_ms
    found = records_in(fetch(connection, topic, 0))
    assert [record.timestamp for record in found] == [result.log_append_time_ms] * 2


def test_the_largest_timestamp_is_what_the_records_say(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic)
    now = now_ms()
    batch = build_batch([Record(0, now - 100, b"k", b"v"), Record(1, now, b"k", b"w")])
    lying = changed(batch, 35, ">q", now + 10 * DAY_MS)
    assert produce(connection, topic, lying).error_code == ErrorCode.NONE
    assert stored(connection, topic)[0].max_timestamp == now


def test_a_batch_that_claims_log_append_time_keeps_its_own_times(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic)
    now = now_ms()
    batch = build_batch(
        [Record(0, now - 100, b"k", b"v"), Record(1, now, b"k", b"w")],
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        append_time_ms=now,
    )
    assert produce(connection, topic, batch).error_code == ErrorCode.NONE
    header, raw = stored(connection, topic)
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert [record.timestamp for record in read_batch(raw, 0)] == [now - 100, now]


def test_what_is_stored_is_what_was_sent_but_for_offset_and_epoch(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic)
    sent = batch_of(b"one", b"two", codec=Codec.LZ4)
    produce(connection, topic, sent)
    _, raw = stored(connection, topic)
    assert raw[16:] == sent[16:]
    assert read_header(raw, 0).partition_leader_epoch >= 0
