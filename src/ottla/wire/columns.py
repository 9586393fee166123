"""Lists of structs as one list for each field, for messages that have many of them.

    partitions: Sequence[OffsetCommitRequestPartition]

A field that is declared so is decoded into `Columns`; for the encoder it may be those or a list of structs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast, overload

from ottla.wire import _columns_kernel_py
from ottla.wire.types import Buffer

if os.environ.get("OTTLA_PURE") == "1":
    _chosen = _columns_kernel_py
else:
    try:
        from ottla.wire import _columns_kernel as _chosen  # type: ignore[no-redef, attr-defined]
    except ImportError:
        _chosen = _columns_kernel_py

COMPILED: Final[bool] = _chosen is not _columns_kernel_py

read_columns = _chosen.read_columns
write_columns = _chosen.write_columns

T = TypeVar("T")


def _names_of(element: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(element))


_cached_names = cast(Any, cache(_names_of))


class Columns(Sequence[T], Generic[T]):
    """A list of structs: `values` has a list for each field; an element is made when it is asked for."""

    __slots__ = ("element", "values")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, element: type[T], values: Sequence[list[Any]]) -> None:
        self.element = element
        self.values = values

    def __len__(self) -> int:
        return len(self.values[0])

    def __iter__(self) -> Iterator[T]:
        names = _cached_names(self.element)
        for row in zip(*self.values, strict=True):
            yield self.element(**dict(zip(names, row, strict=True)))

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> Columns[T]: ...

    def __getitem__(self, index: int | slice) -> T | Columns[T]:
        if isinstance(index, slice):
            return Columns(self.element, [column[index] for column in self.values])
        names = _cached_names(self.element)
        row = [column[index] for column in self.values]
        return self.element(**dict(zip(names, row, strict=True)))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Columns):
            return self.element is other.element and list(self.values) == list(other.values)
        return list(self) == other if isinstance(other, list) else NotImplemented

    def __repr__(self) -> str:
        return repr(list(self))

    def extend(self, more: Sequence[T]) -> None:
        """Appends other structs of the same kind."""
        for column, added in zip(self.values, columns_of(more, self.element), strict=True):
            column += added


def columns_of(structs: Sequence[T], element: type[T]) -> Sequence[list[Any]]:
    """The fields of structs, in the order of their declaration, each as a list."""
    if isinstance(structs, Columns):
        return structs.values
    return [[getattr(one, name) for one in structs] for name in _cached_names(element)]


class ColumnsCodec(NamedTuple):
    """How a list of structs is written in a version: the kinds of the fields, as letters of `struct`, `s` for text
    and `S` for text or null. `missing` has the defaults of fields that the version lacks, by their places.
    """

    element: type[Any]
    kinds: bytes
    flexible: bool
    places: tuple[int, ...]
    missing: tuple[tuple[int, Any], ...]

    def decode(self, buf: Buffer, position: int, count: int) -> tuple[Columns[Any], int]:
        values, position = read_columns(buf, position, count, self.kinds, self.flexible)
        for place, default in self.missing:
            values.insert(place, [default] * count)
        return Columns(self.element, values), position

    def encode(self, out: bytearray, columns: Columns[Any]) -> None:
        values = columns.values
        if self.missing:
            values = [values[place] for place in self.places]
        write_columns(out, values, len(columns), self.kinds, self.flexible)
