"""The checks and rewrites of one record batch of a Produce request before it is appended.

They depend on the batch and the topic's options only. The rules of the request are in `produce`, those of the producer
in `producer_state`, and `partition` decides the offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice
from typing import NamedTuple

from ottla.config.topic import TopicConfig
from ottla.core.outcomes import TAKES_LONG, RecordError, Refused, TakesLong
from ottla.errors import ErrorCode
from ottla.records import batch as batches
from ottla.records.batch import BatchFlag, BatchHeader, TimestampType
from ottla.records.compression import Codec
from ottla.records.errors import CorruptRecordsError, TooLargeError, UnsupportedMagicError
from ottla.records.kernel import decode_records, plain_header, scan_records
from ottla.records.record import INT64_MAX, INT64_MIN, Record, Scan

Buffer = bytes | bytearray | memoryview

NO_TIMESTAMP = -1
FIRST_PRODUCE_VERSION_WITH_ZSTD = 7
# Decompressed, a batch may be this many times as large as `max.message.bytes`, and at least the floor.
DECOMPRESSION_FACTOR = 100
DECOMPRESSION_FLOOR_BYTES = 64 << 20
# The largest batches that are scanned and rewritten on the event loop.
SCANNED_AT_ONCE_BYTES = 1 << 20
REWRITTEN_AT_ONCE_BYTES = 64 << 10
# The most wrong records that a response names.
MAX_REPORTED_RECORDS = 10_000
MAX_RENUMBERED_RECORDS = 100_000

# As plain numbers: operators of enums are slow.
_CONTROL = int(BatchFlag.CONTROL)
_TRANSACTIONAL = int(BatchFlag.TRANSACTIONAL)

_CODECS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


class Prepared(NamedTuple):
    """A batch that may be appended; `data` is the caller's buffer itself unless something had to be rewritten."""

    data: Buffer
    header: BatchHeader
    append_time_ms: int


class Effort(NamedTuple):
    """The most bytes of a batch that may be scanned and rewritten."""

    scanned_bytes: int
    rewritten_bytes: int


# On the event loop, and on a thread.
AT_ONCE = Effort(SCANNED_AT_ONCE_BYTES, REWRITTEN_AT_ONCE_BYTES)
ALL = Effort(INT64_MAX, INT64_MAX)


class PlainLimits(NamedTuple):
    """What a topic's options ask of a batch that is appended as it is."""

    most_bytes: int
    before_max_ms: int
    after_max_ms: int
    needs_keys: bool


def plain_limits(config: TopicConfig) -> PlainLimits | None:
    """The limits of a topic; None if its options have every batch rewritten, or most of them."""
    if config.compression_type not in ("producer", "uncompressed"):
        return None
    if config.message_timestamp_type == "LogAppendTime":
        return None
    return PlainLimits(
        min(config.max_message_bytes, config.segment_bytes),
        config.message_timestamp_before_max_ms,
        config.message_timestamp_after_max_ms,
        "compact" in config.cleanup_policy,
    )


def check_plain(records: Buffer, limits: PlainLimits, now_ms: int) -> BatchHeader | None:
    """The header of a batch that `prepare` would return as it is; None if that takes a closer look.

    Most batches of clients that do not compress are such. The kernel finds them by one pass over their bytes.
    """
    return plain_header(
        BatchHeader,
        records,
        limits.most_bytes,
        max(INT64_MIN, now_ms - limits.before_max_ms),
        min(INT64_MAX, now_ms + limits.after_max_ms),
        limits.needs_keys,
    )


def prepare(
    records: Buffer | None, config: TopicConfig, now_ms: int, produce_version: int
) -> Prepared | Refused:
    """Checks a client's batch, and rewrites it where the topic's options ask for it."""
    prepared = prepare_within(records, config, now_ms, produce_version, ALL)
    assert not isinstance(prepared, TakesLong)
    return prepared


def prepare_within(
    records: Buffer | None, config: TopicConfig, now_ms: int, produce_version: int, most: Effort
) -> Prepared | TakesLong | Refused:
    """As `prepare`; TakesLong if more bytes have to be decompressed or rewritten than `most` allows."""
    if not records:
        return Refused(
            ErrorCode.INVALID_RECORD,
            "a produce request carries one record batch per partition, not none",
        )
    refused = _check_frame(records, config)
    if refused is not None:
        return refused
    try:
        header, crc_matches, scan = batches.inspect(records)
        # Before the header is checked: damage in transit is worth a retry, a wrong header is not.
        if not crc_matches:
            return Refused(ErrorCode.CORRUPT_MESSAGE, "the checksum of the record batch is wrong")
        return _check_header(header, produce_version) or _prepare_records(
            records, header, scan, config, now_ms, most
        )
    except CorruptRecordsError as error:
        return Refused(ErrorCode.INVALID_RECORD, str(error))


