"""JSON to and from typed Python values: strict about types and missing fields, tolerant of fields that are new.

A converter is made once for a type; a value that does not fit raises `MismatchError`, which names the field.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from enum import Enum
from typing import Any, TypeAlias, Union, get_args, get_origin
from uuid import UUID

from ottla.errors import ConfigError

Converter: TypeAlias = Callable[[Any], Any]


class MismatchError(ValueError):
    """A value is not what the type asks for; `path` leads to it from the outside in."""

    def __init__(self, reason: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path

    def inside(self, name: str) -> MismatchError:
        """The same, seen from one level further out."""
        return MismatchError(self.reason, (name, *self.path))

    def __str__(self) -> str:
        if not self.path:
            return self.reason
        path = self.path[0] + "".join(
            part if part.startswith("[") else f".{part}" for part in self.path[1:]
        )
        return f"field {path!r} {self.reason}"


def json_name(value: object) -> str:
    """What JSON calls a value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    names = {
        int: "a whole number",
        float: "a number",
        str: "text",
        list: "a list",
        dict: "an object",
    }
    return names.get(type(value), type(value).__name__)


def type_name(wanted: Any) -> str:
    """The name of a type in messages."""
    if wanted is None or wanted is types.NoneType:
        return "None"
    if isinstance(wanted, type) and not get_args(wanted):
        return wanted.__name__
    return str(wanted).replace("typing.", "")


def load_json(data: bytes | memoryview) -> Any:
    """The value of JSON text; MismatchError if it is none."""
    try:
        return json.loads(bytes(data))
    except (ValueError, RecursionError) as error:
        raise MismatchError(f"not JSON: {error}") from None


def dump_json(value: object) -> bytes:
    """The JSON of a value: dataclasses, models, enums, dates, UUIDs and decimals included."""
    return json.dumps(
        value, default=_plain, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    ).encode()


