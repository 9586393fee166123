"""Bytes of keys, values and headers as text: in the format that was chosen, or in one that is found."""

from __future__ import annotations

import asyncio
import json
import re
import struct
from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

from ottla.client.model import ConsumerRecord, Headers
from ottla.console.records.arrow_values import NotArrowError, arrow_text, looks_like_arrow
from ottla.console.records.decoded import Decoded, Format, WantedFormat
from ottla.console.records.json_values import check_json, json_text, whole_characters
from ottla.console.records.schema_values import NoSchemaError, SchemaValues, SeesSubject, is_framed
from ottla.inspection.stored_records import is_decodable, read_stored_record
from ottla.wire.types import MalformedMessageError

# Larger data is not read as JSON only to say that it is JSON.
MAX_CHECKED_BYTES: Final = 64 << 10
# Reading larger data takes so long that it is done on a thread.
LARGE_BYTES: Final = 256 << 10
_INTEGER_SIZES: Final = (1, 2, 4, 8)
_FLOATS: Final = {4: struct.Struct(">f"), 8: struct.Struct(">d")}
# Characters that text does not have: those of control, without tab, line feed and carriage return.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class Data(NamedTuple):
    """Bytes, and what helps to decode them."""

    topic: str
    is_key: bool
    data: bytes
    headers: Headers = ()
    record: ConsumerRecord | None = None


class _NotThisFormatError(Exception):
    """The data is not of a format, with the reason."""


class RecordDecoder:
    """Decodes for all browsers; without a registry, data with a schema is shown as bytes."""

    def __init__(
        self, schemas: SchemaValues | None, sees_subject: SeesSubject | None = None
    ) -> None:
        self.schemas: Final = schemas
        self._sees_subject = sees_subject

    def seen_by(self, sees_subject: SeesSubject) -> RecordDecoder:
        """The decoder of a user who does not see all subjects of the registry."""
        return RecordDecoder(self.schemas, sees_subject)

    async def field(self, record: ConsumerRecord, is_key: bool, wanted: WantedFormat) -> Decoded:
        """A record's key or value, in the format that was chosen; bytes where it cannot be, with the reason."""
        data = record.key if is_key else record.value
        if data is None:
            return Decoded(Format.NULL, "")
        headers = record.headers
        if len(headers) > 1:
            # Of 100,000 headers, decoding needs at most two.
            headers = tuple(each for each in headers if each[0].startswith("__"))
        return await self.decode(Data(record.topic, is_key, data, headers, record), wanted)

    async def decode(self, given: Data, wanted: WantedFormat) -> Decoded:
        """The bytes in a format."""
        if len(given.data) == 0 and wanted in ("auto", "text"):
            return Decoded(Format.EMPTY, "")
        if wanted == "auto":
            return await self._find(given)
        try:
            return await _READERS[wanted](self, given)
        except _NotThisFormatError as reason:
            return replace(_bytes_shown(given.data), problem=str(reason))

    async def text(self, record: ConsumerRecord, is_key: bool, wanted: WantedFormat) -> str | None:
        """What filters look into: of bytes without a format, each byte as a character."""
        data = record.key if is_key else record.value
        if data is None:
            return None
        is_plain = wanted in ("auto", "text", "json") and not is_decodable(record.topic)
        if is_plain and (wanted != "auto" or not self._has_format(record, data, is_key)):
            try:
                return str(data, "utf-8")
            except UnicodeDecodeError:
                return str(data, "latin-1")
        found = await self.field(record, is_key, wanted)
        if found.format in (Format.HEX, Format.BASE64) and wanted not in ("hex", "base64"):
            return str(data, "latin-1")
        return found.text

    def _has_format(self, record: ConsumerRecord, data: bytes, is_key: bool) -> bool:
        """Whether the text of data is not that of its bytes."""
        if looks_like_arrow(data) or _is_number(data):
            return True
        return self.schemas is not None and is_framed(data, record.headers, is_key)

    async def close(self) -> None:
        """Close the connections to the registry."""
        if self.schemas is not None:
            await self.schemas.registry.aclose()

    # Which format

    async def _find(self, given: Data) -> Decoded:
        tried: list[str] = []
        problem = None
        for name, read, is_likely in _LIKELY:
            if not is_likely(given):
                continue
            try:
                found = await read(self, given)
                return replace(found, tried=(*tried, f"{name}: yes"))
            except _NotThisFormatError as reason:
                tried.append(f"{name}: no, {reason}")
                problem = f"{name}: {reason}"
        try:
            text = str(given.data, "utf-8")
        except UnicodeDecodeError as error:
            tried.append(f"text: no, byte {error.start} is not UTF-8")
            return replace(_bytes_shown(given.data), tried=(*tried, "bytes: yes"), problem=problem)
        control = _CONTROL.search(text)
        if control is not None:
            if len(given.data) in (4, 8):
                size = len(given.data) * 8
                step = f"integer: yes, {size} bits that are no text"
                return replace(_integer(given.data), tried=(*tried, step))
            tried.append(f"text: no, character {control.start()} is a control character")
            if _is_mostly_control(text):
                found = _bytes_shown(given.data)
                return replace(found, tried=(*tried, "bytes: yes"), problem=problem)
            tried.append("text: yes all the same, nearly all of it is")
            return Decoded(Format.TEXT, text, problem=problem, tried=tuple(tried))
        return await self._text_or_json(given, text, tried, problem)

    async def _text_or_json(
        self, given: Data, text: str, tried: list[str], problem: str | None
    ) -> Decoded:
        bare = text.strip()
        if bare[:1] in ("{", "[") and bare[-1:] in ("}", "]"):
            try:
                if len(given.data) <= MAX_CHECKED_BYTES:
                    check_json(bare)
                    tried.append("JSON: yes")
                else:
                    tried.append("JSON: probably, it begins and ends so, and is too large to check")
                return Decoded(Format.JSON, text, is_json=True, problem=problem, tried=tuple(tried))
            except (ValueError, RecursionError) as error:
                tried.append(f"JSON: no, {error}")
        else:
            tried.append("JSON: no, it is neither an object nor a list")
        return Decoded(Format.TEXT, text, problem=problem, tried=(*tried, "text: yes, UTF-8"))

    # Formats

    async def _read_internal(self, given: Data) -> Decoded:
        record = given.record
        if record is None or not is_decodable(given.topic):
            raise _NotThisFormatError("the topic is none of Kafka's internal ones")
        try:
            found = read_stored_record(given.topic, record.key, record.value).as_data()
        except MalformedMessageError as error:
            raise _NotThisFormatError(str(error)) from error
        shown = {"kind": found["kind"], **found["key"]} if given.is_key else found["value"]
        return Decoded(Format.INTERNAL, json_text(shown), is_json=True)

    async def _read_schema(self, given: Data) -> Decoded:
        if self.schemas is None:
            raise _NotThisFormatError(
                "the console was not given a schema registry (--registry URL)"
            )
        try:
            return await self.schemas.decode(
                given.topic, given.is_key, given.data, given.headers, self._sees_subject
            )
        except NoSchemaError as error:
            raise _NotThisFormatError(str(error)) from error

    async def _read_arrow(self, given: Data) -> Decoded:
        try:
            text = await asyncio.to_thread(arrow_text, given.data)
        except NotArrowError as error:
            raise _NotThisFormatError(str(error)) from error
        return Decoded(Format.ARROW, text, is_json=True)

    async def _read_text(self, given: Data) -> Decoded:
        text = given.data.decode("utf-8", "backslashreplace")
        try:
            str(given.data, "utf-8")
        except UnicodeDecodeError as error:
            problem = (
                f"byte {error.start} is not UTF-8: such bytes are shown as \\xNN; as hex, all are"
            )
            return Decoded(Format.TEXT, text, problem=problem)
        return Decoded(Format.TEXT, text)

    async def _read_json(self, given: Data) -> Decoded:
        def check() -> None:
            check_json(given.data)

        try:
            if len(given.data) < LARGE_BYTES:
                check()
            else:
                await asyncio.to_thread(check)
        except (ValueError, RecursionError) as error:
            found = await self._read_text(given)
            return replace(found, problem=f"it is no JSON: {error}")
        text = json.detect_encoding(given.data)
        return Decoded(Format.JSON, given.data.decode(text, "backslashreplace"), is_json=True)

    async def _read_integer(self, given: Data) -> Decoded:
        if len(given.data) not in _INTEGER_SIZES:
            raise _NotThisFormatError(
                f"integers have 1, 2, 4 or 8 bytes, and not {len(given.data)}"
            )
        return _integer(given.data)

    async def _read_float(self, given: Data) -> Decoded:
        layout = _FLOATS.get(len(given.data))
        if layout is None:
            raise _NotThisFormatError(f"floats have 4 or 8 bytes, and not {len(given.data)}")
        (number,) = layout.unpack(given.data)
        return Decoded(Format.FLOAT, repr(number))

    async def _read_hex(self, given: Data) -> Decoded:
        return Decoded(Format.HEX, given.data.hex(" "))

    async def _read_base64(self, given: Data) -> Decoded:
        return Decoded(Format.BASE64, b64encode(given.data).decode())


