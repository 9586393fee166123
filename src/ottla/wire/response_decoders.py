"""Decoders of response frames, for whoever has sent the request: our clients, and a node that asks another."""

from __future__ import annotations

import struct
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from ottla.wire.compile import decode_message
from ottla.wire.declare import info_of
from ottla.wire.framing import response_header_is_flexible
from ottla.wire.primitives import read_uvarint, skip_tagged

CORRELATION_ID: Final = struct.Struct(">i")

Decode = Callable[[memoryview], Any]
_decoders: Final[dict[tuple[type[Any], int], Decode]] = {}


def decoder_of(request_class: type[Any], version: int) -> Decode:
    """Reads the response to a request of this version from its frame."""
    found = _decoders.get((request_class, version))
    if found is None:
        response_class = response_class_of(request_class)
        info = info_of(response_class)
        flexible = response_header_is_flexible(info.api_key, version >= info.flexible_since)
        make = _flexible_decoder if flexible else _plain_decoder
        found = make(response_class, version)
        _decoders[request_class, version] = found
    return found


def _plain_decoder(response_class: type[Any], version: int) -> Decode:
    def decode(frame: memoryview) -> Any:
        return decode_message(response_class, version, frame, CORRELATION_ID.size)

    return decode


def _flexible_decoder(response_class: type[Any], version: int) -> Decode:
    start = CORRELATION_ID.size

    def decode(frame: memoryview) -> Any:
        position = start + 1
        if frame[start]:
            # A later version of Kafka may have tagged fields in the header.
            count, position = read_uvarint(frame, start)
            position = skip_tagged(frame, position, count)
        return decode_message(response_class, version, frame, position)

    return decode


def response_class_of(request_class: type[Any]) -> type[Any]:
    """XResponse of XRequest: both are declared in one module."""
    name = f"{request_class.__name__.removesuffix('Request')}Response"
    found: type[Any] = getattr(import_module(request_class.__module__), name)
    return found
