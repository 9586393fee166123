"""Frames and headers of requests and responses.

A frame is an int32 size and that many bytes: a header, then the message. The version of the header follows from that
of the message: flexible messages have flexible headers, with the exception in `response_header_is_flexible`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from functools import cache
from typing import Any, NamedTuple, cast

from ottla.wire.compile import codec_of, sliced_codec_of
from ottla.wire.declare import info_of
from ottla.wire.primitives import read_uvarint, skip_tagged
from ottla.wire.types import Buffer, MalformedMessageError

SIZE_BYTES = 4
API_VERSIONS_KEY = 18

_REQUEST_HEADER = struct.Struct(">hhih")
_RESPONSE_START = struct.Struct(">ii")
_SIZE = struct.Struct(">i")

read_size = _SIZE.unpack_from


class RequestHeader(NamedTuple):
    """The start of a request; `body_position` is where the message begins."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int


def read_request_start(frame: memoryview) -> tuple[int, int, int]:
    """API key, version and correlation id, which can be read for any API, so that every request can be answered."""
    try:
        return _REQUEST_START.unpack_from(frame)
    except struct.error as error:
        raise MalformedMessageError(f"a request of {len(frame)} bytes has no header") from error


_REQUEST_START = struct.Struct(">hhi")


def read_request_header(frame: memoryview, flexible: bool) -> RequestHeader:
    """Read a request header; `flexible`: whether the message of this API version is flexible.

    The client id has an int16 length in flexible headers too, so that a broker can read it before it knows whether it
    supports the version (KIP-511).
    """
    try:
        api_key, api_version, correlation_id, length = _REQUEST_HEADER.unpack_from(frame)
        position = _REQUEST_HEADER.size
        client_id = None
        if length >= 0:
            end = position + length
            if end > len(frame):
                raise MalformedMessageError("the client id is longer than the request")
            client_id = str(frame[position:end], "utf-8")
            position = end
        if flexible:
            count = frame[position]
            position += 1
            if count:
                count, position = read_uvarint(frame, position - 1)
                position = skip_tagged(frame, position, count)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedMessageError(f"request header: {error}") from error
    return RequestHeader(api_key, api_version, correlation_id, client_id, position)


def response_header_is_flexible(api_key: int, message_is_flexible: bool) -> bool:
    """Not for ApiVersions: its reader does not know yet which versions the broker supports (KIP-511)."""
    return message_is_flexible and api_key != API_VERSIONS_KEY


def frame_response(message: Any, version: int, correlation_id: int) -> list[Buffer]:
    """A whole response frame; large record batches in it are not copied."""
    header, encode = _response_coding(type(message), version)
    start = bytearray(header)
    parts: list[Buffer] = []
    return _framed(start, parts, encode(message, start, parts), correlation_id)


def frame_response_in_slices(
    message: Any, version: int, correlation_id: int
) -> Generator[None, None, list[Buffer]]:
    """As `frame_response`, but yields after every few elements."""
    header, _ = _response_coding(type(message), version)
    start = bytearray(header)
    parts: list[Buffer] = []
    last = yield from sliced_codec_of(type(message), version).encode(message, start, parts)
    return _framed(start, parts, last, correlation_id)


def _framed(
    start: bytearray, parts: list[Buffer], last: bytearray, correlation_id: int
) -> list[Buffer]:
    """Fill in size and correlation id; returns the parts of the response."""
    if last or not parts:
        # Some transports never finish an empty last part.
        parts.append(last)
    size = len(last) if len(parts) == 1 else sum(map(len, parts))
    _RESPONSE_START.pack_into(start, 0, size - SIZE_BYTES, correlation_id)
    return parts


def _find_response_coding(message_class: type[Any], version: int) -> _ResponseCoding:
    info = info_of(message_class)
    flexible = response_header_is_flexible(info.api_key, version >= info.flexible_since)
    start = bytes(_RESPONSE_START.size + flexible)
    return start, codec_of(message_class, version).encode


# An empty header, and the encoder; mypy does not see that a class is hashable.
_ResponseCoding = tuple[bytes, Callable[[Any, bytearray, list[Buffer]], bytearray]]
_response_coding = cast(Callable[[type[Any], int], _ResponseCoding], cache(_find_response_coding))


def frame_request(message: Any, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """A whole request frame."""
    return b"".join(request_parts(message, version, correlation_id, client_id))


def request_parts(
    message: Any, version: int, correlation_id: int, client_id: str | None
) -> list[Buffer]:
    """A whole request frame; large record batches in it are not copied."""
    info = info_of(type(message))
    name = None if client_id is None else client_id.encode()
    out = bytearray(SIZE_BYTES)
    out += _REQUEST_HEADER.pack(
        info.api_key, version, correlation_id, -1 if name is None else len(name)
    )
    out += name or b""
    if version >= info.flexible_since:
        out.append(0)
    parts: list[Buffer] = []
    last = codec_of(type(message), version).encode(message, out, parts)
    if last or not parts:
        parts.append(last)
    size = sum(map(len, parts))
    _SIZE.pack_into(out, 0, size - SIZE_BYTES)
    return parts
