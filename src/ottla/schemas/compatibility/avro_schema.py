"""Avro schemas: parsing, the text that Avro for Java prints, and the resolution of a reader's and a writer's schema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from ottla.schemas.compatibility.parsed_schema import (
    MAX_DEPTH,
    Budget,
    Incompatibility,
    ParsedSchema,
    ReferencedSchema,
    SchemaError,
    SchemaTooComplexError,
)

PRIMITIVES: Final = frozenset(
    ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
)
NAMED: Final = frozenset(("record", "error", "enum", "fixed"))
PROMOTIONS: Final = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "bytes": ("string",),
    "string": ("bytes",),
}
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ORDERS: Final = ("ascending", "descending", "ignore")
# Attributes with a meaning of their own; every other one is kept as a property.
_RESERVED: Final = {
    "record": ("type", "name", "namespace", "doc", "fields", "aliases"),
    "error": ("type", "name", "namespace", "doc", "fields", "aliases"),
    "enum": ("type", "name", "namespace", "doc", "symbols", "default", "aliases"),
    "fixed": ("type", "name", "namespace", "doc", "size", "aliases"),
    "array": ("type", "items"),
    "map": ("type", "values"),
    "field": ("name", "type", "doc", "default", "order", "aliases"),
}
_NO_DEFAULT: Final = object()


@dataclass(slots=True, eq=False)
class AvroField:
    """A field of a record."""

    name: str
    type: AvroType
    default: Any = _NO_DEFAULT
    doc: str | None = None
    order: str = "ascending"
    aliases: tuple[str, ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_default(self) -> bool:
        """Whether a reader has a value for it where the writer has none."""
        return self.default is not _NO_DEFAULT


@dataclass(slots=True, eq=False)
class AvroType:
    """A type; a recursive one contains itself."""

    kind: str
    name: str = ""
    namespace: str = ""
    aliases: tuple[str, ...] = ()
    doc: str | None = None
    fields: list[AvroField] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    default_symbol: str | None = None
    size: int = 0
    # The items of an array, the values of a map, the branches of a union.
    parts: list[AvroType] = field(default_factory=list)
    properties: Mapping[str, Any] = field(default_factory=dict)

    @property
    def full_name(self) -> str:
        """The name with its namespace; the kind of types without a name."""
        if self.kind not in NAMED:
            return self.kind
        return f"{self.namespace}.{self.name}" if self.namespace else self.name


class AvroSchema:
    """A parsed Avro schema."""

    def __init__(self, root: AvroType, referenced: Mapping[str, AvroType]) -> None:
        self.root = root
        self._referenced = referenced

    @cached_property
    def canonical(self) -> str:
        """The text that Avro for Java prints; types of referenced schemas by their names."""
        return _compact(_Printer(dict(self._referenced), sort=False).type(self.root, ""))

    @cached_property
    def normalized(self) -> str:
        """The same, with properties in the order of their names."""
        return _compact(_Printer(dict(self._referenced), sort=True).type(self.root, ""))

    def formatted(self, name: str) -> str:
        """`resolved` has the types of referenced schemas inside."""
        if name == "resolved":
            return _compact(_Printer({}, sort=False).type(self.root, ""))
        if name == "default":
            return self.canonical
        raise SchemaError(f"Invalid format {name} for AVRO: use default or resolved")

    def problems_reading(self, writer: ParsedSchema, budget: Budget) -> list[Incompatibility]:
        """By the rules of schema resolution in Avro's specification."""
        assert isinstance(writer, AvroSchema)
        return list(_Resolution(budget).problems(self.root, writer.root, ""))


def parse_avro(text: str, references: Sequence[ReferencedSchema] = ()) -> AvroSchema:
    """Read a schema; the named types of the references may be used in it."""
    names: dict[str, AvroType] = {}
    for reference in references:
        _Parser(names).type(_json(reference.text), "", 0)
    referenced = dict(names)
    return AvroSchema(_Parser(names).type(_json(text), "", 0), referenced)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        # A primitive type may be written without quotes.
        if text.strip() in PRIMITIVES:
            return text.strip()
        raise SchemaError(f"not JSON: {error}") from error
    except RecursionError as error:
        raise SchemaTooComplexError("the schema is nested too deeply") from error


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


