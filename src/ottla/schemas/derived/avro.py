"""Avro schemas of Python classes, and the conversions for fastavro."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from operator import index
from typing import Any, NamedTuple

from ottla.errors import ConfigError, SerializationError
from ottla.schemas.derived.conversions import (
    Convert,
    Leaves,
    Reading,
    Writing,
    check,
    check_decimal,
    python_types,
)
from ottla.schemas.derived.shapes import (
    DecimalShape,
    EnumShape,
    FieldShape,
    Kind,
    ListShape,
    LiteralShape,
    MapShape,
    RecordShape,
    Scalar,
    Shape,
    UnionShape,
    record_shape,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TYPES: dict[Kind, Any] = {
    Kind.BOOLEAN: "boolean",
    Kind.INTEGER: "long",
    Kind.FLOAT: "double",
    Kind.TEXT: "string",
    Kind.BYTES: "bytes",
    Kind.DATETIME: {"type": "long", "logicalType": "timestamp-micros"},
    Kind.DATE: {"type": "int", "logicalType": "date"},
    Kind.TIME: {"type": "long", "logicalType": "time-micros"},
    Kind.UUID: {"type": "string", "logicalType": "uuid"},
}


class AvroType(NamedTuple):
    """The schema of a class, and the conversions of its objects."""

    name: str
    text: str
    to_plain: Convert
    from_plain: Convert


@lru_cache(maxsize=1000)
def avro_type(type_: type, namespace: str | None = None) -> AvroType:
    """The Avro schema of a dataclass or a pydantic model."""
    shape = record_shape(type_)
    full_name = (lambda name: f"{namespace}.{name}") if namespace else (lambda name: name)
    leaves = Leaves(
        write=_CHECKS,
        write_decimal=lambda shape: check_decimal,
        names_records_in_unions=True,
        full_name=full_name,
    )
    schema = _Schema().record(shape)
    if namespace:
        schema = {"type": "record", "name": schema["name"], "namespace": namespace, **schema}
    return AvroType(
        name=full_name(shape.name),
        text=json.dumps(schema, ensure_ascii=False, separators=(",", ":")),
        to_plain=Writing(leaves).record(shape),
        from_plain=Reading(leaves).record(shape),
    )


def _time(value: Any) -> Any:
    if isinstance(value, time) and value.tzinfo is not None:
        raise SerializationError(f"{value!r} has a time zone, which a time of day has not in Avro")
    return check(Kind.TIME)(value)


def _aware(value: Any) -> Any:
    if type(value) is datetime and value.tzinfo is not None:
        return value
    if isinstance(value, datetime) and value.tzinfo is None:
        raise SerializationError(
            f"{value!r} has no time zone, and is no point in time: give it one, as datetime.now(UTC) does"
        )
    return check(Kind.DATETIME)(value)


# fastavro takes other types too, and changes them: 1.5 to 1, "no" to True, 7 to a moment of 1970.
_CHECKS: dict[Kind, Convert] = {
    Kind.BOOLEAN: check(Kind.BOOLEAN),
    Kind.INTEGER: index,
    Kind.FLOAT: check(Kind.FLOAT),
    Kind.DATETIME: _aware,
    Kind.DATE: check(Kind.DATE),
    Kind.TIME: _time,
    Kind.UUID: check(Kind.UUID),
}


class _Schema:
    """Writes a schema; a named type is defined where it is met first."""

    def __init__(self) -> None:
        self._defined: set[str] = set()

    def schema(self, shape: Shape) -> Any:
        match shape:
            case Scalar(Kind.DURATION):
                raise ConfigError("Avro has no timedelta that other languages read: use an int")
            case Scalar(kind):
                return _TYPES[kind]
            case DecimalShape(digits):
                return {
                    "type": "bytes",
                    "logicalType": "decimal",
                    "precision": digits.precision,
                    "scale": digits.scale,
                }
            case LiteralShape():
                return "string"
            case EnumShape():
                return self._enum(shape)
            case ListShape(item, _):
                return {"type": "array", "items": self.schema(item)}
            case MapShape(value):
                return {"type": "map", "values": self.schema(value)}
            case UnionShape():
                return self._union(shape)
            case RecordShape():
                return self.record(shape)

    def _enum(self, shape: EnumShape) -> Any:
        name = shape.type.__name__
        if name in self._defined:
            return name
        self._defined.add(name)
        symbols = [member.name for member in shape.type]
        if not symbols or not all(each.isascii() and each.isidentifier() for each in symbols):
            raise ConfigError(f"{name} needs members, with names of letters, digits and _ only")
        return {"type": "enum", "name": name, "symbols": symbols}

    def _union(self, shape: UnionShape) -> list[Any]:
        branches = [self.schema(each) for each in shape.branches]
        kinds = [_kind(each) for each in shape.branches if not isinstance(each, RecordShape)]
        if len(set(kinds)) != len(kinds):
            raise ConfigError("two types of a union are one type in Avro: use a dataclass for each")
        return ["null", *branches] if shape.is_optional else branches

    def record(self, shape: RecordShape) -> Any:
        if shape.name in self._defined:
            return shape.name
        self._defined.add(shape.name)
        schema: dict[str, Any] = {"type": "record", "name": shape.name}
        if shape.doc:
            schema["doc"] = shape.doc
        schema["fields"] = [self._field(shape, each) for each in shape.fields]
        return schema

    def _field(self, owner: RecordShape, field: FieldShape) -> dict[str, Any]:
        where = f"{owner.name}.{field.attribute}"
        if not field.name.isidentifier() or not field.name.isascii():
            raise ConfigError(f"{where}: {field.name!r} cannot be the name of an Avro field")
        try:
            schema: dict[str, Any] = {"name": field.name, "type": self.schema(field.shape)}
        except ConfigError as error:
            if str(error).startswith(where.partition(".")[0]):
                raise
            raise ConfigError(f"{where}: {error}") from error
        if field.doc:
            schema["doc"] = field.doc
        if field.has_default:
            if isinstance(field.shape, UnionShape):
                schema["type"] = _default_first(schema["type"], field)
            schema["default"] = _default(field.shape, field.default)
        if field.aliases:
            schema["aliases"] = list(field.aliases)
        return schema


def _default_first(union: list[Any], field: FieldShape) -> list[Any]:
    """Avro's rule: the default of a union is of its first branch."""
    assert isinstance(field.shape, UnionShape)
    if field.default is None:
        return union
    rest = [each for each in union if each != "null"]
    if len(rest) > 1:
        branch = _branch_of(field.shape, field.default)
        first = rest.pop(field.shape.branches.index(branch))
        rest.insert(0, first)
    return [*rest, "null"] if field.shape.is_optional else rest


