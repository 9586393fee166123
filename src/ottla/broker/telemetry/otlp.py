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
# Of all lists together, with fields that are not known: ten for each point.
MAX_ENTRIES: Final = 100_000
MAX_ATTRIBUTES: Final = 32  # of a data point, and of a resource
# Of a name or a value; the rest is cut off. So much text is more than a series may have.
MAX_TEXT_BYTES: Final = 1024
# Of the fields in a message that has no long list; these limit the work between two pauses.
_MAX_FIELDS: Final = 64
_MAX_VALUE_FIELDS: Final = 8

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


# A field of a message: its number, its wire type, its value if that is a varint, and where its bytes begin and end.
_Field = tuple[int, int, int, int, int]


def decode_metrics(data: bytes | memoryview) -> Generator[None, None, DecodedMetrics]:
    """Decodes a whole payload, and pauses after each small piece of it."""
    decoder = _Decoder(data)
    try:
        yield from decoder.decode()
    except IndexError as error:
        raise MalformedMetricsError("the metrics end too early") from error
    return DecodedMetrics(decoder.points, decoder.skipped)


class _Decoder:
    def __init__(self, data: bytes | memoryview) -> None:
        self._data = data
        self.points: list[Point] = []
        self.skipped = 0
        self._entries_left = MAX_ENTRIES

    def decode(self) -> Generator[None, None, None]:
        for start, end in self._entries(0, len(self._data), number=1):
            yield
            if end:
                yield from self._resource_metrics(start, end)

    def _resource_metrics(self, start: int, end: int) -> Generator[None, None, None]:
        attributes: Attributes = ()
        # The resource may come after the metrics that it is about.
        for part_start, part_end in self._entries(start, end, number=1):
            yield
            if part_end:
                attributes = self._attributes(part_start, part_end, number=1)
        for part_start, part_end in self._entries(start, end, number=2):
            yield
            if part_end:
                yield from self._scope_metrics(part_start, part_end, attributes)

    def _scope_metrics(
        self, start: int, end: int, attributes: Attributes
    ) -> Generator[None, None, None]:
        for part_start, part_end in self._entries(start, end, number=2):
            yield
            if part_end:
                yield from self._metric(part_start, part_end, attributes)

    def _metric(self, start: int, end: int, attributes: Attributes) -> Generator[None, None, None]:
        name, data_number, data_start, data_end = "", 0, 0, 0
        for number, wire_type, _, part_start, part_end in self._fields(start, end, _MAX_FIELDS):
            if number == 1:
                name = self._text(wire_type, part_start, part_end)
            elif number in (5, 7, 9, 10, 11):
                _check_is_bytes(wire_type)
                data_number, data_start, data_end = number, part_start, part_end
        if data_number == 5:
            yield from self._points(data_start, data_end, name, PointKind.GAUGE, False, attributes)
        elif data_number == 7:
            yield from self._sum(data_start, data_end, name, attributes)
        elif data_number:
            self.skipped += 1  # a histogram or a summary

    def _sum(
        self, start: int, end: int, name: str, attributes: Attributes
    ) -> Generator[None, None, None]:
        temporality, is_monotonic = 0, False
        # What kind of sum it is comes after its points.
        for number, _, value, _, _ in self._fields(start, end, MAX_ENTRIES):
            yield
            if number == 2:
                temporality = value
            elif number == 3:
                is_monotonic = value != 0
        kind = PointKind.DELTA if temporality == _DELTA else PointKind.CUMULATIVE
        yield from self._points(start, end, name, kind, is_monotonic, attributes)

    def _points(
        self,
        start: int,
        end: int,
        name: str,
        kind: PointKind,
        is_monotonic: bool,
        inherited: Attributes,
    ) -> Generator[None, None, None]:
        for point_start, point_end in self._entries(start, end, number=1):
            yield
            if not point_end:
                continue
            if len(self.points) + self.skipped >= MAX_POINTS:
                raise TooManyPointsError(f"more than {MAX_POINTS} data points")
            value = self._number(point_start, point_end)
            if value is not None:
                own = self._attributes(point_start, point_end, number=7)
                self.points.append(Point(name, kind, is_monotonic, (*inherited, *own), value))

    def _number(self, start: int, end: int) -> int | float | None:
        """The number of a data point, if it has one."""
        found: int | float | None = None
        for number, wire_type, value, part_start, _ in self._fields(start, end, _MAX_FIELDS):
            if number == 4 and wire_type == _FIXED64:
                (found,) = _DOUBLE.unpack_from(self._data, part_start)
            elif number == 6 and wire_type == _FIXED64:
                (found,) = _SFIXED64.unpack_from(self._data, part_start)
            elif number == 8 and value & _NO_RECORDED_VALUE:
                return None
        if found is None:
            self.skipped += 1
        return found

    def _attributes(self, start: int, end: int, number: int) -> Attributes:
        """The attributes of a message that has them in the field `number`; lists and maps are left out."""
        found: list[tuple[str, str]] = []
        for part, wire_type, _, part_start, part_end in self._fields(start, end, _MAX_FIELDS):
            if part == number:
                _check_is_bytes(wire_type)
                if len(found) >= MAX_ATTRIBUTES:
                    raise MalformedMetricsError(f"more than {MAX_ATTRIBUTES} attributes")
                key, value = self._attribute(part_start, part_end)
                if value is not None:
                    found.append((key, value))
        return tuple(found)

    def _attribute(self, start: int, end: int) -> tuple[str, str | None]:
        key, value = "", None
        for number, wire_type, _, part_start, part_end in self._fields(
            start, end, _MAX_VALUE_FIELDS
        ):
            if number == 1:
                key = self._text(wire_type, part_start, part_end)
            elif number == 2:
                _check_is_bytes(wire_type)
                value = self._value(part_start, part_end)
        return key, value

    def _value(self, start: int, end: int) -> str | None:
        """A value of an attribute as text; None for a list, a map or bytes."""
        text = None
        for number, wire_type, value, part_start, part_end in self._fields(
            start, end, _MAX_VALUE_FIELDS
        ):
            if number == 1:
                text = self._text(wire_type, part_start, part_end)
            elif number == 2 and wire_type == _VARINT:
                text = "true" if value else "false"
            elif number == 3 and wire_type == _VARINT:
                text = str(value - (1 << 64) if value >= 1 << 63 else value)
            elif number == 4 and wire_type == _FIXED64:
                text = repr(_DOUBLE.unpack_from(self._data, part_start)[0])
        return text

    def _text(self, wire_type: int, start: int, end: int) -> str:
        _check_is_bytes(wire_type)
        cut = bytes(self._data[start : min(end, start + MAX_TEXT_BYTES)])
        return cut.decode("utf-8", "replace")

    def _entries(self, start: int, end: int, number: int) -> Iterator[tuple[int, int]]:
        """Where the entries of a list begin and end; (0, 0) for each other field, so that the caller can pause."""
        for part, wire_type, _, part_start, part_end in self._fields(start, end, MAX_ENTRIES):
            self._entries_left -= 1
            if self._entries_left < 0:
                raise MalformedMetricsError(f"more than {MAX_ENTRIES} entries in lists")
            if part == number:
                _check_is_bytes(wire_type)
                yield part_start, part_end
            else:
                yield 0, 0

    def _fields(self, position: int, end: int, most: int) -> Iterator[_Field]:
        """The fields of a message, which may have no more than `most`."""
        data = self._data
        left = most
        while position < end:
            left -= 1
            if left < 0:
                raise MalformedMetricsError(f"a message with more than {most} fields")
            tag = data[position]
            position += 1
            if tag >= 0x80:
                tag, position = self._varint(position - 1)
            wire_type = tag & 7
            value, start = 0, position
            if wire_type == _BYTES:
                length = data[position]
                start += 1
                if length >= 0x80:
                    length, start = self._varint(position)
                position = start + length
            elif wire_type == _FIXED64:
                position += 8
            elif wire_type == _VARINT:
                value, position = self._varint(position)
            elif wire_type == _FIXED32:
                position += 4
            else:
                raise MalformedMetricsError(f"a field of wire type {wire_type}")
            # A number that was read beyond the end of the message is noticed here, too.
            if position > end or tag < 8:
                raise MalformedMetricsError("a field that ends after its message")
            yield tag >> 3, wire_type, value, start, position

    def _varint(self, position: int) -> tuple[int, int]:
        """The number that begins at a position, and the position after it."""
        data = self._data
        value = 0
        for shift in range(0, 70, 7):
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFFFFFFFFFFFFFF, position
        raise MalformedMetricsError("a number that does not end")


def _check_is_bytes(wire_type: int) -> None:
    if wire_type != _BYTES:
        raise MalformedMetricsError(f"wire type {wire_type} in place of text or a message")
