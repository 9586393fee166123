"""Avro: the text of a schema, and what a reader can read; fastavro and the avro package are the judges."""

from __future__ import annotations

import io
import json
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import fastavro
import pytest
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from avro.schema import parse as parse_with_avro
from hypothesis import given
from hypothesis import strategies as st

from ottla.schemas.compatibility.avro_schema import parse_avro
from ottla.schemas.compatibility.parsed_schema import (
    Budget,
    ReferencedSchema,
    SchemaError,
    SchemaTooComplexError,
)

PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
DEFAULTS = {
    "null": None,
    "boolean": True,
    "int": 1,
    "long": 2,
    "float": 1.5,
    "double": 2.5,
    "bytes": "b",
    "string": "s",
}


def problems(reader: Any, writer: Any) -> list[str]:
    found = parse_avro(json.dumps(reader)).problems_reading(
        parse_avro(json.dumps(writer)), Budget()
    )
    return [each.error_type for each in found]


def record(*fields: Any, **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields), **more}


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


F = {"name": "f", "type": "int"}


@pytest.mark.parametrize(
    ("reader", "writer", "expected"),
    [
        ("long", "int", []),
        ("double", "long", []),
        ("string", "bytes", []),
        ("int", "long", ["TYPE_MISMATCH"]),
        (["null", "long"], "int", []),
        ("long", ["int", "long"], []),
        ("int", ["int", "long"], ["TYPE_MISMATCH"]),
        (["null", "int"], ["null", "string"], ["MISSING_UNION_BRANCH"]),
        (enum("A", "B"), enum("A"), []),
        (enum("A"), enum("A", "B"), ["MISSING_ENUM_SYMBOLS"]),
        (enum("A", default="A"), enum("A", "B"), []),
        (enum("A"), enum("A", name="Other"), ["NAME_MISMATCH"]),
        (enum("A", aliases=["Other"]), enum("A", name="Other"), []),
        (record(), record(F), []),
        (record(F), record(), ["READER_FIELD_MISSING_DEFAULT_VALUE"]),
        (record({**F, "default": 0}), record(), []),
        (record({"name": "g", "type": "int", "aliases": ["f"]}), record(F), []),
        (record(F), record({**F, "type": "string"}), ["TYPE_MISMATCH"]),
        (
            {"type": "fixed", "name": "X", "size": 2},
            {"type": "fixed", "name": "X", "size": 3},
            ["FIXED_SIZE_MISMATCH"],
        ),
        ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}, []),
        ({"type": "map", "values": "int"}, {"type": "map", "values": "long"}, ["TYPE_MISMATCH"]),
    ],
)
def test_rules_of_resolution(reader: Any, writer: Any, expected: list[str]) -> None:
    assert problems(reader, writer) == expected


def test_recursive_types_are_compared_once() -> None:
    tree = record({"name": "left", "type": ["null", "R"]}, F)
    longer = record({"name": "left", "type": ["null", "R"]}, {**F, "type": "long"})
    assert problems(longer, tree) == []
    assert problems(tree, longer) == ["TYPE_MISMATCH"]


def test_the_text_is_that_of_avro_for_java() -> None:
    text = """
    {"name": "Order", "namespace": "shop", "doc": "d", "aliases": ["Sale"], "type": "record", "owner": "x",
     "fields": [
        {"default": "A", "type": {"symbols": ["A"], "type": "enum", "name": "State"}, "name": "s", "order": "ignore"},
        {"type": {"type": "string"}, "name": "t", "doc": "t"},
        {"type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "name": "at", "default": null},
        {"type": "shop.State", "name": "u"}]}
    """
    assert parse_avro(text).canonical == (
        '{"type":"record","name":"Order","namespace":"shop","doc":"d","fields":['
        '{"name":"s","type":{"type":"enum","name":"State","symbols":["A"]},"default":"A","order":"ignore"},'
        '{"name":"t","type":"string","doc":"t"},'
        '{"name":"at","type":["null",{"type":"long","logicalType":"timestamp-millis"}],"default":null},'
        '{"name":"u","type":"State"}],"owner":"x","aliases":["Sale"]}'
    )


