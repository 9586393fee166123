"""Which records a search is for: `late`, `key = o-17`, `value.order.id = 7`, `header.trace contains 4bf`.

A filter names a field (key, value or header), for JSON perhaps a path into it, an operator and what is compared. Text
without these is looked for in keys, values and headers. `contains` ignores case; `matches` takes a regular expression
of RE2, which needs linear time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ottla.client.model import ConsumerRecord
from ottla.console.http.errors import bad_request
from ottla.console.records.json_paths import Segment, read_path, values_at
from ottla.console.records.json_values import json_text, read_json

MAX_FILTERS: Final = 20
MAX_PATTERN_CHARS: Final = 1000
PATTERN_MEMORY_BYTES: Final = 8 << 20
ADVICE: Final = (
    "write for example: late, key = o-17, value.order.id = 7, value.items[*].sku contains tea, "
    "header.trace exists, value matches ^A[0-9]+, value.amount >= 100, value = null"
)

_FIELD: Final = re.compile(r"(key|value|headers?)(?=[\s.\[=!<>~])")
_OPERATOR: Final = re.compile(r"\s*(==|!=|<=|>=|=|<|>|~|contains\b|matches\b|exists\b)\s*")
# One way only to read each text: with two, a long text that is no number takes time by the square of its length.
_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_NULL: Final = "null"

Texts = Callable[[ConsumerRecord, bool], Awaitable[str | None]]
"""Gives the text of a record's key (True) or value; None where there is none."""


class Operand(NamedTuple):
    """What is compared: its text, its number if it is one, and whether it stood in quotes."""

    text: str
    number: float | None = None
    is_quoted: bool = False

    @property
    def is_null(self) -> bool:
        """Whether it stands for what is not there."""
        return self.text == _NULL and not self.is_quoted


Test = Callable[[Any], bool]
"""Whether a value of JSON, a text or None passes."""


@dataclass(frozen=True)
class Filter:
    """One condition."""

    text: str
    fields: tuple[str, ...]
    path: tuple[Segment, ...]
    test: Test
    is_negated: bool = False
    needs_presence: bool = True
    """Whether what is not there fails, without being tested."""

    async def matches(self, record: ConsumerRecord, texts: Texts) -> bool:
        """Whether a record passes."""
        found = any([await self._passes(field, record, texts) for field in self.fields])
        return found is not self.is_negated

    async def _passes(self, field: str, record: ConsumerRecord, texts: Texts) -> bool:
        if field == "header":
            values: Iterable[Any] = _header_values(record, self.path)
        elif field == "header_names":
            values = [name for name, _ in record.headers]
        else:
            text = await texts(record, field == "key")
            values = [text] if not self.path else _values_of(text, self.path)
        return any(
            self.test(each) for each in values if each is not None or not self.needs_presence
        )


def _header_values(record: ConsumerRecord, path: tuple[Segment, ...]) -> Iterable[str | None]:
    name = path[0] if path else None
    for header, data in record.headers:
        if name is None or header == name:
            yield None if data is None else data.decode("utf-8", "backslashreplace")


def _values_of(text: str | None, path: tuple[Segment, ...]) -> list[Any]:
    if text is None:
        return []
    try:
        return list(values_at(read_json(text), path))
    except (ValueError, RecursionError):
        return []


def read_filters(texts: Iterable[str]) -> list[Filter]:
    """The filters of a query; a bad request says what is wrong with one."""
    given = [text.strip() for text in texts]
    wanted = [text for text in given if text]
    if len(wanted) > MAX_FILTERS:
        raise bad_request(f"a search has at most {MAX_FILTERS} filters")
    return [_read(text) for text in wanted]


def _read(text: str) -> Filter:
    try:
        return read_filter(text)
    except ValueError as error:
        raise bad_request(f"the filter {text!r}: {error}", ADVICE) from error


