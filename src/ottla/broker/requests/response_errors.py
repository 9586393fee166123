"""Counting the errors of a response, wherever they are in it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

from ottla.wire.declare import fields_of

_INDENT = "    "
_NAME = "error_code"

# Adds the errors of a response to counts by code.
ErrorCounter = Callable[[Any, dict[int, int]], None]
# The same, with pauses.
PausingErrorCounter = Callable[[Any, dict[int, int]], Generator[None, None, None]]

_STEP_ELEMENTS = 256


_COUNTERS: dict[type[Any], ErrorCounter] = {}
_PAUSING_COUNTERS: dict[type[Any], PausingErrorCounter] = {}


def error_counter_of(response: type[Any]) -> ErrorCounter:
    """The function that counts the errors of a kind of response."""
    found = _COUNTERS.get(response)
    if found is None:
        found = _COUNTERS[response] = _compiled(response)
    return found


def pausing_error_counter_of(response: type[Any]) -> PausingErrorCounter:
    """As `error_counter_of`, for responses that may be large."""
    found = _PAUSING_COUNTERS.get(response)
    if found is None:
        found = _PAUSING_COUNTERS[response] = _compiled(response, _PAUSE)
    return found


def _compiled(response: type[Any], pause: Sequence[str] = ()) -> Any:
    """Straight-line loops over every place of an error code: they run for each answer."""
    lines = ["def count(m, counts):"]
    if pause:
        lines.append(f"{_INDENT}step = 0")
    if not _find(response, "m", 1, lines, pause):
        lines.append(f"{_INDENT}pass")
    if pause:
        lines.append(f"{_INDENT}yield")
    names: dict[str, Any] = {}
    exec(compile("\n".join(lines), f"<errors of {response.__name__}>", "exec"), names)
    return names["count"]


_PAUSE = ("step += 1", f"if not step % {_STEP_ELEMENTS}: yield")


def _find(cls: type, source: str, depth: int, lines: list[str], pause: Sequence[str]) -> bool:
    """Adds the lines for one class; False if there are no errors in it."""
    indent = _INDENT * depth
    has_errors = False
    for field in fields_of(cls):
        value = f"{source}.{field.name}"
        element = field.type.element
        if field.name.endswith(_NAME) and not field.type.is_list:
            lines.append(f"{indent}if {value}: counts[{value}] = counts.get({value}, 0) + 1")
            has_errors = True
        elif isinstance(element, type):
            inner = f"m{depth}"
            body: list[str] = []
            if not _find(element, inner, depth + 1, body, pause):
                continue
            has_errors = True
            each = value if field.type.is_list else f"({value},)"
            lines.append(f"{indent}for {inner} in {each} or ():")
            lines += [f"{indent}{_INDENT}{line}" for line in pause]
            lines.append(f"{indent}{_INDENT}if {inner} is None: continue")
            lines += body
    return has_errors