def test_types_of_references_stay_names() -> None:
    reference = ReferencedSchema("E", json.dumps(enum("A")))
    parsed = parse_avro('{"type": "array", "items": "E"}', [reference])
    assert parsed.canonical == '{"type":"array","items":"E"}'
    assert json.loads(parsed.formatted("resolved"))["items"]["symbols"] == ["A"]


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "{}",
        "1",
        '"Unknown"',
        '["int", "int"]',
        '["int", ["string"]]',
        '{"type": "record", "name": "R"}',
        '{"type": "record", "name": "1", "fields": []}',
        '{"type": "record", "name": "R", "fields": [{"name": "a"}]}',
        '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "default": "x"}]}',
        '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "a", "type": "int"}]}',
        '{"type": "enum", "name": "E", "symbols": ["A", "A"]}',
        '{"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}',
        '{"type": "fixed", "name": "F", "size": -1}',
        '{"type": "array"}',
    ],
)
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(SchemaError):
        parse_avro(text)


def test_depth_has_a_limit() -> None:
    with pytest.raises(SchemaTooComplexError):
        parse_avro('{"type":"array","items":' * 200 + '"int"' + "}" * 200)


# Random schemas, and versions of them that differ a little


def random_type(rng: random.Random, names: list[str], depth: int) -> Any:
    kinds = ["primitive"] * 4 + ["enum", "fixed", "array", "map", "union", "record"] * (depth > 0)
    match rng.choice(kinds):
        case "enum":
            symbols = rng.sample("ABCD", rng.randint(1, 4))
            more = {"default": symbols[0]} if rng.random() < 0.3 else {}
            return {"type": "enum", "name": new_name(rng, names), "symbols": symbols, **more}
        case "fixed":
            return {"type": "fixed", "name": new_name(rng, names), "size": rng.randint(1, 3)}
        case "array":
            return {"type": "array", "items": random_type(rng, names, depth - 1)}
        case "map":
            return {"type": "map", "values": random_type(rng, names, depth - 1)}
        case "union":
            records = [random_record(rng, names, depth - 1) for _ in range(rng.randint(0, 2))]
            return [*rng.sample(PRIMITIVES, rng.randint(1, 4)), *records]
        case "record":
            return random_record(rng, names, depth - 1)
    return rng.choice(PRIMITIVES)


def new_name(rng: random.Random, names: list[str]) -> str:
    names.append(f"T{len(names)}")
    return names[-1]


def random_record(rng: random.Random, names: list[str], depth: int) -> dict[str, Any]:
    name = new_name(rng, names)
    fields = []
    for number in range(rng.randint(0, 4)):
        made = {"name": f"f{number}", "type": random_type(rng, names, depth)}
        if isinstance(made["type"], str) and rng.random() < 0.5:
            made["default"] = DEFAULTS[made["type"]]
        fields.append(made)
    if rng.random() < 0.2:
        fields.append({"name": "again", "type": ["null", name], "default": None})
    return {"type": "record", "name": name, "fields": fields}


def changed_record(rng: random.Random, schema: Any) -> Any:
    """A branch of a union, which must not become equal to another one."""
    return changed(rng, schema) if isinstance(schema, dict) else schema


def changed(rng: random.Random, schema: Any) -> Any:
    """A schema with some changes, most of which leave it valid."""
    if rng.random() < 0.15 and isinstance(schema, str) and schema in PRIMITIVES:
        return rng.choice(PRIMITIVES)
    if isinstance(schema, list):
        kept = [changed_record(rng, each) for each in schema if rng.random() < 0.9] or schema
        more = [each for each in PRIMITIVES if each not in schema and rng.random() < 0.1]
        return [*kept, *more] if len(kept) > 1 or rng.random() < 0.9 else kept[0]
    if not isinstance(schema, dict):
        return schema
    made = dict(schema)
    if made["type"] == "enum":
        if rng.random() < 0.3 and len(made["symbols"]) > 1:
            made["symbols"] = [each for each in made["symbols"] if each != made["symbols"][-1]]
        if rng.random() < 0.2:
            made["symbols"] = [*made["symbols"], "Z"]
    for part in ("items", "values"):
        if part in made:
            made[part] = changed(rng, made[part])
    if "fields" in made:
        fields = []
        for each in made["fields"]:
            if rng.random() < 0.85:
                # A default has to fit the type.
                fields.append(
                    each if "default" in each else {**each, "type": changed(rng, each["type"])}
                )
        if rng.random() < 0.3:
            kind = rng.choice(PRIMITIVES)
            default = {"default": DEFAULTS[kind]} if rng.random() < 0.7 else {}
            fields.append({"name": "added", "type": kind, **default})
        made["fields"] = fields
    return made


