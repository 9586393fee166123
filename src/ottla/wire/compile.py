"""The codec compiler: turns a declaration and a version into two straight-line Python functions.

Runs of fixed-size fields become one `struct` call, lists become inline loops, and everything that the version decides
is decided at compile time. A codec is compiled when it is first used.

A declaration also gives a sliced codec: generators that yield after every few elements, for messages that are too
large for one turn of an event loop.
"""

from __future__ import annotations

import struct as struct_module
from collections.abc import Callable, Generator
from functools import cache
from typing import Any, NamedTuple, TypeVar, cast

from ottla.wire.declare import MessageInfo, StoredInfo, info_of, stored_info_of
from ottla.wire.decoder import DecoderSource, SlicedDecoderSource
from ottla.wire.encoder import EncoderSource, SlicedEncoderSource
from ottla.wire.primitives import TooManyElementsError
from ottla.wire.types import Buffer, MalformedMessageError

T = TypeVar("T")
_VERSION = struct_module.Struct(">h")


class MessageCodec(NamedTuple):
    """The two functions of a message at one version.

    `encode(message, out, parts)` appends to `out`, moves full buffers to `parts` and returns the last,
    open one. `decode(buffer, position)` returns the message and the position after it; on malformed
    input it raises IndexError, struct.error, UnicodeDecodeError or MalformedMessageError, which
    `decode_message` turns into the last.
    """

    encode: Callable[[Any, bytearray, list[Buffer]], bytearray]
    decode: Callable[[memoryview, int], tuple[Any, int]]


class SlicedCodec(NamedTuple):
    """As `MessageCodec`, with generators that yield after every few elements and return the result.

    The third argument of `decode` is the limit of elements in all lists of the message.
    """

    encode: Callable[[Any, bytearray, list[Buffer]], Generator[None, None, bytearray]]
    decode: Callable[[memoryview, int, int], Generator[None, None, tuple[Any, int]]]


def _codec_of(cls: type[Any], version: int) -> MessageCodec:
    return _compile_declared(cls, info_of(cls), version)


def _stored_codec_of(cls: type[Any], version: int) -> MessageCodec:
    return _compile_declared(cls, stored_info_of(cls), version)


def _compile_declared(cls: type[Any], info: MessageInfo | StoredInfo, version: int) -> MessageCodec:
    if version not in info.versions:
        raise ValueError(f"{info.name} has no version {version}")
    return compile_codec(cls, version, version >= info.flexible_since)


# The cached codec of a class at a version; mypy does not see that a class is hashable.
codec_of = cast(Callable[[type[Any], int], MessageCodec], cache(_codec_of))
stored_codec_of = cast(Callable[[type[Any], int], MessageCodec], cache(_stored_codec_of))


def _compile_sliced(cls: type[Any], version: int) -> SlicedCodec:
    info = info_of(cls)
    flexible = version >= info.flexible_since
    encoder = SlicedEncoderSource(version, flexible)
    encoder.function(cls)
    decoder = SlicedDecoderSource(version, flexible)
    decoder.function(cls)
    name = f"{cls.__name__}_v{version}"
    return SlicedCodec(
        encoder.build("encode", f"<{name} encode in slices>"),
        decoder.build("decode", f"<{name} decode in slices>"),
    )


sliced_codec_of = cast(Callable[[type[Any], int], SlicedCodec], cache(_compile_sliced))


def compile_codec(cls: type, version: int, flexible: bool) -> MessageCodec:
    """Compile any declared class; `codec_of` is for whole messages."""
    encoder = EncoderSource(version, flexible)
    encoder.function(cls)
    decoder = DecoderSource(version, flexible)
    decoder.function(cls)
    name = f"{cls.__name__}_v{version}"
    return MessageCodec(
        encoder.build("encode", f"<{name} encode>"), decoder.build("decode", f"<{name} decode>")
    )


def decode_message(cls: type[Any], version: int, buffer: Buffer, position: int = 0) -> Any:
    """Decode a message; malformed bytes raise MalformedMessageError."""
    return _decode(codec_of(cls, version), cls, version, buffer, position)


def decode_in_slices(
    cls: type[Any], version: int, buffer: memoryview, position: int, max_elements: int
) -> Generator[None, None, Any]:
    """As `decode_message`, but yields; too many elements in lists raise MalformedMessageError as well."""
    try:
        message, _ = yield from sliced_codec_of(cls, version).decode(buffer, position, max_elements)
    except TooManyElementsError as error:
        raise MalformedMessageError(
            f"{cls.__name__} v{version} has too many elements in its lists: more than {max_elements}"
        ) from error
    except (IndexError, struct_module.error, UnicodeDecodeError) as error:
        raise MalformedMessageError(f"{cls.__name__} v{version}: {error}") from error
    return message


def encode_message(value: Any, version: int) -> bytes:
    """The bytes of a message in one piece."""
    return _encode(codec_of(type(value), version), value, bytearray())


def stored_version(buffer: Buffer) -> int:
    """The int16 at the start of a stored format; in the key of a record it is the kind of the key."""
    if len(buffer) < _VERSION.size:
        raise MalformedMessageError(f"no version in {len(buffer)} bytes")
    version: int = _VERSION.unpack_from(buffer)[0]
    return version


def decode_stored(cls: type[T], buffer: Buffer) -> T:
    """Decode a version and the body in it; malformed bytes raise MalformedMessageError.

    Bytes after the body are ignored: newer versions add fields there.
    """
    info = stored_info_of(cls)
    version = stored_version(buffer)
    if version not in info.readable:
        raise MalformedMessageError(f"{info.name} has no version {version}")
    version = min(version, info.versions.last)
    value: T = _decode(stored_codec_of(cls, version), cls, version, buffer, _VERSION.size)
    return value


def encode_stored(value: Any, version: int) -> bytes:
    """The version and the body in one piece."""
    codec = stored_codec_of(type(value), version)
    return _encode(codec, value, bytearray(_VERSION.pack(version)))


def _decode(
    codec: MessageCodec, cls: type[Any], version: int, buffer: Buffer, position: int
) -> Any:
    view = buffer if isinstance(buffer, memoryview) else memoryview(buffer)
    try:
        return codec.decode(view, position)[0]
    except (IndexError, struct_module.error, UnicodeDecodeError) as error:
        raise MalformedMessageError(f"{cls.__name__} v{version}: {error}") from error


def _encode(codec: MessageCodec, value: Any, out: bytearray) -> bytes:
    parts: list[Buffer] = []
    parts.append(codec.encode(value, out, parts))
    return b"".join(parts)
