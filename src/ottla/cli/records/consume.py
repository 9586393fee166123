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
from ottla.cli.records.json_lines import JsonLines
from ottla.cli.records.ranges import Range, RangeLimits, partitions_of, ranges_of, topics_of
from ottla.cli.records.stored import is_decodable
from ottla.cli.records.text import Opened, decoded, decoded_lines, opened_by, plain, written_by
from ottla.cli.terminal.output import say
from ottla.cli.terminal.signals import StopRequest
from ottla.cli.topics.selection import is_name, split_words
from ottla.errors import DeserializationError, TimedOutError
from ottla.model import TopicPartition

if TYPE_CHECKING:
    from ottla.client.blocking.consumer import Consumer
    from ottla.client.model import ConsumerRecord

# How long Ctrl-C may have to wait: what was read is printed first, so that exactly that is committed.
_POLL_SECONDS: Final = 0.2
# As many as a poll may bring: what is written at once should be much when much is read.
_POLL_RECORDS: Final = 10_000
# A broker that is restarted, or a partition that moves, is not worth a word.
_SILENCE_SECONDS: Final = 1.0

Part = Sequence["ConsumerRecord"]


def run(arguments: Arguments) -> int:
    """Prints records until there is an end."""
    wanted = split_words([*arguments.topics, *arguments.more_topics])
    arguments.group = _group_of(arguments)
    _check(arguments, wanted)
    if arguments.delimiter is None:
        arguments.delimiter = b"\n"
    with _consumer(arguments) as consumer:
        topics = topics_of(consumer, wanted)
        printer = Printer(_writer(arguments, topics), arguments.max_messages)
        partitions = partitions_of(consumer, topics, arguments.partitions)
        reading: Reading
        if arguments.group is None:
            limits = RangeLimits.of(arguments)
            ranges = ranges_of(consumer, partitions, limits)
            if limits.is_at_end and sys.stderr.isatty():
                say("waiting for new records; --from-beginning shows those that are there")
            reading = Assigned(consumer, printer, ranges)
        else:
            reading = Subscribed(consumer, printer, wanted, topics)
            if arguments.exit:
                reading.end_at(consumer.end_offsets(partitions))
        code = _read(reading, BrokerWatch(consumer), arguments.timeout_ms)
    if not arguments.quiet:
        say(f"Processed a total of {printer.count} messages")
    return code


def _group_of(arguments: Arguments) -> str | None:
    """--group, or as with Kafka's console consumer the group.id of the options."""
    group: str | None = arguments.group or typed_options(arguments).get("group.id")
    if group is not None or arguments.partitions or _is_apart(arguments):
        return group
    # A file is for many commands: its group is not meant where none can read.
    return file_options(arguments).get("group.id")


def _is_apart(arguments: Arguments) -> bool:
    """Whether it begins or ends where no group would."""
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
            "-f, -o json, and -K or -D are different forms", "a format has its own separators"
        )
    if arguments.until is not None and arguments.exit is False:
        raise UsageError("--until ends what --follow does not", "leave out one of them")
    if arguments.show_aborted and arguments.isolation == "read_uncommitted":
        raise UsageError(
            "only who reads what is committed learns which transactions were aborted",
            "leave out --show-aborted or --isolation",
        )
    if arguments.group is None:
        return
    if arguments.partitions:
        raise UsageError(
            "a group shares partitions among its members", "leave out --partition or --group"
        )
    if _is_apart(arguments):
        raise UsageError(
            "a group goes on where it is",
            "leave out --group, or use `ottla groups reset-offsets` first",
        )


