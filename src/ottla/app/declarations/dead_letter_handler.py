"""Handlers of dead letters: `async def dead(letter: DeadLetter[Order])`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args, get_origin

from ottla.app.declarations.compiled_handler import CompiledHandler, compile_handler, is_generator
from ottla.app.declarations.handler_results import read_results
from ottla.app.declarations.handler_signature import FromRecord, SignatureReader
from ottla.app.declarations.listener_spec import RawRecord
from ottla.app.declarations.record_decoding import Decoding, Read
from ottla.app.delivery.unit import OutgoingRecord
from ottla.app.errors import UnreadableRecordError
from ottla.app.letters.history import History, original_record, read_history
from ottla.app.letters.letter import DeadLetter
from ottla.errors import ConfigError
from ottla.records.record import TimestampType

if TYPE_CHECKING:
    from ottla.app.declarations.listener import DeclarationContext

SendLetter = Callable[[OutgoingRecord], Awaitable[object]]


def dead_letter_handler(
    name: str,
    function: Callable[..., Any],
    context: DeclarationContext,
    value_type: Any,
    names: Mapping[str, Any],
) -> CompiledHandler:
    """The handler of a function that takes a `DeadLetter`."""
    decoding = replace(context.decoding, names={**context.decoding.names, **names})
    signature = _LetterSignatureReader(name, decoding, context.send, value_type).read(function)
    return compile_handler(
        label=name,
        function=function,
        signature=signature,
        results=read_results(name, signature.returns, is_generator=is_generator(function)),
        encoding=context.encoding,
        threads=context.threads,
        overrides=context.overrides,
        is_batch=False,
    )


class _LetterSignatureReader(SignatureReader):
    """Reads signatures in which the value is a `DeadLetter`."""

    def __init__(self, label: str, decoding: Decoding, send: SendLetter, value_type: Any) -> None:
        super().__init__(label, decoding)
        self._send = send
        self._letter_type = value_type

    def _argument(self, parameter: Any, hint: Any, has_value: bool) -> Any:
        if hint is DeadLetter or get_origin(hint) is DeadLetter:
            wanted = (get_args(hint) or (self._letter_type,))[0]
            try:
                read = letter_reader(self._decoding, self._send, wanted)
            except ConfigError as error:
                raise self._wrong(parameter.name, str(error)) from error
            return FromRecord(parameter.name, read)
        return super()._argument(parameter, hint, has_value)


def letter_reader(decoding: Decoding, send: SendLetter, wanted: Any) -> Read:
    """Reads dead letters; a value that cannot be read is given as bytes, for it may be why the record failed."""
    read_value, read_key = (
        decoding.value_reader(wanted | None if wanted is not Any else Any),
        decoding.key_reader(Any),
    )

    def read(record: RawRecord) -> DeadLetter[Any]:
        original = original_record(record)
        value: Any
        try:
            value = read_value(original)
        except UnreadableRecordError:
            value = record.value
        return DeadLetter(value, read_key(original), record, _history(record), send)

    return read


def _history(record: RawRecord) -> History:
    """The history of a letter; a record that another program wrote into the topic has only its place."""
    found = read_history(record)
    if found is not None:
        return found
    return History(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        timestamp_type=TimestampType(record.timestamp_type),
        group=None,
        listener=None,
        attempts=0,
        error=None,
        cause=None,
        message=None,
        traceback=None,
        first_failed_ms=None,
        last_failed_ms=None,
        due_ms=None,
    )
