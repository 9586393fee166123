"""`ottla produce`."""

from __future__ import annotations

import argparse
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.cli.connecting import producer_of
from ottla.cli.ending import code_of, ended_by_signals
from ottla.cli.failing import DONE, FAILED, CommandError, UsageError, line_of
from ottla.cli.output import say
from ottla.cli.record_input import LineReader, Lines, check_input, sources_of
from ottla.cli.terminal import Terminal
from ottla.cli.transacting import send_in_transactions
from ottla.errors import ErrorCode, KafkaError, OttlaError

if TYPE_CHECKING:
    from ottla.cli.json_records import RecordToSend
    from ottla.client.blocking.producer import Producer
    from ottla.client.delivery import RecordFuture, SentRecords
    from ottla.client.model import RecordMetadata

# How much may be under way before the oldest is waited for.
_UNDER_WAY_RECORDS: Final = 200_000
_UNDER_WAY_BYTES: Final = 64 << 20
# Failures that are told one by one; the rest is only counted.
_FAILURES_TOLD: Final = 5
_PROGRESS_AFTER_SECONDS: Final = 2.0
_PROGRESS_EVERY_SECONDS: Final = 0.5


def run(arguments: argparse.Namespace) -> int:
    """Sends what is read; 1 if any record was not written."""
    if arguments.transaction_size is not None and arguments.transactional_id is None:
        raise UsageError("--transaction-size is for transactions", "give a --transactional-id")
    check_input(arguments)
    reader = LineReader(arguments)
    with ended_by_signals(), producer_of(arguments, **_options(arguments)) as producer:
        sending = Sending(producer, arguments.topic, reader, _printer(arguments))
        sending.is_transactional = arguments.transactional_id is not None
        if not arguments.quiet:
            sending.progress = Progress(arguments.topic)
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
        say(f"ottla: {sending.failed_count} {what} not written; {_told(sending, arguments)}")
        return FAILED
    if not arguments.quiet:
        say(_told(sending, arguments))
    return DONE


def _options(arguments: argparse.Namespace) -> dict[str, object]:
    options: dict[str, object] = {}
    if arguments.compression is not None:
        options["compression_type"] = arguments.compression
    if arguments.acks is not None:
        options["acks"] = arguments.acks
    if arguments.transactional_id is not None:
        options["transactional_id"] = arguments.transactional_id
    return options


def _told(sending: Sending, arguments: argparse.Namespace) -> str:
    records = "1 record" if sending.written_count == 1 else f"{sending.written_count} records"
    line = f"{records} written to {arguments.topic}"
    if arguments.transactional_id is None:
        return line
    count = sending.transaction_count
    return f"{line} in {count} transaction{'' if count == 1 else 's'}"


def _printer(arguments: argparse.Namespace) -> Callable[[RecordMetadata], None] | None:
    if not arguments.print_offsets:
        return None

    def written(where: RecordMetadata) -> None:
        sys.stdout.write(f"{where.topic}\t{where.partition}\t{where.offset}\n")

    return written