class _Parser:
    """From JSON to types; `names` has what was defined so far."""

    def __init__(self, names: dict[str, AvroType]) -> None:
        self._names = names
        self._budget = Budget()

    def type(self, value: Any, namespace: str, depth: int) -> AvroType:
        if depth > MAX_DEPTH:
            raise SchemaTooComplexError(f"the schema is nested more than {MAX_DEPTH} levels deep")
        match value:
            case str():
                return self._named(value, namespace)
            case list():
                return self._union(value, namespace, depth)
            case {"type": str() as kind} if kind in _RESERVED and kind != "field":
                return self._complex(value, kind, namespace, depth)
            case {"type": str() as kind} if kind in PRIMITIVES:
                return AvroType(kind, properties=_others(value, ("type",)))
            case {"type": inner}:
                return self.type(inner, namespace, depth + 1)
        raise SchemaError(f"No type: {_short(value)}")

    def _named(self, name: str, namespace: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        full_name = f"{namespace}.{name}" if namespace and "." not in name else name
        found = self._names.get(full_name) or self._names.get(name)
        if found is None:
            raise SchemaError(f'Undefined name: "{full_name}"')
        return found

    def _union(self, branches: list[Any], namespace: str, depth: int) -> AvroType:
        types = [self.type(branch, namespace, depth + 1) for branch in branches]
        seen: set[str] = set()
        for each in types:
            if each.kind == "union":
                raise SchemaError("Nested union: a union may not contain a union")
            if each.full_name in seen:
                raise SchemaError(f"Duplicate in union: {each.full_name}")
            seen.add(each.full_name)
        return AvroType("union", parts=types)

    def _complex(self, value: dict[str, Any], kind: str, namespace: str, depth: int) -> AvroType:
        properties = _others(value, _RESERVED[kind])
        if kind in ("array", "map"):
            inner = "items" if kind == "array" else "values"
            if inner not in value:
                raise SchemaError(f"{kind} has no {inner} type: {_short(value)}")
            part = self.type(value[inner], namespace, depth + 1)
            return AvroType(kind, parts=[part], properties=properties)
        name, own_namespace = _name_of(value, namespace)
        made = AvroType(
            kind,
            name,
            own_namespace,
            _aliases_of(value, own_namespace),
            _text_of(value, "doc"),
            properties=properties,
        )
        if made.full_name in self._names or (not own_namespace and name in PRIMITIVES):
            raise SchemaError(f"Can't redefine: {made.full_name}")
        self._names[made.full_name] = made
        if kind == "enum":
            _read_enum(made, value)
        elif kind == "fixed":
            made.size = _size_of(value)
        else:
            made.fields = self._fields(value, own_namespace, depth)
        return made

    def _fields(self, value: dict[str, Any], namespace: str, depth: int) -> list[AvroField]:
        given = value.get("fields")
        if not isinstance(given, list):
            raise SchemaError(f"Record has no fields: {_short(value)}")
        fields: list[AvroField] = []
        seen: set[str] = set()
        for each in given:
            if not isinstance(each, dict) or "type" not in each:
                raise SchemaError(f"No field type: {_short(each)}")
            name = _checked_name(each.get("name"))
            if name in seen:
                raise SchemaError(f"Duplicate field {name}")
            seen.add(name)
            made = AvroField(
                name,
                self.type(each["type"], namespace, depth + 1),
                each.get("default", _NO_DEFAULT),
                _text_of(each, "doc"),
                _order_of(each),
                tuple(_strings(each, "aliases")),
                _others(each, _RESERVED["field"]),
            )
            if made.has_default and not _fits(made.type, made.default, self._budget):
                raise SchemaError(
                    f"Invalid default for field {name}: {_short(made.default)} not a {_type_text(made.type)}"
                )
            fields.append(made)
        return fields


def _others(value: dict[str, Any], reserved: tuple[str, ...]) -> dict[str, Any]:
    return {name: each for name, each in value.items() if name not in reserved}


def _short(value: Any) -> str:
    text = _compact(value)
    return text if len(text) <= 100 else f"{text[:100]}…"


def _type_text(made: AvroType) -> str:
    return made.full_name


def _checked_name(name: Any) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise SchemaError(f"Illegal name: {_short(name)}")
    return name


def _name_of(value: dict[str, Any], namespace: str) -> tuple[str, str]:
    given = value.get("name")
    if not isinstance(given, str):
        raise SchemaError(f"No name in schema: {_short(value)}")
    space, dot, name = given.rpartition(".")
    if not dot:
        space = value.get("namespace", namespace)
        if not isinstance(space, str):
            raise SchemaError(f"Illegal namespace: {_short(space)}")
    for part in space.split(".") if space else ():
        _checked_name(part)
    return _checked_name(name), space


def _aliases_of(value: dict[str, Any], namespace: str) -> tuple[str, ...]:
    return tuple(
        f"{namespace}.{alias}" if namespace and "." not in alias else alias
        for alias in _strings(value, "aliases")
    )


def _strings(value: dict[str, Any], name: str) -> list[str]:
    given = value.get(name, [])
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise SchemaError(f"{name} not an array of strings: {_short(given)}")
    return given


def _text_of(value: dict[str, Any], name: str) -> str | None:
    given = value.get(name)
    return given if isinstance(given, str) else None


def _order_of(value: dict[str, Any]) -> str:
    order = value.get("order", "ascending")
    if order not in _ORDERS:
        raise SchemaError(f"order is one of {', '.join(_ORDERS)}, not {_short(order)}")
    return str(order)


def _size_of(value: dict[str, Any]) -> int:
    size = value.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise SchemaError(f"Invalid or no size: {_short(value)}")
    return size


def _read_enum(made: AvroType, value: dict[str, Any]) -> None:
    if "symbols" not in value:
        raise SchemaError(f"Enum has no symbols: {_short(value)}")
    made.symbols = tuple(_checked_name(symbol) for symbol in _strings(value, "symbols"))
    if len(set(made.symbols)) < len(made.symbols):
        raise SchemaError(f"Duplicate enum symbol: {_short(value)}")
    default = value.get("default")
    if default is not None and default not in made.symbols:
        raise SchemaError(
            f"The Enum Default: {_short(default)} is not in the enum symbol set of {made.full_name}"
        )
    made.default_symbol = default


# Defaults

_INTEGER_BITS: Final = {"int": 31, "long": 63}


def _fits(made: AvroType, value: Any, budget: Budget) -> bool:
    """Whether a JSON value is a default of a type; that of a union fits one of its branches."""
    budget.spend()
    match made.kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            limit = 1 << _INTEGER_BITS[made.kind]
            return (
                isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit
            )
        case "float" | "double":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "bytes" | "fixed":
            fits = isinstance(value, str) and all(ord(char) < 256 for char in value)
            return fits and (made.kind == "bytes" or len(value) == made.size)
        case "enum":
            return value in made.symbols
        case "array":
            return isinstance(value, list) and all(
                _fits(made.parts[0], each, budget) for each in value
            )
        case "map":
            return isinstance(value, dict) and all(
                _fits(made.parts[0], each, budget) for each in value.values()
            )
        case "union":
            return any(_fits(branch, value, budget) for branch in made.parts)
    return isinstance(value, dict) and all(
        _fits(each.type, value[each.name], budget) if each.name in value else each.has_default
        for each in made.fields
    )


# The text


class _Printer:
    """From types to JSON, in the order of Avro for Java; a type that was printed before is its name."""

    def __init__(self, names: dict[str, AvroType], sort: bool) -> None:
        self._names = names
        self._sort = sort

    def type(self, made: AvroType, namespace: str) -> Any:
        match made.kind:
            case "union":
                return [self.type(branch, namespace) for branch in made.parts]
            case "array" | "map":
                inner = "items" if made.kind == "array" else "values"
                part = self.type(made.parts[0], namespace)
                return {"type": made.kind, inner: part, **self._properties(made.properties)}
            case kind if kind in NAMED:
                return self._named(made, namespace)
        if not made.properties:
            return made.kind
        return {"type": made.kind, **self._properties(made.properties)}

    def _properties(self, properties: Mapping[str, Any]) -> dict[str, Any]:
        return dict(sorted(properties.items())) if self._sort else dict(properties)

    def _named(self, made: AvroType, namespace: str) -> Any:
        if self._names.get(made.full_name) is made:
            return made.name if made.namespace == namespace else made.full_name
        self._names[made.full_name] = made
        fields: dict[str, Any] = {"type": made.kind, "name": made.name}
        if made.namespace != namespace:
            fields["namespace"] = made.namespace
        if made.doc is not None:
            fields["doc"] = made.doc
        if made.kind == "enum":
            fields["symbols"] = list(made.symbols)
            if made.default_symbol is not None:
                fields["default"] = made.default_symbol
        elif made.kind == "fixed":
            fields["size"] = made.size
        else:
            fields["fields"] = [self._field(each, made.namespace) for each in made.fields]
        fields |= self._properties(made.properties)
        if made.aliases:
            fields["aliases"] = [_relative(alias, made.namespace) for alias in made.aliases]
        return fields

    def _field(self, made: AvroField, namespace: str) -> dict[str, Any]:
        fields: dict[str, Any] = {"name": made.name, "type": self.type(made.type, namespace)}
        if made.doc is not None:
            fields["doc"] = made.doc
        if made.has_default:
            fields["default"] = made.default
        if made.order != "ascending":
            fields["order"] = made.order
        if made.aliases:
            fields["aliases"] = list(made.aliases)
        return fields | self._properties(made.properties)


def _relative(alias: str, namespace: str) -> str:
    space, _, name = alias.rpartition(".")
    return name if space == namespace else alias


# Resolution


class _Resolution:
    """Why a reader's type cannot read what a writer's has written."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        # Pairs that are compared already, or are just now: a recursive pair is as good as the rest of it.
        self._seen: set[tuple[int, int]] = set()

    def problems(self, reader: AvroType, writer: AvroType, path: str) -> Iterator[Incompatibility]:
        self._budget.spend()
        if reader.kind in NAMED:
            pair = (id(reader), id(writer))
            if pair in self._seen:
                return
            self._seen.add(pair)
        if writer.kind == "union":
            yield from self._reading_union(reader, writer, path)
        elif reader.kind == "union":
            yield from self._read_by_union(reader, writer, path)
        elif _kind(reader) != _kind(writer):
            if writer.kind not in PROMOTIONS.get(reader.kind, ()):
                yield _type_mismatch(reader, writer, path)
        elif reader.kind in ("array", "map"):
            inner = "items" if reader.kind == "array" else "values"
            yield from self.problems(reader.parts[0], writer.parts[0], f"{path}/{inner}")
        elif reader.kind in NAMED:
            yield from self._named(reader, writer, path)

    def _reading_union(
        self, reader: AvroType, writer: AvroType, path: str
    ) -> Iterator[Incompatibility]:
        for index, branch in enumerate(writer.parts):
            found = list(self.problems(reader, branch, path))
            if found and reader.kind == "union":
                yield Incompatibility(
                    "MISSING_UNION_BRANCH",
                    f"The {{reader}} schema is missing a type inside a union field at path "
                    f"'{path}/{index}' in the {{writer}} schema",
                    f"reader union lacking writer type: {branch.full_name.upper()}",
                )
            else:
                yield from found

    def _read_by_union(
        self, reader: AvroType, writer: AvroType, path: str
    ) -> Iterator[Incompatibility]:
        for branch in reader.parts:
            # A branch that does not fit must leave nothing behind that looks compared.
            self._budget.spend(1 + len(self._seen) // 16)
            attempt = _Resolution(self._budget)
            attempt._seen = set(self._seen)
            if next(attempt.problems(branch, writer, path), None) is None:
                self._seen = attempt._seen
                return
        yield Incompatibility(
            "MISSING_UNION_BRANCH",
            f"The {{reader}} schema is missing a type inside a union field at path '{path}' "
            "in the {writer} schema",
            f"reader union lacking writer type: {writer.full_name.upper()}",
        )

    def _named(self, reader: AvroType, writer: AvroType, path: str) -> Iterator[Incompatibility]:
        if reader.name != writer.name and writer.full_name not in reader.aliases:
            yield Incompatibility(
                "NAME_MISMATCH",
                f"The name of the schema has changed (path '{path}/name')",
                f"expected: {writer.full_name}",
            )
        if reader.kind == "fixed" and reader.size != writer.size:
            yield Incompatibility(
                "FIXED_SIZE_MISMATCH",
                f"The size of FIXED type field at path '{path}/size' in the {{reader}} schema does not match "
                "with the {writer} schema",
                f"expected: {writer.size}, found: {reader.size}",
            )
        if reader.kind == "enum" and reader.default_symbol is None:
            missing = [symbol for symbol in writer.symbols if symbol not in reader.symbols]
            if missing:
                yield Incompatibility(
                    "MISSING_ENUM_SYMBOLS",
                    f"The {{reader}} schema is missing enum symbols '{missing}' at path '{path}/symbols' "
                    "in the {writer} schema",
                    str(missing),
                )
        written = {each.name: each for each in writer.fields}
        for index, each in enumerate(reader.fields):
            place = f"{path}/fields/{index}"
            names = (each.name, *each.aliases)
            source = next((written[name] for name in names if name in written), None)
            if source is not None:
                yield from self.problems(each.type, source.type, f"{place}/type")
            elif not each.has_default:
                yield Incompatibility(
                    "READER_FIELD_MISSING_DEFAULT_VALUE",
                    f"The field '{each.name}' at path '{place}' in the {{reader}} schema has no default value "
                    "and is missing in the {writer} schema",
                    each.name,
                )


def _kind(made: AvroType) -> str:
    return "record" if made.kind == "error" else made.kind


def _type_mismatch(reader: AvroType, writer: AvroType, path: str) -> Incompatibility:
    return Incompatibility(
        "TYPE_MISMATCH",
        f"The type (path '{path or '/'}') of a field in the {{reader}} schema does not match "
        "with the {writer} schema",
        f"reader type: {reader.kind.upper()} not compatible with writer type: {writer.kind.upper()}",
    )
