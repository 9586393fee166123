"""Sends lines to a topic and counts which were acknowledged."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from ottla.cli.errors import CommandError, line_of
from ottla.cli.records.input import LineReader, Lines
from ottla.cli.terminal.output import say
from ottla.client.send.delivery import accepted_before
from ottla.errors import ErrorCode, KafkaError, OttlaError

if TYPE_CHECKING:
    from ottla.client.blocking.producer import Producer
    from ottla.client.model import RecordMetadata
    from ottla.client.send.delivery import RecordFuture, SentRecords
    from ottla.inspection.json_lines import RecordToSend

# How much may be unacknowledged before the oldest is waited for.
_IN_FLIGHT_RECORDS: Final = 200_000
_IN_FLIGHT_BYTES: Final = 64 << 20
# Failures that are printed; the rest is only counted.
_FAILURES_SHOWN: Final = 5


class DeliveryProgress(Protocol):
    """Shows the number of records sent."""

    def show(self, count: int) -> None: ...

    def done(self) -> None: ...


class Sent(NamedTuple):
    """Lines that were sent and are not acknowledged yet."""

    source: str
    numbers: Sequence[int]
    futures: SentRecords | list[RecordFuture]
    size_bytes: int


class LineDelivery:
    """Sends lines and counts their outcomes."""

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
        self._in_flight: deque[Sent] = deque()
        self._partition_count = 0
        self._count_in_flight = 0
        self._bytes_in_flight = 0
        self.sent_count = 0
        self.written_count = 0
        self.failed_count = 0
        self._reported_count = 0
        self.transaction_count = 0
        self._committed_count = 0
        self._written_records: list[RecordMetadata] = []
        self.progress: DeliveryProgress | None = None
        self.is_transactional = False

    def send(self, some: Lines) -> None:
        """Send lines; one that cannot be parsed is an error, one that is too large is reported and skipped."""
        if not self._reader.is_uniform:
            self._send_each(some)
            return
        try:
            values, keys = self._reader.columns(some.lines)
        except ValueError:
            # Parse line by line to find the wrong one.
            self._send_each(some)
            return
        self._send_many(some, values, keys)

    def _send_many(
        self, some: Lines, values: list[bytes | None], keys: list[bytes | None] | None
    ) -> None:
        try:
            self._check_partition(self._reader.partition)
            sent = self._producer.send_many(
                self._topic,
                values,
                keys=keys,
                partition=self._reader.partition,
                headers=self._reader.headers,
            )
        except KafkaError as error:
            taken = accepted_before(error)
            numbers = [some.first_number + position for position in taken]
            size_bytes = sum(len(some.lines[position]) for position in taken)
            self._track(Sent(some.source, numbers, list(taken.values()), size_bytes))
            if error.code is ErrorCode.MESSAGE_TOO_LARGE and not self.is_transactional:
                # Sizes are checked in order: the lines before this one were sent.
                self._send_each(some.without_first(len(taken)))
                return
            left = [
                some.first_number + position
                for position in range(len(some.lines))
                if position not in taken
            ]
            raise not_sent_error(some.source, left, error) from error
        numbers_of_all = range(some.first_number, some.first_number + len(some.lines))
        self._track(Sent(some.source, numbers_of_all, sent, sum(map(len, some.lines))))

    def _send_each(self, some: Lines) -> None:
        futures: list[RecordFuture] = []
        numbers: list[int] = []
        try:
            for number, line in enumerate(some.lines, some.first_number):
                try:
                    record = self._reader.record(line)
                except ValueError as error:
                    raise CommandError(f"{some.source}, line {number}: {error}") from error
                try:
                    self._check_partition(record.partition, f"{some.source}, line {number}: ")
                    futures.append(self._send_one(record))
                    numbers.append(number)
                except KafkaError as error:
                    if self.is_transactional or error.code is not ErrorCode.MESSAGE_TOO_LARGE:
                        end_number = some.first_number + len(some.lines)
                        raise not_sent_error(
                            some.source, range(number, end_number), error
                        ) from error
                    self._report_failure(some.source, [number], error)
        finally:
            self._track(Sent(some.source, numbers, futures, sum(map(len, some.lines))))

    def _check_partition(self, number: int | None, place: str = "") -> None:
        """Fail at once if the partition does not exist: a producer would wait for it."""
        if number is None or number < self._partition_count:
            return
        self._partition_count = len(self._producer.partitions_for(self._topic))
        if number >= self._partition_count:
            count = self._partition_count
            raise CommandError(
                f"{place}topic {self._topic} has no partition {number}, "
                f"only {count} partition{'' if count == 1 else 's'}",
                f"create it with {number + 1}, or let the key decide with -p -1",
            )

    def _send_one(self, record: RecordToSend) -> RecordFuture:
        return self._producer.send(
            self._topic,
            record.value,
            record.key,
            partition=record.partition,
            headers=record.headers,
            timestamp_ms=record.timestamp_ms,
        )

    def _track(self, sent: Sent) -> None:
        self._in_flight.append(sent)
        self._count_in_flight += len(sent.numbers)
        self._bytes_in_flight += sent.size_bytes
        self.sent_count += len(sent.numbers)
        while self._in_flight and (
            self._count_in_flight > _IN_FLIGHT_RECORDS or self._bytes_in_flight > _IN_FLIGHT_BYTES
        ):
            self._take_outcomes(self._in_flight.popleft())
        if self._on_written is not None and not self.is_transactional:
            # Offsets are printed at once.
            self.wait_for_all()
        if self.progress is not None:
            self.progress.show(self.sent_count)

    def wait_for_all(self) -> None:
        """Wait until everything that was sent is acknowledged or has failed."""
        while self._in_flight:
            self._take_outcomes(self._in_flight.popleft())

    def committed(self) -> None:
        """A transaction with everything that was sent has been committed."""
        self.wait_for_all()
        self.transaction_count += 1
        self._committed_count = self.written_count
        self._report_offsets()

    def not_committed(self) -> None:
        """Forget everything that was sent since the last commit."""
        self._in_flight.clear()
        self._count_in_flight = self._bytes_in_flight = 0
        self.written_count = self._committed_count
        self._written_records.clear()

    def _take_outcomes(self, sent: Sent) -> None:
        self._count_in_flight -= len(sent.numbers)
        self._bytes_in_flight -= sent.size_bytes
        failed: dict[int, Exception] = {}
        for where in _written(sent, failed):
            self.written_count += 1
            if self._on_written is not None:
                self._written_records.append(where)
        if failed:
            self._report_failure(sent.source, list(failed), next(iter(failed.values())))
        if not self.is_transactional:
            self._report_offsets()

    def _report_offsets(self) -> None:
        """Report offsets; those of a transaction only after it is committed."""
        if self._on_written is not None:
            for where in self._written_records:
                self._on_written(where)
            self._written_records.clear()
            sys.stdout.flush()

    def _report_failure(self, source: str, numbers: Sequence[int], error: Exception) -> None:
        self.failed_count += len(numbers)
        self._reported_count += 1
        if self._reported_count <= _FAILURES_SHOWN:
            self.end_progress()
            say(f"ottla: {lines_text(source, numbers)}: not acknowledged: {line_of(error)}")

    def end_progress(self) -> None:
        """Clear the progress line."""
        if self.progress is not None:
            self.progress.done()


def _written(sent: Sent, failed: dict[int, Exception]) -> Iterator[RecordMetadata]:
    """The metadata of acknowledged records; errors of the others go to `failed`, by line number."""
    futures = sent.futures
    if not isinstance(futures, list):
        try:
            yield from futures.result()
            return
        except OttlaError:
            # Some failed: ask each future.
            pass
    for number, future in zip(sent.numbers, futures, strict=True):
        error = future.exception()
        if error is None:
            yield future.result()
        else:
            failed[number] = error


def not_sent_error(source: str, numbers: Sequence[int], error: KafkaError) -> CommandError:
    """The error that ends the command: the lines after these were not read."""
    return CommandError(
        f"{lines_text(source, numbers)}: not sent, nor anything after: {line_of(error)}"
    )


def lines_text(source: str, numbers: Sequence[int]) -> str:
    """The lines as `stdin, lines 3 to 7`, or `4 of lines 3 to 7` if some of them are not meant."""
    first, last, count = numbers[0], numbers[-1], len(numbers)
    if count == 1:
        return f"{source}, line {first}"
    lines = f"lines {first} to {last}"
    return f"{source}, {lines}" if last - first + 1 == count else f"{source}, {count} of {lines}"
