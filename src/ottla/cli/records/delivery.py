"""Lines on their way to a topic, and what became of them."""

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
    from ottla.cli.records.json_lines import RecordToSend
    from ottla.client.blocking.producer import Producer
    from ottla.client.model import RecordMetadata
    from ottla.client.send.delivery import RecordFuture, SentRecords

# How much may be under way before the oldest is waited for.
_UNDER_WAY_RECORDS: Final = 200_000
_UNDER_WAY_BYTES: Final = 64 << 20
# Failures that are told one by one; the rest is only counted.
_FAILURES_TOLD: Final = 5


class DeliveryProgress(Protocol):
    """Shows how far it is."""

    def show(self, count: int) -> None: ...

    def done(self) -> None: ...


class Sent(NamedTuple):
    """Lines that were sent, with their numbers and how large they are: they are kept until they are acknowledged."""

    source: str
    numbers: Sequence[int]
    futures: SentRecords | list[RecordFuture]
    size_bytes: int


class LineDelivery:
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
        self._partition_count = 0
        self._count_under_way = 0
        self._bytes_under_way = 0
        self.sent_count = 0
        self.written_count = 0
        self.failed_count = 0
        self._told_count = 0
        self.transaction_count = 0
        self._committed_count = 0
        self._places: list[RecordMetadata] = []
        self.progress: DeliveryProgress | None = None
        self.is_transactional = False

    def send(self, some: Lines) -> None:
        """Send these lines; one that cannot be read ends it, one that is too large does not."""
        if not self._reader.is_uniform:
            self._send_each(some)
            return
        try:
            values, keys = self._reader.columns(some.lines)
        except ValueError:
            # It takes a look at each of them to say which one is wrong.
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
            self._note(Sent(some.source, numbers, list(taken.values()), size_bytes))
            if error.code is ErrorCode.MESSAGE_TOO_LARGE and not self.is_transactional:
                # Sizes are looked at before anything is sent, or one after the other: those before it are on their way.
                self._send_each(some.behind(len(taken)))
                return
            left = [
                some.first_number + position
                for position in range(len(some.lines))
                if position not in taken
            ]
            raise not_sent(some.source, left, error) from error
        numbers_of_all = range(some.first_number, some.first_number + len(some.lines))
        self._note(Sent(some.source, numbers_of_all, sent, sum(map(len, some.lines))))

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
                        raise not_sent(some.source, range(number, end_number), error) from error
                    self._failed(some.source, [number], error)
        finally:
            self._note(Sent(some.source, numbers, futures, sum(map(len, some.lines))))

    def _check_partition(self, number: int | None, place: str = "") -> None:
        """Says at once that there is none: a producer waits for it, since partitions can be added."""
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

    def _note(self, sent: Sent) -> None:
        self._under_way.append(sent)
        self._count_under_way += len(sent.numbers)
        self._bytes_under_way += sent.size_bytes
        self.sent_count += len(sent.numbers)
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
        self._count_under_way -= len(sent.numbers)
        self._bytes_under_way -= sent.size_bytes
        failed: dict[int, Exception] = {}
        for where in _written(sent, failed):
            self.written_count += 1
            if self._on_written is not None:
                self._places.append(where)
        if failed:
            self._failed(sent.source, list(failed), next(iter(failed.values())))
        if not self.is_transactional:
            self._tell_places()

    def _tell_places(self) -> None:
        """Where records are; those of a transaction are nowhere before it is committed."""
        if self._on_written is not None:
            for where in self._places:
                self._on_written(where)
            self._places.clear()
            sys.stdout.flush()

    def _failed(self, source: str, numbers: Sequence[int], error: Exception) -> None:
        self.failed_count += len(numbers)
        self._told_count += 1
        if self._told_count <= _FAILURES_TOLD:
            self.end_progress()
            say(f"ottla: {place_of(source, numbers)}: not acknowledged: {line_of(error)}")

    def end_progress(self) -> None:
        """Make room for a line that stays."""
        if self.progress is not None:
            self.progress.done()


def _written(sent: Sent, failed: dict[int, Exception]) -> Iterator[RecordMetadata]:
    """Where records are; what was not acknowledged goes to `failed`, by its number."""
    futures = sent.futures
    if not isinstance(futures, list):
        try:
            yield from futures.result()
            return
        except OttlaError:
            # Some were not written: which ones, each has to say for itself.
            pass
    for number, future in zip(sent.numbers, futures, strict=True):
        error = future.exception()
        if error is None:
            yield future.result()
        else:
            failed[number] = error


def not_sent(source: str, numbers: Sequence[int], error: KafkaError) -> CommandError:
    """The end: nothing behind these lines was read."""
    return CommandError(
        f"{place_of(source, numbers)}: not sent, nor anything behind: {line_of(error)}"
    )


def place_of(source: str, numbers: Sequence[int]) -> str:
    """Which lines, as `stdin, lines 3 to 7`; where some between them are not meant, how many are."""
    first, last, count = numbers[0], numbers[-1], len(numbers)
    if count == 1:
        return f"{source}, line {first}"
    lines = f"lines {first} to {last}"
    return f"{source}, {lines}" if last - first + 1 == count else f"{source}, {count} of {lines}"
