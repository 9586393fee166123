"""How `ottla log dump` prints the contents of files: lines in the format of Kafka's tool, and data for programs."""

from __future__ import annotations

from base64 import b64encode
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from ottla.core.producer_snapshot import SnapshotEntry
from ottla.core.producer_state import NO_OFFSET, sequence_before
from ottla.inspection.stored_records import StoredRecord, kafka_texts, read_stored_record
from ottla.model import topic_id_text
from ottla.ports import EpochStart
from ottla.records.batch import BatchHeader, increment_sequence
from ottla.records.compression import Codec
from ottla.records.control import parse_control_type, parse_marker
from ottla.records.record import Record
from ottla.storage.local.inspection.index_checks import AbortedEntry, OffsetEntry, TimeEntry
from ottla.storage.local.inspection.untrusted_segment import FoundBatch
from ottla.wire.types import MalformedMessageError

_CODECS: Final = tuple(codec.name.lower() for codec in Codec)
_CONTROL_TYPES: Final = {
    0: "ABORT",
    1: "COMMIT",
    2: "LEADER_CHANGE",
    3: "SNAPSHOT_HEADER",
    4: "SNAPSHOT_FOOTER",
    5: "KRAFT_VERSION",
    6: "KRAFT_VOTERS",
}


class PrintedParts(NamedTuple):
    """Which parts of records are printed."""

    metadata: bool = True
    content: bool = False
    headers: bool = False
    topic: str | None = None  # the internal topic whose format the records have


class FoundRecord(NamedTuple):
    """A record of a batch."""

    batch: FoundBatch
    record: Record


class FoundChecksum(NamedTuple):
    """An entry of a checkpoint: the checksum of the transaction index of a segment."""

    base_offset: int
    size_bytes: int
    crc: int


class FoundTopicId(NamedTuple):
    """The contents of partition.metadata."""

    topic_id: UUID


Item: TypeAlias = (
    FoundBatch
    | FoundRecord
    | OffsetEntry
    | TimeEntry
    | AbortedEntry
    | SnapshotEntry
    | EpochStart
    | FoundChecksum
    | FoundTopicId
)


def text_of(item: Item, wanted: PrintedParts) -> str:
    """The line about an item."""
    match item:
        case FoundBatch():
            return _batch_text(item)
        case FoundRecord():
            return _record_text(item, wanted)
        case OffsetEntry(offset, position):
            return f"offset: {offset} position: {position}"
        case TimeEntry(timestamp_ms, offset):
            return f"timestamp: {timestamp_ms} offset: {offset}"
        case AbortedEntry(version, span):
            return (
                f"version: {version} producerId: {span.producer_id} firstOffset: {span.first_offset} "
                f"lastOffset: {span.last_offset} lastStableOffset: {span.last_stable_offset}"
            )
        case SnapshotEntry():
            return _snapshot_text(item)
        case EpochStart(epoch, start_offset):
            return f"leaderEpoch: {epoch} startOffset: {start_offset}"
        case FoundChecksum(base_offset, size_bytes, crc):
            return f"baseOffset: {base_offset} size: {size_bytes} crc: {crc}"
        case FoundTopicId(topic_id):
            return f"topicId: {topic_id_text(topic_id)}"


def _optional(value: int | None) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def _true(value: bool) -> str:
    return "true" if value else "false"


def _batch_text(found: FoundBatch) -> str:
    header = found.header
    if header is None:
        start = f"offset: {found.last_offset}"
    else:
        horizon = _optional(header.base_timestamp if header.has_delete_horizon else None)
        start = (
            f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} "
            f"count: {header.record_count} baseSequence: {header.base_sequence} "
            f"lastSequence: {header.last_sequence} producerId: {header.producer_id} "
            f"producerEpoch: {header.producer_epoch} "
            f"partitionLeaderEpoch: {header.partition_leader_epoch} "
            f"isTransactional: {_true(header.is_transactional)} "
            f"isControl: {_true(header.is_control)} deleteHorizonMs: {horizon}"
        )
    return (
        f"{start} position: {found.position} {_clock(found)}: {found.max_timestamp_ms} "
        f"size: {found.size_bytes} magic: {found.magic} compresscodec: {_codec(found)} "
        f"crc: {found.crc} isvalid: {_true(found.is_valid)}"
    )


def _codec(found: FoundBatch) -> str:
    """The name of the codec, or the number of an unknown one."""
    number = found.attributes & 0x07
    return _CODECS[number] if number < len(_CODECS) else str(number)


def _clock(found: FoundBatch) -> str:
    if found.magic == 0:
        return "NoTimestampType"
    return "LogAppendTime" if found.attributes & 0x08 else "CreateTime"


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _sequence(header: BatchHeader, record: Record) -> int:
    if header.base_sequence < 0:
        return header.base_sequence
    return increment_sequence(header.base_sequence, record.offset - header.base_offset)


def _record_text(found: FoundRecord, wanted: PrintedParts) -> str:
    header, record = found.batch.header, found.record
    words = []
    if wanted.metadata:
        words.append(
            f"offset: {record.offset} {_clock(found.batch)}: {record.timestamp} "
            f"keySize: {_size(record.key)} valueSize: {_size(record.value)}"
        )
        if header is not None:
            names = ",".join(name for name, _ in record.headers)
            words.append(f"sequence: {_sequence(header, record)} headerKeys: [{names}]")
    if header is not None and header.is_control:
        words.append(_control_text(record))
    elif wanted.content:
        words += _content_words(record, wanted.topic)
    if wanted.headers and record.headers:
        pairs = (f"{name}={_text(value)}" for name, value in record.headers)
        words.append(f"headers: [{','.join(pairs)}]")
    return f"| {' '.join(words)}"


