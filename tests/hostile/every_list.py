"""A request for every list in every served API, made from its declaration: that one list is very long."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from tests.hostile.frames import TOPIC_RESOURCE

from ottla.broker.requests.apis import SERVED
from ottla.wire.declare import Field, fields_of
from ottla.wire.framing import frame_request
from ottla.wire.types import Fixed, StringType, UuidType

# Integers that tell elements apart; all others have the value with which most requests are meaningful.
NUMBERED: Final = ("index", "partition")
ORDINARY: Final = 1


class LongList(NamedTuple):
    """Where a list is in the newest version of a request."""

    api: str
    api_key: int
    version: int
    path: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.api}.{'.'.join(self.path)}"

    def frame(self, count: int) -> bytes:
        request = _struct(SERVED[self.api_key].request, self.version, self.path, count, 0)
        return frame_request(request, self.version, 1, "hostile")


def every_list() -> Iterator[LongList]:
    for key, api in sorted(SERVED.items()):
        for path in _paths(api.request, api.last_version):
            yield LongList(api.name, key, api.last_version, path)


def _paths(cls: type, version: int) -> Iterator[tuple[str, ...]]:
    for field in fields_of(cls):
        if not field.present_in(version):
            continue
        if field.type.is_list:
            yield (field.name,)
        if isinstance(field.type.element, type):
            for rest in _paths(field.type.element, version):
                yield (field.name, *rest)


def _struct(cls: type, version: int, path: tuple[str, ...], count: int, number: int) -> Any:
    """A struct in which the list at `path` has `count` elements, and those around it one."""
    values = {}
    for field in fields_of(cls):
        if field.present_in(version):
            rest = path[1:] if path[:1] == (field.name,) else ()
            is_long = path == (field.name,)
            values[field.name] = _field(field, version, rest, count, number, is_long)
    return cls(**values)


def _field(
    field: Field, version: int, rest: tuple[str, ...], count: int, number: int, is_long: bool
) -> Any:
    def element(number: int) -> Any:
        if isinstance(field.type.element, type):
            return _struct(field.type.element, version, rest, count, number)
        return _scalar(field, number)

    if is_long:
        return [element(each) for each in range(count)]
    return [element(number)] if field.type.is_list else element(number)


def _scalar(field: Field, number: int) -> Any:
    match field.type.element:
        case Fixed("?"):
            return True
        case Fixed("d"):
            return 0.5
        case Fixed():
            if field.name == "resource_type":
                return TOPIC_RESOURCE
            return number if any(name in field.name for name in NUMBERED) else ORDINARY
        case UuidType():
            return uuid.UUID(int=number + 1)
        case StringType():
            return f"n{number}"
    return b""
