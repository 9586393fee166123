"""`ottla produce`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.cli.commands.syntax import Arguments
from ottla.cli.connection import producer_of
from ottla.cli.errors import UsageError
from ottla.cli.exit_codes import DONE, FAILED
from ottla.cli.records.delivery import LineDelivery
from ottla.cli.records.input import LineReader, check_input, sources_of
from ottla.cli.records.transactional_delivery import send_in_transactions
from ottla.cli.terminal.output import say
from ottla.cli.terminal.progress import Terminal
from ottla.cli.terminal.signals import code_of, ended_by_signals
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.client.model import RecordMetadata

_PROGRESS_AFTER_SECONDS: Final = 2.0
_PROGRESS_EVERY_SECONDS: Final = 0.5


def run(arguments: Arguments) -> int:
    """Sends what is read; 1 if any record was not acknowledged."""
    if arguments.transaction_size is not None and arguments.transactional_id is None:
        raise UsageError("--transaction-size is for transactions", "give a --transactional-id")
    _name_topic(arguments)
    check_input(arguments)
    try:
        reader = LineReader(arguments)
    except ValueError as error:
        raise UsageError(str(error)) from error
    with ended_by_signals(), producer_of(arguments, **_options(arguments)) as producer:
        sending = LineDelivery(producer, arguments.topic, reader, _printer(arguments))
        sending.is_transactional = arguments.transactional_id is not None
        if not arguments.quiet:
            sending.progress = InputProgress(arguments.topic)
        try:
            if arguments.transactional_id is None:
                _send_all(sending, arguments)
            else:
                send_in_transactions(producer, sending, arguments)
        except KeyboardInterrupt as error:
            sending.end_progress()
            say(f"ottla: interrupted: {_told(sending, arguments)}")
            return code_of(error)
        except OttlaError:
            sending.end_progress()
            say(f"ottla: {_told(sending, arguments)}")
            raise
        finally:
            sending.end_progress()
    if sending.failed_count:
        what = "record was" if sending.failed_count == 1 else "records were"
        say(f"ottla: {sending.failed_count} {what} not acknowledged; {_told(sending, arguments)}")
        return FAILED
    if not arguments.quiet:
        say(_told(sending, arguments))
    return DONE


def _name_topic(arguments: Arguments) -> None:
    """Whoever names the topic with -t has only files besides."""
    if arguments.named_topic is not None:
        if arguments.topic is not None:
            arguments.files.insert(0, arguments.topic)
        arguments.topic = arguments.named_topic
    if arguments.topic is None:
        raise UsageError("no topic is given", "write `ottla produce TOPIC`")


def _options(arguments: Arguments) -> dict[str, object]:
    options: dict[str, object] = {}
    if arguments.compression is not None:
        options["compression_type"] = arguments.compression
    if arguments.acks is not None:
        options["acks"] = arguments.acks
    if arguments.transactional_id is not None:
        options["transactional_id"] = arguments.transactional_id
    return options


def _told(sending: LineDelivery, arguments: Arguments) -> str:
    records = "1 record" if sending.written_count == 1 else f"{sending.written_count} records"
    line = f"{records} written to {arguments.topic}"
    if arguments.transactional_id is None:
        return line
    count = sending.transaction_count
    return f"{line} in {count} transaction{'' if count == 1 else 's'}"


def _printer(arguments: Arguments) -> Callable[[RecordMetadata], None] | None:
    if not arguments.print_offsets:
        return None

    def written(where: RecordMetadata) -> None:
        sys.stdout.write(f"{where.topic}\t{where.partition}\t{where.offset}\n")

    return written


class InputProgress:
    """How far it is, for input that takes its time."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._terminal = Terminal()
        self._began = time.monotonic()
        self._next = self._began + _PROGRESS_AFTER_SECONDS

    def show(self, count: int) -> None:
        """So many records were sent."""
        now = time.monotonic()
        if count and now >= self._next and not sys.stdin.isatty():
            self._next = now + _PROGRESS_EVERY_SECONDS
            rate = count / (now - self._began)
            self._terminal.show(f"{count:,} records sent to {self._topic}, {rate:,.0f} per second")

    def done(self) -> None:
        self._terminal.done()


def _send_all(sending: LineDelivery, arguments: Arguments) -> None:
    try:
        for some in sources_of(arguments):
            sending.send(some)
    finally:
        # What was sent before something went wrong counts, and its own trouble is told.
        sending.settle_all()