def _consumer(arguments: Arguments) -> Consumer:
    options: dict[str, object] = {
        # A topic that was mistyped should not come into being.
        "allow_auto_create_topics": False,
        "max_poll_records": min(_POLL_RECORDS, arguments.max_messages or _POLL_RECORDS),
    }
    if arguments.group is not None:
        options["group_id"] = arguments.group
        # What a group has never read is read from where the others would begin.
        begins_first = arguments.start == "earliest" or (arguments.exit and arguments.start is None)
        options["auto_offset_reset"] = "earliest" if begins_first else "latest"
    else:
        options["enable_auto_commit"] = False
        # Where records go while they are read, the next that are there follow.
        options["auto_offset_reset"] = "earliest"
    # Which transactions were aborted is told to those who read what is committed.
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


# What is printed


def _writer(arguments: Arguments, topics: Sequence[str]) -> Callable[[Part], bytes]:
    """What is written for the records of a poll."""
    null = b"null" if arguments.null_marker is None else arguments.null_marker
    opened: Opened | None = opened_by(arguments.key_deserializer, arguments.value_deserializer)
    decodes = opened is None and not arguments.raw and any(map(is_decodable, topics))
    if decodes:
        opened = decoded
    written: Callable[[ConsumerRecord], bytes]
    has_marks = arguments.show_control or arguments.show_aborted
    if arguments.form == "json":
        written = JsonLines()
    elif arguments.format is not None:
        written = written_by(arguments.format, arguments.null_marker)
    elif decodes and arguments.key_separator is None:
        written = decoded_lines(arguments.delimiter, null)
    elif opened is None and arguments.key_separator is None and not has_marks:
        return _values(arguments.delimiter, null)
    else:
        written = plain(arguments.key_separator, arguments.delimiter, null)
    if opened is None:
        return lambda records: b"".join(map(written, records))
    return lambda records: b"".join(written(each) for each in _opened(opened, records))


def _values(delimiter: bytes, null: bytes) -> Callable[[Part], bytes]:
    """The values alone, which is what most want, quickly."""

    def written(records: Part) -> bytes:
        values = [null if record.value is None else record.value for record in records]
        values.append(b"")
        return delimiter.join(values)

    return written


class UnreadableRecordError(CommandError):
    """A record that a deserializer refuses, with how many there are before it."""

    def __init__(self, record: ConsumerRecord, count_before: int, why: object) -> None:
        self.count_before = count_before
        place = f"{record.topic}-{record.partition} at offset {record.offset}"
        super().__init__(
            f"the record of {place} cannot be deserialized: {why}",
            "give another --key-deserializer or --value-deserializer",
        )


def _opened(opened: Opened, records: Part) -> Iterator[ConsumerRecord]:
    for index, record in enumerate(records):
        try:
            yield opened(record)
        except DeserializationError as error:
            raise UnreadableRecordError(record, index, error) from error


def _stdout() -> BinaryIO:
    """Where bytes go, in pieces of their own size."""
    try:
        number = sys.stdout.fileno()
    except OSError:
        return sys.stdout.buffer  # it is not a file, in a notebook say
    # With PYTHONUNBUFFERED the other writes what the pipe takes, and no more.
    return open(number, "wb", closefd=False)


class Printer:
    """Writes to stdout, and counts; what was read is written at once, so that nobody waits for it."""

    def __init__(self, written: Callable[[Part], bytes], most: int | None) -> None:
        self._written = written
        self._left = most
        self._stream = _stdout()
        self.count = 0

    @property
    def is_full(self) -> bool:
        """Whether everything was printed that was asked for."""
        return self._left == 0

    def write(self, records: Part) -> int:
        """How many of the records were printed."""
        if self._left is not None:
            records = records[: self._left]
            self._left -= len(records)
        try:
            written = self._written(records)
        except UnreadableRecordError as error:
            # Those before it are good.
            self._stream.write(self._written(records[: error.count_before]))
            self.flush()
            raise
        self._stream.write(written)
        self.count += len(records)
        return len(records)

    def flush(self) -> None:
        self._stream.flush()


# What is read


