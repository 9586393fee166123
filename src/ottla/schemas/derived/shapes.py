"""What a dataclass or a pydantic model consists of, in terms that all formats share."""

from __future__ import annotations

import dataclasses
import enum
import sys
import types
import typing
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, TypeAlias
from uuid import UUID

from ottla.errors import ConfigError


class Kind(enum.Enum):
    """Types without parts."""

    BOOLEAN = bool
    INTEGER = int
    FLOAT = float
    TEXT = str
    BYTES = bytes
    DATETIME = datetime
    DATE = date
    TIME = time
    DURATION = timedelta
    UUID = UUID


class _Missing(enum.Enum):
    MISSING = "no default"


MISSING: Final = _Missing.MISSING


@dataclass(frozen=True)
class Digits:
    """How many digits a Decimal has, and how many of them behind the point: `Annotated[Decimal, Digits(12, 2)]`."""

    precision: int
    scale: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.scale <= self.precision or self.precision < 1:
            raise ConfigError(f"{self} cannot be: 0 <= scale <= precision, and precision >= 1")


@dataclass(frozen=True)
class Scalar:
    """A value without parts."""

    kind: Kind


@dataclass(frozen=True)
class DecimalShape:
    """A decimal number."""

    digits: Digits


@dataclass(frozen=True)
class LiteralShape:
    """One of some texts."""

    values: tuple[str, ...]


@dataclass(frozen=True)
class EnumShape:
    """A member of an enum."""

    type: type[enum.Enum]


@dataclass(frozen=True)
class ListShape:
    """Items of one shape."""

    item: Shape
    container: type


@dataclass(frozen=True)
class MapShape:
    """Values of one shape by text."""

    value: Shape


@dataclass(frozen=True)
class UnionShape:
    """A value of one of some shapes, or None if it is optional."""

    branches: tuple[Shape, ...]
    is_optional: bool


@dataclass(eq=False)
class RecordShape:
    """A dataclass or a pydantic model."""

    type: type
    name: str
    doc: str | None
    is_pydantic: bool
    fields: list[FieldShape] = field(default_factory=list)


@dataclass(eq=False)
class FieldShape:
    """A field: `attribute` in Python, `name` in the schema."""

    attribute: str
    name: str
    shape: Shape
    default: Any
    doc: str | None = None
    aliases: tuple[str, ...] = ()
    number: int | None = None
    init_name: str = ""

    @property
    def has_default(self) -> bool:
        """Whether it may be left out."""
        return self.default is not MISSING


Shape: TypeAlias = (
    Scalar
    | DecimalShape
    | LiteralShape
    | EnumShape
    | ListShape
    | MapShape
    | UnionShape
    | RecordShape
)

_SCALARS: Mapping[Any, Kind] = {kind.value: kind for kind in Kind}
_LISTS: Mapping[Any, type] = {
    list: list,
    Sequence: list,
    MutableSequence: list,
    tuple: tuple,
    set: set,
    frozenset: frozenset,
}
_MAPS = (dict, Mapping, MutableMapping)
_NONE = type(None)


def is_pydantic_model(type_: object) -> bool:
    """Whether it is a pydantic model; without importing pydantic."""
    module = sys.modules.get("pydantic")
    return module is not None and isinstance(type_, type) and issubclass(type_, module.BaseModel)


def is_record_type(type_: object) -> bool:
    """Whether it is a class from which a schema can be derived."""
    return isinstance(type_, type) and (dataclasses.is_dataclass(type_) or is_pydantic_model(type_))


def record_shape(type_: type) -> RecordShape:
    """The shape of a dataclass or a pydantic model; ConfigError names the field that has no schema."""
    return _Reader().record(type_)


