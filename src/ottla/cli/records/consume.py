"""`ottla consume`."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, Final

from ottla.cli.commands.syntax import Arguments
from ottla.cli.connection import (
    consumer_of,
    file_options,
    inspecting_consumer_of,
    typed_options,
)
from ottla.cli.errors import CommandError, UsageError
from ottla.cli.exit_codes import DONE, FAILED
from ottla.cli.records.ranges import Range, RangeLimits, partitions_of, ranges_of, topics_of
from ottla.cli.records.text import (
    RecordDecoder,
    RecordFormatter,
    decode_internal_record,
    internal_topic_formatter,
    named_decoder,
    plain_formatter,
    template_formatter,
)
from ottla.cli.terminal.output import say
from ottla.cli.terminal.signals import StopRequest
from ottla.cli.topics.selection import is_name, split_words
from ottla.errors import DeserializationError, TimedOutError
from ottla.inspection.json_lines import JsonRecordFormatter
from ottla.inspection.stored_records import is_decodable
from ottla.model import TopicPartition

if TYPE_CHECKING:
    from ottla.client.blocking.consumer import Consumer
    from ottla.client.model import ConsumerRecord

# The longest wait after Ctrl-C: the records of a poll are printed first, so that exactly those are committed.
_POLL_SECONDS: Final = 0.2
# Large polls, so that much is written at once.
_POLL_RECORDS: Final = 10_000
# The restart of a broker, or a partition that moves, is not reported.
_SILENCE_SECONDS: Final = 1.0

RecordsOfPartition = Sequence["ConsumerRecord"]
BatchFormatter = Callable[[RecordsOfPartition], bytes]


def run(arguments: Arguments) -> int:
    """Print records until the end, if there is one."""
    wanted = split_words([*arguments.topics, *arguments.more_topics])
    arguments.group = _group_of(arguments)
    _check(arguments, wanted)
    if arguments.delimiter is None:
        arguments.delimiter = b"\n"
    with _consumer(arguments) as consumer:
        topics = topics_of(consumer, wanted, arguments)
        printer = Printer(_batch_formatter(arguments, topics), arguments.max_messages)
        partitions = partitions_of(consumer, topics, arguments.partitions)
        reader: RecordReader
        if arguments.group is None:
            limits = RangeLimits.of(arguments)
            ranges = ranges_of(consumer, partitions, limits)
            if limits.is_at_end and sys.stderr.isatty():
                say("waiting for new records; --from-beginning shows earlier ones")
            reader = AssignedReader(consumer, printer, ranges)
        else:
            reader = SubscribedReader(consumer, printer, wanted, topics)
            if arguments.exit:
                reader.end_at(consumer.end_offsets(partitions))
        code = _read_until_end(reader, BrokerWatch(consumer), arguments.timeout_ms)
    if not arguments.quiet:
        say(f"Processed a total of {printer.count} messages")
    return code


def _group_of(arguments: Arguments) -> str | None:
    """The group of --group or, as with Kafka's console consumer, group.id of the options."""
    group: str | None = arguments.group or typed_options(arguments).get("group.id")
    if group is not None or arguments.partitions or _has_own_limits(arguments):
        return group
    # A file serves many commands: its group is ignored where no group can be used.
    return file_options(arguments).get("group.id")


def _has_own_limits(arguments: Arguments) -> bool:
    """Whether the range has limits that no group would have."""
    return (
        arguments.since is not None
        or arguments.until is not None
        or isinstance(arguments.start, int)
    )


def _check(arguments: Arguments, wanted: Sequence[str]) -> None:
    if not wanted:
        raise UsageError("no topic is given", "write `ottla consume TOPIC`")
    own_text = arguments.key_separator is not None or arguments.delimiter is not None
    if (arguments.format is not None) + (arguments.form == "json") + own_text > 1:
        raise UsageError(
            "-f, -o json, and -K or -D cannot be combined", "a format has its own separators"
        )
    if arguments.until is not None and arguments.exit is False:
        raise UsageError("--until and --follow contradict each other", "leave out one of them")
    if arguments.show_aborted and arguments.isolation == "read_uncommitted":
        raise UsageError(
            "with read_uncommitted brokers do not report aborted transactions",
            "leave out --show-aborted or --isolation",
        )
    if arguments.group is None:
        return
    if arguments.partitions:
        raise UsageError(
            "a group shares partitions among its members", "leave out --partition or --group"
        )
    if _has_own_limits(arguments):
        raise UsageError(
            "a group continues at its committed offsets",
            "leave out --group, or use `ottla groups reset-offsets` first",
        )


