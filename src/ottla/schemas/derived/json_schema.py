"""JSON Schemas of Python classes, and the conversions for JSON.

A pydantic model's schema, JSON and validation are pydantic's own; a dataclass's are made here.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from ottla.errors import ConfigError, DeserializationError, SerializationError
from ottla.schemas.derived.conversions import Leaves, Reading, Writing, check, check_decimal
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
    is_pydantic_model,
    record_shape,
)

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TYPES: dict[Kind, dict[str, Any]] = {
    Kind.BOOLEAN: {"type": "boolean"},
    Kind.INTEGER: {"type": "integer"},
    Kind.FLOAT: {"type": "number"},
    Kind.TEXT: {"type": "string"},
    Kind.BYTES: {"type": "string", "contentEncoding": "base64"},
    Kind.DATETIME: {"type": "string", "format": "date-time"},
    Kind.DATE: {"type": "string", "format": "date"},
    Kind.TIME: {"type": "string", "format": "time"},
    Kind.DURATION: {"type": "string", "format": "duration"},
    Kind.UUID: {"type": "string", "format": "uuid"},
}
_checked_integer = check(Kind.INTEGER)
_checked_float = check(Kind.FLOAT)
_checked_text = check(Kind.TEXT)
_checked_date = check(Kind.DATE)
_checked_uuid = check(Kind.UUID)
_DURATION = re.compile(
    r"(-?)P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?",
    re.ASCII,
)


class JSONType(NamedTuple):
    """The schema of a class, and the conversions of its objects from and to JSON values."""

    name: str
    text: str
    to_plain: Callable[[Any], Any] | None
    from_plain: Callable[[Any], Any]
    to_json: Callable[[Any], bytes] | None
    """The whole way, for classes that check and write themselves."""
    from_json: Callable[[bytes], Any] | None


@lru_cache(maxsize=1000)
def json_type(type_: type) -> JSONType:
    """The JSON Schema of a dataclass or a pydantic model."""
    return _pydantic(type_) if is_pydantic_model(type_) else _dataclass(type_)


def _dataclass(type_: type) -> JSONType:
    shape = record_shape(type_)
    leaves = Leaves(
        write={
            Kind.BOOLEAN: check(Kind.BOOLEAN),
            Kind.INTEGER: _checked_integer,
            Kind.FLOAT: check(Kind.FLOAT),
            Kind.TEXT: check(Kind.TEXT),
            Kind.BYTES: lambda value: b64encode(value).decode("ascii"),
            Kind.DATETIME: datetime.isoformat,
            Kind.DATE: lambda value: _checked_date(value).isoformat(),
            Kind.TIME: time.isoformat,
            Kind.DURATION: _duration_text,
            Kind.UUID: lambda value: str(_checked_uuid(value)),
        },
        read={
            Kind.BOOLEAN: check(Kind.BOOLEAN),
            Kind.TEXT: check(Kind.TEXT),
            Kind.BYTES: lambda text: b64decode(text, validate=True),
            Kind.DATETIME: datetime.fromisoformat,
            Kind.DATE: date.fromisoformat,
            Kind.TIME: time.fromisoformat,
            Kind.DURATION: _duration_of,
            Kind.UUID: UUID,
            Kind.FLOAT: lambda number: float(_checked_float(number)),
            Kind.INTEGER: _whole,
        },
        write_decimal=lambda shape: lambda value: str(check_decimal(value)),
        read_decimal=lambda shape: lambda text: check_decimal(Decimal(_checked_text(text))),
        write_enum=lambda shape: lambda member: member.value,
        read_enum=lambda shape: shape.type,
    )
    schema = _Schema(Writing(leaves)).root(shape)
    return JSONType(
        name=shape.name,
        text=json.dumps(schema, ensure_ascii=False, separators=(",", ":")),
        to_plain=Writing(leaves).record(shape),
        from_plain=Reading(leaves).record(shape),
        to_json=None,
        from_json=None,
    )


def _duration_text(value: timedelta) -> str:
    """ISO 8601, as pydantic writes it: days and seconds."""
    sign, length = ("-", -value) if value < timedelta(0) else ("", value)
    fraction = f".{length.microseconds:06}" if length.microseconds else ""
    return f"{sign}P{length.days}DT{length.seconds}{fraction}S"


def _duration_of(text: str) -> timedelta:
    found = _DURATION.fullmatch(text)
    if found is None or text.endswith(("P", "T")):
        raise ValueError(f"{text!r} is no duration of weeks, days, hours, minutes and seconds")
    weeks, days, hours, minutes = (int(part or 0) for part in found.groups()[1:5])
    seconds, _, fraction = (found["seconds"] or "0").partition(".")
    length = timedelta(
        weeks=weeks,
        days=days,
        hours=hours,
        minutes=minutes,
        seconds=int(seconds),
        microseconds=int(f"{fraction:0<6}"[:6]) if fraction else 0,
    )
    return -length if found[1] else length


def _whole(value: Any) -> Any:
    # JSON knows no whole numbers: 1.0 is an integer to JSON Schema.
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    return _checked_integer(whole)


class _Schema:
    """Writes a schema; records within it are definitions."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing
        self._definitions: dict[str, Any] = {}
        self._root: RecordShape | None = None

    def root(self, shape: RecordShape) -> dict[str, Any]:
        self._root = shape
        schema = {"$schema": DIALECT, "title": shape.name, **self._object(shape)}
        if self._definitions:
            schema["$defs"] = dict(sorted(self._definitions.items()))
        return schema

    def schema(self, shape: Shape) -> dict[str, Any]:
        match shape:
            case Scalar(kind):
                return dict(_TYPES[kind])
            case DecimalShape():
                return {"type": "string", "pattern": r"^-?\d+(\.\d+)?([eE][+-]?\d+)?$"}
            case LiteralShape(values):
                return {"type": "string", "enum": list(values)}
            case EnumShape(type_):
                members = [member.value for member in type_]
                if not all(isinstance(each, str | int) for each in members):
                    raise ConfigError(f"the members of {type_.__name__} must be texts or numbers")
                return {"enum": members}
            case ListShape(item, container):
                schema: dict[str, Any] = {"type": "array", "items": self.schema(item)}
                if container in (set, frozenset):
                    schema["uniqueItems"] = True
                return schema
            case MapShape(value):
                return {"type": "object", "additionalProperties": self.schema(value)}
            case UnionShape(branches, is_optional):
                fields = [
                    frozenset(field.name for field in each.fields)
                    for each in branches
                    if isinstance(each, RecordShape)
                ]
                if len(set(fields)) != len(fields):
                    raise ConfigError(
                        "two classes of a union have the same fields: JSON has no names of types"
                    )
                null = [{"type": "null"}] if is_optional else []
                return {"anyOf": [*(self.schema(each) for each in branches), *null]}
            case RecordShape():
                return self._reference(shape)

    def _reference(self, shape: RecordShape) -> dict[str, Any]:
        if shape is self._root:
            return {"$ref": "#"}
        if shape.name not in self._definitions:
            self._definitions[shape.name] = {}
            self._definitions[shape.name] = self._object(shape)
        return {"$ref": f"#/$defs/{shape.name}"}

    def _object(self, shape: RecordShape) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "object"}
        if shape.doc:
            schema["description"] = shape.doc
        schema["properties"] = {each.name: self._property(each) for each in shape.fields}
        required = [each.name for each in shape.fields if not each.has_default]
        if required:
            schema["required"] = required
        # A closed object may get more fields and stay compatible; an open one may not.
        schema["additionalProperties"] = False
        return schema

    def _property(self, field: FieldShape) -> dict[str, Any]:
        schema = self.schema(field.shape)
        if field.doc:
            schema["description"] = field.doc
        if field.has_default:
            convert = self._writing.convert(field.shape)
            default = field.default
            if isinstance(default, set | frozenset):
                default = sorted(default)
            schema["default"] = default if convert is None or default is None else convert(default)
        return schema


