"""`ottla produce`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.cli.commands.syntax import Arguments
from ottla.cli.connection import admin_of, producer_of
from ottla.cli.errors import UsageError
from ottla.cli.exit_codes import DONE, FAILED
from ottla.cli.records.delivery import LineDelivery
from ottla.cli.records.input import LineReader, check_input, sources_of
from ottla.cli.records.transactional_delivery import send_in_transactions
from ottla.cli.terminal.output import say
from ottla.cli.terminal.progress import Terminal
from ottla.cli.terminal.signals import exit_code_of, sigterm_raises
from ottla.errors import ErrorCode, KafkaError, OttlaError

if TYPE_CHECKING:
    from ottla.client.model import RecordMetadata

_PROGRESS_AFTER_SECONDS: Final = 2.0
_PROGRESS_EVERY_SECONDS: Final = 0.5
# How long to wait for the answer whether the topic exists; the producer itself waits up to max.block.ms.
_LOOK_SECONDS: Final = 2.0


def run(arguments: Arguments) -> int:
    """Send the input; FAILED if a record was not acknowledged."""
    if arguments.transaction_size is not None and arguments.transactional_id is None:
        raise UsageError("--transaction-size is for transactions", "give a --transactional-id")
    _resolve_topic(arguments)
    check_input(arguments)
    try:
        reader = LineReader(arguments)
    except ValueError as error:
        raise UsageError(str(error)) from error
    with sigterm_raises(), producer_of(arguments, **_options(arguments)) as producer:
        is_new_topic = not arguments.quiet and _is_missing(arguments)
        delivery = LineDelivery(producer, arguments.topic, reader, _printer(arguments))
        delivery.is_transactional = arguments.transactional_id is not None
        if not arguments.quiet:
            delivery.progress = InputProgress(arguments.topic)
        try:
            if arguments.transactional_id is None:
                _send_all(delivery, arguments)
            else:
                send_in_transactions(producer, delivery, arguments)
        except KeyboardInterrupt as error:
            delivery.end_progress()
            say(f"ottla: interrupted: {_summary(delivery, arguments)}")
            return exit_code_of(error)
        except OttlaError:
            delivery.end_progress()
            say(f"ottla: {_summary(delivery, arguments)}")
            raise
        finally:
            delivery.end_progress()
            if is_new_topic and delivery.written_count:
                say(f"ottla: topic {arguments.topic} did not exist, the broker created it")
    if delivery.failed_count:
        what = "record was" if delivery.failed_count == 1 else "records were"
        say(
            f"ottla: {delivery.failed_count} {what} not acknowledged; {_summary(delivery, arguments)}"
        )
        return FAILED
    if not arguments.quiet:
        say(_summary(delivery, arguments))
    return DONE


def _resolve_topic(arguments: Arguments) -> None:
    """With -t all positional arguments are files."""
    if arguments.named_topic is not None:
        if arguments.topic is not None:
            arguments.files.insert(0, arguments.topic)
        arguments.topic = arguments.named_topic
    if arguments.topic is None:
        raise UsageError("no topic is given", "write `ottla produce TOPIC`")


def _is_missing(arguments: Arguments) -> bool:
    """Whether a broker answers in time that the topic does not exist; the broker may then create it."""
    try:
        with admin_of(arguments) as admin:
            admin.describe_topics([arguments.topic], timeout=_LOOK_SECONDS)
    except KafkaError as error:
        return error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return False


def _options(arguments: Arguments) -> dict[str, object]:
    options: dict[str, object] = {}
    if arguments.compression is not None:
        options["compression_type"] = arguments.compression
    if arguments.acks is not None:
        options["acks"] = arguments.acks
    if arguments.transactional_id is not None:
        options["transactional_id"] = arguments.transactional_id
    return options


def _summary(delivery: LineDelivery, arguments: Arguments) -> str:
    records = "1 record" if delivery.written_count == 1 else f"{delivery.written_count} records"
    line = f"{records} written to {arguments.topic}"
    if arguments.transactional_id is None:
        return line
    count = delivery.transaction_count
    return f"{line} in {count} transaction{'' if count == 1 else 's'}"


def _printer(arguments: Arguments) -> Callable[[RecordMetadata], None] | None:
    if not arguments.print_offsets:
        return None

    def written(where: RecordMetadata) -> None:
        sys.stdout.write(f"{where.topic}\t{where.partition}\t{where.offset}\n")

    return written


class InputProgress:
    """Shows the progress of long input."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._terminal = Terminal()
        self._began = time.monotonic()
        self._next = self._began + _PROGRESS_AFTER_SECONDS

    def show(self, count: int) -> None:
        """This many records were sent."""
        now = time.monotonic()
        if count and now >= self._next and not sys.stdin.isatty():
            self._next = now + _PROGRESS_EVERY_SECONDS
            rate = count / (now - self._began)
            self._terminal.show(f"{count:,} records sent to {self._topic}, {rate:,.0f} per second")

    def done(self) -> None:
        self._terminal.done()


def _send_all(delivery: LineDelivery, arguments: Arguments) -> None:
    try:
        for some in sources_of(arguments):
            delivery.send(some)
    finally:
        # After an error the records before it are still counted, and their errors reported.
        delivery.wait_for_all()