def _consumer(arguments: Arguments) -> Consumer:
    options: dict[str, object] = {
        # A misspelt topic must not be created.
        "allow_auto_create_topics": False,
        "max_poll_records": min(_POLL_RECORDS, arguments.max_messages or _POLL_RECORDS),
    }
    if arguments.group is not None:
        options["group_id"] = arguments.group
        # A group without committed offsets starts where a consumer without a group would.
        begins_first = arguments.start == "earliest" or (arguments.exit and arguments.start is None)
        options["auto_offset_reset"] = "earliest" if begins_first else "latest"
    else:
        options["enable_auto_commit"] = False
        # If records are deleted meanwhile, go on with the first that exists.
        options["auto_offset_reset"] = "earliest"
    # Brokers list aborted transactions only for read_committed.
    isolation = "read_committed" if arguments.show_aborted else arguments.isolation
    if isolation is not None:
        options["isolation_level"] = isolation
    if not (arguments.show_control or arguments.show_aborted):
        return consumer_of(arguments, **options)
    return inspecting_consumer_of(
        arguments,
        shows_control=arguments.show_control,
        shows_aborted=arguments.show_aborted,
        **options,
    )


# Output


def _batch_formatter(arguments: Arguments, topics: Sequence[str]) -> BatchFormatter:
    """The formatter for the output options."""
    null = b"null" if arguments.null_marker is None else arguments.null_marker
    decode: RecordDecoder | None = named_decoder(
        arguments.key_deserializer, arguments.value_deserializer
    )
    decodes = decode is None and not arguments.raw and any(map(is_decodable, topics))
    if decodes:
        decode = decode_internal_record
    format_record: RecordFormatter
    has_marks = arguments.show_control or arguments.show_aborted
    if arguments.form == "json":
        format_record = JsonRecordFormatter()
    elif arguments.format is not None:
        format_record = template_formatter(arguments.format, arguments.null_marker)
    elif decodes and arguments.key_separator is None:
        format_record = internal_topic_formatter(arguments.delimiter, null)
    elif decode is None and arguments.key_separator is None and not has_marks:
        return _values_formatter(arguments.delimiter, null)
    else:
        format_record = plain_formatter(arguments.key_separator, arguments.delimiter, null)
    if decode is None:
        return lambda records: b"".join(map(format_record, records))
    return lambda records: b"".join(format_record(each) for each in _decode_all(decode, records))


def _values_formatter(delimiter: bytes, null: bytes) -> BatchFormatter:
    """Formats values without keys, which is the fastest and most common case."""

    def format_values(records: RecordsOfPartition) -> bytes:
        values = [null if record.value is None else record.value for record in records]
        values.append(b"")
        return delimiter.join(values)

    return format_values


class UnreadableRecordError(CommandError):
    """A deserializer refused a record; `count_before` records before it are fine."""

    def __init__(self, record: ConsumerRecord, count_before: int, why: object) -> None:
        self.count_before = count_before
        place = f"{record.topic}-{record.partition} at offset {record.offset}"
        super().__init__(
            f"the record of {place} cannot be deserialized: {why}",
            "give another --key-deserializer or --value-deserializer",
        )


def _decode_all(decode: RecordDecoder, records: RecordsOfPartition) -> Iterator[ConsumerRecord]:
    for index, record in enumerate(records):
        try:
            yield decode(record)
        except DeserializationError as error:
            raise UnreadableRecordError(record, index, error) from error


def _stdout() -> BinaryIO:
    """An unshared buffered stream on stdout for bytes."""
    try:
        number = sys.stdout.fileno()
    except OSError:
        return sys.stdout.buffer  # not a file, for example in a notebook
    # With PYTHONUNBUFFERED sys.stdout.buffer may write only a part.
    return open(number, "wb", closefd=False)


class Printer:
    """Writes records to stdout, up to `max_records`, and counts them."""

    def __init__(self, format_records: BatchFormatter, max_records: int | None) -> None:
        self._format = format_records
        self._left = max_records
        self._stream = _stdout()
        self.count = 0

    @property
    def is_full(self) -> bool:
        """Whether `max_records` records were printed."""
        return self._left == 0

    def write(self, records: RecordsOfPartition) -> int:
        """Print records, up to the limit; returns how many were printed."""
        if self._left is not None:
            records = records[: self._left]
            self._left -= len(records)
        try:
            formatted = self._format(records)
        except UnreadableRecordError as error:
            # Print the records before it.
            self._stream.write(self._format(records[: error.count_before]))
            self.flush()
            raise
        self._stream.write(formatted)
        self.count += len(records)
        return len(records)

    def flush(self) -> None:
        self._stream.flush()


# Input


