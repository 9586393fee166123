"""What Arrow data becomes, before it is read: compressed buffers, and lists and words of which one stands for many.

The messages of Arrow's format are FlatBuffers. Of each message the sizes of its compressed buffers are added up; of a
batch that was read, the values that Python would make of its rows are counted.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

MAX_BYTES: Final = 64 << 20
"""Of all buffers, after they were decompressed."""
MAX_VALUES: Final = 1_000_000
MAX_TEXT_BYTES: Final = 16 << 20
MAX_MESSAGES: Final = 10_000

_INT32: Final = struct.Struct("<i")
_UINT32: Final = struct.Struct("<I")
_UINT16: Final = struct.Struct("<H")
_INT64: Final = struct.Struct("<q")
_BUFFER: Final = struct.Struct("<qq")
# The numbers of fields and of types in Arrow's Message.fbs.
_HEADER_TYPE, _HEADER = 1, 2
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3
_DICTIONARY_DATA: Final = 1
_BUFFERS, _COMPRESSION = 2, 3


class TooLargeError(Exception):
    """The data would become too large."""


def check_messages(messages: Iterator[Any]) -> None:
    """Raise TooLargeError if the buffers of messages would be too large; broken ones are errors of all kinds."""
    size_bytes = 0
    for number, message in enumerate(messages):
        if number >= MAX_MESSAGES:
            raise TooLargeError(f"it has more than {MAX_MESSAGES:,} messages")
        body = memoryview(b"" if message.body is None else message.body)
        size_bytes += sum(_buffer_sizes(memoryview(message.metadata), body))
        if size_bytes > MAX_BYTES:
            raise TooLargeError(f"it has more than {MAX_BYTES:,} bytes when it is decompressed")


def _buffer_sizes(metadata: memoryview, body: memoryview) -> Iterator[int]:
    """The bytes of the buffers of a message."""
    message = _Table(metadata, _UINT32.unpack_from(metadata, 0)[0])
    kind = message.byte(_HEADER_TYPE)
    batch = message.table(_HEADER) if kind in (_DICTIONARY_BATCH, _RECORD_BATCH) else None
    if batch is not None and kind == _DICTIONARY_BATCH:
        batch = batch.table(_DICTIONARY_DATA)
    if batch is None:
        return
    is_compressed = batch.table(_COMPRESSION) is not None
    for at, length in batch.buffers(_BUFFERS):
        if not is_compressed or length < _INT64.size:
            yield max(0, length)
            continue
        (size,) = _INT64.unpack_from(body, at)
        yield length if size < 0 else size


class _Table:
    """A table of a FlatBuffer."""

    def __init__(self, data: memoryview, at: int) -> None:
        self._data = data
        self._at = at
        self._fields = at - _INT32.unpack_from(data, at)[0]
        self._fields_bytes: int = _UINT16.unpack_from(data, self._fields)[0]

    def _place(self, field: int) -> int | None:
        at = 4 + 2 * field
        if at + 2 > self._fields_bytes:
            return None
        offset: int = _UINT16.unpack_from(self._data, self._fields + at)[0]
        return self._at + offset if offset else None

    def byte(self, field: int) -> int:
        place = self._place(field)
        return 0 if place is None else self._data[place]

    def table(self, field: int) -> _Table | None:
        place = self._place(field)
        if place is None:
            return None
        return _Table(self._data, place + _UINT32.unpack_from(self._data, place)[0])

    def buffers(self, field: int) -> Iterator[tuple[int, int]]:
        """The places and the lengths of buffers."""
        place = self._place(field)
        if place is None:
            return
        at = place + _UINT32.unpack_from(self._data, place)[0]
        for number in range(_UINT32.unpack_from(self._data, at)[0]):
            yield _BUFFER.unpack_from(self._data, at + 4 + number * _BUFFER.size)


def check_rows(pa: Any, batch: Any) -> None:
    """Raise TooLargeError if Python's values of a batch, which was validated, would be too many or too large."""
    _Count(pa).add_all(batch.columns)


class _Count:
    def __init__(self, pa: Any) -> None:
        import pyarrow.compute

        self._pa, self._compute = pa, pyarrow.compute
        types = pa.types
        self._texts = (
            types.is_string,
            types.is_binary,
            types.is_large_string,
            types.is_large_binary,
        )
        self._values = self._text_bytes = 0

    def add_all(self, arrays: Any) -> None:
        for each in arrays:
            self.add(each)

    def add(self, array: Any) -> None:
        """Count the values of an array, with all that they hold."""
        types, kind = self._pa.types, array.type
        self._add(len(array), 0)
        if isinstance(array, self._pa.ExtensionArray):
            self.add(array.storage)
        elif types.is_struct(kind):
            self._add(0, sum(len(field.name) for field in kind) * len(array))
            self.add_all(array.flatten())
        elif types.is_map(kind) or types.is_list(kind) or types.is_large_list(kind):
            offsets = array.offsets
            first, last = offsets[0].as_py(), offsets[-1].as_py()
            self.add(array.values.slice(first, last - first))
        elif types.is_fixed_size_list(kind):
            self._add(len(array) * kind.list_size, 0)
            self.add(array.flatten())
        elif types.is_dictionary(kind):
            self._add_chosen(array.dictionary, len(array))
        elif any(is_text(kind) for is_text in self._texts):
            self._add(0, int(self._compute.sum(self._compute.binary_length(array)).as_py() or 0))
        elif types.is_string_view(kind) or types.is_binary_view(kind):
            # Each may be the whole of the buffers.
            self._add(
                0, len(array) * sum(each.size for each in array.buffers() if each is not None)
            )
        elif types.is_nested(kind) or types.is_run_end_encoded(kind):
            raise TooLargeError(f"values of the type {kind} are not shown: one may stand for many")

    def _add_chosen(self, values: Any, count: int) -> None:
        """Each may be the largest of the values."""
        of_values = _Count(self._pa)
        of_values.add(values)
        self._add(count * of_values._values, count * of_values._text_bytes)

    def _add(self, values: int, text_bytes: int) -> None:
        self._values += values
        self._text_bytes += text_bytes
        if self._values > MAX_VALUES or self._text_bytes > MAX_TEXT_BYTES:
            raise TooLargeError("its rows are too large")
