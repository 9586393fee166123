"""Protobuf descriptors of Python classes, and the conversions between objects and messages.

A class is a proto3 message with its fields numbered in their order, or as the fields' metadata say. Fields that have
a default or may be None are `optional`: an absent one gets the default of the class.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from uuid import UUID

from ottla.errors import ConfigError, DeserializationError, SerializationError
from ottla.schemas.derived.conversions import check, check_decimal, one_of
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
from ottla.schemas.extra import require

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

TIMESTAMP = "google/protobuf/timestamp.proto"
DURATION = "google/protobuf/duration.proto"
_FIRST_RESERVED, _LAST_RESERVED = 19_000, 19_999
_MESSAGES = {
    Kind.DATETIME: ".google.protobuf.Timestamp",
    Kind.DURATION: ".google.protobuf.Duration",
}
_SCALARS = {
    Kind.BOOLEAN: "TYPE_BOOL",
    Kind.INTEGER: "TYPE_INT64",
    Kind.FLOAT: "TYPE_DOUBLE",
    Kind.TEXT: "TYPE_STRING",
    Kind.BYTES: "TYPE_BYTES",
    # Protobuf has no types for these that every language has: they are text.
    Kind.DATE: "TYPE_STRING",
    Kind.TIME: "TYPE_STRING",
    Kind.UUID: "TYPE_STRING",
}

Convert: TypeAlias = Callable[[Any], Any]


class ProtobufType(NamedTuple):
    """The message class of a Python class, and the conversions of its objects."""

    name: str
    message: Any
    to_message: Callable[[Any, Any], None]
    """Fills a message from an object."""
    from_message: Convert
    """An object from a message that has fields of these names, whoever wrote it."""


@lru_cache(maxsize=1000)
def protobuf_type(type_: type, package: str | None = None) -> ProtobufType:
    """The Protobuf message of a dataclass or a pydantic model."""
    shape = record_shape(type_)
    file = _File(shape, package).proto()
    pool_module = require("google.protobuf.descriptor_pool", "Protobuf")
    factory = require("google.protobuf.message_factory", "Protobuf")
    pool = pool_module.DescriptorPool()
    for name in file.dependency:
        pool.Add(well_known(name))
    pool.Add(file)
    full_name = f"{package}.{shape.name}" if package else shape.name
    return ProtobufType(
        name=full_name,
        message=factory.GetMessageClass(pool.FindMessageTypeByName(full_name)),
        to_message=_Filling().record(shape),
        from_message=_Taking().record(shape),
    )


def well_known(name: str) -> FileDescriptorProto:
    """A file that comes with Protobuf."""
    module = name.removesuffix(".proto").replace("/", ".") + "_pb2"
    descriptors = require("google.protobuf.descriptor_pb2", "Protobuf")
    proto: FileDescriptorProto = descriptors.FileDescriptorProto()
    require(module, "Protobuf").DESCRIPTOR.CopyToProto(proto)
    return proto


class _File:
    """Writes the file: the class first, so that its path is the short one, then the types that it needs."""

    def __init__(self, root: RecordShape, package: str | None) -> None:
        self._pb = require("google.protobuf.descriptor_pb2", "Protobuf")
        self._prefix = f".{package}." if package else "."
        self._root = root
        self._file = self._pb.FileDescriptorProto(
            name=f"{root.name}.proto", package=package or "", syntax="proto3"
        )
        self._defined: set[str] = set()
        self._imports: set[str] = set()

    def proto(self) -> FileDescriptorProto:
        self._message(self._root)
        self._file.dependency.extend(sorted(self._imports))
        file: FileDescriptorProto = self._file
        return file

    def _message(self, shape: RecordShape) -> None:
        if shape.name in self._defined:
            return
        self._defined.add(shape.name)
        message = self._file.message_type.add(name=shape.name)
        used: set[int] = set()
        for index, each in enumerate(shape.fields):
            number = index + 1 if each.number is None else each.number
            where = f"{shape.name}.{each.attribute}"
            if number < 1 or number in used or _FIRST_RESERVED <= number <= _LAST_RESERVED:
                raise ConfigError(f"{where}: {number} cannot be its number, or is another field's")
            used.add(number)
            try:
                self._field(message, each, number)
            except ConfigError as error:
                if "." in str(error).partition(":")[0]:
                    raise
                raise ConfigError(f"{where}: {error}") from error

    def _field(self, message: DescriptorProto, field: FieldShape, number: int) -> None:
        if not field.name.isidentifier() or not field.name.isascii():
            raise ConfigError(f"{field.name!r} cannot be the name of a Protobuf field")
        proto = message.field.add(name=field.name, number=number, json_name=field.name)
        shape, is_optional = field.shape, field.has_default
        if isinstance(shape, UnionShape):
            if len(shape.branches) > 1:
                raise ConfigError(
                    "Protobuf has no unions of types: use a dataclass with optional fields"
                )
            if field.has_default and field.default is not None:
                raise ConfigError(
                    "Protobuf has no None but an absent field, which would get the default: make the default None"
                )
            shape, is_optional = shape.branches[0], True
            if isinstance(shape, ListShape | MapShape):
                raise ConfigError(
                    "Protobuf cannot tell None from an empty list or map: leave out None"
                )
        if isinstance(shape, ListShape):
            proto.label = proto.LABEL_REPEATED
            self._type(proto, shape.item)
        elif isinstance(shape, MapShape):
            proto.label = proto.LABEL_REPEATED
            self._map(message, proto, shape)
        else:
            proto.label = proto.LABEL_OPTIONAL
            self._type(proto, shape)
            if is_optional and not isinstance(shape, RecordShape):
                # How proto3 marks presence: a oneof of its own.
                proto.proto3_optional = True
                proto.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")

    def _map(self, message: DescriptorProto, proto: Any, shape: MapShape) -> None:
        parts = "".join(part.capitalize() for part in proto.name.split("_"))
        entry = message.nested_type.add(name=f"{parts}Entry")
        entry.options.map_entry = True
        entry.field.add(
            name="key",
            number=1,
            label=proto.LABEL_OPTIONAL,
            type=proto.TYPE_STRING,
            json_name="key",
        )
        value = entry.field.add(
            name="value", number=2, label=proto.LABEL_OPTIONAL, json_name="value"
        )
        self._type(value, shape.value)
        proto.type = proto.TYPE_MESSAGE
        proto.type_name = f"{self._prefix}{message.name}.{entry.name}"

    def _type(self, proto: Any, shape: Shape) -> None:
        match shape:
            case Scalar(kind) if kind in _MESSAGES:
                self._imports.add(TIMESTAMP if kind is Kind.DATETIME else DURATION)
                proto.type, proto.type_name = proto.TYPE_MESSAGE, _MESSAGES[kind]
            case Scalar(kind):
                proto.type = getattr(proto, _SCALARS[kind])
            case DecimalShape() | LiteralShape():
                proto.type = proto.TYPE_STRING
            case EnumShape():
                self._enum(shape)
                proto.type = proto.TYPE_ENUM
                proto.type_name = f"{self._prefix}{shape.type.__name__}"
            case RecordShape():
                self._message(shape)
                proto.type, proto.type_name = proto.TYPE_MESSAGE, f"{self._prefix}{shape.name}"
            case _:
                raise ConfigError(
                    "Protobuf has no list of lists, of maps or of None: use a dataclass in between"
                )

    def _enum(self, shape: EnumShape) -> None:
        name = shape.type.__name__
        if name in self._defined:
            return
        self._defined.add(name)
        enum = self._file.enum_type.add(name=name)
        # Numbers begin with zero, which stands for "unknown"; names are global in a file, so they have the enum's.
        enum.value.add(name=f"{name}_UNSPECIFIED", number=0)
        for number, member in enumerate(shape.type, start=1):
            if not member.name.isascii():
                raise ConfigError(f"{name}.{member.name} cannot be a name in Protobuf")
            enum.value.add(name=f"{name}_{member.name}", number=number)


class _Filling:
    """From objects to messages."""

    def __init__(self) -> None:
        self._records: dict[type, Callable[[Any, Any], None]] = {}

    def record(self, shape: RecordShape) -> Callable[[Any, Any], None]:
        known = self._records.get(shape.type)
        if known is not None:
            return known
        self._records[shape.type] = lambda value, message: fill(value, message)
        fillers = [
            (each.attribute, self._filler(each), _may_be_none(each)) for each in shape.fields
        ]
        type_ = shape.type

        def fill(value: Any, message: Any) -> None:
            if not isinstance(value, type_):
                raise SerializationError(
                    f"{type(value).__name__} where {type_.__name__} is expected"
                )
            for attribute, filler, may_be_none in fillers:
                part = getattr(value, attribute)
                if part is not None:
                    filler(part, message)
                elif not may_be_none:
                    raise SerializationError(f"{type_.__name__}.{attribute} is None")

        self._records[shape.type] = fill
        return fill

    def _filler(self, field: FieldShape) -> Callable[[Any, Any], None]:
        shape = field.shape.branches[0] if isinstance(field.shape, UnionShape) else field.shape
        return self._filler_of(field.name, shape)

    def _filler_of(self, name: str, shape: Shape) -> Callable[[Any, Any], None]:
        match shape:
            case RecordShape():
                fill = self.record(shape)

                def fill_record(value: Any, message: Any) -> None:
                    part = getattr(message, name)
                    part.SetInParent()
                    fill(value, part)

                return fill_record
            case Scalar(kind) if kind in _MESSAGES:
                return lambda value, message: _fill_time(value, getattr(message, name))
            case ListShape(item, _):
                return self._list_filler(name, item)
            case MapShape(inner):
                return self._map_filler(name, inner)
            case _:
                convert = _to_scalar(shape)
                return lambda value, message: setattr(message, name, convert(value))

    def _list_filler(self, name: str, item: Shape) -> Callable[[Any, Any], None]:
        fill = self._part_filler(item)
        if fill is not None:

            def fill_messages(value: Any, message: Any) -> None:
                items = getattr(message, name)
                for each in value:
                    fill(each, items.add())

            return fill_messages
        convert = _to_scalar(item)
        return lambda value, message: getattr(message, name).extend(
            [convert(each) for each in value]
        )

    def _map_filler(self, name: str, inner: Shape) -> Callable[[Any, Any], None]:
        fill = self._part_filler(inner)
        if fill is not None:

            def fill_messages(value: Any, message: Any) -> None:
                items = getattr(message, name)
                for key, each in value.items():
                    fill(each, items[key])

            return fill_messages
        convert = _to_scalar(inner)

        def fill_scalars(value: Any, message: Any) -> None:
            items = getattr(message, name)
            for key, each in value.items():
                items[key] = convert(each)

        return fill_scalars

    def _part_filler(self, shape: Shape) -> Callable[[Any, Any], None] | None:
        if isinstance(shape, RecordShape):
            return self.record(shape)
        if isinstance(shape, Scalar) and shape.kind in _MESSAGES:
            return _fill_time
        return None


def _may_be_none(field: FieldShape) -> bool:
    return isinstance(field.shape, UnionShape) and field.shape.is_optional


def _fill_time(value: Any, message: Any) -> None:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise SerializationError(
                f"{value!r} has no time zone, and is no point in time: give it one, as datetime.now(UTC) does"
            )
        message.FromDatetime(value.astimezone(UTC))
    elif isinstance(value, timedelta):
        message.FromTimedelta(value)
    else:
        raise SerializationError(f"{type(value).__name__} where a time is expected")
    # A zero is present too.
    message.SetInParent()


def _to_scalar(shape: Shape) -> Convert:
    match shape:
        case EnumShape(type_):
            numbers: dict[Any, int] = {
                member: number for number, member in enumerate(type_, start=1)
            }
            return lambda member: numbers[member]
        case LiteralShape(values):
            return one_of(values)
        case DecimalShape():
            return lambda value: str(check_decimal(value))
        case Scalar(kind):
            checked = check(kind)
            if kind in (Kind.DATE, Kind.TIME):
                return lambda value: checked(value).isoformat()
            return checked if kind is not Kind.UUID else lambda value: str(checked(value))
        case _:
            raise AssertionError(f"{shape} is no scalar")


def _same(value: Any) -> Any:
    return value


class _Taking:
    """From messages to objects, by the names of the fields: the writer's numbers do not matter."""

    def __init__(self) -> None:
        self._records: dict[type, Convert] = {}

    def record(self, shape: RecordShape) -> Convert:
        known = self._records.get(shape.type)
        if known is not None:
            return known
        self._records[shape.type] = lambda message: take(message)
        takers = [(each.name, each, self._taker(each.shape)) for each in shape.fields]
        type_: Any = shape.type

        def take(message: Any) -> Any:
            declared = message.DESCRIPTOR.fields_by_name
            arguments: dict[str, Any] = {}
            for name, field, taker in takers:
                known = declared.get(name)
                if known is None or (known.has_presence and not message.HasField(name)):
                    if not field.has_default and isinstance(field.shape, UnionShape):
                        arguments[field.init_name] = None
                    # Otherwise the class has a default, or says that the field is missing.
                    continue
                arguments[field.init_name] = taker(getattr(message, name))
            try:
                return type_.model_validate(arguments) if shape.is_pydantic else type_(**arguments)
            except Exception as error:
                raise DeserializationError(
                    f"{shape.name} cannot be made of the record: {error}"
                ) from error

        self._records[shape.type] = take
        return take

    def _taker(self, shape: Shape) -> Convert:
        match shape:
            case UnionShape(branches, _):
                return self._taker(branches[0])
            case RecordShape():
                return self.record(shape)
            case ListShape(item, container):
                taker = self._taker(item)
                return lambda values: container(taker(each) for each in values)
            case MapShape(inner):
                taker = self._taker(inner)
                return lambda values: {name: taker(each) for name, each in values.items()}
            case _:
                return _from_scalar(shape)


def _from_scalar(shape: Shape) -> Convert:
    match shape:
        case EnumShape(type_):
            return _member_of(type_)
        case Scalar(Kind.DATETIME):
            return lambda message: message.ToDatetime(tzinfo=UTC)
        case Scalar(Kind.DURATION):
            return lambda message: message.ToTimedelta()
        case Scalar(Kind.DATE):
            return date.fromisoformat
        case Scalar(Kind.TIME):
            return time.fromisoformat
        case Scalar(Kind.UUID):
            return UUID
        case DecimalShape():
            return Decimal
        case _:
            return _same


def _member_of(type_: Any) -> Convert:
    members = dict(enumerate(type_, start=1))

    def member(number: int) -> Any:
        if number not in members:
            raise DeserializationError(f"{number} is no member of {type_.__name__}")
        return members[number]

    return member
