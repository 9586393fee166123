"""Conversions between objects of a class and the dicts and lists that a format's library takes.

A conversion is a function of one value, or None where values are taken as they are. The formats differ in their scalars
only: `Leaves` has the conversions of those.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from operator import attrgetter
from typing import Any, TypeAlias

from ottla.errors import DeserializationError, SerializationError
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
)

Convert: TypeAlias = Callable[[Any], Any]


@dataclass
class Leaves:
    """The conversions of a format's scalars, by kind; what is missing is taken as it is."""

    write: Mapping[Kind, Convert] = field(default_factory=dict)
    read: Mapping[Kind, Convert] = field(default_factory=dict)
    write_decimal: Callable[[DecimalShape], Convert | None] = lambda shape: None
    read_decimal: Callable[[DecimalShape], Convert | None] = lambda shape: None
    write_enum: Callable[[EnumShape], Convert] = lambda shape: lambda member: member.name
    read_enum: Callable[[EnumShape], Convert] = lambda shape: shape.type.__getitem__
    names_records_in_unions: bool = False
    """Whether records of a union with several are pairs of their name and their dict."""
    full_name: Callable[[str], str] = lambda name: name


class Writing:
    """From objects to plain values."""

    def __init__(self, leaves: Leaves) -> None:
        self._leaves = leaves
        self._records: dict[type, Convert] = {}

    def convert(self, shape: Shape) -> Convert | None:
        """The conversion of a shape's values."""
        leaves = self._leaves
        match shape:
            case Scalar(kind):
                return leaves.write.get(kind)
            case DecimalShape():
                return leaves.write_decimal(shape)
            case LiteralShape(values):
                return one_of(values)
            case EnumShape(type_):
                return _checked(type_, leaves.write_enum(shape))
            case ListShape(item, _):
                return _list_writer(self.convert(item))
            case MapShape(value):
                return _map_writer(self.convert(value))
            case UnionShape():
                return self._union(shape)
            case RecordShape():
                return self.record(shape)

    def record(self, shape: RecordShape) -> Convert:
        """The conversion of a record into a dict by the schema's names."""
        known = self._records.get(shape.type)
        if known is not None:
            return known
        # A record may contain itself.
        self._records[shape.type] = lambda value: convert(value)
        names = tuple(each.name for each in shape.fields)
        get = _getter(shape.fields)
        changes = [
            (each.name, change)
            for each in shape.fields
            if (change := self.convert(each.shape)) is not None
        ]
        type_ = shape.type

        def convert(value: Any) -> dict[str, Any]:
            if not isinstance(value, type_):
                raise SerializationError(
                    f"{type(value).__name__} where {type_.__name__} is expected"
                )
            plain = dict(zip(names, get(value), strict=True))
            for name, change in changes:
                plain[name] = change(plain[name])
            return plain

        self._records[shape.type] = convert
        return convert

    def _union(self, shape: UnionShape) -> Convert | None:
        if len(shape.branches) == 1:
            return _optional(self.convert(shape.branches[0])) if shape.is_optional else None
        records = sum(isinstance(each, RecordShape) for each in shape.branches)
        named = self._leaves.names_records_in_unions and records > 1
        choices: list[tuple[Any, Convert | None]] = []
        for branch in shape.branches:
            change = self.convert(branch)
            if named and isinstance(branch, RecordShape) and change is not None:
                change = _with_name(self._leaves.full_name(branch.name), change)
            choices.append((python_types(branch), change))

        def convert(value: Any) -> Any:
            if value is None and shape.is_optional:
                return None
            for types_, change in choices:
                if isinstance(value, types_) and not _is_disguised(value, types_):
                    return value if change is None else change(value)
            raise SerializationError(f"{type(value).__name__} is none of the union's types")

        return convert


class Reading:
    """From plain values to objects."""

    def __init__(self, leaves: Leaves) -> None:
        self._leaves = leaves
        self._records: dict[type, Convert] = {}

    def convert(self, shape: Shape) -> Convert | None:
        """The conversion to a shape's values."""
        leaves = self._leaves
        match shape:
            case Scalar(kind):
                return leaves.read.get(kind)
            case DecimalShape():
                return leaves.read_decimal(shape)
            case LiteralShape(values):
                return one_of(values)
            case EnumShape():
                return leaves.read_enum(shape)
            case ListShape(item, container):
                return _list_reader(self.convert(item), container)
            case MapShape(value):
                return _map_reader(self.convert(value))
            case UnionShape():
                return self._union(shape)
            case RecordShape():
                return self.record(shape)

    def record(self, shape: RecordShape) -> Convert:
        """The conversion of a dict by the schema's names; names that the class lacks are left out."""
        known = self._records.get(shape.type)
        if known is not None:
            return known
        self._records[shape.type] = lambda value: convert(value)
        plans = [(each.name, each.init_name, self.convert(each.shape)) for each in shape.fields]
        make = _constructor(shape)

        def convert(plain: Any) -> Any:
            if not isinstance(plain, dict):
                raise DeserializationError(f"{type(plain).__name__} where a record is expected")
            arguments = {}
            for name, init_name, change in plans:
                if name in plain:
                    value = plain[name]
                    arguments[init_name] = value if change is None else change(value)
            return make(arguments)

        self._records[shape.type] = convert
        return convert

    def _union(self, shape: UnionShape) -> Convert | None:
        if len(shape.branches) == 1:
            return _optional(self.convert(shape.branches[0])) if shape.is_optional else None
        by_name: dict[str, Convert] = {}
        # Without names, a record is known by its fields; a newer version's is tried in turn.
        by_fields: dict[frozenset[str], Convert] = {}
        choices: list[Convert] = []
        for branch in shape.branches:
            change = self.convert(branch)
            if isinstance(branch, RecordShape) and change is not None:
                by_name[self._leaves.full_name(branch.name)] = change
                by_fields[frozenset(each.name for each in branch.fields)] = change
            choices.append(_reading_choice(branch, change))

        def convert(value: Any) -> Any:
            if value is None and shape.is_optional:
                return None
            if isinstance(value, tuple) and value[0] in by_name:
                return by_name[value[0]](value[1])
            if isinstance(value, dict) and (known := by_fields.get(frozenset(value))) is not None:
                return known(value)
            for choice in choices:
                try:
                    return choice(value)
                except _OtherBranchError:
                    continue
            raise DeserializationError(f"{type(value).__name__} is none of the union's types")

        return convert