def _plain(value: Any) -> Any:
    """A value as `json` knows it; called for those that it does not know."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, UUID | Decimal):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    if callable(dump := getattr(value, "model_dump", None)):
        return dump(mode="json")
    raise TypeError(f"a {type(value).__name__} has no JSON")


class Converters:
    """Makes converters of plain JSON values into types; knows where names in annotations are looked up."""

    def __init__(self, names: Mapping[str, Any] | None = None) -> None:
        self._names = dict(names or {})
        # A class that contains itself finds its converter here.
        self._made: dict[Any, Converter] = {}

    def of(self, wanted: Any) -> Converter:
        """The converter for a type; ConfigError if there is none."""
        try:
            if wanted in self._made:
                return self._made[wanted]
        except TypeError as error:
            raise ConfigError(f"{wanted!r} is no type") from error
        later: list[Converter] = []
        self._made[wanted] = lambda value: later[0](value)
        try:
            made = self._make(wanted)
        except BaseException:
            del self._made[wanted]
            raise
        later.append(made)
        self._made[wanted] = made
        return made

    def _make(self, wanted: Any) -> Converter:
        if wanted is Any or wanted is object:
            return _as_it_is
        if wanted is None or wanted is types.NoneType:
            return _only_none
        if wanted in _SIMPLE:
            return _SIMPLE[wanted]
        origin = get_origin(wanted)
        if origin is not None:
            return self._make_generic(wanted, origin)
        if isinstance(wanted, type):
            return self._make_of_class(wanted)
        if isinstance(wanted, typing.NewType):
            return self.of(wanted.__supertype__)
        raise ConfigError(f"{type_name(wanted)} cannot be made of JSON")

    def _make_generic(self, wanted: Any, origin: Any) -> Converter:
        arguments = get_args(wanted)
        if origin is typing.Annotated:
            return self.of(arguments[0])
        if origin in (Union, types.UnionType):
            return self._union(wanted, arguments)
        if origin is typing.Literal:
            return _literal(arguments)
        if origin in (list, Sequence, set, frozenset):
            return _many(self.of(arguments[0]), list if origin is Sequence else origin)
        if origin is tuple:
            return self._tuple(arguments)
        if origin in (dict, Mapping):
            if arguments[0] not in (str, Any):
                raise ConfigError(f"{type_name(wanted)}: the names in a JSON object are text")
            return _mapping(self.of(arguments[1]))
        if isinstance(origin, type) and dataclasses.is_dataclass(origin):
            raise ConfigError(f"{type_name(wanted)}: generic dataclasses cannot be made of JSON")
        raise ConfigError(f"{type_name(wanted)} cannot be made of JSON")

    def _make_of_class(self, wanted: type) -> Converter:
        if is_pydantic_model(wanted):
            return _pydantic(wanted)
        if dataclasses.is_dataclass(wanted):
            return self._dataclass(wanted)
        if issubclass(wanted, Enum):
            return _enum(wanted)
        if typing.is_typeddict(wanted):
            return self._typed_dict(wanted)
        if issubclass(wanted, tuple) and hasattr(wanted, "_fields"):
            return self._named_tuple(wanted)
        if issubclass(wanted, str | int | float) and wanted not in (bool,):
            plain = next(kind for kind in (str, int, float) if issubclass(wanted, kind))
            convert = _SIMPLE[plain]
            return lambda value: wanted(convert(value))
        raise ConfigError(
            f"{wanted.__name__} cannot be made of JSON: it is no dataclass, pydantic model or plain type"
        )

    def hints(self, wanted: Any) -> dict[str, Any]:
        """The types of a class's fields."""
        try:
            return typing.get_type_hints(wanted, localns=self._names, include_extras=True)
        except NameError as error:
            raise ConfigError(
                f"{type_name(wanted)}: a field's type cannot be found ({error}): import it at run time"
            ) from error

    def _dataclass(self, wanted: Any) -> Converter:
        hints = self.hints(wanted)
        fields = [field for field in dataclasses.fields(wanted) if field.init]
        converters = [(field.name, self.of(hints[field.name])) for field in fields]
        needed = {
            field.name
            for field in fields
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        }

        def convert(value: Any) -> Any:
            if type(value) is not dict:
                raise MismatchError(f"must be an object, not {json_name(value)}")
            found = _convert_fields(value, converters, needed)
            try:
                return wanted(**found)
            except (ValueError, TypeError) as error:
                # __post_init__ checks what types cannot say.
                raise MismatchError(f"is no {wanted.__name__}: {error}") from error

        return convert

    def _typed_dict(self, wanted: Any) -> Converter:
        marked = self.hints(wanted)
        hints = {
            name: get_args(hint)[0]
            if get_origin(hint) in (typing.Required, typing.NotRequired)
            else hint
            for name, hint in marked.items()
        }
        converters = [(name, self.of(hint)) for name, hint in hints.items()]
        # With `from __future__ import annotations`, __required_keys__ has those of NotRequired too.
        optional = {name for name, hint in marked.items() if get_origin(hint) is typing.NotRequired}
        needed = set(wanted.__required_keys__) - optional

        def convert(value: Any) -> Any:
            if type(value) is not dict:
                raise MismatchError(f"must be an object, not {json_name(value)}")
            return {**value, **_convert_fields(value, converters, needed)}

        return convert

    def _named_tuple(self, wanted: Any) -> Converter:
        hints = self.hints(wanted)
        converters = [(name, self.of(hints.get(name, Any))) for name in wanted._fields]
        needed = set(wanted._fields) - set(wanted._field_defaults)

        def convert(value: Any) -> Any:
            if isinstance(value, list):
                # A named tuple is written as a list, for it is a tuple.
                if len(value) > len(converters):
                    raise MismatchError(f"must have {len(converters)} elements, not {len(value)}")
                value = dict(zip(wanted._fields, value, strict=False))
            if type(value) is not dict:
                raise MismatchError(f"must be an object or a list, not {json_name(value)}")
            return wanted(**_convert_fields(value, converters, needed))

        return convert

    def _union(self, wanted: Any, arguments: tuple[Any, ...]) -> Converter:
        has_none = types.NoneType in arguments
        others = [self.of(each) for each in arguments if each is not types.NoneType]
        if len(others) == 1:
            only = others[0]
            return lambda value: None if value is None else only(value)

        def convert(value: Any) -> Any:
            if value is None and has_none:
                return None
            reasons = []
            for each in others:
                try:
                    return each(value)
                except MismatchError as error:
                    reasons.append(str(error))
            raise MismatchError(f"must be {type_name(wanted)}: {'; '.join(reasons)}")

        return convert

    def _tuple(self, arguments: tuple[Any, ...]) -> Converter:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return _many(self.of(arguments[0]), tuple)
        converters = [self.of(each) for each in arguments]

        def convert(value: Any) -> Any:
            if type(value) is not list or len(value) != len(converters):
                raise MismatchError(
                    f"must be a list of {len(converters)} elements, not {json_name(value)}"
                )
            return tuple(
                _inside(f"[{index}]", each, item)
                for index, (each, item) in enumerate(zip(converters, value, strict=True))
            )

        return convert


def is_pydantic_model(wanted: object) -> bool:
    """Whether it is a class of pydantic's, without importing pydantic."""
    return (
        isinstance(wanted, type)
        and callable(getattr(wanted, "model_validate_json", None))
        and callable(getattr(wanted, "model_validate", None))
    )


