"""The query of a request as a dataclass: text, numbers, yes or no, choices, and lists of these."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeVar

from ottla.app.declarations.json_conversion import MismatchError
from ottla.console.http.errors import bad_request

Q = TypeVar("Q")

MAX_VALUE_CHARS: Final = 4096
MAX_TIME_MS: Final = (1 << 63) - 1
_YES: Final = {"true": True, "1": True, "false": False, "0": False}


def query_of(wanted: type[Q], given: Sequence[tuple[str, str]]) -> Q:
    """The query; a parameter that is unknown, malformed or missing is a bad request."""
    types_of = _types_of(wanted)  # type: ignore[arg-type]  # classes are hashable
    values: dict[str, Any] = {}
    for name, text in given:
        if name not in types_of:
            known = ", ".join(types_of) or "none"
            raise bad_request(f"the query parameter {name!r} is unknown", f"there are: {known}")
        if len(text) > MAX_VALUE_CHARS:
            raise bad_request(f"the query parameter {name!r} is too long")
        type_, is_list = types_of[name]
        try:
            value = _value_of(type_, text)
        except MismatchError as error:
            raise bad_request(f"the query parameter {name!r} is {error}") from error
        if is_list:
            values.setdefault(name, []).append(value)
        elif name in values:
            raise bad_request(f"the query parameter {name!r} is given twice")
        else:
            values[name] = value
    for field in dataclasses.fields(wanted):  # type: ignore[arg-type]
        has_default = (
            field.default is not dataclasses.MISSING
            or field.default_factory is not dataclasses.MISSING
        )
        if field.name not in values and not has_default:
            raise bad_request(f"the query parameter {field.name!r} is missing")
    return wanted(**values)


def check_times(since_ms: int | None, until_ms: int | None) -> None:
    """Raise ApiError unless both are times that the protocol has: below zero are its names of other places."""
    for name, at_ms in (("since_ms", since_ms), ("until_ms", until_ms)):
        if at_ms is not None and not 0 <= at_ms <= MAX_TIME_MS:
            raise bad_request(f"{name} is no time in milliseconds since 1970")


@cache
def _types_of(wanted: Any) -> Mapping[str, tuple[Any, bool]]:
    """The type of each parameter, and whether it may be repeated."""
    hints = typing.get_type_hints(wanted)
    found = {}
    for name, hint in hints.items():
        plain = _without_none(hint)
        is_list = typing.get_origin(plain) in (list, tuple)
        found[name] = (typing.get_args(plain)[0] if is_list else plain, is_list)
    return found


def _without_none(hint: Any) -> Any:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        others = [each for each in typing.get_args(hint) if each is not types.NoneType]
        assert len(others) == 1, f"{hint} is no type of a query parameter"
        return others[0]
    return hint


def _value_of(type_: Any, text: str) -> Any:
    if type_ is str:
        return text
    if type_ is bool:
        if text.lower() not in _YES:
            raise MismatchError(f"{text!r}: write true or false")
        return _YES[text.lower()]
    if type_ in (int, float):
        try:
            return type_(text)
        except ValueError:
            kind = "a whole number" if type_ is int else "a number"
            raise MismatchError(f"{text!r}: write {kind}") from None
    choices = typing.get_args(type_)
    if text not in choices:
        raise MismatchError(f"{text!r}: write one of {', '.join(map(str, choices))}")
    return text
