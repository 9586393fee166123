"""`ottla app dlt replay` and `drop`.

A tool that is killed at any moment, or runs twice at once, replays no letter twice: the replayed records and the note
that their letters are done belong to one transaction, and the notes are read after its transactional id has fenced
whoever had it before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ottla.app.delivery.unit import OutgoingRecord
from ottla.app.letters.letter_records import replay, replay_for_group
from ottla.app.letters.topic_names import done_topic, retry_topic
from ottla.cli.app.dead_letters import (
    DeadLetterReader,
    Letter,
    LetterFilter,
    dead_letter_topics,
    topic_id_of,
)
from ottla.cli.commands.syntax import Arguments
from ottla.cli.connection import admin_of, producer_of
from ottla.cli.errors import CommandError, UsageError
from ottla.cli.exit_codes import DONE
from ottla.cli.terminal.output import Output, columns, say
from ottla.cli.times import current_ms
from ottla.client.admin_model.topics import NewTopic, TopicDescription
from ottla.client.existing_topics import describe_existing_topics
from ottla.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.app.letters.done_letters import DoneLetters
    from ottla.client.blocking.admin import Admin
    from ottla.client.blocking.producer import Producer

REPLAYED: Final = columns(topic="TOPIC", partition="PARTITION", to="TO", letters="LETTERS")
DROPPED: Final = columns(topic="TOPIC", partition="PARTITION", letters="LETTERS")
TRANSACTIONAL_ID_PREFIX: Final = "ottla-dlt."
_CHUNK_LETTERS: Final = 500
_CHUNK_BYTES: Final = 4 * 1024 * 1024


def replay_letters(arguments: Arguments) -> int:
    """Send letters back to where they came from."""
    if not arguments.topics:
        raise UsageError("no dead-letter topic is given", "`ottla app dlt list` shows them")
    rows = []
    with admin_of(arguments) as admin:
        for topic in dead_letter_topics(admin, arguments.topics).values():
            work = _Replay(admin, arguments, topic)
            counts = work.run()
            rows += [
                {"topic": topic.name, "partition": partition, "to": to, "letters": count}
                for (partition, to), count in sorted(counts.items())
            ]
    Output(arguments.form).rows(REPLAYED, rows)
    if not rows:
        say("there are no such letters")
    if not arguments.execute:
        say("dry run: nothing was sent; --execute replays the letters")
    return DONE


def drop_letters(arguments: Arguments) -> int:
    """Note letters as done, and delete what is done at the start of each partition."""
    if not arguments.topics:
        raise UsageError("no dead-letter topic is given", "`ottla app dlt list` shows them")
    rows = []
    with admin_of(arguments) as admin:
        for topic in dead_letter_topics(admin, arguments.topics).values():
            drop = _Drop(admin, arguments, topic)
            counts = drop.run()
            rows += [
                {"topic": topic.name, "partition": partition, "letters": count}
                for (partition, _), count in sorted(counts.items())
            ]
    Output(arguments.form).rows(DROPPED, rows)
    if not rows:
        say("there are no such letters")
    if not arguments.execute:
        say("dry run: nothing was dropped; --execute drops the letters")
    return DONE


Counts = dict[tuple[int, str], int]


class _Change(ABC):
    """Goes through the letters of a topic, and notes in transactions which are done now."""

    def __init__(self, admin: Admin, arguments: Arguments, topic: TopicDescription) -> None:
        self._admin = admin
        self._arguments = arguments
        self._topic = topic
        self._wanted = LetterFilter.of(arguments)
        self._counts: Counts = {}

    @abstractmethod
    def outgoing(self, letter: Letter) -> OutgoingRecord | None:
        """What is sent when the letter is done."""

    @abstractmethod
    def finished(self, done: Mapping[int, DoneLetters]) -> None:
        """What follows when all letters are done."""

    def run(self) -> Counts:
        """Do it, or only count without --execute."""
        with DeadLetterReader(self._arguments) as reader:
            if not self._arguments.execute:
                self._count(reader)
                return self._counts
            self._create_done_topic()
            name = f"{TRANSACTIONAL_ID_PREFIX}{self._topic.name}"
            with producer_of(self._arguments, transactional_id=name, acks="all") as producer:
                producer.init_transactions()
                self._execute(reader, producer)
        return self._counts

    def _count(self, reader: DeadLetterReader) -> None:
        done = reader.done_of(self._topic)
        for letter in reader.letters(self._topic, done, self._wanted.partitions):
            if not letter.is_done and self._wanted.accepts(letter):
                self._add(letter, self.outgoing(letter))

    def _execute(self, reader: DeadLetterReader, producer: Producer) -> None:
        # Only now: a transaction of an earlier tool is over, and its notes can be seen.
        done = reader.done_of(self._topic)
        chunk: list[tuple[Letter, OutgoingRecord | None]] = []
        size_bytes = 0
        for letter in reader.letters(self._topic, done, self._wanted.partitions):
            record = letter.record
            if letter.is_done or not self._wanted.accepts(letter):
                done[record.partition].pass_by(record.offset)
                continue
            outgoing = self.outgoing(letter)
            done[record.partition].finish(record.offset)
            chunk.append((letter, outgoing))
            size_bytes += 0 if outgoing is None else outgoing.size_bytes
            if len(chunk) >= _CHUNK_LETTERS or size_bytes >= _CHUNK_BYTES:
                self._commit(producer, chunk, done)
                chunk, size_bytes = [], 0
        if chunk:
            self._commit(producer, chunk, done)
        self.finished(done)

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
        self._counts[where] = self._counts.get(where, 0) + 1

    def _create_done_topic(self) -> None:
        new = NewTopic(
            done_topic(self._topic.name),
            num_partitions=1,
            replication_factor=len(self._topic.partitions[0].replicas),
            configs={"cleanup.policy": "compact"},
        )
        try:
            self._admin.create_topics([new])
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise


class _Replay(_Change):
    """Sends letters to their original topic, to another one, or to their group alone."""

    def __init__(self, admin: Admin, arguments: Arguments, topic: TopicDescription) -> None:
        super().__init__(admin, arguments, topic)
        self._partition_counts: dict[str, int] = {}
        self._now_ms = current_ms()

    def outgoing(self, letter: Letter) -> OutgoingRecord:
        record, history = letter.record, letter.history
        place = f"{record.topic}-{record.partition} offset {record.offset}"
        if history is None:
            raise CommandError(
                f"{place} has no headers that say where it came from",
                "choose others with --partition and --offset",
            )
        if self._arguments.to is not None:
            # The user's key decides, since the other topic may be divided in another way.
            return replay(record)._replace(topic=self._existing(self._arguments.to), partition=None)
        if not self._arguments.group_only:
            return replay(record, partition_count=self._partitions(history.topic))
        if history.group is None:
            raise CommandError(f"{place} has no header with its group", "leave out --group-only")
        name = retry_topic(history.topic, history.group, 1)
        return replay_for_group(
            record,
            group=history.group,
            now_ms=self._now_ms,
            partition_count=self._partitions(name),
        )

    def _existing(self, topic: str) -> str:
        self._partitions(topic)
        return topic

    def _partitions(self, topic: str) -> int:
        """The number of partitions; a topic that is missing must not be created by sending to it."""
        if topic not in self._partition_counts:
            found = describe_existing_topics(self._admin, [topic])
            if topic not in found:
                raise CommandError(
                    f"there is no topic {topic}, to which letters of {self._topic.name} would go",
                    "create it, or choose another one with --to TOPIC",
                )
            self._partition_counts[topic] = len(found[topic].partitions)
        return self._partition_counts[topic]

    def finished(self, done: Mapping[int, DoneLetters]) -> None:
        """Nothing: letters that were replayed stay, and are noted as done."""


class _Drop(_Change):
    """Notes letters as done without sending anything."""

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
