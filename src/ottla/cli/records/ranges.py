"""The ranges of offsets that `ottla consume` reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.cli.commands.syntax import Arguments
from ottla.cli.connection import admin_of
from ottla.cli.errors import CommandError, UsageError
from ottla.cli.terminal.output import say
from ottla.cli.times import current_ms, moment_ms
from ottla.cli.topics.selection import choose_topics, no_such_topics
from ottla.errors import TimedOutError
from ottla.model import TopicPartition

if TYPE_CHECKING:
    from ottla.client.blocking.consumer import Consumer


class Range(NamedTuple):
    """Offsets from the start (inclusive) to the end (exclusive); without an end if it is None."""

    start_offset: int
    end_offset: int | None

    @property
    def is_empty(self) -> bool:
        return self.end_offset is not None and self.start_offset >= self.end_offset


class RangeLimits(NamedTuple):
    """The limits that were asked for: a start (a name, an offset, -N or a time) and an end."""

    start: str | int
    since_ms: int | None
    until_ms: int | None
    ends: bool

    @classmethod
    def of(cls, arguments: Arguments) -> RangeLimits:
        """The limits of the arguments of `consume`."""
        ends = bool(arguments.exit) or arguments.until is not None
        now_ms = current_ms()
        since_ms, until_ms = (
            None if text is None else max(0, moment_ms(text, now_ms))
            for text in (arguments.since, arguments.until)
        )
        if since_ms is not None and until_ms is not None and since_ms > until_ms:
            raise UsageError("--since is later than --until", "swap them")
        start = arguments.start
        if start is None:
            # A command that stops at the end would otherwise print nothing.
            start = "earliest" if ends else "latest"
        return cls(start, since_ms, until_ms, ends)

    @property
    def is_at_end(self) -> bool:
        """Whether only new records will be read."""
        return self.start == "latest" and self.since_ms is None and not self.ends


def topics_of(consumer: Consumer, wanted: Sequence[str], arguments: Arguments) -> list[str]:
    """The selected topics, all of which must exist: a consumer would wait for a missing one."""
    try:
        there = consumer.list_topics()
    except TimedOutError as error:
        if error.__cause__ is not None:
            raise
        # The address accepted a connection before, and there was no error since.
        raise CommandError(
            "the server accepts connections but does not answer as a Kafka broker",
            "does -b name the port of Kafka's protocol? --timeout SECONDS waits longer",
        ) from error
    found, missing = choose_topics(wanted, there)
    if missing:
        with admin_of(arguments) as admin:
            raise no_such_topics(admin, missing)
    return found


def partitions_of(
    consumer: Consumer, topics: Iterable[str], numbers: Sequence[int]
) -> list[TopicPartition]:
    """The partitions of topics, or those with the given numbers."""
    found = []
    for topic in topics:
        there = [info.partition for info in consumer.partitions_for(topic)]
        for number in numbers:
            if number not in there:
                raise CommandError(
                    f"topic {topic} has no partition {number}", f"it has {len(there)}"
                )
        found += [TopicPartition(topic, number) for number in numbers or sorted(there)]
    return found


def ranges_of(
    consumer: Consumer, partitions: Sequence[TopicPartition], limits: RangeLimits
) -> dict[TopicPartition, Range]:
    """The range of each partition."""
    ends = consumer.end_offsets(partitions)
    starts = _starts(consumer, partitions, limits, ends)
    if not limits.ends:
        return {each: Range(starts[each], None) for each in partitions}
    if limits.until_ms is not None:
        found = consumer.offsets_for_times(dict.fromkeys(partitions, limits.until_ms))
        for partition, first in found.items():
            if first is not None:
                ends[partition] = min(ends[partition], first.offset)
    return {each: Range(starts[each], ends[each]) for each in partitions}


def _starts(
    consumer: Consumer,
    partitions: Sequence[TopicPartition],
    limits: RangeLimits,
    ends: Mapping[TopicPartition, int],
) -> Mapping[TopicPartition, int]:
    if limits.since_ms is not None:
        found = consumer.offsets_for_times(dict.fromkeys(partitions, limits.since_ms))
        return {
            partition: ends[partition] if first is None else first.offset
            for partition, first in found.items()
        }
    if limits.start == "latest":
        return ends
    begins = consumer.beginning_offsets(partitions)
    if not isinstance(limits.start, int):
        return begins
    return {each: _clipped(each, limits.start, begins[each], ends[each]) for each in partitions}


def _clipped(partition: TopicPartition, start: int, first: int, end: int) -> int:
    """The offset, or the nearest that exists; a negative one counts from the end."""
    if start < 0:
        return max(first, end + start)
    found = min(max(start, first), end)
    if found != start:
        say(f"ottla: offset {start} of {partition} is out of range: begins at {found}")
    return found
