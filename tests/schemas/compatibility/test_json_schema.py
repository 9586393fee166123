"""JSON Schema: Confluent's rules by example, and their meaning by random documents (jsonschema is the judge)."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ottla.schemas.compatibility.json_schema import parse_json_schema
from ottla.schemas.compatibility.parsed_schema import (
    Budget,
    ReferencedSchema,
    SchemaError,
    SchemaTooComplexError,
)


def problems(new: Any, old: Any) -> list[str]:
    found = parse_json_schema(json.dumps(new)).problems_reading(
        parse_json_schema(json.dumps(old)), Budget()
    )
    return [each.error_type for each in found]


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def opened(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


S, INT, N = {"type": "string"}, {"type": "integer"}, {"type": "number"}


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        (N, INT, []),
        (INT, N, ["TYPE_NARROWED"]),
        (S, INT, ["TYPE_CHANGED"]),
        ({"type": ["string", "null"]}, S, []),
        (S, {"type": ["string", "null"]}, ["TYPE_CHANGED"]),
        (True, S, []),
        (S, True, ["TYPE_CHANGED"]),
        (S, False, []),
        ({**S, "maxLength": 5}, S, ["MAX_LENGTH_ADDED"]),
        ({**S, "maxLength": 5}, {**S, "maxLength": 9}, ["MAX_LENGTH_DECREASED"]),
        ({**S, "maxLength": 9}, {**S, "maxLength": 5}, []),
        ({**S, "minLength": 9}, {**S, "minLength": 5}, ["MIN_LENGTH_INCREASED"]),
        ({**S, "pattern": "a"}, {**S, "pattern": "b"}, ["PATTERN_CHANGED"]),
        ({**INT, "multipleOf": 2}, {**INT, "multipleOf": 4}, []),
        ({**INT, "multipleOf": 4}, {**INT, "multipleOf": 2}, ["MULTIPLE_OF_EXPANDED"]),
        ({**INT, "exclusiveMaximum": 3}, {**INT, "exclusiveMaximum": 5}, ["EXCLUSIVE_MAXIMUM_DECREASED"]),
        ({"enum": [1, 2]}, {"enum": [1]}, []),
        ({"enum": [1]}, {"enum": [1, 2]}, ["ENUM_ARRAY_NARROWED"]),
        ({"const": 1}, {"const": True}, ["ENUM_ARRAY_CHANGED"]),
        ({"not": {**S, "maxLength": 3}}, {"not": {**S, "maxLength": 5}}, []),
        ({"not": {**S, "maxLength": 5}}, {"not": {**S, "maxLength": 3}}, ["NOT_TYPE_EXTENDED"]),
        (closed(a=S, b=S), closed(a=S), []),
        (closed(a=S), closed(a=S, b=S), ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"]),
        (opened(a=S), opened(a=S, b=S), []),
        (opened(a=S, b=S), opened(a=S), ["OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"]),
        (opened(a=S, b=True), opened(a=S), []),
        ({**closed(a=S), "required": ["a"]}, closed(a=S), ["REQUIRED_ATTRIBUTE_ADDED"]),
        ({**closed(a={**S, "default": "x"}), "required": ["a"]}, closed(a=S), []),
        ({**closed(a=S, b=S), "required": ["b"]}, closed(a=S), ["REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"]),
        ({**opened(), "required": ["z"]}, opened(), ["REQUIRED_ATTRIBUTE_ADDED"]),
        (closed(a=S), opened(a=S), ["ADDITIONAL_PROPERTIES_REMOVED"]),
        ({**opened(a=S), "additionalProperties": S}, closed(a=S), []),
        ({**opened(), "additionalProperties": S}, closed(a=S), []),
        ({**opened(), "additionalProperties": INT}, closed(a=S),
         ["PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"]),
        ({"type": "array", "items": N}, {"type": "array", "items": INT}, []),
        ({"type": "array", "uniqueItems": True}, {"type": "array"}, ["UNIQUE_ITEMS_ADDED"]),
        ({"anyOf": [S, INT]}, {"anyOf": [S]}, []),
        ({"anyOf": [S]}, {"anyOf": [S, INT]}, ["SUM_TYPE_NARROWED"]),
        ({"allOf": [S, {**S, "maxLength": 2}]}, {"allOf": [S]}, ["PRODUCT_TYPE_EXTENDED"]),
        ({"allOf": [S]}, {"anyOf": [S, INT]}, ["COMBINED_TYPE_CHANGED"]),
        ({"anyOf": [S, INT]}, {"oneOf": [INT, S]}, []),
        ({"type": "string", "enum": ["a"]}, S, ["TYPE_CHANGED"]),
        (S, {"type": "string", "enum": ["a"]}, []),
        ({"type": "string", "maxLength": 3}, {"maxLength": 3}, ["TYPE_NARROWED"]),
        ({**opened(), "propertyNames": S}, opened(), ["KEYWORD_ADDED"]),
        ({**S, "title": "T", "description": "d", "default": "x"}, S, []),
    ],
)  # fmt: skip
def test_rules(new: Any, old: Any, expected: list[str]) -> None:
    assert problems(new, old) == expected


def test_recursive_schemas_end() -> None:
    def tree(value: Any) -> dict[str, Any]:
        return {**closed(value=value, next={"$ref": "#"}), "$id": "http://x/tree"}

    assert problems(tree(N), tree(INT)) == []
    assert problems(tree(INT), tree(N)) == ["TYPE_NARROWED"]
    union = {"anyOf": [S, {"type": "array", "items": {"$ref": "#"}}]}
    assert problems(union, union) == []


def test_references_are_resolved() -> None:
    item = ReferencedSchema("item.json", json.dumps(closed(n=INT)))
    text = json.dumps({"type": "array", "items": {"$ref": "item.json"}})
    parsed = parse_json_schema(text, [item])
    wider = ReferencedSchema("item.json", json.dumps(closed(n=N)))
    assert not parse_json_schema(text, [wider]).problems_reading(parsed, Budget())
    assert parsed.problems_reading(parse_json_schema(text, [wider]), Budget())
    with pytest.raises(SchemaError, match="not the name of a reference"):
        parse_json_schema(text)
    with pytest.raises(SchemaError, match="leads nowhere"):
        parse_json_schema('{"$ref": "#/definitions/x"}')
    with pytest.raises(SchemaTooComplexError, match="in a circle"):
        parse_json_schema('{"$ref": "#"}')


def test_the_text_is_kept_but_for_white_space() -> None:
    text = ' {"type" : "number",\n "maximum": 1.50e2, "title": "a  \\"b"} '
    assert parse_json_schema(text).canonical == (
        '{"type":"number","maximum":1.50e2,"title":"a  \\"b"}'
    )


@pytest.mark.parametrize("text", ["", "1", "[]", "{", '{"type": "what"}', '{"minLength": "x"}'])
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(SchemaError):
        parse_json_schema(text)


@given(st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["string", "#", "a"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["type", "$ref", "anyOf", "allOf", "items", "properties", "not", "enum", "$id"]),
        inner, max_size=3,
    ),
    max_leaves=8,
))  # fmt: skip
def test_every_value_is_a_schema_or_refused(value: Any) -> None:
    try:
        parsed = parse_json_schema(json.dumps(value))
        parsed.problems_reading(parsed, Budget())
    except SchemaError:
        return


# Random schemas and documents


def random_schema(rng: random.Random, depth: int) -> Any:
    kinds = ["string", "integer", "number", "boolean", "null", "true", "enum", "untyped"]
    if depth:
        kinds += ["object", "array", "tuple", "anyOf", "allOf", "not", "types", "object"]
    kind = rng.choice(kinds)
    inner = depth - 1
    schema: dict[str, Any] = {"type": kind}
    match kind:
        case "true":
            return rng.choice([True, {}])
        case "enum":
            return {"enum": rng.sample([1, "a", None, True, "bb"], rng.randint(1, 3))}
        case "untyped":
            return {rng.choice(["maximum", "maxLength"]): rng.randint(1, 4)}
        case "types":
            return {"type": rng.sample(["string", "integer", "null", "boolean"], 2)}
        case "anyOf" | "allOf":
            return {kind: [random_schema(rng, inner) for _ in range(rng.randint(1, 3))]}
        case "not":
            return {"not": random_schema(rng, inner)}
        case "string":
            limit(rng, schema, "maxLength", "minLength")
        case "integer" | "number":
            limit(rng, schema, "maximum", "minimum", "exclusiveMaximum", "multipleOf")
        case "array":
            schema["items"] = random_schema(rng, inner)
            limit(rng, schema, "maxItems", "minItems")
        case "tuple":
            schema["type"] = "array"
            schema["prefixItems"] = [random_schema(rng, inner) for _ in range(rng.randint(1, 2))]
            if rng.random() < 0.5:
                schema["items"] = rng.choice([False, random_schema(rng, inner)])
        case "object":
            names = rng.sample("abc", rng.randint(0, 3))
            schema["properties"] = {name: random_schema(rng, inner) for name in names}
            schema["required"] = [name for name in "abc" if rng.random() < 0.2]
            if rng.random() < 0.6:
                schema["additionalProperties"] = rng.choice([False, random_schema(rng, inner)])
            if rng.random() < 0.2:
                schema["patternProperties"] = {rng.choice(["^a", "c"]): random_schema(rng, inner)}
            limit(rng, schema, "maxProperties", "minProperties")
    return schema


def limit(rng: random.Random, schema: dict[str, Any], *keywords: str) -> None:
    for keyword in keywords:
        if rng.random() < 0.25:
            schema[keyword] = rng.randint(1, 4)


def changed(rng: random.Random, schema: Any, depth: int = 2) -> Any:
    if rng.random() < 0.05:
        return random_schema(rng, depth)
    if not isinstance(schema, dict):
        return schema
    made = dict(schema)
    for keyword, value in schema.items():
        chance = rng.random()
        if chance < 0.08 and keyword != "type":
            del made[keyword]
        elif isinstance(value, bool):
            made[keyword] = value if chance < 0.9 else not value
        elif isinstance(value, int):
            made[keyword] = max(value + rng.choice([-1, 0, 0, 1]), 1)
        elif keyword in ("anyOf", "allOf", "prefixItems"):
            made[keyword] = [changed(rng, each) for each in value]
            if chance < 0.2:
                made[keyword].append(random_schema(rng, 1))
        elif keyword in ("properties", "patternProperties"):
            made[keyword] = {name: changed(rng, each) for name, each in value.items()}
            if chance < 0.3 and keyword == "properties":
                made[keyword][rng.choice("abc")] = random_schema(rng, 1)
        elif keyword in ("items", "not", "additionalProperties"):
            made[keyword] = changed(rng, value)
        elif keyword == "required" and chance < 0.3:
            made[keyword] = [name for name in "abc" if rng.random() < 0.3]
        elif keyword == "enum" and chance < 0.3:
            made[keyword] = [*value, "new"]
    return made


def random_document(rng: random.Random, depth: int = 3) -> Any:
    kinds = ["text", "int", "float", "bool", "none"] + ["list", "dict", "dict"] * (depth > 0)
    match rng.choice(kinds):
        case "text":
            return rng.choice(["", "a", "bb", "ccc", "dddd"])
        case "int":
            return rng.randint(-1, 6)
        case "float":
            return rng.randint(-4, 12) / 2
        case "bool":
            return rng.random() < 0.5
        case "list":
            return [random_document(rng, depth - 1) for _ in range(rng.randint(0, 3))]
        case "dict":
            names = rng.sample("abcd", rng.randint(0, 3))
            return {name: random_document(rng, depth - 1) for name in names}
    return None


def check_documents(seeds: range, documents: int) -> None:
    """What is valid for the old schema is valid for the new one, if the new one is called compatible."""
    verdicts = Counter[str]()
    for seed in seeds:
        rng = random.Random(seed)
        old = random_schema(rng, 2)
        new = changed(rng, old)
        if problems(new, old):
            verdicts["incompatible"] += 1
            continue
        verdicts["compatible"] += 1
        before, after = Draft202012Validator(old), Draft202012Validator(new)
        for _ in range(documents):
            document = random_document(rng)
            if before.is_valid(document):
                verdicts["documents"] += 1
                assert after.is_valid(document), f"seed {seed}: {document} of {old} for {new}"
    assert verdicts["incompatible"] > len(seeds) / 20
    assert verdicts["documents"] > len(seeds)


def test_compatible_means_that_documents_stay_valid() -> None:
    check_documents(range(1_200), 12)


@pytest.mark.campaign
def test_compatible_means_that_documents_stay_valid_for_many_schemas() -> None:
    check_documents(range(50_000), 30)


def test_a_schema_is_compatible_with_itself() -> None:
    for seed in range(500):
        schema = random_schema(random.Random(seed), 3)
        assert problems(schema, schema) == [], f"seed {seed}: {schema}"
