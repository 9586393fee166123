"""Decoding OpenTelemetry's MetricsData (protobuf) as far as clients of Kafka use it: gauges and sums of numbers.

The bytes come from clients, so everything has a limit, and the decoder pauses after a bounded piece of work. Histograms
and summaries are counted and skipped. The field numbers are those of opentelemetry/proto/metrics/v1/metrics.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator
from enum import Enum
from typing import Final, NamedTuple

MAX_POINTS: Final = 10_000
MAX_ATTRIBUTES: Final = 32  # of a data point, and of a resource
# Of a name or a value; the rest is cut off. So much text is more than a series may have.
MAX_TEXT_BYTES: Final = 1024
# Of the fields in a message that has no long list; these limit the work between two pauses.
_MAX_FIELDS: Final = 64
_MAX_VALUE_FIELDS: Final = 8
_MAX_VARINT_BYTES: Final = 10

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_DOUBLE: Final = struct.Struct("<d")
_SFIXED64: Final = struct.Struct("<q")
_NO_RECORDED_VALUE: Final = 1
_DELTA: Final = 1


class MalformedMetricsError(Exception):
    """The bytes are not MetricsData, or have more in one place than any client sends."""


class TooManyPointsError(Exception):
    """There are more than MAX_POINTS data points."""


class PointKind(Enum):
    """What becomes of a value that is pushed again and again."""

    GAUGE = "gauge"  # the last value holds
    DELTA = "delta"  # values that are added up
    CUMULATIVE = "cumulative"  # the client has added them up


Attributes = tuple[tuple[str, str], ...]


class Point(NamedTuple):
    """One number of one metric."""

    metric: str
    kind: PointKind
    is_monotonic: bool
    attributes: Attributes
    value: int | float


class DecodedMetrics(NamedTuple):
    """The data points of a push, and how many were of no use."""

    points: list[Point]
    skipped: int


class _Field(NamedTuple):
    """A field of a message: a number, or where its bytes are."""

    number: int
    value: int
    start: int
    end: int
    wire_type: int


def decode_metrics(data: bytes | memoryview) -> Generator[None, None, DecodedMetrics]:
    """Decodes a whole payload, and pauses after each small piece of it."""
    return (yield from _Decoder(data).decode())


class _Decoder:
    def __init__(self, data: bytes | memoryview) -> None:
        self._data = data
        self._points: list[Point] = []
        self._skipped = 0

    def decode(self) -> Generator[None, None, DecodedMetrics]:
        for field in self._fields(0, len(self._data)):
            yield
            if field.number == 1:
                yield from self._resource_metrics(*_span(field))
        return DecodedMetrics(self._points, self._skipped)

    def _resource_metrics(self, start: int, end: int) -> Generator[None, None, None]:
        attributes: Attributes = ()
        # The resource may come after the metrics that it is about.
        for field in self._fields(start, end):
            yield
            if field.number == 1:
                attributes = self._attributes(*_span(field), number=1)
        for field in self._fields(start, end):
            yield
            if field.number == 2:
                yield from self._scope_metrics(*_span(field), attributes)

    def _scope_metrics(
        self, start: int, end: int, attributes: Attributes
    ) -> Generator[None, None, None]:
        for field in self._fields(start, end):
            yield
            if field.number == 2:
                yield from self._metric(*_span(field), attributes)

    def _metric(self, start: int, end: int, attributes: Attributes) -> Generator[None, None, None]:
        name = ""
        data: _Field | None = None
        for field in self._fields(start, end, _MAX_FIELDS):
            if field.number == 1:
                name = self._text(field)
            elif field.number in (5, 7, 9, 10, 11):
                data = field
        if data is None:
            return
        if data.number == 5:
            yield from self._gauge(*_span(data), name, attributes)
        elif data.number == 7:
            yield from self._sum(*_span(data), name, attributes)
        else:
            self._skipped += 1  # a histogram or a summary

    def _gauge(
        self, start: int, end: int, name: str, attributes: Attributes
    ) -> Generator[None, None, None]:
        for field in self._fields(start, end):
            yield
            if field.number == 1:
                self._point(*_span(field), name, PointKind.GAUGE, False, attributes)

    def _sum(
        self, start: int, end: int, name: str, attributes: Attributes
    ) -> Generator[None, None, None]:
        temporality, is_monotonic = 0, False
        # What kind of sum it is comes after its points.
        for field in self._fields(start, end):
            yield
            if field.number == 2:
                temporality = field.value
            elif field.number == 3:
                is_monotonic = field.value != 0
        kind = PointKind.DELTA if temporality == _DELTA else PointKind.CUMULATIVE
        for field in self._fields(start, end):
            yield
            if field.number == 1:
                self._point(*_span(field), name, kind, is_monotonic, attributes)

    def _point(
        self,
        start: int,
        end: int,
        name: str,
        kind: PointKind,
        is_monotonic: bool,
        inherited: Attributes,
    ) -> None:
        if len(self._points) + self._skipped >= MAX_POINTS:
            raise TooManyPointsError(f"more than {MAX_POINTS} data points")
        value: int | float | None = None
        for field in self._fields(start, end, _MAX_FIELDS):
            if field.number == 4 and field.wire_type == _FIXED64:
                (value,) = _DOUBLE.unpack_from(self._data, field.start)
            elif field.number == 6 and field.wire_type == _FIXED64:
                (value,) = _SFIXED64.unpack_from(self._data, field.start)
            elif field.number == 8 and field.value & _NO_RECORDED_VALUE:
                return
        if value is None:
            self._skipped += 1
            return
        attributes = (*inherited, *self._attributes(start, end, number=7))
        self._points.append(Point(name, kind, is_monotonic, attributes, value))

    def _attributes(self, start: int, end: int, number: int) -> Attributes:
        """The attributes of a message that has them in the field `number`; lists and maps are left out."""
        found: list[tuple[str, str]] = []
        for field in self._fields(start, end, _MAX_FIELDS):
            if field.number != number:
                continue
            if len(found) >= MAX_ATTRIBUTES:
                raise MalformedMetricsError(f"more than {MAX_ATTRIBUTES} attributes")
            key, value = "", None
            for part in self._fields(*_span(field), _MAX_VALUE_FIELDS):
                if part.number == 1:
                    key = self._text(part)
                elif part.number == 2:
                    value = self._value(*_span(part))
            if value is not None:
                found.append((key, value))
        return tuple(found)

    def _value(self, start: int, end: int) -> str | None:
        """A value of an attribute as text; None for a list, a map or bytes."""
        text = None
        for field in self._fields(start, end, _MAX_VALUE_FIELDS):
            if field.number == 1:
                text = self._text(field)
            elif field.number == 2 and field.wire_type == _VARINT:
                text = "true" if field.value else "false"
            elif field.number == 3 and field.wire_type == _VARINT:
                signed = field.value - (1 << 64) if field.value >= 1 << 63 else field.value
                text = str(signed)
            elif field.number == 4 and field.wire_type == _FIXED64:
                text = repr(_DOUBLE.unpack_from(self._data, field.start)[0])
        return text

    def _text(self, field: _Field) -> str:
        start, end = _span(field)
        return bytes(self._data[start : min(end, start + MAX_TEXT_BYTES)]).decode(
            "utf-8", "replace"
        )

    def _fields(self, start: int, end: int, most: int | None = None) -> Iterator[_Field]:
        """The fields of a message; with `most` it may have no more of them."""
        position, count = start, 0
        while position < end:
            count += 1
            if most is not None and count > most:
                raise MalformedMetricsError(f"a message with more than {most} fields")
            tag, position = self._varint(position, end)
            number, wire_type = tag >> 3, tag & 7
            value, value_start = 0, position
            if wire_type == _VARINT:
                value, position = self._varint(position, end)
            elif wire_type == _BYTES:
                length, value_start = self._varint(position, end)
                position = value_start + length
            elif wire_type == _FIXED64:
                position += 8
            elif wire_type == _FIXED32:
                position += 4
            else:
                raise MalformedMetricsError(f"a field of wire type {wire_type}")
            if number == 0 or position > end:
                raise MalformedMetricsError("a field that ends after its message")
            yield _Field(number, value, value_start, position, wire_type)

    def _varint(self, position: int, end: int) -> tuple[int, int]:
        """The number that begins at a position, and the position after it."""
        data = self._data
        value = shift = 0
        for _ in range(_MAX_VARINT_BYTES):
            if position >= end:
                break
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFFFFFFFFFFFFFF, position
            shift += 7
        raise MalformedMetricsError("a number that does not end")


def _span(field: _Field) -> tuple[int, int]:
    if field.wire_type != _BYTES:
        raise MalformedMetricsError(f"field {field.number} has the wire type {field.wire_type}")
    return field.start, field.end