def read_filter(text: str) -> Filter:
    """One filter; ValueError says what is wrong with it."""
    field = _FIELD.match(text)
    if field is None:
        return _anywhere(text)
    path, at = read_path(text, field.end())
    operator = _OPERATOR.match(text, at)
    if operator is None:
        if path:
            place = text[:at]
            raise ValueError(
                f"after {place} comes =, !=, <, <=, >, >=, contains, matches or exists"
            )
        return _anywhere(text)
    name = "header" if field[1].startswith("header") else field[1]
    if name == "header" and path:
        # A header's name may have dots; its value is text.
        path = [".".join(str(each) for each in path)]
    return _condition(text, name, tuple(path), operator[1], text[operator.end() :].strip())


def _anywhere(text: str) -> Filter:
    needle = _operand(text).text.lower()
    return Filter(
        text,
        ("key", "value", "header", "header_names"),
        (),
        lambda found: needle in str(found).lower(),
    )


def _condition(
    text: str, field: str, path: tuple[Segment, ...], operator: str, rest: str
) -> Filter:
    if operator == "exists":
        if rest:
            raise ValueError("nothing follows exists")
        # A header without a value is there, and so is a field of JSON that is null.
        needs_presence = not path and field != "header"
        return Filter(text, (field,), path, lambda found: True, needs_presence=needs_presence)
    if not rest:
        raise ValueError(f"what is compared is missing after {operator}")
    if operator in ("~", "matches"):
        pattern = _pattern(_operand(rest).text if rest.startswith('"') else rest)
        return Filter(text, (field,), path, lambda found: pattern.search(_text(found)) is not None)
    operand = _operand(rest)
    if operator == "contains":
        needle = operand.text.lower()
        return Filter(text, (field,), path, lambda found: needle in _text(found).lower())
    if operator in ("=", "==", "!="):
        return Filter(
            text,
            (field,),
            path,
            lambda found: _is_equal(found, operand),
            is_negated=operator == "!=",
            needs_presence=False,
        )
    return Filter(text, (field,), path, _comparison(operator, operand))


def _operand(text: str) -> Operand:
    if text.startswith('"'):
        try:
            found = json.loads(text)
        except ValueError:
            raise ValueError(f"{text} has no end, or more than one text in quotes") from None
        return Operand(found, is_quoted=True)
    return Operand(text, float(text) if _NUMBER.fullmatch(text) else None)


def _text(found: Any) -> str:
    """A value of JSON as people write it: texts without quotes."""
    return found if isinstance(found, str) else json_text(found)


def _is_equal(found: Any, operand: Operand) -> bool:
    if found is None:
        return operand.is_null
    if isinstance(found, str):
        return found == operand.text
    if operand.is_quoted:
        return False
    if isinstance(found, int | float) and not isinstance(found, bool):
        return _text(found) == operand.text or found == operand.number
    if isinstance(found, bool):
        return _text(found) == operand.text
    try:
        return bool(found == read_json(operand.text))
    except (ValueError, RecursionError):
        return False


_COMPARE: Final[dict[str, Callable[[float, float], bool]]] = {
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
}


def _comparison(operator: str, operand: Operand) -> Test:
    number = operand.number
    if number is None:
        raise ValueError(f"{operator} compares numbers, and {operand.text!r} is none")
    compare = _COMPARE[operator]

    def test(found: Any) -> bool:
        if isinstance(found, bool):
            return False
        if isinstance(found, str):
            return _NUMBER.fullmatch(found) is not None and compare(float(found), number)
        return isinstance(found, int | float) and compare(found, number)

    return test


def _pattern(text: str) -> Any:
    if len(text) > MAX_PATTERN_CHARS:
        raise ValueError(f"a regular expression has at most {MAX_PATTERN_CHARS} characters")
    # Few searches need it.
    import re2

    options = re2.Options()
    options.max_mem = PATTERN_MEMORY_BYTES
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error as error:
        (reason,) = error.args
        words = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(f"the regular expression is not one of RE2: {words}") from error