class Progress:
    """How far it is, for input that takes its time."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._terminal = Terminal()
        self._began = time.monotonic()
        self._next = self._began + _PROGRESS_AFTER_SECONDS

    def show(self, count: int) -> None:
        """So many records were sent."""
        now = time.monotonic()
        if now >= self._next and not sys.stdin.isatty():
            self._next = now + _PROGRESS_EVERY_SECONDS
            rate = count / (now - self._began)
            self._terminal.show(f"{count:,} records sent to {self._topic}, {rate:,.0f} per second")

    def done(self) -> None:
        self._terminal.done()


class Sent(NamedTuple):
    """Lines that were sent, and how large they are: they are kept until they are acknowledged."""

    futures: SentRecords | list[RecordFuture]
    size_bytes: int


class Sending:
    """Sends lines and keeps count of what became of them."""

    def __init__(
        self,
        producer: Producer,
        topic: str,
        reader: LineReader,
        on_written: Callable[[RecordMetadata], None] | None,
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._reader = reader
        self._on_written = on_written
        self._under_way: deque[Sent] = deque()
        self._count_under_way = 0
        self._bytes_under_way = 0
        self.sent_count = 0
        self.written_count = 0
        self.failed_count = 0
        self.transaction_count = 0
        self._committed_count = 0
        self._places: list[RecordMetadata] = []
        self.progress: Progress | None = None
        self.is_transactional = False

    def send(self, some: Lines) -> None:
        """Send these lines; one that cannot be read ends it, one that is too large does not."""
        if self._reader.is_uniform:
            try:
                values, keys = self._reader.columns(some.lines)
                sent = self._producer.send_many(
                    self._topic,
                    values,
                    keys=keys,
                    partition=self._reader.partition,
                    headers=self._reader.headers,
                )
            except ValueError:
                # It takes a look at each of them to say which one is wrong.
                self._send_each(some)
            except KafkaError as error:
                if error.code is not ErrorCode.MESSAGE_TOO_LARGE:
                    raise
                self._send_each(some)  # none was sent: sizes are looked at first
            else:
                self._note(sent, some)
        else:
            self._send_each(some)

    def _send_each(self, some: Lines) -> None:
        futures: list[RecordFuture] = []
        try:
            for number, line in enumerate(some.lines, some.first_number):
                try:
                    record = self._reader.record(line)
                    futures.append(self._send_one(record))
                except ValueError as error:
                    raise CommandError(f"{some.source}, line {number}: {error}") from error
                except KafkaError as error:
                    if self.is_transactional or error.code is not ErrorCode.MESSAGE_TOO_LARGE:
                        raise
                    self._failed(error)
        finally:
            self._note(futures, some)

    def _send_one(self, record: RecordToSend) -> RecordFuture:
        return self._producer.send(
            self._topic,
            record.value,
            record.key,
            partition=record.partition,
            headers=record.headers,
            timestamp_ms=record.timestamp_ms,
        )

    def _note(self, sent: SentRecords | list[RecordFuture], some: Lines) -> None:
        self._under_way.append(Sent(sent, sum(map(len, some.lines))))
        self._count_under_way += len(sent)
        self._bytes_under_way += self._under_way[-1].size_bytes
        self.sent_count += len(sent)
        while self._under_way and (
            self._count_under_way > _UNDER_WAY_RECORDS or self._bytes_under_way > _UNDER_WAY_BYTES
        ):
            self._settle(self._under_way.popleft())
        if self._on_written is not None and not self.is_transactional:
            # Whoever wants to see where a line went wants to see it at once.
            self.settle_all()
        if self.progress is not None:
            self.progress.show(self.sent_count)

    def settle_all(self) -> None:
        """Wait for everything that was sent."""
        while self._under_way:
            self._settle(self._under_way.popleft())

    def committed(self) -> None:
        """A transaction has everything that was sent."""
        self.settle_all()
        self.transaction_count += 1
        self._committed_count = self.written_count
        self._tell_places()

    def not_committed(self) -> None:
        """Nothing counts that was sent since the last commit."""
        self._under_way.clear()
        self._count_under_way = self._bytes_under_way = 0
        self.written_count = self._committed_count
        self._places.clear()

    def _settle(self, sent: Sent) -> None:
        self._count_under_way -= len(sent.futures)
        self._bytes_under_way -= sent.size_bytes
        for where in _written(sent.futures, self._failed):
            self.written_count += 1
            if self._on_written is not None:
                self._places.append(where)
        if not self.is_transactional:
            self._tell_places()

    def _tell_places(self) -> None:
        """Where records are; those of a transaction are nowhere before it is committed."""
        if self._on_written is not None:
            for where in self._places:
                self._on_written(where)
            self._places.clear()
            sys.stdout.flush()

    def _failed(self, error: Exception) -> None:
        self.failed_count += 1
        if self.failed_count <= _FAILURES_TOLD:
            self.end_progress()
            say(f"ottla: a record was not written: {line_of(error)}")

    def end_progress(self) -> None:
        """Make room for a line that stays."""
        if self.progress is not None:
            self.progress.done()


def _written(
    sent: SentRecords | list[RecordFuture], on_failure: Callable[[Exception], None]
) -> Iterator[RecordMetadata]:
    """Where records are; what failed is told."""
    if not isinstance(sent, list):
        try:
            yield from sent.result()
            return
        except OttlaError:
            # Some were not written: which ones, each has to say for itself.
            pass
    for future in sent:
        error = future.exception()
        if error is None:
            yield future.result()
        else:
            on_failure(error)


def _send_all(sending: Sending, arguments: argparse.Namespace) -> None:
    try:
        for some in sources_of(arguments):
            sending.send(some)
    finally:
        # What was sent before something went wrong counts, and its own trouble is told.
        sending.settle_all()
