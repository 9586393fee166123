"""Which JSON Schemas a value is checked by: some take longer than anybody lives, for a value of a line.

Regular expressions are Python's, which may need exponential time, and so may a schema that refers to itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

MAX_SCHEMA_CHARS: Final = 200_000
# Schemas in a schema, each counted wherever it is referred to.
MAX_PARTS: Final = 2_000
_SLOW: Final = frozenset(
    {
        "pattern",
        "patternProperties",
        "propertyNames",
        "uniqueItems",
        "unevaluatedItems",
        "unevaluatedProperties",
        "$dynamicRef",
        "$recursiveRef",
    }
)
# Keywords whose values hold schemas by names that are no keywords.
_BY_NAME: Final = frozenset(
    {"properties", "definitions", "$defs", "dependencies", "dependentSchemas"}
)
# What is in these is data, and what is only referred to is counted where it is.
_NO_SCHEMAS: Final = frozenset({"enum", "const", "default", "examples", "definitions", "$defs"})


class _TooMuchError(Exception):
    """A schema may take too long."""


def is_checked_soon(text: str) -> bool:
    """Whether checks by this schema certainly end soon."""
    if len(text) > MAX_SCHEMA_CHARS:
        return False
    try:
        schema = json.loads(text)
        _Count(schema).add(schema, ())
    except (ValueError, RecursionError, _TooMuchError):
        return False
    return True


class _Count:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._count = 0

    def add(self, schema: Any, referred: tuple[str, ...]) -> None:
        """Count a schema with all that it refers to."""
        self._count += 1
        if self._count > MAX_PARTS:
            raise _TooMuchError
        if isinstance(schema, list):
            for each in schema:
                self.add(each, referred)
        if not isinstance(schema, dict):
            return
        if not _SLOW.isdisjoint(schema):
            raise _TooMuchError
        reference = schema.get("$ref")
        if reference is not None:
            if reference in referred or not isinstance(reference, str):
                raise _TooMuchError
            self.add(self._place(reference), (*referred, reference))
        for part in _parts(schema):
            self.add(part, referred)

    def _place(self, reference: str) -> Any:
        """What a reference within the schema means; those to elsewhere are not followed."""
        place = self._root
        if not reference.startswith("#/"):
            raise _TooMuchError
        for name in reference[2:].split("/"):
            if not isinstance(place, dict) or name not in place:
                raise _TooMuchError
            place = place[name]
        return place


def _parts(schema: Mapping[str, Any]) -> Iterator[Any]:
    for name, value in schema.items():
        if name in _NO_SCHEMAS:
            continue
        if name in _BY_NAME and isinstance(value, dict):
            yield from value.values()
        else:
            yield value
