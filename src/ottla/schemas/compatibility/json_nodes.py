"""The model of a JSON Schema: which kind of schema each part of a document is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from ottla.schemas.compatibility.parsed_schema import SchemaError, SchemaTooComplexError

KINDS_BY_KEYWORD: Final = {
    "object": (
        "properties",
        "required",
        "additionalProperties",
        "unevaluatedProperties",
        "patternProperties",
        "propertyNames",
        "minProperties",
        "maxProperties",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
    ),
    "array": (
        "items",
        "prefixItems",
        "additionalItems",
        "unevaluatedItems",
        "minItems",
        "maxItems",
        "uniqueItems",
        "contains",
        "minContains",
        "maxContains",
    ),
    "string": ("minLength", "maxLength", "pattern"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
COMBINED: Final = {"allOf": "all", "anyOf": "any", "oneOf": "one"}
_MAX_REFERENCE_CHAIN: Final = 50
# Keywords whose value is a schema, a list of them, or a mapping to them.
_ONE: Final = (
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "not",
    "if",
    "then",
    "else",
    "items",
)
_MANY: Final = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_BY_NAME: Final = (
    "properties",
    "patternProperties",
    "dependentSchemas",
    "dependencies",
    "definitions",
    "$defs",
)


@dataclass(slots=True, eq=False)
class JsonNode:
    """A schema of one kind; `is_strict` if it says so by `type`, and other kinds of values do not pass."""

    kind: str
    document: JsonDocument
    schema: Mapping[str, Any] = field(default_factory=dict)
    is_strict: bool = True
    criterion: str = ""
    # Of a combination: schemas, of which nodes are made when they are needed, since they may lead back here.
    members: list[Any] = field(default_factory=list)

    @property
    def parts(self) -> list[JsonNode]:
        """The nodes that a combination consists of."""
        return [
            each if isinstance(each, JsonNode) else self.document.node(each)
            for each in self.members
        ]

    def sub(self, schema: Any) -> JsonNode:
        """The node of a schema inside this one."""
        return self.document.node(schema)

    def optional(self, keyword: str) -> JsonNode | None:
        """The node of the schema at a keyword, if there is one."""
        schema = self.schema.get(keyword)
        return self.document.node(schema) if isinstance(schema, dict | bool) else None

    def named(self, keyword: str) -> dict[str, JsonNode]:
        """The nodes of a keyword that has schemas by name."""
        schemas = self.schema.get(keyword)
        if not isinstance(schemas, dict):
            return {}
        return {
            name: self.document.node(schema)
            for name, schema in schemas.items()
            if isinstance(schema, dict | bool)
        }


class JsonDocument:
    """A document with its nodes, each of which is made once, so that recursive schemas end."""

    def __init__(self, root: Any, references: Mapping[str, JsonDocument]) -> None:
        self.root = root
        self._references = references
        self._nodes: dict[int, JsonNode] = {}
        # Nodes are known by their identity while they are compared: there is one of each.
        self._booleans = {True: JsonNode("empty", self), False: JsonNode("false", self)}
        draft = root.get("$schema", "") if isinstance(root, dict) else ""
        # Up to draft 7, what stands beside $ref has no effect.
        self._ignores_siblings = isinstance(draft, str) and "draft-0" in draft
        self._anchors: dict[str, Any] = {}
        for schema in subschemas(root):
            for keyword in ("$id", "id", "$anchor"):
                name = schema.get(keyword)
                if isinstance(name, str):
                    self._anchors.setdefault(f"#{name}" if keyword == "$anchor" else name, schema)

    def node(self, schema: Any = None) -> JsonNode:
        """The node of a schema in this document; of the whole one by default."""
        schema = self.root if schema is None else schema
        if isinstance(schema, bool):
            return self._booleans[schema]
        known = self._nodes.get(id(schema))
        if known is None:
            # Parts of a node are made when they are first needed; only $ref is followed at once.
            known = self._make(schema)
            self._nodes[id(schema)] = known
        return known

    def _make(self, schema: Mapping[str, Any]) -> JsonNode:
        if isinstance(schema.get("$ref"), str):
            target = self._target(schema)
            rest = {name: value for name, value in schema.items() if name not in ("$ref", "$id")}
            if self._ignores_siblings or not _constrains(rest):
                return target
            made = JsonNode("combined", self, schema, criterion="all")
            made.members = [target, self._make_plain(rest)]
            return made
        return self._make_plain(schema)

    def _make_plain(self, schema: Mapping[str, Any]) -> JsonNode:
        parts = list(self._parts(schema))
        if not parts:
            return JsonNode("empty", self, schema)
        if len(parts) == 1:
            return parts[0]
        made = JsonNode("combined", self, schema, criterion="all")
        made.members = parts
        return made

    def _parts(self, schema: Mapping[str, Any]) -> Iterator[JsonNode]:
        if "enum" in schema:
            yield JsonNode("enum", self, schema)
        if "const" in schema:
            yield JsonNode("const", self, schema)
        if "not" in schema:
            yield JsonNode("not", self, schema)
        for keyword, criterion in COMBINED.items():
            if isinstance(schema.get(keyword), list):
                made = JsonNode("combined", self, schema, criterion=criterion)
                made.members = list(schema[keyword])
                yield made
        if "if" in schema and ("then" in schema or "else" in schema):
            yield JsonNode("conditional", self, schema)
        yield from self._typed(schema)

    def _typed(self, schema: Mapping[str, Any]) -> Iterator[JsonNode]:
        types = schema.get("type")
        if isinstance(types, list) and len(types) != 1:
            made = JsonNode("combined", self, schema, criterion="any")
            made.members = [self._of_type(each, schema) for each in types]
            yield made
        elif types is not None:
            yield self._of_type(types[0] if isinstance(types, list) else types, schema)
        else:
            for kind, keywords in KINDS_BY_KEYWORD.items():
                if any(keyword in schema for keyword in keywords):
                    yield JsonNode(kind, self, schema, is_strict=False)

    def _of_type(self, name: Any, schema: Mapping[str, Any]) -> JsonNode:
        if name == "integer":
            # In a union of types, `type` is a list: the node's own says which of them it is.
            return JsonNode("number", self, {**schema, "type": "integer"})
        if name == "number":
            return JsonNode("number", self, {**schema, "type": "number"})
        return JsonNode(str(name), self, schema)

    # References

    def _target(self, schema: Mapping[str, Any]) -> JsonNode:
        document: JsonDocument = self
        target: Any = schema
        for _ in range(_MAX_REFERENCE_CHAIN):
            document, target = document.find(target["$ref"])
            if isinstance(target, bool) or not isinstance(target.get("$ref"), str):
                return document.node(target)
        raise SchemaTooComplexError(f"$ref {schema['$ref']!r} leads in a circle")

    def find(self, reference: str) -> tuple[JsonDocument, Any]:
        """The document and the schema that a `$ref` means."""
        name, _, fragment = reference.partition("#")
        document: JsonDocument | None = self
        if name:
            document = self._references.get(name)
            if document is None and name in self._anchors:
                return self, _pointed(self._anchors[name], fragment, reference)
            if document is None and name == self._own_id:
                document = self
            if document is None:
                raise SchemaError(
                    f"$ref {reference!r} is not in the schema, and not the name of a reference"
                )
        assert document is not None
        if f"#{fragment}" in document._anchors:
            return document, document._anchors[f"#{fragment}"]
        return document, _pointed(document.root, fragment, reference)

    @property
    def _own_id(self) -> str:
        own = self.root.get("$id", self.root.get("id", "")) if isinstance(self.root, dict) else ""
        return own.rstrip("#") if isinstance(own, str) else ""

    def check_references(self) -> None:
        """Raise if a `$ref` leads nowhere."""
        for schema in subschemas(self.root):
            if isinstance(schema.get("$ref"), str):
                self._target(schema)


def _constrains(schema: Mapping[str, Any]) -> bool:
    keywords = {each for some in KINDS_BY_KEYWORD.values() for each in some}
    keywords |= {"type", "enum", "const", "not", "if", *COMBINED}
    return not keywords.isdisjoint(schema)


def _pointed(value: Any, pointer: str, reference: str) -> Any:
    for part in unquote(pointer).split("/")[1:] if pointer else ():
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdigit() and int(key) < len(value):
            value = value[int(key)]
        else:
            raise SchemaError(f"$ref {reference!r} leads nowhere")
    if pointer and not pointer.startswith("/"):
        raise SchemaError(f"$ref {reference!r} leads nowhere")
    if not isinstance(value, dict | bool):
        raise SchemaError(f"$ref {reference!r} leads to something that is no schema")
    return value


def subschemas(root: Any) -> Iterator[Mapping[str, Any]]:
    """All schemas in a schema that are objects, itself too."""
    pending = [root]
    while pending:
        schema = pending.pop()
        if not isinstance(schema, dict):
            continue
        yield schema
        for keyword in _ONE:
            pending.append(schema.get(keyword))
        for keyword in _MANY:
            several = schema.get(keyword)
            pending.extend(several if isinstance(several, list) else ())
        for keyword in _BY_NAME:
            named = schema.get(keyword)
            pending.extend(named.values() if isinstance(named, dict) else ())
