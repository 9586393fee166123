"""What Avro data becomes, before it is decoded: a few bytes may stand for a value that fills the memory.

An array of nulls is a number and nothing else, and a record that holds itself is as deep as its data is long, which the
decoder's stack is not. Most schemas say by themselves that their values are about as large as the data. For others, and
for large data, the structure is read first, without making values of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ottla.errors import DeserializationError

MAX_CHARS: Final = 16_000_000
"""Of JSON, about."""
MAX_DEPTH: Final = 200
# Data of a schema that holds itself may be as deep as it is long.
MAX_RECURSIVE_BYTES: Final = 500
# Making a number of longer ones takes time by the square of their length.
MAX_DECIMAL_BYTES: Final = 2_000
LEAF_CHARS: Final = 24
_SIZES: Final[Mapping[str, int]] = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_TEXTS: Final = ("string", "bytes")
_RECORDS: Final = ("record", "error")

Definitions = Mapping[str, Any]
"""The definitions of records, enums and fixed types by their full names."""


class TooLargeError(DeserializationError):
    """Data would become a value that is too large, or too deep."""


class AvroBounds:
    """What one schema says of the size of its values."""

    def __init__(self, schema: Any, named: Definitions) -> None:
        self._schema, self._named = schema, named
        self._most_chars = LEAF_CHARS
        """Of a value, without what arrays, maps and unions in it choose."""
        self._is_recursive = self._has_empty_items = self._has_decimals = False
        self._inline: dict[str, tuple[int, int]] = {}
        self._open: list[str] = []
        self._done: set[str] = set()
        self._visit(schema)

    def is_certainly_small(self, size_bytes: int) -> bool:
        """Whether no data of this length becomes too large: each choice of an array, map or union has a byte."""
        is_odd = (
            self._has_empty_items
            or (self._is_recursive and size_bytes > MAX_RECURSIVE_BYTES)
            or (self._has_decimals and size_bytes > MAX_DECIMAL_BYTES)
        )
        return not is_odd and (size_bytes + 1) * self._most_chars <= MAX_CHARS

    def check(self, data: bytes, at: int) -> None:
        """Read the structure of data; TooLargeError if its value would be too large, or too deep."""
        _Structure(self._named, data, at).read(self._schema)

    def _visit(self, schema: Any) -> None:
        """Look at all parts of a schema."""
        if isinstance(schema, list):
            for branch in schema:
                self._visit(branch)
            return
        kind, definition = _kind_of(schema, self._named)
        self._most_chars = max(self._most_chars, self._inline_of(schema)[0])
        self._has_decimals |= _is_decimal(definition)
        if kind == "array":
            self._has_empty_items |= self._inline_of(definition["items"])[1] == 0
            self._visit(definition["items"])
        elif kind == "map":
            self._visit(definition["values"])
        elif kind in _RECORDS:
            self._visit_record(definition)

    def _visit_record(self, definition: Mapping[str, Any]) -> None:
        name = definition["name"]
        self._is_recursive |= name in self._open
        if name in self._open or name in self._done:
            return
        self._open.append(name)
        for field in definition["fields"]:
            self._visit(field["type"])
        self._open.pop()
        self._done.add(name)

    def _inline_of(self, schema: Any, outer: tuple[str, ...] = ()) -> tuple[int, int]:
        """The characters and the least bytes of a value, up to the arrays, maps and unions in it."""
        if isinstance(schema, list):
            return LEAF_CHARS, 1
        kind, definition = _kind_of(schema, self._named)
        if kind == "enum":
            return max(map(len, definition["symbols"]), default=0) + LEAF_CHARS, 1
        if kind == "fixed":
            return 2 * int(definition["size"]) + LEAF_CHARS, int(definition["size"])
        if kind not in _RECORDS:
            return LEAF_CHARS, _SIZES.get(kind, 1)
        name = definition["name"]
        if name in outer:
            raise TooLargeError(f"a {name} holds a {name}, without an end")
        if name not in self._inline:
            parts = [
                self._inline_of(field["type"], (*outer, name)) for field in definition["fields"]
            ]
            names = sum(len(field["name"]) for field in definition["fields"])
            chars = LEAF_CHARS + names + sum(each for each, _ in parts)
            self._inline[name] = chars, sum(each for _, each in parts)
        return self._inline[name]


def _kind_of(schema: Any, named: Definitions) -> tuple[str, Any]:
    """The kind of a schema that is no union, and its definition."""
    while True:
        if isinstance(schema, str):
            if schema not in named:
                return schema, None
            schema = named[schema]
        kind = schema["type"]
        if isinstance(kind, str) and kind not in named:
            return kind, schema
        schema = kind


def _is_decimal(definition: Any) -> bool:
    return definition is not None and definition.get("logicalType") == "decimal"


class _Structure:
    """Follows data without making values of it, and counts what they would be."""

    def __init__(self, named: Definitions, data: bytes, at: int) -> None:
        self._named = named
        self._data = data
        self._at = at
        self._chars = self._depth = 0

    def read(self, schema: Any) -> None:
        """Go over one value."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise TooLargeError(f"its value has more than {MAX_DEPTH} levels")
        if isinstance(schema, list):
            self.read(schema[self._index(len(schema))])
        else:
            kind, definition = _kind_of(schema, self._named)
            self._read_kind(kind, definition)
        self._depth -= 1

    def _read_kind(self, kind: str, definition: Any) -> None:
        self._count(LEAF_CHARS // 3)
        if kind in _RECORDS:
            for field in definition["fields"]:
                self._count(len(field["name"]))
                self.read(field["type"])
        elif kind == "array":
            for _ in self._items():
                self.read(definition["items"])
        elif kind == "map":
            for _ in self._items():
                self._skip(self._long())
                self.read(definition["values"])
        elif kind == "enum":
            self._count(len(definition["symbols"][self._index(len(definition["symbols"]))]))
        elif kind == "fixed":
            self._skip_text(int(definition["size"]), definition)
        elif kind in _TEXTS:
            self._skip_text(self._long(), definition)
        elif kind in _SIZES:
            self._skip(_SIZES[kind])
        else:
            self._long()

    def _items(self) -> Any:
        """As often as an array or a map has items."""
        while count := self._long():
            if count < 0:
                self._long()
            yield from range(abs(count))

    def _index(self, count: int) -> int:
        found = self._long()
        if not 0 <= found < count:
            raise DeserializationError(f"there is no choice {found}")
        return found

    def _long(self) -> int:
        found = shift = 0
        while True:
            if self._at >= len(self._data) or shift > 63:
                raise DeserializationError("it ends within a number")
            byte = self._data[self._at]
            self._at += 1
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (found >> 1) ^ -(found & 1)
            shift += 7

    def _skip(self, size_bytes: int) -> None:
        if not 0 <= size_bytes <= len(self._data) - self._at:
            raise DeserializationError("it ends within a value")
        self._at += size_bytes
        self._count(size_bytes)

    def _skip_text(self, size_bytes: int, definition: Any) -> None:
        if _is_decimal(definition) and size_bytes > MAX_DECIMAL_BYTES:
            raise TooLargeError(f"a decimal number in it has {size_bytes} bytes")
        self._skip(size_bytes)

    def _count(self, chars: int) -> None:
        self._chars += chars
        if self._chars > MAX_CHARS:
            raise TooLargeError(f"its value has more than {MAX_CHARS:,} characters")
