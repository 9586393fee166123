"""Sends lines in transactions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ottla.cli.commands.syntax import Arguments
from ottla.cli.errors import CommandError, line_of
from ottla.cli.records.input import Lines, sources_of
from ottla.cli.terminal.output import say
from ottla.errors import IllegalStateError, KafkaError, OttlaError, TimedOutError

if TYPE_CHECKING:
    from ottla.cli.records.delivery import LineDelivery
    from ottla.client.blocking.producer import Producer

_ABORTED: Final = "the transaction was aborted"
_NOT_ABORTED: Final = (
    "the transaction could not be aborted, the coordinator will abort it when it times out"
)


def send_in_transactions(producer: Producer, delivery: LineDelivery, arguments: Arguments) -> None:
    """Send all lines in one transaction, or in one per --transaction-size lines; an error aborts the open one."""
    producer.init_transactions()
    transaction = Transaction(producer, delivery, arguments.transactional_id)
    size = arguments.transaction_size
    in_transaction = 0
    try:
        transaction.begin()
        for some in sources_of(arguments):
            for part in _parts(some, size, in_transaction):
                delivery.send(part)
                in_transaction += len(part.lines)
                if in_transaction == size:
                    transaction.commit()
                    transaction.begin()
                    in_transaction = 0
        if in_transaction:
            transaction.commit()
        else:
            producer.abort_transaction()
    except (OttlaError, OSError, KeyboardInterrupt) as error:
        outcome = transaction.give_up()
        if outcome is None:
            raise
        if isinstance(error, (KafkaError, CommandError)):
            raise CommandError(f"{line_of(error)}: {outcome}") from error
        if outcome is not _ABORTED:
            say(f"ottla: {outcome}")
        raise


def _parts(some: Lines, size: int | None, taken: int) -> Iterator[Lines]:
    """The lines split by transaction; the first transaction already has `taken` lines."""
    at = 0
    while at < len(some.lines):
        end = len(some.lines) if size is None else at + size - taken
        yield Lines(some.source, some.first_number + at, some.lines[at:end])
        at, taken = end, 0


class Transaction:
    """The transactions of a producer, one after the other; knows whether one is open."""

    def __init__(self, producer: Producer, delivery: LineDelivery, transactional_id: str) -> None:
        self._producer = producer
        self._sending = delivery
        self._id = transactional_id
        self._is_open = False
        self._is_committing = False

    def begin(self) -> None:
        self._producer.begin_transaction()
        self._is_open = True

    def commit(self) -> None:
        """Commit; if the outcome is unknown, try once more with the same timeout."""
        self._is_committing = True
        try:
            self._producer.commit_transaction()
        except TimedOutError:
            self._producer.commit_transaction()
        except KeyboardInterrupt as interrupt:
            # A commit in flight cannot be stopped: the coordinator may have received it.
            try:
                self._producer.commit_transaction()
            except IllegalStateError:
                pass  # the first call was interrupted after its last step
            except OttlaError as error:
                say(f"ottla: {line_of(error)}")
                raise interrupt from error
            self._ended()
            raise
        self._ended()

    def _ended(self) -> None:
        self._is_open = self._is_committing = False
        self._sending.committed()

    def give_up(self) -> str | None:
        """Abort the open transaction; returns a text about the outcome, None if none was open."""
        if not self._is_open:
            return None
        self._sending.not_committed()
        try:
            # Raises while a commit is in flight.
            self._producer.abort_transaction()
        except (OttlaError, KeyboardInterrupt) as error:
            # The timeout is used up: close without waiting.
            self._producer.close(0)
            if self._is_committing:
                return (
                    "the outcome of the transaction is unknown: "
                    f"`ottla transactions describe {self._id}` shows it"
                )
            why = "interrupted" if isinstance(error, KeyboardInterrupt) else line_of(error)
            return f"{_NOT_ABORTED} ({why})"
        return _ABORTED