def _bytes_shown(data: bytes) -> Decoded:
    return Decoded(Format.HEX, data.hex(" "))


def _integer(data: bytes) -> Decoded:
    return Decoded(Format.INTEGER, str(int.from_bytes(data, "big", signed=True)))


def _is_number(data: bytes) -> bool:
    """Whether data without a format would be shown as an integer."""
    if len(data) not in (4, 8):
        return False
    try:
        return _CONTROL.search(str(data, "utf-8")) is not None
    except UnicodeDecodeError:
        return False


def _is_mostly_control(text: str) -> bool:
    some = text[:4096]
    return len(_CONTROL.findall(some)) * 10 > len(some)


_Read = Callable[[RecordDecoder, Data], Awaitable[Decoded]]

_READERS: Final[dict[Any, _Read]] = {
    "text": RecordDecoder._read_text,
    "json": RecordDecoder._read_json,
    "hex": RecordDecoder._read_hex,
    "base64": RecordDecoder._read_base64,
    "integer": RecordDecoder._read_integer,
    "float": RecordDecoder._read_float,
    "schema": RecordDecoder._read_schema,
    "arrow": RecordDecoder._read_arrow,
}
_LIKELY: Final[tuple[tuple[str, _Read, Callable[[Data], bool]], ...]] = (
    ("a record of Kafka's own", RecordDecoder._read_internal, lambda it: is_decodable(it.topic)),
    (
        "Confluent's wire format",
        RecordDecoder._read_schema,
        lambda it: is_framed(it.data, it.headers, it.is_key),
    ),
    ("Arrow", RecordDecoder._read_arrow, lambda it: looks_like_arrow(it.data)),
)


def cut(text: str, max_chars: int) -> tuple[str, bool]:
    """A text of at most so many characters, and whether it was cut."""
    return whole_characters(text[:max_chars]), len(text) > max_chars
