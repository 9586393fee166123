"""The headers of a record, and how many bytes it takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ottla.client.model import Headers
from ottla.errors import SerializationError
from ottla.records.batch import HEADER_BYTES
from ottla.records.record import Header

# A record's length, attributes, timestamp and offset delta, and the number of headers, at most (as Kafka counts).
_RECORD_OVERHEAD_BYTES: Final = 21


def read_headers(headers: Any) -> Headers:
    """Headers as pairs: they may be given as a dict, or as any sequence of pairs."""
    if headers is None or headers == ():
        return ()
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    if isinstance(headers, str | bytes) or not isinstance(pairs, Iterable):
        raise SerializationError(f"headers are a dict or a list of pairs, not {headers!r}")
    return tuple(_read_header(pair) for pair in pairs)


def _read_header(pair: Any) -> Header:
    if isinstance(pair, tuple | list) and len(pair) == 2:
        name, value = pair
        if isinstance(name, str) and (value is None or isinstance(value, bytes)):
            return name, value
    raise SerializationError(
        "a header is a name (str) with a value (bytes or None), "
        f'as in headers=[("name", b"value")], not {pair!r}'
    )


def record_bound_bytes(key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> int:
    """How many bytes a batch of this record alone takes at most, as Kafka counts them."""
    size_bytes = HEADER_BYTES + _RECORD_OVERHEAD_BYTES
    for field in (key, value):
        if field is None:
            size_bytes += 1
        else:
            size_bytes += _varint_bytes(len(field)) + len(field)
    size_bytes += _varint_bytes(len(headers))
    for name, header_value in headers:
        name_bytes = len(name.encode("utf-8", "surrogateescape"))
        size_bytes += _varint_bytes(name_bytes) + name_bytes
        size_bytes += (
            1 if header_value is None else _varint_bytes(len(header_value)) + len(header_value)
        )
    return size_bytes


def _varint_bytes(number: int) -> int:
    return max(1, ((number << 1).bit_length() + 6) // 7)