def _pydantic(type_: Any) -> JSONType:
    schema = {"$schema": DIALECT, **type_.model_json_schema(by_alias=True)}
    _close(schema)

    def to_json(value: Any) -> bytes:
        if not isinstance(value, type_):
            raise SerializationError(f"{type(value).__name__} where {type_.__name__} is expected")
        text: str = value.model_dump_json(by_alias=True, warnings="error")
        return text.encode()

    def from_json(data: bytes) -> Any:
        try:
            return type_.model_validate_json(data)
        except ValueError as error:
            raise DeserializationError(
                f"{type_.__name__} cannot be made of the record: {error}"
            ) from error

    return JSONType(
        name=type_.__name__,
        text=json.dumps(schema, ensure_ascii=False, separators=(",", ":")),
        to_plain=lambda value: value.model_dump(mode="json", by_alias=True, warnings="error"),
        from_plain=type_.model_validate,
        to_json=to_json,
        from_json=from_json,
    )


def _close(schema: Any) -> None:
    """Close the objects of a schema, as those of dataclasses are."""
    if isinstance(schema, dict):
        if schema.get("type") == "object" and "properties" in schema:
            schema.setdefault("additionalProperties", False)
        for inner in schema.values():
            _close(inner)
    elif isinstance(schema, list):
        for inner in schema:
            _close(inner)
