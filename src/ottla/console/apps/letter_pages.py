"""The letters of a dead-letter topic, newest first, and one letter whole."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from ottla.app.letters.header_names import without_history
from ottla.app.letters.history import History, read_history
from ottla.console.apps.letter_bytes import ShownBytes, preview, shown
from ottla.console.apps.letter_session import LetterSession
from ottla.console.http.errors import not_found
from ottla.inspection.dead_letters.letters import Letter, LetterReader
from ottla.model import TopicPartition

if TYPE_CHECKING:
    from ottla.app.declarations.listener_spec import RawRecord
    from ottla.app.letters.done_letters import DoneLetters
    from ottla.client.admin_model.topics import TopicDescription

MAX_SCANNED: Final = 20_000
MAX_SCANNED_BYTES: Final = 128 << 20
SCAN_SECONDS: Final = 12.0
FIRST_WINDOW: Final = 64
MAX_WINDOW: Final = 1_000
WINDOW_BYTES: Final = 4 << 20
MAX_HEADERS: Final = 200
MAX_HEADER_BYTES: Final = 4 << 10


class Place(NamedTuple):
    """A letter in its topic."""

    partition: int
    offset: int


@dataclass(frozen=True)
class LetterFilter:
    """Which letters are meant; times are those of the letters, when their listeners gave up."""

    error: str = ""
    """A part of the exception's class, of its cause or of its message."""
    source: str = ""
    """The original topic."""
    since_ms: int | None = None
    until_ms: int | None = None
    partitions: frozenset[int] = frozenset()
    places: frozenset[Place] | None = None
    """None but these."""

    def accepts(self, letter: Letter) -> bool:
        """Whether a letter is meant."""
        record, history = letter.record, letter.history
        if self.places is not None and (record.partition, record.offset) not in self.places:
            return False
        if self.partitions and record.partition not in self.partitions:
            return False
        if self.since_ms is not None and record.timestamp_ms < self.since_ms:
            return False
        if self.until_ms is not None and record.timestamp_ms >= self.until_ms:
            return False
        if self.source and (history is None or history.topic != self.source):
            return False
        return not self.error or (history is not None and self._is_error(history))

    def _is_error(self, history: History) -> bool:
        wanted = self.error.casefold()
        texts = (history.error, history.cause, history.message)
        return any(wanted in text.casefold() for text in texts if text is not None)


@dataclass(frozen=True)
class LetterRow:
    """A dead letter in a list. What its headers do not tell is None."""

    partition: int
    offset: int
    timestamp_ms: int
    is_done: bool
    """Whether it was replayed or dropped."""
    key: ShownBytes
    value: ShownBytes
    source_topic: str | None
    source_partition: int | None
    source_offset: int | None
    group: str | None
    listener: str | None
    attempts: int | None
    error: str | None
    message: str | None


@dataclass(frozen=True)
class LetterPage:
    """A part of the letters."""

    rows: list[LetterRow]
    older: str | None
    """What continues the list with older letters; None at the start of the topic."""
    scanned_count: int
    is_cut: bool
    """Whether the search stopped at a limit before it found enough."""
    scanned_to_ms: int | None
    """The time of the oldest letter that was looked at."""


def letter_row(letter: Letter) -> LetterRow:
    """What a list shows of a letter."""
    record, history = letter.record, letter.history
    return LetterRow(
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        is_done=letter.is_done,
        key=preview(record.key),
        value=preview(record.value),
        source_topic=None if history is None else history.topic,
        source_partition=None if history is None else history.partition,
        source_offset=None if history is None else history.offset,
        group=None if history is None else history.group,
        listener=None if history is None else history.listener,
        attempts=None if history is None else history.attempts,
        error=None if history is None else history.error,
        message=None if history is None else history.message,
    )


# Newest first


@dataclass
class _Backwards:
    """A partition that is read from its end to its start, a window at a time."""

    partition: int
    start: int
    low: int
    """What was read goes down to here."""
    window: int = FIRST_WINDOW
    rows: list[tuple[LetterRow, bool]] = field(default_factory=list)
    """Rows that were read and not yet passed on, oldest first, and whether they are wanted."""

    @property
    def is_at_start(self) -> bool:
        return self.low <= self.start

    @property
    def end(self) -> int:
        """Where to go on later."""
        return self.rows[-1][0].offset + 1 if self.rows else self.low


