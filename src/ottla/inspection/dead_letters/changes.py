"""Replaying and dropping letters.

A program that is killed at any moment, or runs twice at once, replays no letter twice: the replayed records and the
note that their letters are done belong to one transaction, and the notes are read after its transactional id has fenced
whoever had it before.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from ottla.app.delivery.unit import OutgoingRecord
from ottla.app.letters.letter_records import replay, replay_for_group
from ottla.app.letters.topic_names import done_topic, retry_topic
from ottla.client.admin_model.topics import NewTopic, TopicDescription
from ottla.client.existing_topics import describe_existing_topics
from ottla.errors import ErrorCode, KafkaError
from ottla.inspection.dead_letters.errors import NoGroupError, NoHistoryError, NoTargetError
from ottla.inspection.dead_letters.letters import (
    EVERYTHING,
    Letter,
    LetterReader,
    LetterSpan,
    topic_id_of,
)

if TYPE_CHECKING:
    from ottla.app.letters.done_letters import DoneLetters
    from ottla.client.blocking.admin import Admin
    from ottla.client.blocking.producer import Producer

TRANSACTIONAL_ID_PREFIX: Final = "ottla-dlt."
CHUNK_LETTERS: Final = 500
CHUNK_BYTES: Final = 4 * 1024 * 1024

Counts: TypeAlias = dict[tuple[int, str], int]
"""Letters by their partition, and the topic to which they go; that is empty if they go nowhere."""


@dataclass(frozen=True)
class ToSource:
    """To their original topic and partition, where all groups read them again."""


@dataclass(frozen=True)
class ToTopic:
    """To another topic, divided by their keys."""

    topic: str


@dataclass(frozen=True)
class ToGroup:
    """To the first retry topic of the group that gave them up."""


Target: TypeAlias = ToSource | ToTopic | ToGroup


class ReplayTargets:
    """Where letters go: topics that exist, each of which is asked for once."""

    def __init__(self, admin: Admin, letters_topic: str, target: Target) -> None:
        self.target: Final = target
        self._admin = admin
        self._letters_topic = letters_topic
        self._partition_counts: dict[str, int] = {}

    def topic_of(self, source: str, group: str | None, place: str) -> str:
        """The topic for a letter from this source and group; `place` is where the letter is, for an error."""
        match self.target:
            case ToTopic(topic):
                name = topic
            case ToSource():
                name = source
            case ToGroup():
                if group is None:
                    raise NoGroupError(place)
                name = retry_topic(source, group, 1)
        self.partition_count(name)
        return name

    def partition_count(self, topic: str) -> int:
        """The number of partitions; a topic that is missing must not be created by sending to it."""
        if topic not in self._partition_counts:
            found = describe_existing_topics(self._admin, [topic])
            if topic not in found:
                raise NoTargetError(topic, self._letters_topic)
            self._partition_counts[topic] = len(found[topic].partitions)
        return self._partition_counts[topic]


def transactional_id_of(topic: str) -> str:
    """The transactional id of everything that moves letters of a dead-letter topic."""
    return f"{TRANSACTIONAL_ID_PREFIX}{topic}"


def create_done_topic(admin: Admin, topic: TopicDescription) -> None:
    """Create the topic that has the notes, if it is missing; before a producer of `execute` is made."""
    new = NewTopic(
        done_topic(topic.name),
        num_partitions=1,
        replication_factor=len(topic.partitions[0].replicas),
        configs={"cleanup.policy": "compact"},
    )
    try:
        admin.create_topics([new])
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


class LetterChange(ABC):
    """Goes through the letters of a topic, and notes in transactions which are done now."""

    def __init__(
        self,
        reader: LetterReader,
        topic: TopicDescription,
        wants: Callable[[Letter], bool],
        span: LetterSpan = EVERYTHING,
    ) -> None:
        self._reader = reader
        self._topic = topic
        self._wants = wants
        self._span = span
        self.counts: Counts = {}
        """What was done up to now, each letter when its transaction was committed."""

    @abstractmethod
    def outgoing(self, letter: Letter) -> OutgoingRecord | None:
        """What is sent when the letter is done."""

    @abstractmethod
    def finished(self, done: Mapping[int, DoneLetters]) -> None:
        """What follows when the letters are done."""

    def count(self) -> Counts:
        """What it would do."""
        done = self._reader.done_of(self._topic)
        for letter in self._reader.letters(self._topic, done, self._span):
            if not letter.is_done and self._wants(letter):
                self._add(letter, self.outgoing(letter))
        return self.counts

    def execute(self, producer: Producer, goes_on: Callable[[], bool] = lambda: True) -> Counts:
        """Do it with a producer that has the topic's transactional id; `goes_on` is asked after each transaction."""
        producer.init_transactions()
        # Only now: a transaction of an earlier program is over, and its notes can be seen.
        done = self._reader.done_of(self._topic)
        chunk: list[tuple[Letter, OutgoingRecord | None]] = []
        size_bytes = 0
        for letter in self._reader.letters(self._topic, done, self._span):
            record = letter.record
            if letter.is_done or not self._wants(letter):
                done[record.partition].pass_by(record.offset)
                continue
            outgoing = self.outgoing(letter)
            done[record.partition].finish(record.offset)
            chunk.append((letter, outgoing))
            size_bytes += 0 if outgoing is None else outgoing.size_bytes
            if len(chunk) >= CHUNK_LETTERS or size_bytes >= CHUNK_BYTES:
                self._commit(producer, chunk, done)
                chunk, size_bytes = [], 0
                if not goes_on():
                    break
        if chunk:
            self._commit(producer, chunk, done)
        self.finished(done)
        return self.counts

    def _commit(
        self,
        producer: Producer,
        chunk: list[tuple[Letter, OutgoingRecord | None]],
        done: Mapping[int, DoneLetters],
    ) -> None:
        topic_id = topic_id_of(self._topic)
        with producer.transaction():
            for _, outgoing in chunk:
                if outgoing is not None:
                    producer.send(
                        outgoing.topic,
                        outgoing.value,
                        key=outgoing.key,
                        partition=outgoing.partition,
                        headers=outgoing.headers,
                    )
            for partition in sorted({letter.record.partition for letter, _ in chunk}):
                producer.send(
                    done_topic(self._topic.name),
                    done[partition].encode(topic_id),
                    key=str(partition).encode(),
                    partition=0,
                )
        for letter, outgoing in chunk:
            self._add(letter, outgoing)

    def _add(self, letter: Letter, outgoing: OutgoingRecord | None) -> None:
        where = (letter.record.partition, "" if outgoing is None else outgoing.topic)
        self.counts[where] = self.counts.get(where, 0) + 1


