"""How a message, or what is stored in a record, is declared: one class for all its versions.

    @message(api=1, versions="4-18", flexible="12+")
    class FetchRequest:
        cluster_id: String | None = wire(since=12, tag=0, default=None)
        replica_id: Int32 = wire(until=14, default=-1)
        max_wait_ms: Int32
        topics: list[FetchTopic]

A field that some versions lack needs a default: it is what decoding gives there. Nested classes use
`@struct`, and formats that records carry use `@stored`.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
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
    """What a declaration says of a field beyond its type."""

    since: int = 0
    until: int = NEVER
    tag: int | None = None
    tagged_since: int = 0
    nullable_since: int = 0


@dataclass(frozen=True)
class FieldType:
    """A field's type taken apart: `element` is a scalar, or the class of a struct."""

    element: Scalar | type
    is_list: bool
    is_nullable: bool
    element_is_nullable: bool = False


@dataclass(frozen=True)
class Field:
    """A field as the compiler needs it; `default` makes its value in a version that lacks it."""

    name: str
    type: FieldType
    presence: Presence
    default: Callable[[], Any] | None

    def present_in(self, version: int) -> bool:
        return self.presence.since <= version <= self.presence.until

    def tagged_in(self, version: int) -> bool:
        return self.presence.tag is not None and version >= self.presence.tagged_since


class MessageInfo(NamedTuple):
    """What `@message` said."""

    name: str
    api_key: int
    versions: Versions
    flexible_since: int


class StoredInfo(NamedTuple):
    """What `@stored` said; a version that is `readable` and unknown has the newest known form."""

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
    """The versions a field is in, its tag, and what it is where it is absent."""
    presence = Presence(
        since, until, tag, since if tagged_since is None else tagged_since, nullable_since
    )
    metadata = {_WIRE: presence}
    if default_factory is not MISSING:
        return field(default_factory=default_factory, metadata=metadata)
    return field(default=default, metadata=metadata)


def constant(value: T) -> Callable[[], T]:
    """A default that all messages share: it may be replaced in a message, but never changed."""
    return lambda: value


def _compact(cls: type[T]) -> type[T]:
    """A dataclass that is made quickly: there are hundreds, and every start of a broker makes them."""
    # Without a docstring of its own a dataclass gets one, at the price of a third of its making.
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
    """A class that is part of messages."""
    return _compact(cls)


@dataclass_transform(kw_only_default=True, field_specifiers=(wire,))
def message(*, api: int, versions: str, flexible: str) -> Callable[[type[T]], type[T]]:
    """A request or a response; `versions` like "4-18", `flexible` like "12+" or "none"."""

    def declare(cls: type[T]) -> type[T]:
        made = _compact(cls)
        _MESSAGES[made] = MessageInfo(cls.__name__, api, _range(versions), _first(flexible))
        return made

    return declare


@dataclass_transform(kw_only_default=True, field_specifiers=(wire,))
def stored(
    *, versions: str, flexible: str, readable: str | None = None
) -> Callable[[type[T]], type[T]]:
    """A format that records or messages carry behind an int16, its version.

    `readable` like "0+" says that newer versions only add at the end, so that they can be read.
    """

    def declare(cls: type[T]) -> type[T]:
        made = _compact(cls)
        _STORED[made] = StoredInfo(
            cls.__name__, _range(versions), _range(readable or versions), _first(flexible)
        )
        return made

    return declare


def _range(versions: str) -> Versions:
    """The versions that "4-18", "4+" or "4" names."""
    if versions.endswith("+"):
        return Versions(_first(versions), NEVER)
    first, _, last = versions.partition("-")
    return Versions(int(first), int(last or first))


def _first(versions: str) -> int:
    """The first of the versions that "12+" names, or one that there never is for "none"."""
    return NEVER if versions == "none" else int(versions.removesuffix("+"))


_MESSAGES: dict[type, MessageInfo] = {}
_STORED: dict[type, StoredInfo] = {}


def info_of(cls: type) -> MessageInfo:
    """What was declared of a message class."""
    return _MESSAGES[cls]


def stored_info_of(cls: type) -> StoredInfo:
    """What was declared of the class of a stored format."""
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
    if get_origin(hint) is list:
        element, element_is_nullable = _without_none(get_args(hint)[0])
        return FieldType(_element(element), True, is_nullable, element_is_nullable)
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
