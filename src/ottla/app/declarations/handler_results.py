"""What a handler's results mean: where they are sent, checked against what it declares to return."""

from __future__ import annotations

import types
import typing
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from dataclasses import dataclass
from typing import Annotated, Any, Final, Union, get_args, get_origin

from ottla.app.declarations.annotations import MISSING, To
from ottla.app.declarations.json_conversion import type_name
from ottla.app.declarations.listener_spec import RawRecord
from ottla.app.declarations.record_decoding import last_header
from ottla.app.errors import ResultError
from ottla.client.model import Headers
from ottla.errors import ConfigError

CORRELATION_ID: Final = "kafka_correlationId"
REPLY_TOPIC: Final = "kafka_replyTopic"
REPLY_PARTITION: Final = "kafka_replyPartition"

_STREAMS: Final = (AsyncIterator, AsyncIterable, AsyncGenerator, Iterator, Iterable, Generator)


@dataclass(frozen=True)
class Declared:
    """What the return annotation says about one result."""

    marker: To | None
    classes: tuple[type, ...] | None
    """The classes that fit; None if any does."""
    text: str
    wanted: Any = Any

    def fits(self, value: object) -> bool:
        """Whether a value is of the declared type, as far as its class tells."""
        if self.classes is None:
            return True
        if isinstance(value, bool) and bool not in self.classes and int in self.classes:
            return False
        return isinstance(value, self.classes)


@dataclass(frozen=True)
class Results:
    """What a handler may return: declared results, one or many of them, or nothing that is known."""

    declared: tuple[Declared, ...]
    is_many: bool
    """Whether it returns a list or yields; each element is a result."""
    by_position: bool
    """Whether the results are a tuple with one declaration for each element."""
    may_be_none: bool

    @property
    def sends(self) -> bool:
        """Whether the declaration names a topic."""
        return any(each.marker is not None for each in self.declared)

    @property
    def sent_types(self) -> list[tuple[str, Any]]:
        """The topics that the declaration names, each with its type."""
        return [
            (each.marker.topic, each.wanted) for each in self.declared if each.marker is not None
        ]


def only_route(results: Results) -> Declared | None:
    """The declaration, if every result that fits it goes to one topic, as a plain value."""
    if len(results.declared) != 1 or results.is_many or results.by_position:
        return None
    only = results.declared[0]
    is_plain = only.marker is not None and only.marker == To(only.marker.topic)
    return only if is_plain and isinstance(only.wanted, type) else None


def read_results(label: str, returns: Any, *, is_generator: bool) -> Results:
    """The meaning of a return annotation; ConfigError if `To` stands where it means nothing."""
    if returns is Any or returns is None or returns is types.NoneType:
        return Results((), is_many=is_generator, by_position=False, may_be_none=True)
    origin = get_origin(returns)
    if origin in _STREAMS:
        return _many(label, get_args(returns)[0] if get_args(returns) else Any)
    if is_generator:
        raise ConfigError(
            f"{label} yields its results: annotate it as AsyncIterator[…] or Iterator[…], not {type_name(returns)}"
        )
    alternatives = [each for each in _alternatives(returns) if each is not types.NoneType]
    may_be_none = len(alternatives) < len(_alternatives(returns))
    if len(alternatives) == 1 and get_origin(alternatives[0]) in (list, Sequence):
        inner = _many(label, get_args(alternatives[0])[0])
        # A list that goes nowhere is one reply, not many.
        if inner.sends or any(each.classes == (To,) for each in inner.declared):
            return Results(inner.declared, is_many=True, by_position=False, may_be_none=may_be_none)
    if len(alternatives) == 1 and get_origin(alternatives[0]) is tuple:
        elements = get_args(alternatives[0])
        if len(elements) == 2 and elements[1] is Ellipsis:
            inner = _many(label, elements[0])
            return Results(inner.declared, is_many=True, by_position=False, may_be_none=may_be_none)
        each = tuple(_declared(element) for element in elements)
        if any(one.marker is not None for one in each):
            return Results(each, is_many=False, by_position=True, may_be_none=may_be_none)
    return Results(
        tuple(_declared(each) for each in alternatives),
        is_many=False,
        by_position=False,
        may_be_none=may_be_none,
    )


def _many(label: str, element: Any) -> Results:
    alternatives = _alternatives(element)
    declared = tuple(_declared(each) for each in alternatives if each is not types.NoneType)
    return Results(
        declared, is_many=True, by_position=False, may_be_none=types.NoneType in alternatives
    )


def _alternatives(wanted: Any) -> tuple[Any, ...]:
    return get_args(wanted) if get_origin(wanted) in (Union, types.UnionType) else (wanted,)


