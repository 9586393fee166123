"""JSON Schema: parsing, references, and the model that schemas are compared in.

The model follows Confluent's registry: a schema has one kind (string, object, a combination …). One with several kinds
of keywords is a combination of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from ottla.schemas.compatibility.json_difference import Comparison
from ottla.schemas.compatibility.json_nodes import JsonDocument
from ottla.schemas.compatibility.parsed_schema import (
    MAX_DEPTH,
    Budget,
    Incompatibility,
    ParsedSchema,
    ReferencedSchema,
    SchemaError,
    SchemaTooComplexError,
)

# A string, or the white space between other tokens.
_STRING_OR_SPACE: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[ \t\r\n]+')


@dataclass
class JsonSchema:
    """A parsed JSON Schema."""

    text: str
    document: JsonDocument
    references: Mapping[str, JsonDocument] = field(default_factory=dict)

    @cached_property
    def canonical(self) -> str:
        """The text without white space between its tokens."""
        return _STRING_OR_SPACE.sub(lambda found: found[0] if found[0][0] == '"' else "", self.text)

    @cached_property
    def normalized(self) -> str:
        """The same, with properties in the order of their names."""
        return json.dumps(
            self.document.root, sort_keys=True, separators=(",", ":"), ensure_ascii=False
        )

    def formatted(self, name: str) -> str:
        """There is one format only."""
        if name == "default":
            return self.canonical
        raise SchemaError(f"Invalid format {name} for JSON: use default")

    def problems_reading(self, writer: ParsedSchema, budget: Budget) -> list[Incompatibility]:
        """Why a document that is valid for the other schema may not be valid for this one."""
        assert isinstance(writer, JsonSchema)
        return Comparison(budget).compare(writer.document.node(), self.document.node())


def parse_json_schema(text: str, references: Sequence[ReferencedSchema] = ()) -> JsonSchema:
    """Read a schema; `$ref` may name the references."""
    documents: dict[str, JsonDocument] = {}
    for reference in references:
        documents[reference.name] = JsonDocument(_read(reference.text), documents)
    document = JsonDocument(_read(text), documents)
    _check(document.root)
    document.check_references()
    return JsonSchema(text.strip(), document, documents)


def _read(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise SchemaError(f"not JSON: {error}") from error
    except RecursionError as error:
        raise SchemaTooComplexError("the schema is nested too deeply") from error
    if not isinstance(value, dict | bool):
        raise SchemaError("a JSON Schema is an object, true or false")
    _check_depth(value)
    return value


def _check_depth(value: Any) -> None:
    pending = [(value, 0)]
    while pending:
        each, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise SchemaTooComplexError(f"the schema is nested more than {MAX_DEPTH} levels deep")
        inner = each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        pending.extend((part, depth + 1) for part in inner)


def _check(root: Any) -> None:
    from jsonschema.exceptions import SchemaError as MetaschemaError
    from jsonschema.validators import validator_for

    validator = validator_for(root)
    try:
        validator.check_schema(root)
    except MetaschemaError as error:
        place = "/".join(str(part) for part in error.absolute_path)
        raise SchemaError(f"#/{place}: {error.message}") from error