class _Reader:
    """Reads a class and those of its fields; a name stands for one class."""

    def __init__(self) -> None:
        self._records: dict[type, RecordShape] = {}
        self._by_name: dict[str, type] = {}

    def record(self, type_: type) -> RecordShape:
        if type_ in self._records:
            return self._records[type_]
        if not is_record_type(type_):
            raise ConfigError(
                f"{_name(type_)} has no schema of its own: give a dataclass or a pydantic model"
            )
        self.claim_name(type_)
        pydantic = is_pydantic_model(type_)
        shape = RecordShape(type_, type_.__name__, _doc(type_), pydantic)
        self._records[type_] = shape
        shape.fields = self._pydantic_fields(type_) if pydantic else self._dataclass_fields(type_)
        names = [each.name for each in shape.fields]
        if len(set(names)) != len(names):
            raise ConfigError(f"{_name(type_)} has two fields with one name in the schema")
        return shape

    def claim_name(self, type_: type) -> None:
        name = type_.__name__
        if not name.isidentifier() or not name.isascii():
            raise ConfigError(
                f"{name} cannot be the name of a schema: it must have letters, digits and _ only"
            )
        other = self._by_name.setdefault(name, type_)
        if other is not type_:
            raise ConfigError(
                f"{_name(other)} and {_name(type_)} have one name, and would be one type in the schema: rename one"
            )

    def _dataclass_fields(self, type_: type) -> list[FieldShape]:
        try:
            hints = typing.get_type_hints(type_, include_extras=True)
        except NameError as error:
            raise ConfigError(
                f"the annotations of {_name(type_)} name something that its module does not have ({error}): "
                "define the classes at the top level of a module"
            ) from error
        found = []
        for each in dataclasses.fields(type_):
            if not each.init:
                continue  # it is computed from the others
            default: Any = MISSING
            if each.default is not dataclasses.MISSING:
                default = each.default
            elif each.default_factory is not dataclasses.MISSING:
                default = _made_default(each.default_factory)
            meta = each.metadata
            found.append(
                FieldShape(
                    attribute=each.name,
                    name=str(meta.get("name", each.name)),
                    shape=self._field(type_, each.name, hints[each.name], ()),
                    default=default,
                    doc=meta.get("doc"),
                    aliases=tuple(meta.get("aliases", ())),
                    number=meta.get("number"),
                    init_name=each.name,
                )
            )
        return found

    def _pydantic_fields(self, type_: Any) -> list[FieldShape]:
        found = []
        populates_by_name = bool(
            type_.model_config.get("populate_by_name") or type_.model_config.get("validate_by_name")
        )
        for name, info in type_.model_fields.items():
            default: Any = MISSING
            if info.default_factory is not None:
                takes_data = getattr(info, "default_factory_takes_validated_data", False)
                default = MISSING if takes_data else _made_default(info.default_factory)
            elif not info.is_required():
                default = info.default
            alias = info.validation_alias if isinstance(info.validation_alias, str) else info.alias
            extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
            found.append(
                FieldShape(
                    attribute=name,
                    name=info.serialization_alias or info.alias or name,
                    shape=self._field(type_, name, info.annotation, info.metadata),
                    default=default,
                    doc=info.description,
                    aliases=tuple(extra.get("aliases", ())),
                    number=extra.get("number"),
                    init_name=name if populates_by_name or alias is None else alias,
                )
            )
        return found

    def _field(self, owner: type, name: str, hint: Any, extras: Sequence[Any]) -> Shape:
        try:
            return self.shape(hint, extras)
        except ConfigError as error:
            where = f"{owner.__qualname__}.{name}"
            if str(error).startswith(("the annotations of", where)) or "one name" in str(error):
                raise
            raise ConfigError(f"{where}: {error}") from error

    def shape(self, hint: Any, extras: Sequence[Any] = ()) -> Shape:
        """The shape of an annotation."""
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin is typing.Annotated:
            return self.shape(arguments[0], (*extras, *hint.__metadata__))
        if hint in (typing.List, typing.Dict, list, dict, tuple, set, frozenset):  # noqa: UP006
            raise ConfigError(
                f"{_name(hint)} does not say of what: write list[str], dict[str, int] …"
            )
        if origin in (typing.Union, types.UnionType):
            return self._union(arguments, extras)
        if origin is typing.Literal:
            if all(isinstance(value, str) for value in arguments):
                return LiteralShape(tuple(arguments))
            raise ConfigError("a Literal must be of texts")
        if origin in _LISTS:
            return self._list(origin, arguments, extras)
        if origin in _MAPS:
            if arguments[0] is not str:
                raise ConfigError("the keys of a map must be str")
            return MapShape(self.shape(arguments[1]))
        if hint is Decimal:
            return DecimalShape(_digits(extras))
        if hint in _SCALARS:
            return Scalar(_SCALARS[hint])
        if isinstance(hint, type):
            if issubclass(hint, enum.Enum):
                self.claim_name(hint)
                return EnumShape(hint)
            if is_record_type(hint):
                return self.record(hint)
        raise ConfigError(f"{_name(hint)} has no place in a schema")

    def _list(self, origin: Any, arguments: tuple[Any, ...], extras: Sequence[Any]) -> ListShape:
        if origin is tuple and (len(arguments) != 2 or arguments[1] is not Ellipsis):
            raise ConfigError("a tuple must be of any length: write tuple[X, ...], or a dataclass")
        return ListShape(self.shape(arguments[0]), _LISTS[origin])

    def _union(self, arguments: tuple[Any, ...], extras: Sequence[Any]) -> UnionShape:
        branches = tuple(self.shape(each, extras) for each in arguments if each is not _NONE)
        if not branches:
            raise ConfigError("None alone has no place in a schema")
        if any(isinstance(each, UnionShape) for each in branches):
            raise ConfigError("a union in a union: write one")
        maps = sum(isinstance(each, MapShape | RecordShape) for each in branches)
        if maps > 1 and any(isinstance(each, MapShape) for each in branches):
            raise ConfigError("a map beside a record in a union could not be told apart")
        return UnionShape(branches, _NONE in arguments)


def _digits(extras: Sequence[Any]) -> Digits:
    """The size of a decimal: our annotation, or pydantic's max_digits and decimal_places."""
    precision = scale = None
    for extra in extras:
        if isinstance(extra, Digits):
            return extra
        precision = getattr(extra, "max_digits", None) or precision
        places = getattr(extra, "decimal_places", None)
        scale = scale if places is None else places
        if isinstance(constraints := getattr(extra, "metadata", None), list | tuple):
            nested = [each for each in constraints if each is not extra]
            if nested:
                return _digits(nested)
    if precision is None:
        raise ConfigError(
            "a Decimal needs its number of digits: write Annotated[Decimal, Digits(12, 2)], "
            "or pydantic's Field(max_digits=12, decimal_places=2)"
        )
    return Digits(precision, scale or 0)


def _made_default(factory: Any) -> Any:
    """The default that a factory makes, if it makes the same one each time: the schema's text must not change."""
    first, second = factory(), factory()
    changes = isinstance(first, datetime | date | time | UUID)
    return first if first == second and not changes else MISSING


def _doc(type_: type) -> str | None:
    doc = type_.__dict__.get("__doc__")
    # A dataclass without a docstring is given its signature.
    if not doc or doc.startswith(f"{type_.__name__}("):
        return None
    return " ".join(str(doc).split())


def _name(hint: Any) -> str:
    if isinstance(hint, type):
        return f"{hint.__module__}.{hint.__qualname__}"
    return str(hint)
