"""Decoded values as the text of JSON, whatever they are made of."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final

MAX_DIGITS: Final = 4_000


def check_json(text: str | bytes) -> None:
    """ValueError or RecursionError if the text is no JSON. Numbers may have any size: they are not read."""
    json.loads(text, parse_int=_ignore, parse_float=_ignore, parse_constant=_refuse)


def read_json(text: str) -> Any:
    """The value of a text of JSON. Of whole numbers, those with thousands of digits become floats."""
    return json.loads(text, parse_int=_whole_number)


def _whole_number(digits: str) -> int | float:
    # Python refuses to convert more: it takes quadratic time.
    return int(digits) if len(digits) <= MAX_DIGITS else float(digits)


def _ignore(number: str) -> None:
    """A number that is not needed."""


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no number of JSON")


def json_text(value: object) -> str:
    """The value as JSON on one line: bytes as {"base64": …}, numbers that JSON lacks and what is unknown as text."""
    try:
        text = json.dumps(
            value, ensure_ascii=False, allow_nan=False, default=_plain, separators=(",", ":")
        )
    except (ValueError, TypeError):
        text = json.dumps(_with_names(value), ensure_ascii=False, separators=(",", ":"))
    return whole_characters(text)


def whole_characters(text: str) -> str:
    """The text with halves of surrogate pairs, which UTF-8 does not have, as the escapes that JSON has for them."""
    return text.encode("utf-8", "backslashreplace").decode()


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return {"base64": b64encode(value).decode()}
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    if callable(getattr(value, "isoformat", None)):
        return value.isoformat()
    return str(value)


def _with_names(value: Any) -> Any:
    """Without numbers that JSON lacks, and without keys that are no text."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {str(name): _with_names(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_with_names(each) for each in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return _with_names(_plain(value))
