"""Paths into JSON: `.order.id`, `.items[0].sku`, `.items[*].sku`, `["any name"]`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

MAX_SEGMENTS: Final = 32
_SEGMENT: Final = re.compile(
    r"""
      \.(?P<name>[^\s.\[\]=!<>~"]+)
    | \[(?P<index>-?\d{1,9})\]
    | \[(?P<each>\*)\]
    | \[(?P<quoted>"(?:[^"\\]|\\.)*")\]
    """,
    re.VERBOSE,
)


class Each(NamedTuple):
    """All elements of a list or values of an object."""


EACH: Final = Each()
Segment = str | int | Each


def read_path(text: str, at: int) -> tuple[list[Segment], int]:
    """The segments that begin at a place of a text, and where they end; ValueError if there are too many."""
    segments: list[Segment] = []
    while (found := _SEGMENT.match(text, at)) is not None:
        segments.append(_segment(found))
        at = found.end()
        if len(segments) > MAX_SEGMENTS:
            raise ValueError(f"a path has at most {MAX_SEGMENTS} parts")
    return segments, at


def _segment(found: re.Match[str]) -> Segment:
    if found["each"]:
        return EACH
    if found["index"] is not None:
        return int(found["index"])
    return str(json.loads(found["quoted"])) if found["quoted"] else found["name"]


def values_at(value: Any, path: Sequence[Segment]) -> Iterator[Any]:
    """The values that a path leads to: none, one, or several."""
    if not path:
        yield value
        return
    segment, rest = path[0], path[1:]
    if isinstance(segment, Each):
        inner = value.values() if isinstance(value, dict) else value
        if isinstance(value, dict | list):
            for each in inner:
                yield from values_at(each, rest)
    elif isinstance(segment, int):
        if isinstance(value, list) and -len(value) <= segment < len(value):
            yield from values_at(value[segment], rest)
    elif isinstance(value, dict) and segment in value:
        yield from values_at(value[segment], rest)
