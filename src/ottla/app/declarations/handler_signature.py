"""What a handler's parameters ask for, found out once when it is declared.

A parameter is, in this order: a dependency (`Depends`); a part of the record by its annotation (`Key[str]`, `Topic`,
`Record`); the acknowledgement; a part of the record by its name (`key`, `offset` …); otherwise the first is the value.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from operator import attrgetter
from typing import Annotated, Any, Final, get_args, get_origin

from ottla.app.declarations.annotations import Depends, Header, RecordPart
from ottla.app.declarations.json_conversion import type_name
from ottla.app.declarations.listener_spec import RawRecord
from ottla.app.declarations.record_decoding import Decoding, Read
from ottla.client.model import ConsumerRecord
from ottla.errors import ConfigError

_BY_NAME: Final = {part.value: part for part in RecordPart}
# A batch's parameters may have the plural of the name.
_BY_PLURAL: Final = {f"{part.value}s": part for part in RecordPart} | {
    "headers": RecordPart.HEADERS
}
_MAY_BE_MISSING: Final = (RecordPart.KEY, RecordPart.VALUE)
_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True)
class FromRecord:
    """An argument that is read from each record."""

    name: str
    read: Read
    part: RecordPart | Header = RecordPart.VALUE
    wanted: Any = Any


@dataclass(frozen=True)
class FromTable:
    """An argument that is the whole batch as a pyarrow.Table."""

    name: str


@dataclass(frozen=True)
class FromDependency:
    """An argument that a dependency provides."""

    name: str
    dependency: Dependency


@dataclass(frozen=True)
class Acknowledged:
    """The argument with which the handler acknowledges by itself."""

    name: str


Argument = FromRecord | FromTable | FromDependency | Acknowledged


@dataclass(frozen=True)
class Dependency:
    """A function that provides a value, with what it needs itself."""

    function: Callable[..., Any]
    use_cache: bool
    arguments: tuple[Argument, ...]


@dataclass(frozen=True)
class HandlerSignature:
    """The arguments of a handler, and what it declares to return."""

    arguments: tuple[Argument, ...]
    returns: Any
    value_type: Any
    """The type of the value parameter; Any if there is none."""

    @property
    def acknowledges(self) -> bool:
        """Whether the handler, or a dependency of it, takes an `Acknowledgement`."""
        return any(map(_acknowledges, self.arguments))


def _acknowledges(argument: Argument) -> bool:
    if isinstance(argument, FromDependency):
        return any(map(_acknowledges, argument.dependency.arguments))
    return isinstance(argument, Acknowledged)


class SignatureReader:
    """Reads the signatures of one handler and its dependencies."""

    def __init__(
        self,
        label: str,
        decoding: Decoding,
        *,
        acknowledgement: type | None = None,
        value_type: Any = Any,
    ) -> None:
        self._label = label
        self._decoding = decoding
        self._acknowledgement = acknowledgement
        self._value_type = value_type
        self._open: list[Callable[..., Any]] = []

    def read(self, function: Callable[..., Any]) -> HandlerSignature:
        """The signature of a handler that gets one record."""
        return self._read_handler(function, self._argument)

    def read_batch(self, function: Callable[..., Any]) -> HandlerSignature:
        """The signature of a handler that gets lists."""
        return self._read_handler(function, self._batch_argument)

    def read_table(self, function: Callable[..., Any]) -> HandlerSignature:
        """The signature of a handler that gets a pyarrow.Table."""
        return self._read_handler(function, self._table_argument)

    def _read_handler(
        self,
        function: Callable[..., Any],
        argument: Callable[[inspect.Parameter, Any, bool], Argument],
    ) -> HandlerSignature:
        parameters, hints = self._parameters(function)
        arguments: list[Argument] = []
        value_type: Any = self._value_type
        has_value = False
        for parameter in parameters:
            hint = hints.get(parameter.name, inspect.Parameter.empty)
            if isinstance(hint, Header | Depends):
                marker = type(hint).__name__
                raise self._wrong(
                    parameter.name, f"has no type: write Annotated[str, {marker}(…)], with its type"
                )
            if arguments and self._is_left_to_its_default(parameter, hint):
                continue
            made = argument(parameter, hint, has_value)
            is_value = isinstance(made, FromRecord) and made.part is RecordPart.VALUE
            if is_value or isinstance(made, FromTable):
                if has_value:
                    raise self._wrong(parameter.name, "is the second one for the value")
                has_value = True
            if is_value and isinstance(made, FromRecord):
                value_type = made.wanted
            arguments.append(made)
        return HandlerSignature(tuple(arguments), hints.get("return", Any), value_type)

    def _parameters(
        self, function: Callable[..., Any]
    ) -> tuple[list[inspect.Parameter], dict[str, Any]]:
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{self._label}: its signature cannot be read: {error}") from error
        parameters = list(signature.parameters.values())
        for parameter in parameters:
            if parameter.kind in _VARIADIC:
                raise self._wrong(parameter.name, "cannot be filled: name the parameters")
            if parameter.name in ("self", "cls") and parameter is parameters[0]:
                raise ConfigError(
                    f"{self._label} is a method: declare functions, or bound methods with "
                    "app.listener(…)(thing.method)"
                )
        annotated = function if inspect.isroutine(function) else _annotated_part(function)
        try:
            hints = typing.get_type_hints(
                annotated, localns=dict(self._decoding.names), include_extras=True
            )
        except NameError as error:
            raise ConfigError(
                f"{self._label}: an annotation names {error.name}, which cannot be found at run time: "
                "import it outside of `if TYPE_CHECKING`"
            ) from error
        except Exception as error:
            raise ConfigError(f"{self._label}: an annotation cannot be read: {error}") from error
        return parameters, {name: _unaliased(hint) for name, hint in hints.items()}

    def _is_left_to_its_default(self, parameter: inspect.Parameter, hint: Any) -> bool:
        """Whether a parameter, which is not the first, asks for nothing that is known, and has a default."""
        if not _has_default(parameter) or self._special(parameter, hint) is not None:
            return False
        return self._part_of(parameter.name, hint, {**_BY_NAME, **_BY_PLURAL})[0] is None

    # One record

    def _argument(self, parameter: inspect.Parameter, hint: Any, has_value: bool) -> Argument:
        known = self._special(parameter, hint)
        if known is not None:
            return known
        part, wanted = self._part_of(parameter.name, hint, _BY_NAME)
        if part is None:
            if has_value:
                raise self._wrong(
                    parameter.name,
                    "is not known: the value has a parameter already; annotate it with Key[…], "
                    'Annotated[…, Header("…")] or Annotated[…, Depends(…)], or call it key, headers, topic, '
                    "partition, offset or timestamp",
                )
            part = RecordPart.VALUE
        if part is RecordPart.VALUE and wanted is Any:
            wanted = self._value_type
        return FromRecord(parameter.name, self._reader_of(parameter, part, wanted), part, wanted)

    def _reader_of(
        self, parameter: inspect.Parameter, part: RecordPart | Header, wanted: Any
    ) -> Read:
        """The reader of a parameter; a missing header, key or value is its default, if it has one."""
        if not _has_default(parameter) or (
            isinstance(part, RecordPart) and part not in _MAY_BE_MISSING
        ):
            return self._reader(parameter.name, part, wanted)
        read = self._reader(parameter.name, part, wanted | None if wanted is not Any else Any)
        default = parameter.default

        def read_or_default(record: RawRecord) -> Any:
            found = read(record)
            return default if found is None else found

        return read_or_default

    def _special(self, parameter: inspect.Parameter, hint: Any) -> Argument | None:
        marker = _marker(hint, Depends)
        if marker is None and isinstance(parameter.default, Depends):
            marker = parameter.default
        if isinstance(marker, Depends):
            return FromDependency(parameter.name, self._dependency(marker))
        if self._acknowledgement is not None and _bare(hint) is self._acknowledgement:
            return Acknowledged(parameter.name)
        return None

    def _part_of(
        self, name: str, hint: Any, names: Mapping[str, RecordPart]
    ) -> tuple[RecordPart | Header | None, Any]:
        """Which part of the record a parameter wants, and as which type."""
        if hint is inspect.Parameter.empty:
            return names.get(name), Any
        header = _marker(hint, Header)
        if header is not None:
            return header, _bare(hint)
        marked = _marker(hint, RecordPart)
        if marked is not None:
            return marked, _bare(hint)
        if hint is ConsumerRecord or get_origin(hint) is ConsumerRecord:
            return RecordPart.RECORD, hint
        return names.get(name), hint

    def _reader(self, name: str, part: RecordPart | Header, wanted: Any) -> Read:
        try:
            if isinstance(part, Header):
                return self._decoding.header_reader(part.name, wanted)
            return _READERS[part](self._decoding, wanted)
        except ConfigError as error:
            raise self._wrong(name, str(error)) from error

    def _dependency(self, marker: Depends) -> Dependency:
        function = marker.function
        if function in self._open:
            names = " → ".join(getattr(each, "__name__", repr(each)) for each in self._open)
            raise ConfigError(f"{self._label}: dependencies go in a circle: {names}")
        self._open.append(function)
        label, self._label = (
            self._label,
            f"{self._label}: {getattr(function, '__name__', function)}",
        )
        try:
            parameters, hints = self._parameters(function)
            arguments = []
            for parameter in parameters:
                made = self._dependency_argument(parameter, hints)
                if made is not None:
                    arguments.append(made)
            return Dependency(function, marker.use_cache, tuple(arguments))
        finally:
            self._label = label
            self._open.pop()

    def _dependency_argument(
        self, parameter: inspect.Parameter, hints: Mapping[str, Any]
    ) -> Argument | None:
        hint = hints.get(parameter.name, inspect.Parameter.empty)
        known = self._special(parameter, hint)
        if known is not None:
            return known
        part, wanted = self._part_of(parameter.name, hint, _BY_NAME)
        if part is not None:
            if part is RecordPart.VALUE and wanted is Any:
                wanted = self._value_type
            return FromRecord(
                parameter.name, self._reader_of(parameter, part, wanted), part, wanted
            )
        if parameter.default is not inspect.Parameter.empty:
            return None
        raise self._wrong(
            parameter.name,
            "is not known: a dependency may take parts of the record, other dependencies, or have defaults",
        )

    # Batches

    def _batch_argument(self, parameter: inspect.Parameter, hint: Any, has_value: bool) -> Argument:
        known = self._special(parameter, hint)
        if known is not None:
            return known
        inner: Any = inspect.Parameter.empty
        if hint is not inspect.Parameter.empty:
            bare = hint if _marker(hint, (Header, RecordPart)) is None else _bare(hint)
            if get_origin(bare) not in (list, Sequence) or not get_args(bare):
                raise self._wrong(
                    parameter.name,
                    f"is {type_name(bare)}: a batch listener gets lists, such as list[Order]",
                )
            inner = get_args(bare)[0]
            if bare is not hint:  # Key[list[str]] means list[Key[str]]
                inner = Annotated[(inner, *get_args(hint)[1:])]
        single = parameter.replace(annotation=inspect.Parameter.empty)
        names = {**_BY_NAME, **_BY_PLURAL}
        part, _ = self._part_of(parameter.name, inner, names)
        if part is not None and isinstance(part, RecordPart):
            single = single.replace(name=part.value)
        made = self._argument(single, inner, has_value)
        assert isinstance(made, FromRecord)
        return replace(made, name=parameter.name)

    def _table_argument(self, parameter: inspect.Parameter, hint: Any, has_value: bool) -> Argument:
        known = self._special(parameter, hint)
        if known is not None:
            return known
        if has_value:
            raise self._wrong(parameter.name, "is not known: the table has a parameter already")
        if hint is not inspect.Parameter.empty and getattr(hint, "__name__", "") != "Table":
            raise self._wrong(
                parameter.name, f"is {type_name(hint)}: batch=Arrow gives a pyarrow.Table"
            )
        return FromTable(parameter.name)

    def _wrong(self, parameter: str, reason: str) -> ConfigError:
        return ConfigError(f"{self._label}: parameter {parameter!r} {reason}")


def _annotated_part(function: Callable[..., Any]) -> Callable[..., Any]:
    """Where the annotations of a callable object are: its class's constructor, or its `__call__`."""
    wrapped = inspect.unwrap(function)
    if inspect.isroutine(wrapped):
        return wrapped
    if isinstance(wrapped, type):
        made: Callable[..., Any] = wrapped.__dict__.get("__init__", wrapped)
        return made
    if callable(getattr(wrapped, "func", None)):  # functools.partial
        inner: Callable[..., Any] = wrapped.func
        return inner
    return type(wrapped).__call__


