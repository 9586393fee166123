"""The differences between two JSON Schemas because of which a document of the old one may not be valid for the new one.

The rules and their names are those of Confluent's registry (policy STRICT). Where Confluent's rules look away and a
document could become invalid, this registry refuses: a `type` that is added, keywords that are not compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, Final

from ottla.schemas.compatibility.json_nodes import JsonNode
from ottla.schemas.compatibility.parsed_schema import Budget, Incompatibility, SchemaTooComplexError

_MAX_COMPARISON_DEPTH: Final = 150

_ADDED: Final = (
    "The keyword at path '{path}' in the {reader} schema is not present in the {writer} schema"
)
_INCREASED: Final = "The value at path '{path}' in the {reader} schema is more than its value in the {writer} schema"
_DECREASED: Final = "The value at path '{path}' in the {reader} schema is less than its value in the {writer} schema"
_CHANGED: Final = "The value at path '{path}' is different between the {reader} and {writer} schema"
_NARROWED: Final = (
    "An array or combined type at path '{path}' has fewer elements in the {reader} schema than the {writer} "
    "schema"
)
_EXTENDED: Final = (
    "An array or combined type at path '{path}' has more elements in the {reader} schema than the {writer} "
    "schema"
)
_OTHER_TYPE: Final = (
    "A type at path '{path}' is different between the {reader} schema and the {writer} schema"
)
_ADDED_TO_OPEN: Final = (
    "The {reader} schema has an open content model and has a property or item at path '{path}' "
    "which is missing in the {writer} schema"
)
_REQUIRED_ADDED: Final = (
    "The {reader} schema has an unopen content model and has a required property at path '{path}' "
    "which is missing in the {writer} schema"
)
_REMOVED_FROM_CLOSED: Final = (
    "The {reader} has a closed content model and is missing a property or item present at path '{path}' "
    "in the {writer} schema"
)
_REMOVED_UNCOVERED: Final = (
    "A property or item is missing in the {reader} schema but present at path '{path}' in the {writer} schema "
    "and is not covered by its partially open content model"
)
_ADDED_UNCOVERED: Final = (
    "The {reader} schema has a property or item at path '{path}' which is missing in the {writer} schema "
    "and is not covered by its partially open content model"
)

Problems = Iterator[Incompatibility]


class Comparison:
    """Compares the schemas of two documents; `old` has written what `new` reads."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        # Pairs that are compared already, or are just now: a recursive pair is as good as the rest of it.
        self._seen: set[tuple[int, int]] = set()
        self._depth = 0

    def compare(self, old: JsonNode, new: JsonNode) -> list[Incompatibility]:
        """All differences that matter, from the root on."""
        return list(self._compare(old, new, "#"))

    def _compare(self, old: JsonNode | None, new: JsonNode | None, path: str) -> Problems:
        self._budget.spend()
        if new is None or new.kind == "empty":
            return
        if old is None:
            yield _problem("SCHEMA_ADDED", _ADDED, path)
            return
        pair = (id(old), id(new))
        if pair in self._seen:
            return
        self._seen.add(pair)
        if self._depth > _MAX_COMPARISON_DEPTH:
            raise SchemaTooComplexError("the schemas are nested too deeply to be compared")
        self._depth += 1
        yield from self._kinds(old, new, path)
        self._depth -= 1

    def _is_compatible(self, old: JsonNode, new: JsonNode) -> bool:
        """Try a comparison that may fail; a failed one leaves nothing behind that looks compared."""
        self._budget.spend(1 + len(self._seen) // 16)
        attempt = Comparison(self._budget)
        attempt._seen = set(self._seen)
        attempt._depth = self._depth
        if next(attempt._compare(old, new, ""), None) is not None:
            return False
        self._seen = attempt._seen
        return True

    def _kinds(self, old: JsonNode, new: JsonNode, path: str) -> Problems:
        if old.kind == "false" or new.kind == "empty":
            return
        if self._is_covered_by_union(old, new) or self._covers_part_of_product(old, new):
            return
        if old.kind != new.kind:
            yield _problem("TYPE_CHANGED", _OTHER_TYPE, path)
            return
        if new.is_strict and not old.is_strict:
            yield _problem("TYPE_NARROWED", _OTHER_TYPE, f"{path}/type")
        comparison = _COMPARISONS.get(old.kind)
        if comparison is not None:
            yield from comparison(self, old, new, path)

    def _is_covered_by_union(self, old: JsonNode, new: JsonNode) -> bool:
        if old.kind == "combined" or new.kind != "combined":
            return False
        if len(new.parts) > 1 and new.criterion == "all":
            return False
        return any(self._is_compatible(old, part) for part in new.parts)

    def _covers_part_of_product(self, old: JsonNode, new: JsonNode) -> bool:
        if old.kind != "combined" or new.kind == "combined":
            return False
        if len(old.parts) > 1 and old.criterion != "all":
            return False
        return any(self._is_compatible(part, new) for part in old.parts)

    # Values

    def _limits(
        self, old: JsonNode, new: JsonNode, path: str, uppers: str, lowers: str
    ) -> Problems:
        for keyword in uppers.split():
            yield from _upper(keyword, _limit(old, keyword), _limit(new, keyword), path)
        for keyword in lowers.split():
            yield from _lower(keyword, _limit(old, keyword), _limit(new, keyword), path)

    def _strings(self, old: JsonNode, new: JsonNode, path: str) -> Problems:
        yield from self._limits(old, new, path, "maxLength", "minLength")
        pattern = new.schema.get("pattern")
        if pattern is not None and pattern != old.schema.get("pattern"):
            if "pattern" in old.schema:
                yield _problem("PATTERN_CHANGED", _CHANGED, f"{path}/pattern")
            else:
                yield _problem("PATTERN_ADDED", _ADDED, f"{path}/pattern")

    def _numbers(self, old: JsonNode, new: JsonNode, path: str) -> Problems:
        yield from self._limits(
            old, new, path, "maximum exclusiveMaximum", "minimum exclusiveMinimum"
        )
        yield from _multiples(old, new, path)
        if new.schema.get("type") == "integer" and old.schema.get("type") != "integer":
            yield _problem("TYPE_NARROWED", _OTHER_TYPE, path)

    def _enums(self, old: JsonNode, new: JsonNode, path: str) -> Problems:
        before, after = old.schema["enum"], new.schema["enum"]
        self._budget.spend(len(before) * len(after) // 64)
        if all(_contains(after, value) for value in before):
            return
        if all(_contains(before, value) for value in after):
            yield _problem("ENUM_ARRAY_NARROWED", _NARROWED, f"{path}/enum")
        else:
            yield _problem("ENUM_ARRAY_CHANGED", _OTHER_TYPE, f"{path}/enum")

    def _constants(self, old: JsonNode, new: JsonNode, path: str) -> Problems:
        if not _same(old.schema["const"], new.schema["const"]):
            yield _problem("ENUM_ARRAY_CHANGED", _OTHER_TYPE, f"{path}/const")

    # Combinations

    def _combinations(self, old: JsonNode, new: JsonNode, path: str) -> Problems:
        before, after = _distinct(old), _distinct(new)
        if not _criterion_fits(old, new, len(before), len(after)):
            yield _problem("COMBINED_TYPE_CHANGED", _OTHER_TYPE, path)
            return
        if len(before) < len(after) and new.criterion == "all":
            yield _problem("PRODUCT_TYPE_EXTENDED", _EXTENDED, path)
        if len(before) > len(after) and old.criterion != "all":
            yield _problem("SUM_TYPE_NARROWED", _NARROWED, path)
        edges = [
            [index for index, part in enumerate(after) if self._is_compatible(each, part)]
            for each in before
        ]
        if _matching_size(edges) < min(len(before), len(after)):
            yield _problem("COMBINED_TYPE_SUBSCHEMAS_CHANGED", _OTHER_TYPE, path)

    def _negations(self, old: JsonNode, new: JsonNode, path: str) -> Problems:
        before, after = old.optional("not"), new.optional("not")
        assert before is not None
        assert after is not None
        # The directions are exchanged, so that what was assumed of pairs on the way here does not count.
        reverse = Comparison(self._budget)
        reverse._depth = self._depth
        if next(reverse._compare(after, before, path), None) is not None:
            yield _problem("NOT_TYPE_EXTENDED", _EXTENDED, f"{path}/not")

    def _conditions(self, old: JsonNode, new: JsonNode, path: str) -> Problems:
        yield from self._unchanged(old, new, path, "if then else")

    def _unchanged(self, old: JsonNode, new: JsonNode, path: str, keywords: str) -> Problems:
        """Keywords that are not compared: what is new or different may refuse documents."""
        for keyword in keywords.split():
            if keyword not in new.schema:
                continue
            if keyword not in old.schema:
                yield _problem("KEYWORD_ADDED", _ADDED, f"{path}/{keyword}")
            elif not _same(old.schema[keyword], new.schema[keyword]):
                yield _problem("KEYWORD_CHANGED", _CHANGED, f"{path}/{keyword}")

    # Objects

    def _objects(self, old: JsonNode, new: JsonNode, path: str) -> Problems:
        yield from self._required(old, new, path)
        yield from self._properties(old, new, path)
        yield from self._dependencies(old, new, path)
        yield from self._additional(old, new, path, "additionalProperties", "ADDITIONAL_PROPERTIES")
        yield from self._unevaluated(
            old, new, path, "unevaluatedProperties", "UNEVALUATED_PROPERTIES"
        )
        yield from self._limits(old, new, path, "maxProperties", "minProperties")
        yield from self._patterns(old, new, path)
        yield from self._unchanged(old, new, path, "propertyNames")

    def _required(self, old: JsonNode, new: JsonNode, path: str) -> Problems:
        before, after = old.schema.get("required", ()), new.schema.get("required", ())
        old_properties, new_properties = old.named("properties"), new.named("properties")
        for name in after if isinstance(after, list) else ():
            if name in before or (name in new_properties and name not in old_properties):
                continue
            schema = new_properties[name].schema if name in new_properties else {}
            if "default" not in schema:
                yield _problem("REQUIRED_ATTRIBUTE_ADDED", _ADDED, f"{path}/required/{name}")

    def _properties(self, old: JsonNode, new: JsonNode, path: str) -> Problems:
        before, after = old.named("properties"), new.named("properties")
        for name, node in before.items():
            place = f"{path}/properties/{name}"
            if name in after:
                yield from self._compare(node, after[name], place)
            else:
                yield from self._removed(node, new, name, place)
        for name, node in after.items():
            if name not in before:
                yield from self._added(old, new, name, node, f"{path}/properties/{name}")

    def _removed(self, node: JsonNode, new: JsonNode, name: str, path: str) -> Problems:
        if _is_open_object(new):
            return
        cover = _partial_object(new, name)
        if cover is None:
            if node.kind != "false":
                yield _problem(
                    "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", _REMOVED_FROM_CLOSED, path
                )
        elif not self._is_compatible(node, cover):
            yield _problem(
                "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
                _REMOVED_UNCOVERED,
                path,
            )

    def _added(
        self, old: JsonNode, new: JsonNode, name: str, node: JsonNode, path: str
    ) -> Problems:
        is_required = name in new.schema.get("required", ())
        if _is_open_object(old):
            if node.kind != "empty":
                kind = "REQUIRED" if is_required else "OPTIONAL"
                error = f"{kind}_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"
                yield _problem(error, _ADDED_TO_OPEN, path)
                return
        else:
            cover = _partial_object(old, name)
            if cover is not None and not self._is_compatible(cover, node):
                yield _problem(
                    "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
                    _ADDED_UNCOVERED,
                    path,
                )
        was_required = name in old.schema.get("required", ())
        if is_required and not was_required and "default" not in node.schema:
            yield _problem("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", _REQUIRED_ADDED, path)

    def _dependencies(self, old: JsonNode, new: JsonNode, path: str) -> Problems:
        before, after = _array_dependencies(old), _array_dependencies(new)
        for name, needed in after.items():
            place = f"{path}/dependencies/{name}"
            if name not in before:
                yield _problem("DEPENDENCY_ARRAY_ADDED", _ADDED, place)
            elif not needed <= before[name]:
                error = "EXTENDED" if before[name] <= needed else "CHANGED"
                text = _EXTENDED if before[name] <= needed else _CHANGED
                yield _problem(f"DEPENDENCY_ARRAY_{error}", text, place)
        old_schemas = old.named("dependencies") | old.named("dependentSchemas")
        for name, node in (new.named("dependencies") | new.named("dependentSchemas")).items():
            place = f"{path}/dependencies/{name}"
            if name not in old_schemas:
                yield _problem("DEPENDENCY_SCHEMA_ADDED", _ADDED, place)
            else:
                yield from self._compare(old_schemas[name], node, place)

    def _additional(
        self, old: JsonNode, new: JsonNode, path: str, keyword: str, error: str
    ) -> Problems:
        before, after = old.schema.get(keyword, True), new.schema.get(keyword, True)
        place = f"{path}/{keyword}"
        if before is False or after is True:
            return
        if after is False:
            yield _problem(f"{error}_REMOVED", _ADDED, place)
        elif before is True:
            if new.sub(after).kind != "empty":
                yield _problem(f"{error}_NARROWED", _NARROWED, place)
        else:
            yield from self._compare(old.sub(before), new.sub(after), place)

    def _unevaluated(
        self, old: JsonNode, new: JsonNode, path: str, keyword: str, error: str
    ) -> Problems:
        if keyword not in old.schema and keyword not in new.schema:
            return
        # What counts as evaluated depends on the schemas around: only the same model beside it will do.
        yield from self._additional(old, new, path, keyword, error)
        if keyword in new.schema and keyword in old.schema and new.schema[keyword] is not True:
            yield from self._unchanged_neighbours(old, new, path)

    def _unchanged_neighbours(self, old: JsonNode, new: JsonNode, path: str) -> Problems:
        for keyword in ("allOf", "anyOf", "oneOf", "if", "$ref"):
            if not _same(old.schema.get(keyword), new.schema.get(keyword)):
                yield _problem("KEYWORD_CHANGED", _CHANGED, f"{path}/{keyword}")

    def _patterns(self, old: JsonNode, new: JsonNode, path: str) -> Problems:
        before = old.named("patternProperties")
        for pattern, node in new.named("patternProperties").items():
            place = f"{path}/patternProperties/{pattern}"
            if pattern in before:
                yield from self._compare(before[pattern], node, place)
            elif node.kind != "empty":
                yield _problem("KEYWORD_ADDED", _ADDED, place)
        # Without the pattern, what matched it falls under the additional properties.
        if new.schema.get("additionalProperties", True) is not True:
            kept = new.named("patternProperties")
            for pattern, node in before.items():
                cover = new.optional("additionalProperties")
                if pattern not in kept and cover is not None:
                    yield from self._compare(node, cover, f"{path}/patternProperties/{pattern}")

    # Arrays

    def _arrays(self, old: JsonNode, new: JsonNode, path: str) -> Problems:
        before, after = _items(old), _items(new)
        yield from self._compare(before.every, after.every, f"{path}/items")
        for index, (node, other) in enumerate(zip(before.first, after.first, strict=False)):
            yield from self._compare(node, other, f"{path}/items/{index}")
        for index in range(len(after.first), len(before.first)):
            yield from self._item_removed(before.first[index], after, f"{path}/items/{index}")
        for index in range(len(before.first), len(after.first)):
            yield from self._item_added(before, after.first[index], f"{path}/items/{index}")
        yield from self._additional_items(before, after, f"{path}/additionalItems")
        yield from self._unevaluated(old, new, path, "unevaluatedItems", "UNEVALUATED_ITEMS")
        yield from self._limits(old, new, path, "maxItems maxContains", "minItems minContains")
        if new.schema.get("uniqueItems") is True and old.schema.get("uniqueItems") is not True:
            yield _problem("UNIQUE_ITEMS_ADDED", _ADDED, f"{path}/uniqueItems")
        yield from self._unchanged(old, new, path, "contains")

    def _item_removed(self, node: JsonNode, after: _Items, path: str) -> Problems:
        if after.rest is None or after.rest.kind == "empty":
            return
        if after.rest.kind == "false":
            if node.kind != "false":
                yield _problem("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL", _REMOVED_FROM_CLOSED, path)
        elif not self._is_compatible(node, after.rest):
            yield _problem(
                "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", _REMOVED_UNCOVERED, path
            )

    def _item_added(self, before: _Items, node: JsonNode, path: str) -> Problems:
        if node.kind == "empty" or (before.rest is not None and before.rest.kind == "false"):
            return
        if before.rest is None or before.rest.kind == "empty":
            yield _problem("ITEM_ADDED_TO_OPEN_CONTENT_MODEL", _ADDED_TO_OPEN, path)
        elif not self._is_compatible(before.rest, node):
            yield _problem(
                "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", _ADDED_UNCOVERED, path
            )

    def _additional_items(self, before: _Items, after: _Items, path: str) -> Problems:
        if after.rest is None or after.rest.kind == "empty":
            return
        if before.rest is not None and before.rest.kind == "false":
            return
        if after.rest.kind == "false":
            yield _problem("ADDITIONAL_ITEMS_REMOVED", _ADDED, path)
        elif before.rest is None or before.rest.kind == "empty":
            yield _problem("ADDITIONAL_ITEMS_NARROWED", _NARROWED, path)
        else:
            yield from self._compare(before.rest, after.rest, path)


_COMPARISONS: Final[dict[str, Callable[[Comparison, JsonNode, JsonNode, str], Problems]]] = {
    "string": Comparison._strings,
    "number": Comparison._numbers,
    "enum": Comparison._enums,
    "const": Comparison._constants,
    "combined": Comparison._combinations,
    "not": Comparison._negations,
    "conditional": Comparison._conditions,
    "object": Comparison._objects,
    "array": Comparison._arrays,
}


def _problem(error_type: str, text: str, path: str) -> Incompatibility:
    return Incompatibility(error_type, text.replace("{path}", path))


# Values


def _same(first: Any, second: Any) -> bool:
    """Equal as JSON values: 1 and 1.0 are, 1 and true are not."""
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(
            _same(value, second[name]) for name, value in first.items()
        )
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(_same, first, second))
    return bool(first == second)


def _contains(values: list[Any], value: Any) -> bool:
    return any(_same(each, value) for each in values)


def _limit(node: JsonNode, keyword: str) -> Decimal | None:
    value = node.schema.get(keyword)
    if keyword.startswith("exclusive"):
        # In draft 4 it is true, and `maximum` or `minimum` has the number.
        other = keyword.removeprefix("exclusive").lower()
        value = node.schema.get(other) if value is True else value
    elif node.schema.get(f"exclusive{keyword.capitalize()}") is True:
        value = None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return Decimal(repr(value))


def _upper(keyword: str, old: Decimal | None, new: Decimal | None, path: str) -> Problems:
    name = _constant_name(keyword)
    if new is not None and old is None:
        yield _problem(f"{name}_ADDED", _ADDED, f"{path}/{keyword}")
    elif new is not None and old is not None and new < old:
        yield _problem(f"{name}_DECREASED", _DECREASED, f"{path}/{keyword}")


def _lower(keyword: str, old: Decimal | None, new: Decimal | None, path: str) -> Problems:
    name = _constant_name(keyword)
    if new is not None and old is None:
        yield _problem(f"{name}_ADDED", _ADDED, f"{path}/{keyword}")
    elif new is not None and old is not None and new > old:
        yield _problem(f"{name}_INCREASED", _INCREASED, f"{path}/{keyword}")


def _constant_name(keyword: str) -> str:
    return re.sub("(?=[A-Z])", "_", keyword).upper()


def _multiples(old: JsonNode, new: JsonNode, path: str) -> Problems:
    before, after = _limit(old, "multipleOf"), _limit(new, "multipleOf")
    if after is None or before == after:
        return
    place = f"{path}/multipleOf"
    if before is None:
        yield _problem("MULTIPLE_OF_ADDED", _ADDED, place)
    elif after != 0 and before % after == 0:
        return
    elif before != 0 and after % before == 0:
        yield _problem("MULTIPLE_OF_EXPANDED", _INCREASED, place)
    else:
        yield _problem("MULTIPLE_OF_CHANGED", _CHANGED, place)


# Combinations


def _distinct(node: JsonNode) -> list[JsonNode]:
    """The parts of a combination, equal ones once."""
    parts: list[JsonNode] = []
    for part in node.parts:
        if not any(part is each for each in parts):
            parts.append(part)
    return parts


def _criterion_fits(old: JsonNode, new: JsonNode, old_size: int, new_size: int) -> bool:
    return (
        old.criterion == new.criterion
        or new.criterion == "any"
        or (old_size == 1 and (new_size == 1 or new.criterion == "one"))
        or (new_size == 1 and old.criterion == "all")
    )


def _matching_size(edges: list[list[int]]) -> int:
    """How many parts of the old combination can be paired with different parts of the new one."""
    owners: dict[int, int] = {}

    def place(index: int, tried: set[int]) -> bool:
        for other in edges[index]:
            if other not in tried:
                tried.add(other)
                if other not in owners or place(owners[other], tried):
                    owners[other] = index
                    return True
        return False

    return sum(place(index, set()) for index in range(len(edges)))


# Content models


def _is_open_object(node: JsonNode) -> bool:
    return (
        node.schema.get("additionalProperties", True) is True
        and not node.schema.get("patternProperties")
        and node.schema.get("unevaluatedProperties", True) is True
    )


def _partial_object(node: JsonNode, name: str) -> JsonNode | None:
    """The schema that a property without one of its own falls under."""
    for pattern, schema in node.named("patternProperties").items():
        if _finds(pattern, name):
            return schema
    if "additionalProperties" in node.schema:
        cover = node.optional("additionalProperties")
        return None if cover is None or cover.kind == "false" else cover
    cover = node.optional("unevaluatedProperties")
    if cover is None:
        return node.sub(True)
    return None if cover.kind == "false" else cover


def _finds(pattern: str, name: str) -> bool:
    # RE2 takes time in proportion to its input, whatever the pattern.
    import re2

    try:
        return re2.search(pattern, name) is not None
    except re2.error:
        return False


def _array_dependencies(node: JsonNode) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for keyword in ("dependencies", "dependentRequired"):
        given = node.schema.get(keyword)
        for name, needed in given.items() if isinstance(given, dict) else ():
            if isinstance(needed, list):
                found[name] = set(needed)
    return found


class _Items:
    """The schemas of an array's items: of each of the first ones and of the rest, or of every one."""

    def __init__(
        self, first: list[JsonNode], rest: JsonNode | None, every: JsonNode | None
    ) -> None:
        self.first = first
        self.rest = rest
        self.every = every


def _items(node: JsonNode) -> _Items:
    if isinstance(node.schema.get("prefixItems"), list):
        first = [node.sub(each) for each in node.schema["prefixItems"]]
        return _Items(first, node.optional("items"), None)
    given = node.schema.get("items")
    if isinstance(given, list):
        return _Items([node.sub(each) for each in given], node.optional("additionalItems"), None)
    return _Items([], None, node.optional("items"))
