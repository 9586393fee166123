"""Record batches that were encoded before they reach the accumulator: their codec, and checks."""

from __future__ import annotations

from ottla.client.state.producer.partition_queue import AccumulatorSettings
from ottla.config.producer import ProducerConfig
from ottla.errors import AbortableError, ErrorCode, exception_for
from ottla.records.batch import (
    NO_PRODUCER_ID,
    BatchFlag,
    TimestampType,
    crc_matches,
    read_header,
)
from ottla.records.compression import Codec
from ottla.records.errors import CorruptRecordsError
from ottla.records.record import Buffer


def check_ready_made(batch: Buffer, settings: AccumulatorSettings, *, check_crc: bool) -> None:
    """Raise the error that the broker would answer with."""
    if problem := _problem_of(batch, check_crc=check_crc):
        raise AbortableError(
            ErrorCode.INVALID_RECORD, f"The batch cannot be sent: {problem}.", {"api": "Produce"}
        )
    check_size(batch, settings)


def check_size(batch: Buffer, settings: AccumulatorSettings) -> None:
    """Raise if a batch is larger than the producer may send."""
    for option, limit_bytes in (
        ("max.request.size", settings.max_request_bytes),
        ("buffer.memory", settings.memory_bytes),
    ):
        if len(batch) > limit_bytes:
            raise exception_for(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"The batch has {len(batch)} bytes, and {option} is {limit_bytes}.",
                api="Produce",
            )


def compression_of(config: ProducerConfig) -> tuple[Codec, int | None]:
    """The codec of a producer's batches, and its level."""
    codec = Codec[config.compression_type.upper()]
    levels = {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    return codec, levels.get(codec)


def copy_if_mutable(batch: Buffer) -> Buffer:
    """The batch, copied if its bytes could be changed before it is sent."""
    if isinstance(batch, memoryview) and batch.readonly:
        return batch
    return bytes(batch)


def _problem_of(batch: Buffer, *, check_crc: bool) -> str | None:
    try:
        header = read_header(batch, 0)
        codec = header.codec
    except CorruptRecordsError as error:
        return str(error)
    if header.size_bytes != len(batch):
        return f"its header says {header.size_bytes} bytes, and it has {len(batch)}"
    if check_crc and not crc_matches(batch, 0, header):
        return "its checksum is wrong"
    if header.record_count <= 0 or header.last_offset_delta != header.record_count - 1:
        return (
            f"it has {header.record_count} records, the last with the number "
            f"{header.last_offset_delta}"
        )
    if header.base_offset:
        return f"its offsets begin at {header.base_offset}, not at 0"
    if header.attributes & ~(codec | BatchFlag.TRANSACTIONAL):
        return f"its attributes are {header.attributes:#x}: a marker, or not the producer's time"
    assert header.timestamp_type is TimestampType.CREATE_TIME
    if header.producer_id != NO_PRODUCER_ID:
        return f"it is of producer {header.producer_id} already"
    return None
