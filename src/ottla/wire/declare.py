"""Declarations of messages and of stored formats: one class for all versions.

    @message(api=1, versions="4-18", flexible="12+")
    class FetchRequest:
        cluster_id: String | None = wire(since=12, tag=0, default=None)
        replica_id: Int32 = wire(until=14, default=-1)
        max_wait_ms: Int32
        topics: list[FetchTopic]

A field that some versions lack needs a default, which decoding uses for these versions. Nested classes use `@struct`,
formats of records use `@stored`.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import Annotated, Any, NamedTuple, TypeVar, dataclass_transform, get_args, get_origin

from ottla.wire.types import BytesType, Fixed, RecordsType, StringType, UuidType

T = TypeVar("T")
Scalar = Fixed | UuidType | StringType | BytesType | RecordsType

NEVER = 1 << 15  # a version that no message has
_WIRE = "wire"


class Versions(NamedTuple):
    """An inclusive range of versions."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


@dataclass(frozen=True)
class Presence:
    """The versions, tag and nullability of a field."""

    since: int = 0
    until: int = NEVER
    tag: int | None = None
    tagged_since: int = 0
    nullable_since: int = 0


@dataclass(frozen=True)
class FieldType:
    """The type of a field: `element` is a scalar, or the class of a struct; `in_columns`: see `columns.py`."""

    element: Scalar | type
    is_list: bool
    is_nullable: bool
    element_is_nullable: bool = False
    in_columns: bool = False


@dataclass(frozen=True)
class Field:
    """A field for the compiler; `default` makes its value in a version that lacks it."""

    name: str
    type: FieldType
    presence: Presence
    default: Callable[[], Any] | None

    def present_in(self, version: int) -> bool:
        return self.presence.since <= version <= self.presence.until

    def tagged_in(self, version: int) -> bool:
        return self.presence.tag is not None and version >= self.presence.tagged_since


class MessageInfo(NamedTuple):
    """The arguments of `@message`."""

    name: str
    api_key: int
    versions: Versions
    flexible_since: int


class StoredInfo(NamedTuple):
    """The arguments of `@stored`; an unknown version that is `readable` is read as the newest known one."""

    name: str
    versions: Versions
    readable: Versions
    flexible_since: int


def wire(
    *,
    since: int = 0,
    until: int = NEVER,
    tag: int | None = None,
    tagged_since: int | None = None,
    nullable_since: int = 0,
    default: Any = MISSING,
    default_factory: Any = MISSING,
) -> Any:
    """Declare the versions and the tag of a field, and its default."""
    presence = Presence(
        since, until, tag, since if tagged_since is None else tagged_since, nullable_since
    )
    metadata = {_WIRE: presence}
    if default_factory is not MISSING:
        return field(default_factory=default_factory, metadata=metadata)
    return field(default=default, metadata=metadata)


def constant(value: T) -> Callable[[], T]:
    """A default that all messages share: never change it in place."""
    return lambda: value


def _compact(cls: type[T]) -> type[T]:
    """A dataclass that is fast to create: every start of a broker creates hundreds."""
    # A class without a docstring would get a generated one, which takes a third of the time.
    cls.__doc__ = cls.__doc__ or cls.__name__
    made = dataclass(slots=True, kw_only=True, eq=False, repr=False)(cls)
    made.__eq__ = _equal  # type: ignore[method-assign]
    made.__repr__ = _repr  # type: ignore[method-assign]
    made.__hash__ = None  # type: ignore[assignment]
    return made


def _values(value: Any) -> list[Any]:
    return [getattr(value, one.name) for one in fields(value)]


def _equal(self: Any, other: object) -> bool:
    return type(self) is type(other) and _values(self) == _values(other)


def _repr(self: Any) -> str:
    named = (f"{one.name}={getattr(self, one.name)!r}" for one in fields(self))
    return f"{type(self).__name__}({', '.join(named)})"


@dataclass_transform(kw_only_default=True, field_specifiers=(wire,))
def struct(cls: type[T]) -> type[T]:
    """Declare a class that is part of messages."""
    return _compact(cls)


@dataclass_transform(kw_only_default=True, field_specifiers=(wire,))
def message(*, api: int, versions: str, flexible: str) -> Callable[[type[T]], type[T]]:
    """Declare a request or a response; `versions` like "4-18", `flexible` like "12+" or "none"."""

    def declare(cls: type[T]) -> type[T]:
        made = _compact(cls)
        _MESSAGES[made] = MessageInfo(cls.__name__, api, _range(versions), _first(flexible))
        return made

    return declare


@dataclass_transform(kw_only_default=True, field_specifiers=(wire,))
def stored(
    *, versions: str, flexible: str, readable: str | None = None
) -> Callable[[type[T]], type[T]]:
    """Declare a format of records or of message fields that starts with its version, an int16.

    `readable` like "0+" means that newer versions only add fields at the end, and so can be read.
    """

    def declare(cls: type[T]) -> type[T]:
        made = _compact(cls)
        _STORED[made] = StoredInfo(
            cls.__name__, _range(versions), _range(readable or versions), _first(flexible)
        )
        return made

    return declare


def _range(versions: str) -> Versions:
    """The versions of "4-18", "4+" or "4"."""
    if versions.endswith("+"):
        return Versions(_first(versions), NEVER)
    first, _, last = versions.partition("-")
    return Versions(int(first), int(last or first))


def _first(versions: str) -> int:
    """The first version of "12+"; NEVER for "none"."""
    return NEVER if versions == "none" else int(versions.removesuffix("+"))


_MESSAGES: dict[type, MessageInfo] = {}
_STORED: dict[type, StoredInfo] = {}


def info_of(cls: type) -> MessageInfo:
    """The declaration of a message class."""
    return _MESSAGES[cls]


def stored_info_of(cls: type) -> StoredInfo:
    """The declaration of a stored format."""
    return _STORED[cls]


@cache
def fields_of(cls: type) -> tuple[Field, ...]:
    """The fields of a message or struct in wire order."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return tuple(_field(f, hints[f.name]) for f in fields(cls))


def _field(declared: Any, hint: Any) -> Field:
    presence = declared.metadata.get(_WIRE, Presence())
    if declared.default_factory is not MISSING:
        default = declared.default_factory
    elif declared.default is not MISSING:
        value = declared.default
        default = lambda: value  # noqa: E731
    else:
        default = None
        if presence.since > 0 or presence.until < NEVER or presence.tag is not None:
            raise TypeError(f"{declared.name} is not in every version, so it needs a default")
    return Field(declared.name, _field_type(hint), presence, default)


def _field_type(hint: Any) -> FieldType:
    hint, is_nullable = _without_none(hint)
    origin = get_origin(hint)
    if origin is list or origin is Sequence:
        element, element_is_nullable = _without_none(get_args(hint)[0])
        in_columns = origin is Sequence
        return FieldType(_element(element), True, is_nullable, element_is_nullable, in_columns)
    return FieldType(_element(hint), False, is_nullable)


def _without_none(hint: Any) -> tuple[Any, bool]:
    if get_origin(hint) not in (typing.Union, types.UnionType):
        return hint, False
    rest = [arm for arm in get_args(hint) if arm is not type(None)]
    assert len(rest) == 1, f"{hint} is not something or None"
    return rest[0], True


def _element(hint: Any) -> Scalar | type:
    if get_origin(hint) is Annotated:
        scalar: Scalar = get_args(hint)[1]
        return scalar
    assert isinstance(hint, type), f"{hint} is not a wire type"
    return hint