def random_value(rng: random.Random, schema: Any, named: dict[str, Any], depth: int = 0) -> Any:
    if isinstance(schema, list):
        branch = "null" if depth > 4 and "null" in schema else rng.choice(schema)
        return random_value(rng, branch, named, depth + 1)
    if isinstance(schema, str) and schema in named:
        schema = named[schema]
    kind = schema if isinstance(schema, str) else schema["type"]
    if isinstance(schema, dict) and "name" in schema:
        named[schema["name"]] = schema
    match kind:
        case "null":
            return None
        case "boolean":
            return rng.random() < 0.5
        case "int" | "long":
            return rng.randint(-100, 100)
        case "float" | "double":
            return rng.randint(-8, 8) / 4
        case "bytes":
            return bytes(rng.choices(b"abc", k=rng.randint(0, 3)))
        case "string":
            return "".join(rng.choices("abc", k=rng.randint(0, 3)))
        case "enum":
            return rng.choice(schema["symbols"])
        case "fixed":
            return bytes(rng.choices(b"abc", k=schema["size"]))
        case "array":
            size = rng.randint(0, 2)
            return [random_value(rng, schema["items"], named, depth + 1) for _ in range(size)]
        case "map":
            return {"k": random_value(rng, schema["values"], named, depth + 1)}
    return {
        each["name"]: random_value(rng, each["type"], named, depth + 1) for each in schema["fields"]
    }


def pairs(count: int) -> Iterator[tuple[int, random.Random, Any, Any]]:
    """Seeds, and a writer's and a reader's schema by each."""
    for seed in range(count):
        rng = random.Random(seed)
        writer = random_record(rng, [], 3)
        yield seed, rng, changed(rng, writer), writer


def check_reading(count: int) -> None:
    verdicts = Counter[bool]()
    for seed, rng, reader, writer in pairs(count):
        is_compatible = not problems(reader, writer)
        verdicts[is_compatible] += 1
        if not is_compatible:
            continue
        parsed = fastavro.parse_schema(json.loads(json.dumps(writer)))
        for _ in range(4):
            written = io.BytesIO()
            fastavro.schemaless_writer(written, parsed, random_value(rng, writer, {}))
            written.seek(0)
            try:
                fastavro.schemaless_reader(written, writer, reader)
            except Exception as error:
                raise AssertionError(f"seed {seed}: {reader} does not read {writer}") from error
    assert min(verdicts.values()) > count / 10, "both verdicts have to be common"


def check_verdicts(count: int) -> None:
    for seed, _, reader, writer in pairs(count):
        own = not problems(reader, writer)
        checker = ReaderWriterCompatibilityChecker()  # type: ignore[no-untyped-call]
        theirs = checker.get_compatibility(
            parse_with_avro(json.dumps(reader)), parse_with_avro(json.dumps(writer))
        )
        assert own == (theirs.compatibility is SchemaCompatibilityType.compatible), f"seed {seed}"


def test_compatible_means_that_fastavro_reads_random_data() -> None:
    check_reading(1_000)


def test_the_verdict_is_that_of_the_avro_package() -> None:
    check_verdicts(1_000)


@pytest.mark.campaign
def test_many_random_schemas() -> None:
    check_reading(40_000)
    check_verdicts(40_000)


def test_the_canonical_text_is_the_same_schema() -> None:
    for seed in range(300):
        schema = random_record(random.Random(seed), [], 3)
        parsed = parse_avro(json.dumps(schema))
        again = parse_avro(parsed.canonical)
        assert again.canonical == parsed.canonical, f"seed {seed}"
        assert not again.problems_reading(parsed, Budget())
        assert not parsed.problems_reading(again, Budget())


@given(
    st.text(max_size=40) | st.recursive(st.text(max_size=5), st.lists, max_leaves=5).map(json.dumps)
)
def test_garbage_is_a_schema_error(text: str) -> None:
    try:
        parse_avro(text)
    except SchemaError:
        return