def _unaliased(hint: Any) -> Any:
    """What stands behind `type TableKey = Key[str]` of Python 3.12."""
    while type(hint).__name__ == "TypeAliasType":
        hint = hint.__value__
    return hint


def _marker(hint: Any, kind: Any) -> Any:
    """The marker of a kind in `Annotated[…]`, or None."""
    if get_origin(hint) is not Annotated:
        return None
    return next((each for each in get_args(hint)[1:] if isinstance(each, kind)), None)


def _bare(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _has_default(parameter: inspect.Parameter) -> bool:
    return parameter.default is not inspect.Parameter.empty and not isinstance(
        parameter.default, Depends
    )


def _record_reader(decoding: Decoding, wanted: Any) -> Read:
    """Reads whole records; their keys and values are converted if there is something to convert to."""
    key_type, value_type = get_args(wanted) or (Any, Any)
    untouched = decoding.key_deserializer is None and decoding.value_deserializer is None
    if untouched and key_type is Any and value_type is Any:
        return _itself
    read_key, read_value = decoding.key_reader(key_type), decoding.value_reader(value_type)

    def read(record: RawRecord) -> Any:
        converted: Any = record
        return converted._replace(key=read_key(record), value=read_value(record))

    return read


def _itself(record: RawRecord) -> Any:
    return record


def _headers_reader(decoding: Decoding, wanted: Any) -> Read:
    bare = get_origin(wanted) or wanted
    if bare in (dict, Mapping):
        return lambda record: dict(record.headers)
    if bare is list:
        return lambda record: list(record.headers)
    if wanted is not Any and bare is not tuple:
        raise ConfigError(
            f"is {type_name(wanted)}: headers are Headers (pairs) or dict[str, bytes | None]"
        )
    return attrgetter("headers")


def _timestamp_reader(decoding: Decoding, wanted: Any) -> Read:
    if wanted is datetime:
        return lambda record: datetime.fromtimestamp(record.timestamp_ms / 1000, UTC)
    if wanted not in (Any, int):
        raise ConfigError(f"is {type_name(wanted)}: a timestamp is int (milliseconds) or datetime")
    return attrgetter("timestamp_ms")


def _plain_reader(part: RecordPart, kind: type) -> Callable[[Decoding, Any], Read]:
    def make(decoding: Decoding, wanted: Any) -> Read:
        if wanted not in (Any, kind):
            raise ConfigError(f"is {type_name(wanted)}: the {part.value} is {kind.__name__}")
        return attrgetter(part.value)

    return make


def _whole_record_reader(decoding: Decoding, wanted: Any) -> Read:
    if (
        wanted is not Any
        and wanted is not ConsumerRecord
        and get_origin(wanted) is not ConsumerRecord
    ):
        raise ConfigError(f"is {type_name(wanted)}: the record is a Record")
    return _record_reader(decoding, wanted)


_READERS: Final[dict[RecordPart, Callable[[Decoding, Any], Read]]] = {
    RecordPart.RECORD: _whole_record_reader,
    RecordPart.VALUE: lambda decoding, wanted: decoding.value_reader(wanted),
    RecordPart.KEY: lambda decoding, wanted: decoding.key_reader(wanted),
    RecordPart.HEADERS: _headers_reader,
    RecordPart.TOPIC: _plain_reader(RecordPart.TOPIC, str),
    RecordPart.PARTITION: _plain_reader(RecordPart.PARTITION, int),
    RecordPart.OFFSET: _plain_reader(RecordPart.OFFSET, int),
    RecordPart.TIMESTAMP: _timestamp_reader,
}
