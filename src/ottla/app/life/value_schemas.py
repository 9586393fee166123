"""JSON Schemas of the types that handlers take and return, as documents show them."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from ottla.client.model import ConsumerRecord
from ottla.schemas.derived.json_schema import json_type
from ottla.schemas.derived.shapes import is_pydantic_model

_JSON: Final = "application/json"
_PLAIN: Final[dict[Any, dict[str, Any]]] = {
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    str: {"type": "string"},
    types.NoneType: {"type": "null"},
}


@dataclass(frozen=True)
class ValueSchema:
    """A type as a message: its name, how it is written, and its schema; None if that is not known."""

    name: str
    content_type: str
    schema: dict[str, Any] | None


OfClass = Callable[[type], dict[str, Any]]
"""Gives the schema of a dataclass or pydantic model, or a reference to it."""


def value_schema(wanted: Any, of_class: OfClass) -> ValueSchema:
    """What is known of a type."""
    wanted = _bare(wanted)
    if wanted is Any or wanted is object:
        return ValueSchema("Record", "application/octet-stream", None)
    if wanted is bytes:
        schema = {"type": "string", "format": "binary"}
        return ValueSchema("Bytes", "application/octet-stream", schema)
    if wanted is str:
        return ValueSchema("Text", "text/plain", {"type": "string"})
    if _is_protobuf(wanted):
        return ValueSchema(wanted.__name__, "application/x-protobuf", None)
    return ValueSchema(_name_of(wanted), _JSON, _schema_of(wanted, of_class))


def class_schema(wanted: type) -> dict[str, Any]:
    """The schema of a dataclass or pydantic model, with its parts in `$defs`."""
    schema: dict[str, Any] = json.loads(json_type(wanted).text)
    return schema


def _is_class(wanted: object) -> bool:
    """Whether it is a dataclass or a pydantic model, which is its own schema."""
    return isinstance(wanted, type) and (
        dataclasses.is_dataclass(wanted) or is_pydantic_model(wanted)
    )


def _schema_of(wanted: Any, of_class: OfClass) -> dict[str, Any]:
    wanted = _bare(wanted)
    if _is_class(wanted):
        return of_class(wanted)
    if wanted in _PLAIN:
        return dict(_PLAIN[wanted])
    origin, inner = get_origin(wanted), get_args(wanted)
    if origin is Literal:
        return {"enum": list(inner)}
    if origin in (Union, types.UnionType):
        return {"oneOf": [_schema_of(each, of_class) for each in inner]}
    if (origin or wanted) in (list, tuple, set, frozenset, Sequence):
        schema: dict[str, Any] = {"type": "array"}
        if inner:
            schema["items"] = _schema_of(inner[0], of_class)
        return schema
    if (origin or wanted) in (dict, Mapping):
        schema = {"type": "object"}
        if len(inner) == 2 and inner[1] is not Any:
            schema["additionalProperties"] = _schema_of(inner[1], of_class)
        return schema
    if typing.is_typeddict(wanted):
        return _typed_dict(wanted, of_class)
    return {}


def _typed_dict(wanted: Any, of_class: OfClass) -> dict[str, Any]:
    hints = typing.get_type_hints(wanted)
    return {
        "type": "object",
        "properties": {name: _schema_of(hint, of_class) for name, hint in hints.items()},
        "required": sorted(wanted.__required_keys__),
    }


def _name_of(wanted: Any) -> str:
    """A short name for a message: `OrderList` for `list[Order]`, `OrderOrNone` for `Order | None`."""
    wanted = _bare(wanted)
    inner = [each for each in get_args(wanted) if each is not Ellipsis]
    origin = get_origin(wanted)
    if origin in (Union, types.UnionType):
        return "Or".join(_name_of(each) for each in inner)
    if origin is Literal:
        return "Literal"
    if origin in (list, tuple, set, frozenset, Sequence) and inner:
        return f"{_name_of(inner[0])}List"
    if origin in (dict, Mapping) or wanted is dict:
        return "Object"
    if wanted is types.NoneType:
        return "None"
    name = getattr(wanted, "__name__", "Value")
    return f"{name[:1].upper()}{name[1:]}"


def _bare(wanted: Any) -> Any:
    """The type without annotations; of a record, the type of its value."""
    while get_origin(wanted) is Annotated:
        wanted = get_args(wanted)[0]
    if wanted is ConsumerRecord:
        return bytes
    if get_origin(wanted) is ConsumerRecord:
        return _bare(get_args(wanted)[1])
    return wanted


def _is_protobuf(wanted: object) -> bool:
    return (
        isinstance(wanted, type) and hasattr(wanted, "DESCRIPTOR") and hasattr(wanted, "FromString")
    )
