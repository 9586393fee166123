"""Both Arrow kernels, and columns for them without pyarrow."""

import importlib
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest

from ottla.records import _arrow_kernel_py
from ottla.records.columns import Blobs, BuiltColumns, HeaderLists, Numbers
from ottla.records.record import Header


def _compiled() -> ModuleType | None:
    try:
        return importlib.import_module("ottla.records._arrow_kernel")
    except ImportError:
        return None


COMPILED = _compiled()
compiled_needed = pytest.mark.skipif(COMPILED is None, reason="the compiled kernel is not built")
both_kernels = pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(_arrow_kernel_py, id="pure"),
        pytest.param(COMPILED, id="compiled", marks=compiled_needed),
    ],
)


@contextmanager
def in_use(kernel: Any) -> Iterator[None]:
    """Let the modules above the kernels use this one."""
    # They need pyarrow, and this module does not.
    from ottla.records import arrow_decoder, arrow_encoder

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrow_decoder, "ColumnsBuilder", kernel.ColumnsBuilder)
        patch.setattr(arrow_encoder, "SectionsEncoder", kernel.SectionsEncoder)
        yield


# From columns to values


def bits(validity: Any, count: int) -> list[bool]:
    if validity is None:
        return [True] * count
    data = bytes(validity)
    assert len(data) == (count + 7) // 8
    return [bool(data[row >> 3] >> (row & 7) & 1) for row in range(count)]


def fields(blobs: Any, count: int) -> list[bytes | None]:
    null_count, validity, offsets, data = blobs
    ends = struct.unpack(f"={count + 1}i", offsets)
    whole = bytes(data)
    valid = bits(validity, count)
    assert valid.count(False) == null_count
    assert (ends[0], ends[-1]) == (0, len(whole))
    return [
        whole[ends[row] : ends[row + 1]] if is_valid else None for row, is_valid in enumerate(valid)
    ]


def rows_of(built: BuiltColumns) -> list[tuple[object, ...]]:
    """Offset, timestamp, key, value and headers of each row; all columns have to be there."""
    count = built.row_count
    times = struct.unpack(f"={count}q", built.timestamps)
    times_valid = bits(built.timestamp_validity, count)
    assert times_valid.count(False) == built.timestamp_null_count
    keys = fields(built.header_key, built.header_count)
    values = fields(built.header_value, built.header_count)
    entries = list(zip(keys, values, strict=True))
    ends = struct.unpack(f"={count + 1}i", built.headers_offsets)
    headers_valid = bits(built.headers_validity, count)
    assert headers_valid.count(False) == built.headers_null_count
    assert (ends[0], ends[-1]) == (0, len(entries))
    headers = [
        entries[ends[row] : ends[row + 1]] if is_valid else None
        for row, is_valid in enumerate(headers_valid)
    ]
    return list(
        zip(
            struct.unpack(f"={count}q", built.offsets),
            [time if is_valid else None for time, is_valid in zip(times, times_valid, strict=True)],
            fields(built.key, count),
            fields(built.value, count),
            headers,
            strict=True,
        )
    )


def as_bytes(built: Any) -> Any:
    """The same with the buffers as bytes, to be compared."""
    if isinstance(built, tuple):
        return tuple(as_bytes(one) for one in built)
    return built if built is None or isinstance(built, int) else bytes(built)


# From values to columns


def validity_of(valid: Sequence[bool], first: int = 0) -> bytes:
    """Bits of rows behind `first` others, which are valid and then null by turns."""
    rows = [bool(row & 1) for row in range(first)] + list(valid)
    packed = bytearray((len(rows) + 7) // 8)
    for row, is_valid in enumerate(rows):
        packed[row >> 3] |= is_valid << (row & 7)
    return bytes(packed)


def blobs_of(values: Sequence[bytes | None], first: int = 0, offset_bytes: int = 4) -> Blobs:
    """A column that is part of a longer one, with something in the data before it."""
    ends = [2 * row for row in range(first)] + [2 * first]
    for value in values:
        ends.append(ends[-1] + len(value or b""))
    validity = None
    if None in values:
        validity = validity_of([value is not None for value in values], first)
    data = b"\xee\xee" * first + b"".join(value or b"" for value in values) + b"\xdd"
    code = "i" if offset_bytes == 4 else "q"
    offsets = struct.pack(f"={len(ends)}{code}", *ends)
    return Blobs(validity, offsets, data, first, offset_bytes)


def numbers_of(values: Sequence[int | None], first: int = 0, value_bytes: int = 8) -> Numbers:
    whole = [0] * first + [value or 0 for value in values]
    code = "i" if value_bytes == 4 else "q"
    validity = validity_of([value is not None for value in values], first)
    return Numbers(validity, struct.pack(f"={len(whole)}{code}", *whole), first, value_bytes)


def header_lists_of(
    lists: Sequence[tuple[Header, ...] | None], first: int = 0, offset_bytes: int = 4
) -> HeaderLists:
    entries = [header for headers in lists for header in headers or ()]
    ends = [0] * (first + 1)
    for headers in lists:
        ends.append(ends[-1] + len(headers or ()))
    code = "i" if offset_bytes == 4 else "q"
    return HeaderLists(
        validity_of([headers is not None for headers in lists], first),
        struct.pack(f"={len(ends)}{code}", *ends),
        first,
        offset_bytes,
        len(entries),
        None,
        0,
        blobs_of([key.encode("utf-8", "surrogateescape") for key, _ in entries], first),
        blobs_of([value for _, value in entries], first, offset_bytes),
    )