def _declared(wanted: Any) -> Declared:
    if isinstance(wanted, To):
        raise ConfigError(
            f'-> To("{wanted.topic}") says where results go, and not what they are: '
            f'write -> Annotated[Invoice, To("{wanted.topic}")]'
        )
    marker: To | None = None
    bare = wanted
    if get_origin(wanted) is Annotated:
        bare = get_args(wanted)[0]
        marker = next((each for each in get_args(wanted)[1:] if isinstance(each, To)), None)
    return Declared(marker, _classes(bare), type_name(bare), bare)


def _classes(wanted: Any) -> tuple[type, ...] | None:
    """The classes of values of a type; None if they cannot be told."""
    if wanted is Any or wanted is object:
        return None
    if get_origin(wanted) in (Union, types.UnionType):
        inner = [_classes(each) for each in get_args(wanted)]
        return None if None in inner else tuple(one for each in inner for one in each or ())
    if get_origin(wanted) is Annotated:
        return _classes(get_args(wanted)[0])
    origin = get_origin(wanted) or wanted
    if typing.is_typeddict(origin):
        return (dict,)
    if origin is float:
        return (float, int)
    return (origin,) if isinstance(origin, type) else None


def results_of(label: str, results: Results, returned: Any, record: RawRecord | None) -> list[To]:
    """The records to send for one returned value; ResultError if it is not what was declared.

    `record` is the one that the handler got, whose headers may ask for a reply; a batch has none.
    """
    if returned is None:
        if results.declared and not results.may_be_none and results.sends:
            raise _wrong(label, None, results)
        return []
    if isinstance(returned, To):
        return [_with_value(label, returned)]
    if results.by_position:
        if not isinstance(returned, tuple | list) or len(returned) != len(results.declared):
            raise ResultError(
                f"{label} returned {_shown(returned)}, not a tuple of {len(results.declared)} results"
            )
        return [
            record_to_send
            for declared, value in zip(results.declared, returned, strict=True)
            for record_to_send in _one(label, (declared,), results, value, record)
        ]
    if results.is_many or _is_list_of_to(returned):
        if isinstance(returned, str | bytes | dict) or not isinstance(returned, Iterable):
            raise ResultError(f"{label} returned {_shown(returned)}, not a list of results")
        return [
            record_to_send
            for value in returned
            for record_to_send in _one(label, results.declared, results, value, record)
        ]
    return _one(label, results.declared, results, returned, record)


def _is_list_of_to(returned: object) -> bool:
    return (
        isinstance(returned, list | tuple)
        and bool(returned)
        and all(isinstance(each, To) for each in returned)
    )


def _one(
    label: str,
    alternatives: tuple[Declared, ...],
    results: Results,
    value: Any,
    record: RawRecord | None,
) -> list[To]:
    if isinstance(value, To):
        return [_with_value(label, value)]
    if value is None and results.may_be_none:
        return []
    declared = next((each for each in alternatives if each.fits(value)), None)
    if declared is None and alternatives:
        raise _wrong(label, value, results)
    if declared is not None and declared.marker is not None:
        return [_routed(declared.marker, value)]
    reply = None if record is None else _reply_to(record)
    return [] if reply is None else [_replied(reply, value)]


def _routed(marker: To, value: Any) -> To:
    key = marker.key(value) if callable(marker.key) else marker.key
    return To(
        marker.topic,
        value,
        key=key,
        partition=marker.partition,
        headers=marker.headers,
        timestamp_ms=marker.timestamp_ms,
    )


def _with_value(label: str, result: To) -> To:
    if result.value is MISSING:
        raise ResultError(
            f"{label} returned To({result.topic!r}) without a value: write To({result.topic!r}, value)"
        )
    return result


@dataclass(frozen=True)
class _Reply:
    topic: str
    partition: int | None
    headers: Headers


def _reply_to(record: RawRecord) -> _Reply | None:
    """Where the sender of a record waits for a reply: Spring's headers."""
    if not record.headers:
        return None
    topic = last_header(record.headers, REPLY_TOPIC)
    if topic is None:
        return None
    partition = last_header(record.headers, REPLY_PARTITION)
    correlation = last_header(record.headers, CORRELATION_ID)
    return _Reply(
        topic.decode("utf-8", "replace"),
        int.from_bytes(partition, "big") if partition is not None and len(partition) == 4 else None,
        () if correlation is None else ((CORRELATION_ID, correlation),),
    )


def _replied(reply: _Reply, value: Any) -> To:
    return To(reply.topic, value, partition=reply.partition, headers=reply.headers)


def _shown(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _wrong(label: str, value: object, results: Results) -> ResultError:
    wanted = " or ".join(each.text for each in results.declared)
    advice = "; annotate `| None` if it may return nothing" if value is None else ""
    return ResultError(f"{label} returned {_shown(value)}, not {wanted}{advice}")
