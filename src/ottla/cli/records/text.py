"""Records as text: formatters for values and for kcat's format strings, and decoders of keys and values."""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from ottla.cli.commands.escapes import unescaped
from ottla.cli.errors import UsageError
from ottla.client.model import ConsumerRecord
from ottla.client.plugins.list_serializer import configure, deserializer_of
from ottla.client.plugins.serializers import BytesDeserializer
from ottla.client.state.consumer.control_records import MarkedRecord
from ottla.inspection.stored_records import is_decodable, read_stored_record
from ottla.inspection.transaction_marks import marker_of
from ottla.wire.types import MalformedMessageError

RecordFormatter = Callable[[ConsumerRecord], bytes]
"""Makes the bytes to print from a record."""

RecordDecoder = Callable[[ConsumerRecord], ConsumerRecord]
"""Replaces the bytes of key and value by what they encode."""

_SIZE: Final = struct.Struct(">i")
_ABORTED: Final = b"[aborted] "


def template_formatter(template: str, null: bytes | None) -> RecordFormatter:
    """Formats a record by a template of kcat's; without `null` absent keys and values are empty, as in kcat."""
    pattern, parts = _compile(template, null)

    def format_record(record: ConsumerRecord) -> bytes:
        return pattern % tuple(part(record) for part in parts)

    return _with_marks(format_record, _end_of(template))


def plain_formatter(key_separator: bytes | None, delimiter: bytes, null: bytes) -> RecordFormatter:
    """Formats the value, with a separator after its key, and the delimiter at the end."""

    def value(record: ConsumerRecord) -> bytes:
        return data_of(record.value, null) + delimiter

    def key_and_value(record: ConsumerRecord) -> bytes:
        assert key_separator is not None
        return data_of(record.key, null) + key_separator + data_of(record.value, null) + delimiter

    return _with_marks(value if key_separator is None else key_and_value, delimiter)


def internal_topic_formatter(delimiter: bytes, null: bytes) -> RecordFormatter:
    """Formats key and value of internal topics together, as Kafka's formatters do; of others the value."""

    def format_record(record: ConsumerRecord) -> bytes:
        if not is_decodable(record.topic):
            return data_of(record.value, null) + delimiter
        return data_of({"key": record.key, "value": record.value}, null) + delimiter

    return _with_marks(format_record, delimiter)


def _with_marks(format_record: RecordFormatter, end: bytes) -> RecordFormatter:
    """Also formats control records, and marks records of aborted transactions."""

    def marked(record: ConsumerRecord) -> bytes:
        if not isinstance(record, MarkedRecord):
            return format_record(record)
        if record.is_control:
            return _control_line(record).encode() + end
        return _ABORTED + format_record(record)

    return marked


def _control_line(record: MarkedRecord) -> str:
    return (
        f"[control {marker_of(record).outcome}: partition {record.partition}, offset {record.offset}, "
        f"producer {record.producer_id}, epoch {record.producer_epoch}]"
    )


def data_of(value: object, null: bytes) -> bytes:
    """A key or value as it is printed."""
    if type(value) is bytes:
        return value
    if value is None:
        return null
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, (dict, list, bool)):
        return json.dumps(value, ensure_ascii=False, default=str).encode()
    return str(value).encode()


def _end_of(template: str) -> bytes:
    """The line end of a template, if it has one."""
    return b"\n" if unescaped(template).endswith(b"\n") else b""


def _compile(
    template: str, marker: bytes | None
) -> tuple[bytes, Sequence[Callable[[ConsumerRecord], object]]]:
    """A pattern for `%`, and functions that make its values from a record."""
    null, null_header = (b"", b"null") if marker is None else (marker, marker)
    tokens: dict[str, tuple[bytes, Callable[[ConsumerRecord], object]]] = {
        "t": (b"%b", lambda record: record.topic.encode()),
        "p": (b"%d", lambda record: record.partition),
        "o": (b"%d", lambda record: record.offset),
        "k": (b"%b", lambda record: data_of(record.key, null)),
        "s": (b"%b", lambda record: data_of(record.value, null)),
        "K": (b"%d", lambda record: record.serialized_key_size),
        "S": (b"%d", lambda record: record.serialized_value_size),
        "R": (b"%b", lambda record: _SIZE.pack(record.serialized_value_size)),
        "T": (b"%d", lambda record: record.timestamp_ms),
        "h": (b"%b", lambda record: _headers_of(record.headers, null_header)),
    }
    pattern, parts = b"", []
    text, *rest = template.split("%")
    pattern += _literal(text)
    pieces = iter(rest)
    for piece in pieces:
        if not piece:
            # Two percent signs stand for one; text follows.
            pattern += b"%%" + _literal(next(pieces, ""))
            continue
        if piece[0] not in tokens:
            raise UsageError(
                f"%{piece[0]} is not a placeholder of formats",
                f"there are %{', %'.join(tokens)} and %%",
            )
        token, part = tokens[piece[0]]
        parts.append(part)
        pattern += token + _literal(piece[1:])
    return pattern, parts


def _literal(text: str) -> bytes:
    return unescaped(text).replace(b"%", b"%%")


def _headers_of(headers: Iterable[tuple[str, bytes | None]], null: bytes) -> bytes:
    return b",".join(name.encode() + b"=" + data_of(value, null) for name, value in headers)


# Decoders of keys and values


def named_decoder(key_name: str | None, value_name: str | None) -> RecordDecoder | None:
    """A decoder with the named deserializers; None if both leave the bytes as they are."""
    key_of, value_of = _function("key", key_name), _function("value", value_name)
    if key_of is None and value_of is None:
        return None

    def decode(record: ConsumerRecord) -> ConsumerRecord:
        if isinstance(record, MarkedRecord) and record.is_control:
            return record
        key, value = record.key, record.value
        if key_of is not None and key is not None:
            key = key_of(record.topic, record.headers, key)
        if value_of is not None and value is not None:
            value = value_of(record.topic, record.headers, value)
        return _with_data(record, key, value)

    return decode


def decode_internal_record(record: ConsumerRecord) -> ConsumerRecord:
    """Decode a record of an internal topic; others stay as they are."""
    if not is_decodable(record.topic) or (isinstance(record, MarkedRecord) and record.is_control):
        return record
    try:
        found = read_stored_record(record.topic, record.key, record.value).as_data()
    except MalformedMessageError:
        key, value = (
            None if data is None else b64encode(data).decode()
            for data in (record.key, record.value)
        )
        return _with_data(record, {"kind": "unreadable", "data": key}, {"data": value})
    return _with_data(record, {"kind": found["kind"], **found["key"]}, found["value"])


def _with_data(record: ConsumerRecord, key: object, value: object) -> ConsumerRecord:
    changed = record._replace(key=key, value=value)
    if isinstance(record, MarkedRecord):
        # The marks are no fields of the tuple.
        vars(changed).update(vars(record))
    return changed


def _function(what: str, name: str | None) -> Callable[[str, Any, bytes], object] | None:
    if name is None:
        return None
    found = deserializer_of(f"{what}.deserializer", name)
    if type(found) is BytesDeserializer:
        return None
    configure(found, {}, is_key=what == "key")
    return found.deserialize
