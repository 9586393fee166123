"""Records as lines of JSON: written by `ottla consume -o json` and the console, read by `ottla produce --format json`.

The fields are those of rpk. UTF-8 is written as text, other bytes as {"base64": "…"}, and the results of deserializers
as JSON.
"""

from __future__ import annotations

import json
import math
from base64 import b64decode, b64encode
from collections.abc import Mapping
from json.encoder import encode_basestring
from typing import Any, Final, NamedTuple

from ottla.client.model import ConsumerRecord, Headers
from ottla.client.state.consumer.control_records import MarkedRecord
from ottla.inspection.transaction_marks import marks_of
from ottla.records.record import TimestampType

_BYTES: Final = "base64"
_LOG_APPEND_TIME: Final = TimestampType.LOG_APPEND_TIME
_FIELDS: Final = frozenset({"key", "value", "headers", "partition", "timestamp"})
# Fields that consumers add and producers ignore.
_OTHER_FIELDS: Final = frozenset({"topic", "offset", "timestamp_type"})


class RecordToSend(NamedTuple):
    """A record that a line describes."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    partition: int | None
    timestamp_ms: int | None


class JsonRecordFormatter:
    """Formats records as lines of JSON."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def __call__(self, record: ConsumerRecord) -> bytes:
        """The line of a record."""
        topic, partition, offset, timestamp, timestamp_type, key, value, headers, *_ = record
        name = self._names.get(topic)
        if name is None:
            name = self._names[topic] = encode_basestring(topic)
        marks = ""
        if isinstance(record, MarkedRecord):
            marks = "".join(
                f",{encode_basestring(mark)}:{json.dumps(marked)}"
                for mark, marked in marks_of(record).items()
            )
            if record.is_control:
                key = value = None
        time_kind = "append" if timestamp_type == _LOG_APPEND_TIME else "create"
        line = (
            f'{{"topic":{name},"partition":{partition},"offset":{offset},"timestamp":{timestamp},'
            f'"timestamp_type":"{time_kind}","key":{_data(key)},'
            f'"value":{_data(value)},"headers":{_headers(headers)}{marks}}}\n'
        )
        # Half of a surrogate pair can only be written as an escape.
        return line.encode("utf-8", "backslashreplace")


def _data(data: object) -> str:
    if type(data) is bytes:
        try:
            return encode_basestring(data.decode())
        except UnicodeDecodeError:
            return f'{{"{_BYTES}":"{b64encode(data).decode()}"}}'
    if data is None:
        return "null"
    try:
        return _dumped(data)
    except ValueError:
        return _dumped(_finite(data))


def _dumped(data: object) -> str:
    return json.dumps(data, ensure_ascii=False, default=str, separators=(",", ":"), allow_nan=False)


def _finite(data: Any) -> Any:
    """The value with words for the numbers that JSON does not have."""
    if isinstance(data, float) and not math.isfinite(data):
        return "NaN" if math.isnan(data) else "Infinity" if data > 0 else "-Infinity"
    if isinstance(data, Mapping):
        return {name: _finite(value) for name, value in data.items()}
    return [_finite(each) for each in data] if isinstance(data, (list, tuple)) else data


def _headers(headers: Headers) -> str:
    if not headers:
        return "[]"
    return (
        "["
        + ",".join(
            f'{{"key":{encode_basestring(name)},"value":{_data(value)}}}' for name, value in headers
        )
        + "]"
    )


def parse(line: bytes) -> RecordToSend:
    """The record of a line; ValueError if it describes none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from error
    return record_of(found)


def record_of(found: object) -> RecordToSend:
    """The record that an object of JSON describes; ValueError if it describes none."""
    if not isinstance(found, dict):
        raise ValueError('it is not an object: write {"key": …, "value": …}')
    if found.get("control") or found.get("aborted"):
        raise ValueError("it is a control record or an aborted record, which consumers do not see")
    unknown = sorted(found.keys() - _FIELDS - _OTHER_FIELDS)
    if unknown:
        raise ValueError(f"{unknown[0]!r} is not a field of a record; there are {sorted(_FIELDS)}")
    return RecordToSend(
        _bytes_of(found.get("key")),
        _bytes_of(found.get("value")),
        _headers_of(found.get("headers")),
        _number_of(found, "partition"),
        _number_of(found, "timestamp"),
    )


def _bytes_of(value: object) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, dict) and value.keys() == {_BYTES}:
        try:
            return b64decode(value[_BYTES], validate=True)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{value[_BYTES]!r} is not base64: {error}") from error
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _headers_of(headers: object) -> Headers:
    """Headers from a list of {"key": …, "value": …}, or an object of names and values."""
    if headers is None:
        return ()
    if isinstance(headers, Mapping):
        return tuple((name, _bytes_of(data)) for name, data in headers.items())
    if isinstance(headers, list) and all(_is_header(each) for each in headers):
        return tuple((each["key"], _bytes_of(each.get("value"))) for each in headers)
    raise ValueError('headers are [{"key": …, "value": …}, …] or an object')


def _is_header(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("key"), str)
        and value.keys() <= {"key", "value"}
    )


def _number_of(found: Mapping[str, object], name: str) -> int | None:
    number = found.get(name)
    if number is None or (isinstance(number, int) and not isinstance(number, bool)):
        # -1 means no timestamp.
        return None if number is None or number < 0 else number
    raise ValueError(f"{name} is a whole number, not {number!r}")