def prepare_at_once(
    records: Buffer | None,
    config: TopicConfig,
    limits: PlainLimits | None,
    now_ms: int,
    produce_version: int,
) -> Prepared | TakesLong | Refused:
    """As `prepare_within` on the event loop, with the limits that follow from the topic's options."""
    if limits is not None and records:
        header = check_plain(records, limits, now_ms)
        if header is not None:
            return Prepared(records, header, NO_TIMESTAMP)
    return prepare_within(records, config, now_ms, produce_version, AT_ONCE)


def _check_frame(records: Buffer, config: TopicConfig) -> Refused | None:
    """Checks length and magic: one whole batch that is not too large."""
    size_bytes = len(records)
    if (
        size_bytes >= batches.HEADER_BYTES
        and records[batches.MAGIC_AT] == batches.MAGIC
        and batches.read_length(records) == size_bytes - batches.OVERHEAD_BYTES
    ):
        return _check_size(size_bytes, config)
    try:
        header = batches.read_header(records, 0)
        if header.size_bytes > size_bytes:
            raise CorruptRecordsError(f"a batch of {header.size_bytes} bytes in {size_bytes} bytes")
    except UnsupportedMagicError as error:
        return Refused(ErrorCode.INVALID_RECORD, str(error))
    except CorruptRecordsError as error:
        return Refused(ErrorCode.CORRUPT_MESSAGE, str(error))
    return _check_size(header.size_bytes, config) or Refused(
        ErrorCode.INVALID_RECORD,
        "a produce request carries one record batch per partition, not more",
    )


def _check_size(size_bytes: int, config: TopicConfig) -> Refused | None:
    if size_bytes > config.max_message_bytes:
        return Refused(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {size_bytes} bytes is larger than max.message.bytes={config.max_message_bytes}",
        )
    if size_bytes > config.segment_bytes:
        return Refused(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"a batch of {size_bytes} bytes is larger than segment.bytes={config.segment_bytes}",
        )
    return None


def _check_header(header: BatchHeader, produce_version: int) -> Refused | None:
    problem = None
    attributes, producer_id = header.attributes, header.producer_id
    if header.record_count <= 0 or header.last_offset_delta != header.record_count - 1:
        problem = (
            f"{header.record_count} records with a last offset delta of {header.last_offset_delta}"
        )
    elif header.base_offset != 0:
        problem = f"the base offset is {header.base_offset}, but only the broker numbers records"
    elif attributes & _CONTROL:
        problem = "clients may not write control records"
    elif producer_id >= 0 and header.base_sequence < 0:
        problem = f"producer {producer_id} sent the sequence {header.base_sequence}"
    elif producer_id >= 0 and header.producer_epoch < 0:
        problem = f"producer {producer_id} sent the epoch {header.producer_epoch}"
    elif producer_id < 0 and attributes & _TRANSACTIONAL:
        problem = "a transactional batch without a producer id"
    if problem is not None:
        return Refused(ErrorCode.INVALID_RECORD, problem)
    if produce_version < FIRST_PRODUCE_VERSION_WITH_ZSTD and header.codec is Codec.ZSTD:
        return Refused(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd needs Produce v{FIRST_PRODUCE_VERSION_WITH_ZSTD} or later (KIP-110)",
        )
    return None


def _prepare_records(
    records: Buffer,
    header: BatchHeader,
    scan: Scan | None,
    config: TopicConfig,
    now_ms: int,
    most: Effort,
) -> Prepared | TakesLong | Refused:
    size_bytes = len(records)
    if scan is None:
        payload = _decompress(records, header, config, most)
        if isinstance(payload, TakesLong):
            return payload
        size_bytes = len(payload)
        scan = scan_records(payload, header.record_count)
    # To rewrite or to decode records takes longer than to scan them.
    is_long = size_bytes > most.rewritten_bytes
    if scan.null_key_count and "compact" in config.cleanup_policy:
        return TAKES_LONG if is_long else _refuse_keyless(records, header)
    problem = _check_timestamps(records, header, scan, config, now_ms, is_long)
    if problem is not None:
        return problem
    codec = header.codec
    target = _CODECS.get(config.compression_type, codec)
    if target is not codec or not scan.offsets_consecutive:
        rewritten = TAKES_LONG if is_long else _rewrite(records, header, scan, config, target)
        if isinstance(rewritten, TakesLong | Refused):
            return rewritten
        records, header = rewritten
    takes_append_time = config.message_timestamp_type == "LogAppendTime"
    records, header = _with_timestamps(records, header, scan, takes_append_time, now_ms)
    return Prepared(records, header, now_ms if takes_append_time else NO_TIMESTAMP)


def _decompress(
    records: Buffer, header: BatchHeader, config: TopicConfig, most: Effort
) -> Buffer | TakesLong:
    """The decompressed records; TooLargeError if they exceed the limit for the topic."""
    limit_bytes = max(DECOMPRESSION_FLOOR_BYTES, config.max_message_bytes * DECOMPRESSION_FACTOR)
    try:
        return batches.payload(records, 0, header, min(limit_bytes, most.scanned_bytes))
    except TooLargeError:
        if limit_bytes <= most.scanned_bytes:
            raise
        return TAKES_LONG