class AssignedReader:
    """Reads ranges of partitions, without a group."""

    def __init__(
        self, consumer: Consumer, printer: Printer, ranges: dict[TopicPartition, Range]
    ) -> None:
        self._consumer = consumer
        self._printer = printer
        self._open = {each: limits for each, limits in ranges.items() if not limits.is_empty}
        consumer.assign(self._open)
        for partition, limits in self._open.items():
            consumer.seek(partition, limits.start_offset)

    @property
    def is_done(self) -> bool:
        return not self._open or self._printer.is_full

    def poll(self, timeout_seconds: float) -> int:
        """Print the records of one poll; returns how many."""
        records = self._consumer.poll(timeout_seconds)
        count = 0
        for partition in records.partitions():
            found: RecordsOfPartition = records.records(partition)
            end = self._open[partition].end_offset
            if end is not None and found[-1].offset >= end:
                found = [record for record in found if record.offset < end]
            count += self._printer.write(found)
        positions = {each: found.offset for each, found in records.next_offsets.items()}
        if not positions:
            # If the records in the range were deleted, the position moves past them and no record comes.
            positions = self._positions()
        for partition, position in positions.items():
            end = self._open[partition].end_offset
            if end is not None and position >= end:
                del self._open[partition]
                self._consumer.pause([partition])
        self._printer.flush()
        return count

    def _positions(self) -> dict[TopicPartition, int]:
        """The positions of partitions that have an end; without those that would have to be looked up."""
        found = {}
        for partition, limits in self._open.items():
            if limits.end_offset is not None:
                with suppress(TimedOutError):
                    found[partition] = self._consumer.position(partition, 0)
        return found


class SubscribedReader:
    """Reads topics as a member of a group; commits the offsets of what was printed."""

    def __init__(
        self, consumer: Consumer, printer: Printer, wanted: Sequence[str], topics: Sequence[str]
    ) -> None:
        self._consumer = consumer
        self._printer = printer
        self._ends: Mapping[TopicPartition, int] | None = None
        self._has_joined = False
        self._is_at_end = False
        if len(wanted) == 1 and not is_name(wanted[0]):
            # A pattern also matches topics that are created later.
            consumer.subscribe(re.compile(wanted[0]), self)
        else:
            consumer.subscribe(topics, self)

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """The group has assigned partitions, perhaps none to this member."""
        self._has_joined = True

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """A rebalance has begun: until its end, the partitions do not show whether all was read."""
        self._has_joined = False

    def end_at(self, ends: Mapping[TopicPartition, int]) -> None:
        """Stop when everything before these offsets was read."""
        self._ends = ends

    @property
    def is_done(self) -> bool:
        return self._is_at_end or self._printer.is_full

    def poll(self, timeout_seconds: float) -> int:
        """Print the records of one poll; returns how many."""
        records = self._consumer.poll(timeout_seconds)
        count = 0
        for partition in records.partitions():
            found = records.records(partition)
            printed = self._printer.write(found)
            count += printed
            if printed < len(found):
                # Records that were not printed must not be committed.
                self._consumer.seek(partition, found[printed].offset)
        self._printer.flush()
        self._is_at_end = self._ends is not None and self._has_reached(self._ends)
        return count

    def _has_reached(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether all partitions of this member were read up to these offsets."""
        return self._has_joined and all(
            self._consumer.position(partition) >= ends.get(partition, 0)
            for partition in self._consumer.assignment()
        )


class BrokerWatch:
    """Reports once that no broker answers, and once that one answers again."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self.is_lost = False

    def look(self) -> None:
        """Check whether a broker answers."""
        silent_seconds = self._consumer.health().seconds_without_broker
        if silent_seconds is None and self.is_lost:
            self.is_lost = False
            say("ottla: a broker answers again")
        elif silent_seconds is not None and silent_seconds >= _SILENCE_SECONDS:
            if not self.is_lost:
                say("ottla: no broker answers any more; waiting for one")
            self.is_lost = True


RecordReader = AssignedReader | SubscribedReader


def _read_until_end(reader: RecordReader, brokers: BrokerWatch, idle_ms: int | None) -> int:
    """Read until the end, a signal or the idle timeout; FAILED if no broker answers then."""
    last = time.monotonic()
    with StopRequest() as stop:
        while not reader.is_done and stop.code is None:
            count = reader.poll(_POLL_SECONDS)
            if not count or brokers.is_lost:
                brokers.look()
            if count:
                last = time.monotonic()
            elif idle_ms is not None and time.monotonic() - last >= idle_ms / 1000:
                return FAILED if brokers.is_lost else DONE
    return DONE if stop.code is None else stop.code
