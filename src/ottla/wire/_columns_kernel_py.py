"""The column kernel in Python: the same results and errors as _columns_kernel.pyx."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, Final

from ottla.wire.primitives import check_length, length_prefix, read_uvarint, skip_tagged
from ottla.wire.types import Buffer, MalformedMessageError

MAX_STRING_BYTES: Final = 32767
TEXT_KINDS: Final = b"sS"
_INT16 = struct.Struct(">h")

# Neighbouring numbers as one struct, or the kind of a text; with the columns that they fill.
Step = tuple[struct.Struct | None, bool, tuple[int, ...]]


@lru_cache
def _steps(kinds: bytes) -> tuple[Step, ...]:
    steps: list[Step] = []
    for is_text, run in groupby(enumerate(kinds), key=lambda each: each[1] in TEXT_KINDS):
        places = list(run)
        if is_text:
            steps += [(None, kind == ord("S"), (place,)) for place, kind in places]
        else:
            letters = "".join(chr(kind) for _, kind in places)
            steps.append((struct.Struct(">" + letters), False, tuple(place for place, _ in places)))
    return tuple(steps)


def read_columns(
    buf: Buffer, position: int, count: int, kinds: bytes, flexible: bool
) -> tuple[list[list[Any]], int]:
    """The columns of `count` structs, and the position after them."""
    view = buf if isinstance(buf, memoryview) else memoryview(buf)
    check_length(count, len(view) - position)
    columns: list[list[Any]] = [[] for _ in kinds]
    steps = _steps(kinds)
    try:
        for _ in range(count):
            for numbers, is_nullable, places in steps:
                if numbers is not None:
                    for place, value in zip(
                        places, numbers.unpack_from(view, position), strict=True
                    ):
                        columns[place].append(value)
                    position += numbers.size
                    continue
                text, position = _read_text(view, position, is_nullable, flexible)
                columns[places[0]].append(text)
            if flexible:
                tagged_count, position = read_uvarint(view, position)
                if tagged_count:
                    position = skip_tagged(view, position, tagged_count)
    except (IndexError, struct.error):
        raise MalformedMessageError("a list ends within an element") from None
    return columns, position


def _read_text(
    view: memoryview, position: int, is_nullable: bool, flexible: bool
) -> tuple[str | None, int]:
    if flexible:
        length, position = read_uvarint(view, position)
        length -= 1
    else:
        (length,) = _INT16.unpack_from(view, position)
        position += _INT16.size
    if length == -1:
        if not is_nullable:
            raise MalformedMessageError("a text is null")
        return None, position
    check_length(length, len(view) - position)
    check_length(length, MAX_STRING_BYTES)
    return str(view[position : position + length], "utf-8"), position + length


def write_columns(
    out: bytearray, values: Sequence[Sequence[Any]], count: int, kinds: bytes, flexible: bool
) -> None:
    """Appends `count` structs that are given as columns."""
    if len(values) != len(kinds):
        raise ValueError(f"{len(values)} columns instead of {len(kinds)}")
    if any(len(column) != count for column in values):
        raise ValueError("columns of different lengths")
    steps = _steps(kinds)
    for row in range(count):
        for numbers, is_nullable, places in steps:
            if numbers is not None:
                out += numbers.pack(*[values[place][row] for place in places])
                continue
            text = values[places[0]][row]
            if text is None:
                if not is_nullable:
                    raise TypeError("a text is null")
                out += b"\0" if flexible else b"\xff\xff"
                continue
            data = text.encode()
            out += length_prefix(len(data)) if flexible else _INT16.pack(len(data))
            out += data
        if flexible:
            out.append(0)