def _check_timestamps(
    records: Buffer,
    header: BatchHeader,
    scan: Scan,
    config: TopicConfig,
    now_ms: int,
    is_long: bool,
) -> TakesLong | Refused | None:
    lowest_ms = header.base_timestamp + scan.min_timestamp_delta
    highest_ms = header.base_timestamp + scan.max_timestamp_delta
    if not (lowest_ms >= INT64_MIN and highest_ms <= INT64_MAX):
        return Refused(ErrorCode.INVALID_RECORD, "a record's timestamp is no 64-bit number")
    if config.message_timestamp_type == "LogAppendTime":
        if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
            return Refused(
                ErrorCode.INVALID_TIMESTAMP, "only the broker sets the time of appending"
            )
        return None
    earliest_ms = now_ms - config.message_timestamp_before_max_ms
    latest_ms = now_ms + config.message_timestamp_after_max_ms
    if earliest_ms <= lowest_ms and highest_ms <= latest_ms:
        return None
    return TAKES_LONG if is_long else _check_each_timestamp(records, header, earliest_ms, latest_ms)


def _rewrite(
    records: Buffer, header: BatchHeader, scan: Scan, config: TopicConfig, target: Codec
) -> tuple[Buffer, BatchHeader] | Refused:
    """The batch with consecutive offsets, and with the codec that the topic asks for."""
    codec = header.codec
    if not scan.offsets_consecutive:
        if header.record_count > MAX_RENUMBERED_RECORDS:
            return Refused(
                ErrorCode.INVALID_RECORD,
                f"{header.record_count} records whose offsets are not consecutive",
            )
        # As Kafka does, such records are renumbered, not refused.
        records = _renumbered(records, header, _level(codec, config))
        header = batches.read_header(records, 0)
    if target is not codec:
        records = batches.recompress(records, 0, header, target, _level(target, config))
        header = batches.read_header(records, 0)
        refused = _check_size(header.size_bytes, config)
        if refused is not None:
            return refused
    return records, header


def _with_timestamps(
    records: Buffer, header: BatchHeader, scan: Scan, takes_append_time: bool, now_ms: int
) -> tuple[Buffer, BatchHeader]:
    """Corrects the timestamp type and the largest timestamp in the header."""
    if takes_append_time:
        kind, max_timestamp_ms = TimestampType.LOG_APPEND_TIME, now_ms
    else:
        kind = TimestampType.CREATE_TIME
        max_timestamp_ms = header.base_timestamp + scan.max_timestamp_delta
    if kind is header.timestamp_type and max_timestamp_ms == header.max_timestamp:
        return records, header
    if isinstance(records, bytes) or (isinstance(records, memoryview) and records.readonly):
        records = bytearray(records)
    batches.stamp_timestamps(records, 0, kind, max_timestamp_ms)
    return records, batches.read_header(records, 0)


def _refuse_keyless(records: Buffer, header: BatchHeader) -> Refused:
    found = [
        RecordError(index, "a compacted topic takes only records with a key")
        for index, record in enumerate(_reported_records(records, header))
        if record.key is None
    ]
    return Refused(
        ErrorCode.INVALID_RECORD,
        "one or more records have no key, but the topic is compacted",
        tuple(found),
    )


def _reported_records(records: Buffer, header: BatchHeader) -> Sequence[Record]:
    """The records from which a response names wrong ones; none if there are more than MAX_REPORTED_RECORDS."""
    return batches.read_batch(records, 0) if header.record_count <= MAX_REPORTED_RECORDS else ()


def _check_each_timestamp(
    records: Buffer, header: BatchHeader, earliest_ms: int, latest_ms: int
) -> Refused | None:
    """Names the records out of range; one without a timestamp never is."""
    payload = batches.payload(records, 0, header, batches.DEFAULT_LIMIT_BYTES)
    every_record = chain.from_iterable(batches.read_in_parts(payload, header))
    wrong = (
        RecordError(
            index, f"timestamp {record.timestamp} is outside of [{earliest_ms}, {latest_ms}]"
        )
        for index, record in enumerate(every_record)
        if record.timestamp != NO_TIMESTAMP and not earliest_ms <= record.timestamp <= latest_ms
    )
    found = tuple(islice(wrong, MAX_REPORTED_RECORDS))
    if not found:
        return None
    return Refused(
        ErrorCode.INVALID_TIMESTAMP, "one or more records have a timestamp out of range", found
    )


def _renumbered(records: Buffer, header: BatchHeader, level: int | None) -> bytes:
    payload = batches.payload(records, 0, header, batches.DEFAULT_LIMIT_BYTES)
    # With their own timestamps, even if the header claims LogAppendTime.
    decoded = decode_records(payload, header.record_count, 0, header.base_timestamp, None)
    renumbered = [record._replace(offset=index) for index, record in enumerate(decoded)]
    return batches.with_records(header._replace(base_offset=0), renumbered, level)


def _level(codec: Codec, config: TopicConfig) -> int | None:
    return {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }.get(codec)
