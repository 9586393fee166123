"""The codec compiler: turns a declaration and a version into two straight-line Python functions.

Runs of fixed-size fields become one `struct` call; lists become inline loops; nothing is looked up
at run time that the version already decides. A codec is compiled when it is first used.
"""

from __future__ import annotations

import struct as struct_module
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, cast

from ottla.wire.declare import info_of
from ottla.wire.decoder import DecoderSource
from ottla.wire.encoder import EncoderSource
from ottla.wire.types import Buffer, MalformedMessageError


class Codec(NamedTuple):
    """A message's two functions at one version.

    `encode(message, out, parts)` adds to `out`, moves full buffers to `parts` and returns the last,
    open one. `decode(buffer, position)` gives the message and the position behind it, and raises
    IndexError, struct.error, UnicodeDecodeError or MalformedMessageError on garbage; callers use
    `decode_message`.
    """

    encode: Callable[[Any, bytearray, list[Buffer]], bytearray]
    decode: Callable[[memoryview, int], tuple[Any, int]]


def _codec_of(cls: type[Any], version: int) -> Codec:
    info = info_of(cls)
    if version not in info.versions:
        raise ValueError(f"{info.name} has no version {version}")
    return compile_codec(cls, version, version >= info.flexible_since)


# The codec of a message class at a version that it has; mypy does not see that a class is hashable.
codec_of = cast(Callable[[type[Any], int], Codec], cache(_codec_of))


def compile_codec(cls: type, version: int, flexible: bool) -> Codec:
    """Compiles any declared class; `codec_of` is for whole messages."""
    encoder = EncoderSource(version, flexible)
    encoder.function(cls)
    decoder = DecoderSource(version, flexible)
    decoder.function(cls)
    name = f"{cls.__name__}_v{version}"
    return Codec(
        encoder.build("encode", f"<{name} encode>"), decoder.build("decode", f"<{name} decode>")
    )


def decode_message(cls: type[Any], version: int, buffer: Buffer, position: int = 0) -> Any:
    """Decodes a message; any way in which the bytes are wrong is a MalformedMessageError."""
    view = buffer if isinstance(buffer, memoryview) else memoryview(buffer)
    try:
        return codec_of(cls, version).decode(view, position)[0]
    except (IndexError, struct_module.error, UnicodeDecodeError) as error:
        raise MalformedMessageError(f"{cls.__name__} v{version}: {error}") from error


def encode_message(value: Any, version: int) -> bytes:
    """The bytes of a message in one piece."""
    parts: list[Buffer] = []
    parts.append(codec_of(type(value), version).encode(value, bytearray(), parts))
    return b"".join(parts)