class _OtherBranchError(Exception):
    """A value of a union is of another branch."""


def _reading_choice(branch: Shape, change: Convert | None) -> Convert:
    """A conversion that says if a plain value is not of its branch."""
    plain_types: tuple[type, ...]
    match branch:
        case RecordShape() | MapShape():
            plain_types = (dict,)
        case ListShape():
            plain_types = (list,)
        case _:
            plain_types = (object,) if change is not None else python_types(branch)

    def choose(value: Any) -> Any:
        if not isinstance(value, plain_types) or _is_disguised(value, plain_types):
            raise _OtherBranchError
        try:
            return value if change is None else change(value)
        except Exception as error:
            raise _OtherBranchError from error

    return choose


def python_types(shape: Shape) -> tuple[type, ...]:
    """The classes of a shape's values, for `isinstance`."""
    match shape:
        case Scalar(kind):
            return (float, int) if kind is Kind.FLOAT else (kind.value,)
        case DecimalShape():
            return (Decimal,)
        case LiteralShape():
            return (str,)
        case EnumShape(type_):
            return (type_,)
        case ListShape():
            return (list, tuple, set, frozenset)
        case MapShape():
            return (dict,)
        case RecordShape():
            return (shape.type,)
        case UnionShape(branches):
            return tuple(each for branch in branches for each in python_types(branch))


def check(kind: Kind) -> Convert:
    """A conversion that changes nothing, and refuses values of other types."""
    types_, exact = python_types(Scalar(kind)), kind.value

    def checked(value: Any) -> Any:
        if type(value) is exact:
            return value
        if isinstance(value, types_) and not _is_disguised(value, types_):
            return value
        raise SerializationError(f"{type(value).__name__} where {kind.value.__name__} is expected")

    return checked


def check_decimal(value: Any) -> Any:
    """The same for decimals, which have to be finite."""
    if isinstance(value, Decimal) and value.is_finite():
        return value
    raise SerializationError(f"{value!r} where a finite Decimal is expected")


def _is_disguised(value: Any, types_: tuple[type, ...]) -> bool:
    """True and False are numbers to Python, and a datetime is a date."""
    if isinstance(value, bool):
        return bool not in types_ and object not in types_
    return isinstance(value, datetime) and date in types_ and datetime not in types_


def _getter(fields: list[FieldShape]) -> Callable[[Any], tuple[Any, ...]]:
    names = [each.attribute for each in fields]
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


def _constructor(shape: RecordShape) -> Callable[[dict[str, Any]], Any]:
    type_: Any = shape.type

    def make(arguments: dict[str, Any]) -> Any:
        try:
            return type_.model_validate(arguments) if shape.is_pydantic else type_(**arguments)
        except Exception as error:
            raise DeserializationError(
                f"{shape.name} cannot be made of the record: {error}"
            ) from error

    return make


def _optional(change: Convert | None) -> Convert | None:
    if change is None:
        return None
    return lambda value: None if value is None else change(value)


def _checked(type_: type, change: Convert) -> Convert:
    def convert(value: Any) -> Any:
        if not isinstance(value, type_):
            raise SerializationError(f"{type(value).__name__} where {type_.__name__} is expected")
        return change(value)

    return convert


def one_of(values: tuple[str, ...]) -> Convert:
    """A conversion that refuses what is not one of these texts."""
    known = frozenset(values)

    def convert(value: Any) -> Any:
        if value not in known:
            raise SerializationError(f"{value!r} is not one of {', '.join(values)}")
        return value

    return convert


def _with_name(name: str, change: Convert) -> Convert:
    return lambda value: (name, change(value))


def _list_writer(change: Convert | None) -> Convert:
    def convert(value: Any) -> list[Any]:
        if isinstance(value, str | bytes | Mapping):
            raise SerializationError(f"{type(value).__name__} where a list is expected")
        return list(value) if change is None else [change(each) for each in value]

    return convert


def _list_reader(change: Convert | None, container: type) -> Convert:
    def convert(value: Any) -> Any:
        if not isinstance(value, list):
            raise DeserializationError(f"{type(value).__name__} where a list is expected")
        items = value if change is None else [change(each) for each in value]
        return items if container is list else container(items)

    return convert


def _map_writer(change: Convert | None) -> Convert:
    def convert(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
            raise SerializationError(f"{type(value).__name__} where a map by str is expected")
        return {name: each if change is None else change(each) for name, each in value.items()}

    return convert


def _map_reader(change: Convert | None) -> Convert:
    def convert(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise DeserializationError(f"{type(value).__name__} where a map is expected")
        return value if change is None else {name: change(each) for name, each in value.items()}

    return convert