class Assigned:
    """Partitions that are read from where to where, without a group."""

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
        """Print what there is: how many records."""
        records = self._consumer.poll(timeout_seconds)
        count = 0
        for partition in records.partitions():
            found: Part = records.records(partition)
            end = self._open[partition].end_offset
            if end is not None and found[-1].offset >= end:
                found = [record for record in found if record.offset < end]
            count += self._printer.write(found)
        positions = {each: found.offset for each, found in records.next_offsets.items()}
        if not positions:
            # Records may have been deleted that were to be read: then it goes on behind them, and none comes.
            positions = self._positions()
        for partition, position in positions.items():
            end = self._open[partition].end_offset
            if end is not None and position >= end:
                del self._open[partition]
                self._consumer.pause([partition])
        self._printer.flush()
        return count

    def _positions(self) -> dict[TopicPartition, int]:
        """Where partitions that have an end are read on; without those that have to look that up."""
        found = {}
        for partition, limits in self._open.items():
            if limits.end_offset is not None:
                with suppress(TimedOutError):
                    found[partition] = self._consumer.position(partition, 0)
        return found


class Subscribed:
    """Topics that are shared with a group, whose offsets are committed behind what was printed."""

    def __init__(
        self, consumer: Consumer, printer: Printer, wanted: Sequence[str], topics: Sequence[str]
    ) -> None:
        self._consumer = consumer
        self._printer = printer
        self._ends: Mapping[TopicPartition, int] | None = None
        self._has_joined = False
        self._is_at_end = False
        if len(wanted) == 1 and not is_name(wanted[0]):
            # A pattern stands for topics that come later too.
            consumer.subscribe(re.compile(wanted[0]), self)
        else:
            consumer.subscribe(topics, self)

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """The group has shared its partitions; perhaps there are none for us."""
        self._has_joined = True

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """The group is about to share them anew; what is left until then, or nothing, says nothing about the end."""
        self._has_joined = False

    def end_at(self, ends: Mapping[TopicPartition, int]) -> None:
        """Stop when everything before these offsets was read."""
        self._ends = ends

    @property
    def is_done(self) -> bool:
        return self._is_at_end or self._printer.is_full

    def poll(self, timeout_seconds: float) -> int:
        """Print what there is: how many records."""
        records = self._consumer.poll(timeout_seconds)
        count = 0
        for partition in records.partitions():
            found = records.records(partition)
            printed = self._printer.write(found)
            count += printed
            if printed < len(found):
                # It counts as not read, or the group would never see it.
                self._consumer.seek(partition, found[printed].offset)
        self._printer.flush()
        self._is_at_end = self._ends is not None and self._has_reached(self._ends)
        return count

    def _has_reached(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether all partitions that the group gave us were read up to what was the end."""
        return self._has_joined and all(
            self._consumer.position(partition) >= ends.get(partition, 0)
            for partition in self._consumer.assignment()
        )


class BrokerWatch:
    """Says once that the brokers are gone, and once that they are back."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self.is_lost = False

    def look(self) -> None:
        """How it is now."""
        silent_seconds = self._consumer.health().seconds_without_broker
        if silent_seconds is None and self.is_lost:
            self.is_lost = False
            say("ottla: a broker answers again")
        elif silent_seconds is not None and silent_seconds >= _SILENCE_SECONDS:
            if not self.is_lost:
                say("ottla: no broker answers any more: waiting for one to come back")
            self.is_lost = True


Reading = Assigned | Subscribed


def _read(reading: Reading, brokers: BrokerWatch, idle_ms: int | None) -> int:
    """Until the end, or a signal; 1 if nothing came because nobody answers."""
    last = time.monotonic()
    with StopRequest() as stop:
        while not reading.is_done and stop.code is None:
            count = reading.poll(_POLL_SECONDS)
            if not count or brokers.is_lost:
                brokers.look()
            if count:
                last = time.monotonic()
            elif idle_ms is not None and time.monotonic() - last >= idle_ms / 1000:
                return FAILED if brokers.is_lost else DONE
    return DONE if stop.code is None else stop.code