def _branch_of(shape: UnionShape, value: Any) -> Shape:
    for branch in shape.branches:
        if type(value) in python_types(branch):
            return branch
    for branch in shape.branches:
        if isinstance(value, python_types(branch)):
            return branch
    raise ConfigError(f"the default {value!r} is none of the union's types")


def _default(shape: Shape, value: Any) -> Any:
    """A default in the JSON of Avro's schemas."""
    match shape:
        case UnionShape():
            return None if value is None else _default(_branch_of(shape, value), value)
        case EnumShape():
            return value.name
        case ListShape(item, container):
            items = sorted(value) if container in (set, frozenset) else value
            return [_default(item, each) for each in items]
        case MapShape(inner):
            return {name: _default(inner, each) for name, each in value.items()}
        case RecordShape():
            return {
                each.name: _default(each.shape, getattr(value, each.attribute))
                for each in shape.fields
            }
        case DecimalShape(digits):
            unscaled = int(Decimal(value).scaleb(digits.scale))
            size = (unscaled.bit_length() + 8) // 8
            return unscaled.to_bytes(size, "big", signed=True).decode("latin-1")
        case Scalar(kind):
            return _default_scalar(kind, value)
        case LiteralShape():
            return value


def _default_scalar(kind: Kind, value: Any) -> Any:
    match kind:
        case Kind.BYTES:
            return bytes(value).decode("latin-1")
        case Kind.UUID:
            return str(value)
        case Kind.DATETIME:
            return _micros(_aware(value) - _EPOCH)
        case Kind.DATE:
            return (value - date(1970, 1, 1)).days
        case Kind.TIME:
            midnight = datetime.combine(date(1970, 1, 1), time())
            return _micros(datetime.combine(date(1970, 1, 1), value) - midnight)
        case Kind.FLOAT:
            return float(value)
        case _:
            return value


def _micros(delta: timedelta) -> int:
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def _kind(shape: Shape) -> str:
    """The type of a branch, of which a union has one; names are told apart by fastavro's reader only for records."""
    match shape:
        case Scalar(kind):
            declared = _TYPES[kind]
            return str(declared["type"] if isinstance(declared, dict) else declared)
        case DecimalShape():
            return "bytes"
        case LiteralShape() | EnumShape():
            return "string"
        case ListShape():
            return "array"
        case _:
            return "map"
