"""MetricsData of OpenTelemetry, encoded for tests: messages as bytes, from the inside out."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

DELTA, CUMULATIVE = 1, 2


def varint(number: int) -> bytes:
    made = bytearray()
    while number >= 0x80:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def field(number: int, value: int | bytes | str) -> bytes:
    """A varint, or bytes with their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value & 0xFFFFFFFFFFFFFFFF)
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def fixed(number: int, raw: bytes) -> bytes:
    return varint(number << 3 | 1) + raw


def attribute(key: str, value: object) -> bytes:
    if isinstance(value, bool):
        encoded = field(2, int(value))
    elif isinstance(value, int):
        encoded = field(3, value)
    elif isinstance(value, float):
        encoded = fixed(4, struct.pack("<d", value))
    elif isinstance(value, bytes):
        encoded = value  # an AnyValue of the test's own
    else:
        encoded = field(1, str(value))
    return field(1, key) + field(2, encoded)


def point(value: int | float, attributes: Mapping[str, object] | None = None) -> bytes:
    number = (
        fixed(4, struct.pack("<d", value))
        if isinstance(value, float)
        else fixed(6, struct.pack("<q", value))
    )
    times = fixed(2, bytes(8)) + fixed(3, bytes(8))
    named = b"".join(field(7, attribute(*each)) for each in (attributes or {}).items())
    return times + number + named


def gauge(name: str, *points: bytes) -> bytes:
    return field(1, name) + field(5, b"".join(field(1, each) for each in points))


def total(name: str, *points: bytes, temporality: int = DELTA, is_monotonic: bool = True) -> bytes:
    data = b"".join(field(1, each) for each in points)
    return field(1, name) + field(7, data + field(2, temporality) + field(3, int(is_monotonic)))


def histogram(name: str) -> bytes:
    return field(1, name) + field(9, field(1, b""))


def payload(*metrics: bytes, resource: Mapping[str, object] | None = None) -> bytes:
    """MetricsData with one resource and one scope."""
    described = field(1, _resource(resource or {}))
    scope = field(1, field(1, "org.apache.kafka")) + b"".join(field(2, each) for each in metrics)
    return field(1, described + field(2, scope))


def _resource(attributes: Mapping[str, object]) -> bytes:
    return b"".join(field(1, attribute(*each)) for each in attributes.items())


def many_gauges(names: Iterable[str]) -> bytes:
    return payload(*(gauge(name, point(1)) for name in names))