def pydantic_mismatch(error: Exception) -> MismatchError:
    """The first fault that pydantic found, in our words."""
    faults = error.errors() if hasattr(error, "errors") else []
    if not faults:
        return MismatchError(f"is not valid: {error}")
    first = faults[0]
    path = tuple(f"[{each}]" if isinstance(each, int) else str(each) for each in first["loc"])
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return MismatchError(f"is not valid: {first['msg']}{more}", path)


def _pydantic(wanted: Any) -> Converter:
    def convert(value: Any) -> Any:
        try:
            return wanted.model_validate(value)
        except ValueError as error:
            raise pydantic_mismatch(error) from error

    return convert


def _inside(name: str, convert: Converter, value: Any) -> Any:
    try:
        return convert(value)
    except MismatchError as error:
        raise error.inside(name) from None


def _convert_fields(
    value: dict[str, Any], converters: list[tuple[str, Converter]], needed: set[str]
) -> dict[str, Any]:
    found = {}
    for name, convert in converters:
        if name in value:
            try:
                found[name] = convert(value[name])
            except MismatchError as error:
                raise error.inside(name) from None
        elif name in needed:
            raise MismatchError("is missing", (name,))
    return found


def _as_it_is(value: Any) -> Any:
    return value


def _only_none(value: Any) -> None:
    if value is not None:
        raise MismatchError(f"must be null, not {json_name(value)}")


def _exactly(kind: type, words: str) -> Converter:
    def convert(value: Any) -> Any:
        if type(value) is not kind:
            raise MismatchError(f"must be {words}, not {json_name(value)}")
        return value

    return convert


def _float(value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is not int:
        raise MismatchError(f"must be a number (float), not {json_name(value)}")
    return float(value)


def _parsed(parse: Callable[[str], Any], words: str) -> Converter:
    def convert(value: Any) -> Any:
        if type(value) is not str:
            raise MismatchError(f"must be {words}, not {json_name(value)}")
        try:
            return parse(value)
        except ValueError:
            raise MismatchError(f"must be {words}, not {value!r}") from None

    return convert


def _decimal(value: Any) -> Decimal:
    if type(value) in (str, int, float):
        try:
            return Decimal(str(value))
        except InvalidOperation:
            pass
    raise MismatchError(f"must be a decimal number, not {json_name(value)}")


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error


def _many(convert: Converter, collect: Callable[[list[Any]], Any]) -> Converter:
    def convert_all(value: Any) -> Any:
        if type(value) is not list:
            raise MismatchError(f"must be a list, not {json_name(value)}")
        done = []
        for item in value:
            try:
                done.append(convert(item))
            except MismatchError as error:
                raise error.inside(f"[{len(done)}]") from None
        return done if collect is list else collect(done)

    return convert_all


def _mapping(convert: Converter) -> Converter:
    def convert_all(value: Any) -> Any:
        if type(value) is not dict:
            raise MismatchError(f"must be an object, not {json_name(value)}")
        return {name: _inside(name, convert, item) for name, item in value.items()}

    return convert_all


def _literal(choices: tuple[Any, ...]) -> Converter:
    by_type = {(type(each), each) for each in choices}
    words = ", ".join(repr(each) for each in choices)

    def convert(value: Any) -> Any:
        try:
            is_choice = (type(value), value) in by_type
        except TypeError:
            is_choice = False
        if not is_choice:
            raise MismatchError(f"must be one of {words}, not {value!r}")
        return value

    return convert


def _enum(wanted: type[Enum]) -> Converter:
    words = ", ".join(repr(each.value) for each in wanted)

    def convert(value: Any) -> Any:
        try:
            return wanted(value)
        except ValueError:
            raise MismatchError(f"must be one of {words}, not {value!r}") from None

    return convert


_SIMPLE: dict[Any, Converter] = {
    str: _exactly(str, "text (str)"),
    int: _exactly(int, "a whole number (int)"),
    bool: _exactly(bool, "true or false (bool)"),
    float: _float,
    dict: _exactly(dict, "an object"),
    list: _exactly(list, "a list"),
    bytes: _parsed(_base64, "text in base64 (bytes)"),
    datetime: _parsed(datetime.fromisoformat, "a time as in 2026-01-31T12:00:00Z (datetime)"),
    date: _parsed(date.fromisoformat, "a date as in 2026-01-31 (date)"),
    time: _parsed(time.fromisoformat, "a time of day as in 12:30:00 (time)"),
    UUID: _parsed(UUID, "a UUID"),
    Decimal: _decimal,
}