def _control_text(record: Record) -> str:
    number = parse_control_type(record.key)
    marker = parse_marker(record)
    if marker is not None:
        return f"endTxnMarker: {marker.type.name} coordinatorEpoch: {marker.coordinator_epoch}"
    return f"controlType: {_CONTROL_TYPES.get(number, 'UNKNOWN')}({number})"


def _content_words(record: Record, topic: str | None) -> list[str]:
    key, value = record.key, record.value
    if topic is None:
        texts = [
            None if key is None else _text(key),
            None if value is None else _text(value),
        ]
    else:
        try:
            texts = [*kafka_texts(read_stored_record(topic, key, value), record.offset)]
        except MalformedMessageError as error:
            texts = [f"Error at offset {record.offset}, skipping. {error}", None]
    names = ("key", "payload")
    return [f"{name}: {text}" for name, text in zip(names, texts, strict=True) if text is not None]


def _text(data: bytes | None) -> str:
    return "null" if data is None else data.decode("utf-8", "replace")


def _snapshot_text(entry: SnapshotEntry) -> str:
    first_offset = entry.transaction_first_offset
    text = (
        f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} "
        f"coordinatorEpoch: {entry.coordinator_epoch} "
        f"currentTxnFirstOffset: {_optional(None if first_offset == NO_OFFSET else first_offset)} "
        f"lastTimestamp: {entry.timestamp_ms} "
    )
    if entry.last_offset < 0:
        return text
    first_sequence = sequence_before(entry.last_sequence, entry.offset_delta)
    return text + (
        f"firstSequence: {first_sequence} lastSequence: {entry.last_sequence} "
        f"lastOffset: {entry.last_offset} offsetDelta: {entry.offset_delta} "
        f"timestamp: {entry.timestamp_ms}"
    )


# Data for programs


def data_of(item: Item, wanted: PrintedParts) -> dict[str, Any]:
    """The data about an item."""
    match item:
        case FoundBatch():
            return {"type": "batch", **_batch_data(item)}
        case FoundRecord():
            return {"type": "record", **_record_data(item, wanted)}
        case OffsetEntry():
            return {"type": "index_entry", **item._asdict()}
        case TimeEntry():
            return {"type": "time_index_entry", **item._asdict()}
        case AbortedEntry(version, span):
            return {"type": "aborted_transaction", "version": version, **span._asdict()}
        case SnapshotEntry():
            fields = item._asdict()
            first_offset = fields["transaction_first_offset"]
            fields["transaction_first_offset"] = None if first_offset < 0 else first_offset
            fields["last_offset"] = None if item.last_offset < 0 else item.last_offset
            return {"type": "producer", **fields}
        case EpochStart(epoch, start_offset):
            return {"type": "leader_epoch", "leader_epoch": epoch, "start_offset": start_offset}
        case FoundChecksum():
            return {"type": "transaction_index_checksum", **item._asdict()}
        case FoundTopicId(topic_id):
            return {"type": "topic_id", "topic_id": topic_id_text(topic_id)}


def _batch_data(found: FoundBatch) -> dict[str, Any]:
    place = {"position": found.position, "size_bytes": found.size_bytes, "magic": found.magic}
    ending = {
        "timestamp_type": _clock(found),
        "max_timestamp_ms": found.max_timestamp_ms,
        "compression": _codec(found),
        "crc": found.crc,
        "is_valid": found.is_valid,
    }
    header = found.header
    if header is None:
        offsets = {"base_offset": None, "last_offset": found.last_offset}
        return {**place, **offsets, **ending}
    return {
        **place,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "record_count": header.record_count,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "partition_leader_epoch": header.partition_leader_epoch,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "delete_horizon_ms": header.base_timestamp if header.has_delete_horizon else None,
        **ending,
    }


def _record_data(found: FoundRecord, wanted: PrintedParts) -> dict[str, Any]:
    header, record = found.batch.header, found.record
    data: dict[str, Any] = {
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "key_size": _size(record.key),
        "value_size": _size(record.value),
        "sequence": None if header is None else _sequence(header, record),
        "headers": [{"key": name, "value": bytes_data(value)} for name, value in record.headers],
    }
    if header is not None and header.is_control:
        return {**data, **_control_data(record)}
    if wanted.content:
        data |= {"key": bytes_data(record.key), "value": bytes_data(record.value)}
        if wanted.topic is not None:
            data["decoded"] = _decoded(wanted.topic, record)
    return data


def _control_data(record: Record) -> dict[str, Any]:
    number = parse_control_type(record.key)
    marker = parse_marker(record)
    return {
        "control_type": _CONTROL_TYPES.get(number, str(number)),
        "coordinator_epoch": None if marker is None else marker.coordinator_epoch,
    }


def _decoded(topic: str, record: Record) -> dict[str, Any]:
    try:
        found: StoredRecord = read_stored_record(topic, record.key, record.value)
    except MalformedMessageError as error:
        return {"error": str(error)}
    return found.as_data()


def bytes_data(data: bytes | None) -> Any:
    """Text if the bytes are UTF-8; else {"base64": …}."""
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}
