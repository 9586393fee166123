"""Lines that are sent in transactions."""

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
    "the transaction could not be aborted, the coordinator does that when it times out"
)


def send_in_transactions(producer: Producer, sending: LineDelivery, arguments: Arguments) -> None:
    """One transaction for all, or one for so many lines each; whatever goes wrong aborts the one that is open."""
    producer.init_transactions()
    transaction = Transaction(producer, sending, arguments.transactional_id)
    size = arguments.transaction_size
    in_transaction = 0
    try:
        transaction.begin()
        for some in sources_of(arguments):
            for part in _parts(some, size, in_transaction):
                sending.send(part)
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
    """The lines by transaction, of which the first one has got some already."""
    at = 0
    while at < len(some.lines):
        end = len(some.lines) if size is None else at + size - taken
        yield Lines(some.source, some.first_number + at, some.lines[at:end])
        at, taken = end, 0


class Transaction:
    """One after the other; knows whether there is one to abort."""

    def __init__(self, producer: Producer, sending: LineDelivery, transactional_id: str) -> None:
        self._producer = producer
        self._sending = sending
        self._id = transactional_id
        self._is_open = False
        self._is_committing = False

    def begin(self) -> None:
        self._producer.begin_transaction()
        self._is_open = True

    def commit(self) -> None:
        """Commit; where nobody knows whether it was done, ask once more, for as long."""
        self._is_committing = True
        try:
            self._producer.commit_transaction()
        except TimedOutError:
            self._producer.commit_transaction()
        except KeyboardInterrupt as interrupt:
            # What is under way cannot be stopped: the coordinator may have been told.
            try:
                self._producer.commit_transaction()
            except IllegalStateError:
                pass  # there is none any more: the first call was interrupted behind its last step
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
        """Abort what is open: what became of it; None if nothing was."""
        if not self._is_open:
            return None
        self._sending.not_committed()
        try:
            # A commit that is still under way refuses this.
            self._producer.abort_transaction()
        except (OttlaError, KeyboardInterrupt) as error:
            # Everything had its time: nobody has to wait for the end of the producer as well.
            self._producer.close(0)
            if self._is_committing:
                return (
                    "the outcome of the transaction is unknown: "
                    f"`ottla transactions describe {self._id}` shows it"
                )
            why = "interrupted" if isinstance(error, KeyboardInterrupt) else line_of(error)
            return f"{_NOT_ABORTED} ({why})"
        return _ABORTED