class Replay(LetterChange):
    """Sends letters to their original topic, to another one, or to their group alone."""

    def __init__(
        self,
        reader: LetterReader,
        topic: TopicDescription,
        wants: Callable[[Letter], bool],
        targets: ReplayTargets,
        span: LetterSpan = EVERYTHING,
    ) -> None:
        super().__init__(reader, topic, wants, span)
        self._targets = targets
        self._now_ms = int(time.time() * 1000)

    def outgoing(self, letter: Letter) -> OutgoingRecord:
        """The record that brings the letter back."""
        record, history = letter.record, letter.history
        if history is None:
            raise NoHistoryError(letter.place)
        name = self._targets.topic_of(history.topic, history.group, letter.place)
        partition_count = self._targets.partition_count(name)
        match self._targets.target:
            case ToTopic(topic):
                # The user's key decides, since the other topic may be divided in another way.
                return replay(record)._replace(topic=topic, partition=None)
            case ToSource():
                return replay(record, partition_count=partition_count)
            case ToGroup():
                assert history.group is not None, "a letter without a group has no retry topic"
                return replay_for_group(
                    record,
                    group=history.group,
                    now_ms=self._now_ms,
                    partition_count=partition_count,
                )

    def finished(self, done: Mapping[int, DoneLetters]) -> None:
        """Nothing: letters that were replayed stay, and are noted as done."""


class Drop(LetterChange):
    """Notes letters as done without sending anything, and deletes what is done at the start of each partition."""

    def __init__(
        self,
        reader: LetterReader,
        topic: TopicDescription,
        wants: Callable[[Letter], bool],
        admin: Admin,
        span: LetterSpan = EVERYTHING,
    ) -> None:
        super().__init__(reader, topic, wants, span)
        self._admin = admin

    def outgoing(self, letter: Letter) -> None:
        return None

    def finished(self, done: Mapping[int, DoneLetters]) -> None:
        starts = {
            (self._topic.name, partition): each.start_offset
            for partition, each in done.items()
            if each.start_offset > 0
        }
        if starts:
            self._admin.delete_records(starts)
