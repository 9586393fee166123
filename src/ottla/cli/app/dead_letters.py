"""Reading dead letters: which topics, which letters, and which of them are done."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.app.letters.done_letters import DoneLetters
from ottla.app.letters.history import History, read_history
from ottla.app.letters.topic_names import done_topic, parse_letter_topic
from ottla.cli.commands.syntax import Arguments
from ottla.cli.connection import consumer_of
from ottla.cli.errors import CommandError
from ottla.cli.times import current_ms, moment_ms
from ottla.cli.topics.selection import check_patterns, choose_topics, no_such_topics
from ottla.client.existing_topics import describe_existing_topics
from ottla.errors import TimedOutError
from ottla.model import TopicPartition

if TYPE_CHECKING:
    from ottla.app.declarations.listener_spec import RawRecord
    from ottla.client.admin_model.topics import TopicDescription
    from ottla.client.blocking.admin import Admin
    from ottla.client.blocking.consumer import Consumer

_POLL_SECONDS: Final = 0.2
_DEFAULT_WAIT_SECONDS: Final = 10.0


class Letter(NamedTuple):
    """A record of a dead-letter topic; without a history if it has no headers about it."""

    record: RawRecord
    history: History | None
    is_done: bool
    """Whether it was replayed or dropped before."""


class LetterFilter(NamedTuple):
    """Which letters were asked for."""

    partitions: frozenset[int]
    offsets: frozenset[int]
    error: str | None
    since_ms: int | None
    until_ms: int | None

    @classmethod
    def of(cls, arguments: Arguments) -> LetterFilter:
        """The filter of the arguments."""
        now_ms = current_ms()
        since_ms, until_ms = (
            None if text is None else moment_ms(text, now_ms)
            for text in (arguments.since, arguments.until)
        )
        return cls(
            frozenset(arguments.partitions),
            frozenset(arguments.offsets),
            arguments.error,
            since_ms,
            until_ms,
        )

    def accepts(self, letter: Letter) -> bool:
        """Whether the letter was asked for. The time is that of the letter, when its listener gave up."""
        record, history = letter.record, letter.history
        if self.partitions and record.partition not in self.partitions:
            return False
        if self.offsets and record.offset not in self.offsets:
            return False
        if self.since_ms is not None and record.timestamp_ms < self.since_ms:
            return False
        if self.until_ms is not None and record.timestamp_ms >= self.until_ms:
            return False
        return self.error is None or (history is not None and self._is_error(history))

    def _is_error(self, history: History) -> bool:
        """Whether class or message have the text; a class may be named without its module."""
        wanted = (self.error or "").lower()
        texts = (history.error, history.cause, history.message)
        return any(wanted in text.lower() for text in texts if text is not None)


def dead_letter_topics(admin: Admin, wanted: Sequence[str]) -> dict[str, TopicDescription]:
    """The dead-letter topics by name: those that were named, whatever their names, or all that have our names."""
    check_patterns(wanted)
    names = [*admin.list_topics()]
    if wanted:
        found, missing = choose_topics(wanted, names)
        if missing:
            raise no_such_topics(admin, missing)
    else:
        found = []
        for name in sorted(names):
            parsed = parse_letter_topic(name, names)
            if parsed is not None and parsed.is_dead_letters:
                found.append(name)
    return dict(sorted(describe_existing_topics(admin, found).items()))


def topic_id_of(topic: TopicDescription) -> str | None:
    """The id of a topic as text; brokers before Kafka 2.8 have none."""
    return None if topic.topic_id is None else str(topic.topic_id)


class DeadLetterReader:
    """Reads dead-letter topics from their start to where they ended when the reading began; committed letters only."""

    def __init__(self, arguments: Arguments) -> None:
        self._consumer: Consumer = consumer_of(
            arguments,
            group_id=None,
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        )
        self._wait_seconds = arguments.timeout or _DEFAULT_WAIT_SECONDS

    def __enter__(self) -> DeadLetterReader:
        return self

    def __exit__(self, *raised: object) -> None:
        self._consumer.close()

    def done_of(self, topic: TopicDescription) -> dict[int, DoneLetters]:
        """The letters of each partition that were replayed or dropped before."""
        name = done_topic(topic.name)
        values: dict[int, bytes | None] = {}
        if name in self._consumer.list_topics():
            for record in self._records([TopicPartition(name, 0)]):
                with suppress(ValueError):
                    values[int(record.key or b"")] = record.value
        found = {}
        for info in topic.partitions:
            try:
                found[info.partition] = DoneLetters.decode(
                    values.get(info.partition), topic_id_of(topic)
                )
            except (ValueError, KeyError, TypeError) as error:
                raise CommandError(
                    f"topic {name} has a record about partition {info.partition} that cannot be read ({error})",
                    "another version may have written it; deleting the topic forgets which letters are done",
                ) from None
        return found

    def letters(
        self, topic: TopicDescription, done: Mapping[int, DoneLetters], numbers: frozenset[int]
    ) -> Iterator[Letter]:
        """The letters of a topic, of each partition in order; those of the partitions `numbers`, or of all."""
        partitions = [
            TopicPartition(topic.name, info.partition)
            for info in topic.partitions
            if not numbers or info.partition in numbers
        ]
        missing = sorted(numbers - {each.partition for each in partitions})
        if missing:
            raise CommandError(
                f"topic {topic.name} has no partition {missing[0]}",
                f"it has {len(topic.partitions)}",
            )
        starts = self._consumer.beginning_offsets(partitions)
        for partition, start in starts.items():
            done[partition.partition].trim(start)
        for record in self._records(partitions):
            is_done = record.offset in done[record.partition]
            yield Letter(record, read_history(record), is_done)

    def _records(self, partitions: Sequence[TopicPartition]) -> Iterator[RawRecord]:
        ends = self._consumer.end_offsets(partitions)
        starts = self._consumer.beginning_offsets(partitions)
        left = {each for each in partitions if starts[each] < ends[each]}
        self._consumer.assign(left)
        self._consumer.seek_to_beginning(left)
        deadline = time.monotonic() + self._wait_seconds
        while left:
            records = self._consumer.poll(_POLL_SECONDS)
            for partition in records.partitions():
                for record in records.records(partition):
                    if record.offset < ends[partition]:
                        yield record
            if records:
                deadline = time.monotonic() + self._wait_seconds
            for partition in [*left]:
                # Markers at the end of the log move the position, but no record comes with them.
                with suppress(TimedOutError):
                    if self._consumer.position(partition, 0) >= ends[partition]:
                        left.discard(partition)
                        self._consumer.pause([partition])
            if left and time.monotonic() > deadline:
                raise CommandError(
                    f"{', '.join(map(str, sorted(left)))} could not be read to the end",
                    "is its leader running? --timeout SECONDS waits longer",
                )
        self._consumer.assign([])
