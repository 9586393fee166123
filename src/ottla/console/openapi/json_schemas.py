"""JSON Schemas of the types in annotations, as `dump_json` writes their values and as bodies are read."""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Mapping, MutableMapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args, get_origin
from uuid import UUID

from ottla.app.declarations.json_conversion import dump_json, load_json
from ottla.console.openapi.field_texts import class_text, field_texts
from ottla.errors import ConfigError

Schema: TypeAlias = dict[str, Any]

_SIMPLE: Final[Mapping[Any, Schema]] = {
    Any: {},
    object: {},
    None: {"type": "null"},
    types.NoneType: {"type": "null"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    bytes: {"type": "string", "contentEncoding": "base64"},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    time: {"type": "string", "format": "time"},
    UUID: {"type": "string", "format": "uuid"},
    Decimal: {"type": "string"},
}
_LISTS: Final = (list, Sequence, set, frozenset, AbstractSet)
_MAPPINGS: Final = (dict, Mapping, MutableMapping)
_SET_TYPES: Final = (set, frozenset, AbstractSet)
REFERENCE: Final = "#/components/schemas/"


class _Use(NamedTuple):
    """A class, and in which direction it goes: what is given may leave out fields that have a default."""

    type: type
    is_given: bool


class JsonSchemas:
    """Makes schemas; classes become components, whose names are settled by `components`."""

    def __init__(self) -> None:
        self._made: dict[_Use, Schema] = {}
        self._references: list[tuple[Schema, _Use]] = []

    def of_answer(self, wanted: Any) -> Schema:
        """The schema of what is answered."""
        return self._schema(wanted, is_given=False)

    def of_body(self, wanted: type) -> Schema:
        """The schema of a body, which may have no other fields."""
        use = _Use(wanted, is_given=True)
        reference = self._reference(use)
        self._made[use]["additionalProperties"] = False
        return reference

    def parameter(self, field: dataclasses.Field[Any], hint: Any) -> Schema:
        """The schema of a parameter, which is left out instead of being null."""
        return self._field(field, _without_none(hint), None, is_given=True)

    def components(self) -> dict[str, Schema]:
        """The schemas of all classes so far by name; references to them get these names."""
        names = self._names()
        for reference, use in self._references:
            reference["$ref"] = REFERENCE + names[use]
        found = {names[use]: schema for use, schema in self._made.items()}
        return dict(sorted(found.items()))

    def _names(self) -> dict[_Use, str]:
        classes: dict[str, set[type]] = {}
        for use in self._made:
            classes.setdefault(use.type.__name__, set()).add(use.type)
        found: dict[_Use, str] = {}
        for use in self._made:
            name = use.type.__name__
            if len(classes[name]) > 1:
                name = f"{use.type.__module__.rpartition('.')[2]}.{name}"
            other = _Use(use.type, not use.is_given)
            if use.is_given and other in self._made:
                name += "Input"
            if name in found.values():
                raise ConfigError(f"two classes are called {name} in the OpenAPI document")
            found[use] = name
        return found

    def _schema(self, wanted: Any, *, is_given: bool) -> Schema:
        origin, arguments = get_origin(wanted), get_args(wanted)
        if origin is None:
            return self._plain(wanted, is_given=is_given)
        if origin is typing.Annotated:
            return self._schema(arguments[0], is_given=is_given)
        if origin in (typing.Union, types.UnionType):
            return self._union(arguments, is_given=is_given)
        if origin is Literal:
            return _choices(arguments)
        if origin is tuple and arguments[1:] != (Ellipsis,):
            return _tuple([self._schema(each, is_given=is_given) for each in arguments])
        if origin is tuple or origin in _LISTS:
            schema: Schema = {
                "type": "array",
                "items": self._schema(arguments[0], is_given=is_given),
            }
            return {**schema, "uniqueItems": True} if origin in _SET_TYPES else schema
        if origin in _MAPPINGS:
            values = self._schema(arguments[1], is_given=is_given)
            return {"type": "object", "additionalProperties": values}
        raise ConfigError(f"{wanted} has no schema")

    def _plain(self, wanted: Any, *, is_given: bool) -> Schema:
        if wanted in _SIMPLE:
            return dict(_SIMPLE[wanted])
        if isinstance(wanted, typing.NewType):
            return self._schema(wanted.__supertype__, is_given=is_given)
        if not isinstance(wanted, type):
            raise ConfigError(f"{wanted!r} has no schema")
        if issubclass(wanted, enum.Enum):
            return self._reference(_Use(wanted, is_given=False))
        if dataclasses.is_dataclass(wanted):
            return self._reference(_Use(wanted, is_given and _has_defaults(wanted)))
        if issubclass(wanted, tuple) and hasattr(wanted, "_fields"):
            return self._reference(_Use(wanted, is_given=False))
        for simple in (str, int, float):
            if issubclass(wanted, simple):
                return dict(_SIMPLE[simple])
        raise ConfigError(
            f"{wanted.__qualname__} has no schema: it is no dataclass and no plain type"
        )

    def _union(self, arguments: Sequence[Any], *, is_given: bool) -> Schema:
        found = [self._schema(each, is_given=is_given) for each in arguments]
        kinds = [each.get("type") for each in found]
        if all(list(each) == ["type"] for each in found):
            return {"type": kinds}
        return {"anyOf": found}

    def _reference(self, use: _Use) -> Schema:
        if use not in self._made:
            # A class that contains itself finds itself here.
            made = self._made[use] = {}
            made.update(self._of_class(use))
        reference: Schema = {"$ref": ""}
        self._references.append((reference, use))
        return reference

    def _of_class(self, use: _Use) -> Schema:
        if issubclass(use.type, enum.Enum):
            return _described(_choices([each.value for each in use.type]), class_text(use.type))
        hints = hints_of(use.type)
        texts = field_texts(use.type)
        if not dataclasses.is_dataclass(use.type):
            names = typing.cast("tuple[str, ...]", use.type._fields)  # type: ignore[attr-defined]
            items = [
                {"title": name, **_described(self.of_answer(hints[name]), texts.get(name))}
                for name in names
            ]
            return _described(_tuple(items), class_text(use.type))
        fields = dataclasses.fields(use.type)
        properties = {
            each.name: self._field(
                each, hints[each.name], texts.get(each.name), is_given=use.is_given
            )
            for each in fields
        }
        required = [each.name for each in fields if not (use.is_given and has_default(each))]
        schema: Schema = {"type": "object", "properties": properties}
        if required:
            schema["required"] = required
        return _described(schema, class_text(use.type))

    def _field(
        self, field: dataclasses.Field[Any], hint: Any, text: str | None, *, is_given: bool
    ) -> Schema:
        """The schema of a field, with its default if it may be left out."""
        schema = _described(self._schema(hint, is_given=is_given), text)
        default = field.default
        if is_given and default is not dataclasses.MISSING and default is not None:
            schema["default"] = load_json(dump_json(default))
        return schema


def hints_of(wanted: Any) -> dict[str, Any]:
    """The types of a class's fields or of a function; ConfigError if a name in them is not there at run time."""
    try:
        return typing.get_type_hints(wanted)
    except NameError as error:
        raise ConfigError(
            f"{wanted.__module__}.{wanted.__qualname__}: {error}: import it at run time"
        ) from error


def has_default(field: dataclasses.Field[Any]) -> bool:
    """Whether a field may be left out."""
    return (
        field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
    )


def _has_defaults(type_: type) -> bool:
    """Whether a class looks different when it is given: fields of it, or of what it consists of, may be left out."""
    seen: set[Any] = set()

    def look(wanted: Any) -> bool:
        if wanted in seen:
            return False
        seen.add(wanted)
        if isinstance(wanted, type) and dataclasses.is_dataclass(wanted):
            fields = dataclasses.fields(wanted)
            return any(map(has_default, fields)) or any(map(look, hints_of(wanted).values()))
        return any(look(each) for each in get_args(wanted) if get_origin(wanted) is not Literal)

    return look(type_)


def _without_none(wanted: Any) -> Any:
    if get_origin(wanted) in (typing.Union, types.UnionType):
        (wanted,) = (each for each in get_args(wanted) if each is not types.NoneType)
    return wanted


def _choices(values: Sequence[Any]) -> Schema:
    kinds = {type(value) for value in values}
    schema: Schema = {"enum": list(values)}
    return {"type": "string", **schema} if kinds == {str} else schema


def _tuple(items: Sequence[Schema]) -> Schema:
    return {
        "type": "array",
        "prefixItems": list(items),
        "minItems": len(items),
        "maxItems": len(items),
    }


def _described(schema: Schema, text: str | None) -> Schema:
    if text is not None:
        schema["description"] = text
    return schema
