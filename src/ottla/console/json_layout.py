"""JSON laid out for people, with the numbers, the names and their order as they were written."""

from __future__ import annotations

import json


def json_with_line_breaks(text: str) -> str | None:
    """JSON with line breaks; None for a text that is no JSON, or is nested too deeply."""
    try:
        found = json.loads(
            text, parse_float=_Verbatim, parse_int=_Verbatim, object_pairs_hook=_Pairs
        )
        return _laid_out(found, "")
    except (ValueError, RecursionError):
        return None


class _Verbatim(str):
    """A number as it is written."""


class _Pairs(list[tuple[str, object]]):
    """An object with all of its names, in their order."""


def _laid_out(value: object, indent: str) -> str:
    inner = f"{indent}  "
    match value:
        case _Verbatim():
            return str(value)
        case _Pairs() if value:
            rows = [
                f"{inner}{json.dumps(name, ensure_ascii=False)}: {_laid_out(each, inner)}"
                for name, each in value
            ]
            return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
        case _Pairs():
            return "{}"
        case list() if value:
            rows = [f"{inner}{_laid_out(each, inner)}" for each in value]
            return "[\n" + ",\n".join(rows) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=False)
