"""Reading dead letters: which there are, and which of them are done."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.app.letters.done_letters import DoneLetters
from ottla.app.letters.history import History, read_history
from ottla.app.letters.topic_names import done_topic
from ottla.errors import TimedOutError
from ottla.inspection.dead_letters.errors import (
    NoPartitionError,
    UnreadableNoteError,
    UnreadPartitionsError,
)
from ottla.model import TopicPartition

if TYPE_CHECKING:
    from ottla.app.declarations.listener_spec import RawRecord
    from ottla.client.admin_model.topics import TopicDescription
    from ottla.client.blocking.consumer import Consumer

READER_OPTIONS: Final[Mapping[str, object]] = {
    "enable_auto_commit": False,
    "isolation_level": "read_committed",
    "auto_offset_reset": "earliest",
}
"""The options of a consumer that reads letters; it has no group."""
_POLL_SECONDS: Final = 0.2


class Letter(NamedTuple):
    """A record of a dead-letter topic; without a history if it has no headers about it."""

    record: RawRecord
    history: History | None
    is_done: bool
    """Whether it was replayed or dropped before."""

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return f"{self.record.topic}-{self.record.partition} offset {self.record.offset}"


@dataclass(frozen=True)
class LetterSpan:
    """The part of a dead-letter topic to read."""

    partitions: frozenset[int] = frozenset()
    """None of them: all."""
    end_offsets: Mapping[int, int] = field(default_factory=dict)
    """Letters from these offsets on are left alone; without one, those that come after the reading began."""


EVERYTHING: Final = LetterSpan()


def topic_id_of(topic: TopicDescription) -> str | None:
    """The id of a topic as text; brokers before Kafka 2.8 have none."""
    return None if topic.topic_id is None else str(topic.topic_id)


def decode_notes(
    topic: str, topic_id: str | None, values: Mapping[int, bytes | None], partition: int
) -> DoneLetters:
    """The letters of a partition that are done, by the newest values of the topic of notes."""
    try:
        return DoneLetters.decode(values.get(partition), topic_id)
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableNoteError(done_topic(topic), partition, error) from None


class LetterReader:
    """Reads dead-letter topics from their start to where they ended when the reading began; committed letters only."""

    def __init__(self, consumer: Consumer, wait_seconds: float) -> None:
        self._consumer = consumer
        self._wait_seconds = wait_seconds

    def done_of(self, topic: TopicDescription) -> dict[int, DoneLetters]:
        """The letters of each partition that were replayed or dropped before."""
        name = done_topic(topic.name)
        values: dict[int, bytes | None] = {}
        if name in self._consumer.list_topics():
            notes = TopicPartition(name, 0)
            for record in self.records({notes: None}):
                with suppress(ValueError):
                    values[int(record.key or b"")] = record.value
        return {
            info.partition: decode_notes(topic.name, topic_id_of(topic), values, info.partition)
            for info in topic.partitions
        }

    def letters(
        self,
        topic: TopicDescription,
        done: Mapping[int, DoneLetters],
        span: LetterSpan = EVERYTHING,
    ) -> Iterator[Letter]:
        """The letters of a topic, of each partition in order."""
        numbers = [info.partition for info in topic.partitions]
        missing = sorted(span.partitions - set(numbers))
        if missing:
            raise NoPartitionError(topic.name, missing[0], len(numbers))
        partitions = {
            TopicPartition(topic.name, number): span.end_offsets.get(number)
            for number in numbers
            if not span.partitions or number in span.partitions
        }
        starts = self._consumer.beginning_offsets(partitions)
        for partition, start in starts.items():
            done[partition.partition].trim(start)
        for record in self.records(partitions):
            is_done = record.offset in done[record.partition]
            yield Letter(record, read_history(record), is_done)

    def records(
        self,
        partitions: Mapping[TopicPartition, int | None],
        start_offsets: Mapping[TopicPartition, int] | None = None,
    ) -> Iterator[RawRecord]:
        """The records of partitions up to these offsets, or to their ends; from their starts, or from later offsets."""
        ends = self._consumer.end_offsets(partitions)
        for each, end in partitions.items():
            ends[each] = ends[each] if end is None else min(end, ends[each])
        starts = self._consumer.beginning_offsets(partitions)
        for each, start in (start_offsets or {}).items():
            starts[each] = max(start, starts[each])
        left = {each for each in partitions if starts[each] < ends[each]}
        self._consumer.assign(left)
        for partition in left:
            self._consumer.seek(partition, starts[partition])
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
                raise UnreadPartitionsError(left)
        self._consumer.assign([])