class LetterPager:
    """Reads one page; the places of `older` are a partition and an offset each, as `0:17,1:4`."""

    def __init__(
        self,
        session: LetterSession,
        topic: TopicDescription,
        wanted: LetterFilter,
        state: Literal["all", "open", "done"],
    ) -> None:
        self._session = session
        self._topic = topic
        self._wanted = wanted
        self._state = state
        self._done: dict[int, DoneLetters] = {}
        self._scanned = 0
        self._scanned_bytes = 0

    def read(self, before: Mapping[int, int], limit: int) -> LetterPage:
        """Up to `limit` letters before these offsets, or before the end."""
        deadline = time.monotonic() + SCAN_SECONDS
        reader = self._session.reader
        self._done = reader.done_of(self._topic)
        parts = self._partitions(before)
        rows: list[LetterRow] = []
        is_cut = False
        oldest_ms: int | None = None
        while len(rows) < limit:
            is_spent = time.monotonic() > deadline or self._scanned_bytes > MAX_SCANNED_BYTES
            empty = [each for each in parts if not each.rows and not each.is_at_start]
            if empty and (is_spent or self._scanned > MAX_SCANNED):
                is_cut = True
                break
            if empty:
                self._fill(reader, empty)
                continue
            newest = max(
                (each for each in parts if each.rows),
                key=lambda each: each.rows[-1][0].timestamp_ms,
                default=None,
            )
            if newest is None:
                break
            row, is_wanted = newest.rows.pop()
            oldest_ms = row.timestamp_ms
            if is_wanted:
                rows.append(row)
        left = {each.partition: each.end for each in parts if each.end > each.start}
        older = ",".join(f"{partition}:{offset}" for partition, offset in left.items()) or None
        return LetterPage(rows, older, self._scanned, is_cut, oldest_ms)

    def _partitions(self, before: Mapping[int, int]) -> list[_Backwards]:
        consumer = self._session.consumer
        numbers = [info.partition for info in self._topic.partitions]
        if self._wanted.partitions:
            numbers = [each for each in numbers if each in self._wanted.partitions]
        places = [TopicPartition(self._topic.name, each) for each in numbers]
        starts, ends = consumer.beginning_offsets(places), consumer.end_offsets(places)
        if self._wanted.since_ms is not None:
            found = consumer.offsets_for_times(dict.fromkeys(places, self._wanted.since_ms))
            for place, at in found.items():
                starts[place] = ends[place] if at is None else max(starts[place], at.offset)
        return [
            # A partition that the places of a further page do not name was read to its start.
            _Backwards(
                place.partition,
                starts[place],
                min(
                    ends[place],
                    before.get(place.partition, starts[place] if before else ends[place]),
                ),
            )
            for place in places
        ]

    def _fill(self, reader: LetterReader, parts: list[_Backwards]) -> None:
        """One more window of each of these partitions."""
        starts, ends = {}, {}
        for each in parts:
            place = TopicPartition(self._topic.name, each.partition)
            ends[place] = each.low
            each.low = starts[place] = max(each.start, each.low - each.window)
        of = {each.partition: each for each in parts}
        sizes = dict.fromkeys(of, 1)
        for record in reader.records(ends, starts):
            letter = Letter(
                record, read_history(record), record.offset in self._done[record.partition]
            )
            of[record.partition].rows.append((letter_row(letter), self._is_wanted(letter)))
            size = len(record.value or b"") + sum(len(value or b"") for _, value in record.headers)
            sizes[record.partition] += size
            self._scanned += 1
            self._scanned_bytes += size
        for each in parts:
            average = sizes[each.partition] // max(1, len(each.rows)) + 1
            each.window = max(4, min(each.window * 2, MAX_WINDOW, WINDOW_BYTES // average))

    def _is_wanted(self, letter: Letter) -> bool:
        is_state = self._state == "all" or letter.is_done == (self._state == "done")
        return is_state and self._wanted.accepts(letter)


# One letter


@dataclass(frozen=True)
class LetterHeader:
    """A header that the record had in its original topic."""

    name: str
    value: ShownBytes


@dataclass(frozen=True)
class LetterHistory:
    """Where a record comes from, and how its handler failed."""

    source_topic: str
    source_partition: int
    source_offset: int
    source_timestamp_ms: int
    group: str | None
    listener: str | None
    attempts: int
    error: str | None
    cause: str | None
    message: str | None
    traceback: str | None
    """Its end, if it was cut."""
    first_failed_ms: int | None
    last_failed_ms: int | None
    due_ms: int | None
    """When the next attempt is due, for a record that waits in a retry topic."""


@dataclass(frozen=True)
class LetterDetail:
    """A letter whole."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    is_done: bool
    key: ShownBytes
    value: ShownBytes
    headers: list[LetterHeader]
    header_count: int
    history: LetterHistory | None
    """None if the record has no headers that tell it."""


def read_letter(session: LetterSession, topic: str, place: Place) -> LetterDetail:
    """The letter at an offset."""
    description = session.topic(topic)
    numbers = {info.partition for info in description.partitions}
    if place.partition not in numbers or place.offset < 0:
        raise not_found(f"{topic} has no partition {place.partition} with an offset {place.offset}")
    at = TopicPartition(topic, place.partition)
    found = next(
        iter(session.reader.records({at: place.offset + 1}, {at: place.offset})),
        None,
    )
    if found is None or found.offset != place.offset:
        raise not_found(
            f"{topic}-{place.partition} has no record at offset {place.offset}",
            "it may have been deleted, or the offset is that of a transaction's marker",
        )
    done = session.reader.done_of(description)
    return _detail(found, is_done=place.offset in done[place.partition])


def _detail(record: RawRecord, *, is_done: bool) -> LetterDetail:
    own = without_history(record.headers)
    history = read_history(record)
    return LetterDetail(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        is_done=is_done,
        key=shown(record.key),
        value=shown(record.value),
        headers=[
            LetterHeader(name, shown(value, MAX_HEADER_BYTES)) for name, value in own[:MAX_HEADERS]
        ],
        header_count=len(own),
        history=None if history is None else _history(history),
    )


def _history(history: History) -> LetterHistory:
    return LetterHistory(
        source_topic=history.topic,
        source_partition=history.partition,
        source_offset=history.offset,
        source_timestamp_ms=history.timestamp_ms,
        group=history.group,
        listener=history.listener,
        attempts=history.attempts,
        error=history.error,
        cause=history.cause,
        message=history.message,
        traceback=history.traceback,
        first_failed_ms=history.first_failed_ms,
        last_failed_ms=history.last_failed_ms,
        due_ms=history.due_ms,
    )
