"""What the newest letters tell of each dead-letter topic: how many are open, of which errors; and when retries are due.

It is asked for by views and not by a timer: a topic is read when somebody looks and its offsets have moved since the
last time, from where the last reading ended.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from sys import intern
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from ottla.app.letters.done_letters import DoneLetters
from ottla.app.letters.history import read_history
from ottla.console.apps.letter_session import LetterReaders, LetterSession
from ottla.console.apps.letter_topics import done_topic_of
from ottla.console.clients import Clients
from ottla.console.cluster.snapshot import ClusterSnapshot
from ottla.errors import OttlaError
from ottla.events import EventLog
from ottla.model import TopicPartition

logger = EventLog(__name__)

MAX_LETTERS: Final = 1_000
"""Of a topic: older ones are not counted."""
MAX_TOPICS: Final = 100
MAX_HEADS: Final = 64
"""The partitions of retry topics whose next record is looked at."""
MAX_ERRORS: Final = 8
WAIT_SECONDS: Final = 1.5
"""How long a request waits for what is read; the next one may find more."""
MIN_PAUSE_SECONDS: Final = 1.0
FAILED_PAUSE_SECONDS: Final = 10.0


class CountedLetter(NamedTuple):
    """What is kept of a letter."""

    partition: int
    offset: int
    timestamp_ms: int
    error: str | None
    source: str | None
    group: str | None
    listener: str | None


@dataclass(frozen=True)
class ErrorCount:
    """How many open letters have an exception of this class; None: the letters do not say."""

    error: str | None
    count: int


@dataclass(frozen=True)
class LetterCounts:
    """What is known of the letters of a topic."""

    counted: int
    open: int
    is_whole: bool
    """Whether all letters of the topic were counted, and not only the newest."""
    newest_ms: int | None
    """The newest open letter."""
    oldest_ms: int | None
    """The oldest open letter that was counted."""
    errors: list[ErrorCount]
    """Of the open letters, the most frequent ones first."""
    listeners: list[str]
    sources: list[str]
    groups: list[str]


@dataclass
class _Topic:
    """One dead-letter topic."""

    topic_id: str | None
    letters: list[CountedLetter] = field(default_factory=list)
    ends: dict[int, int] = field(default_factory=dict)
    is_whole: bool = True
    done: dict[int, DoneLetters] = field(default_factory=dict)
    read_at: object = None
    """The offsets of the snapshot for which it was read."""

    def counts(self) -> LetterCounts:
        opened = [each for each in self.letters if not self._is_done(each)]
        times = [each.timestamp_ms for each in opened]
        errors = Counter(each.error for each in opened).most_common(MAX_ERRORS)
        return LetterCounts(
            counted=len(self.letters),
            open=len(opened),
            is_whole=self.is_whole,
            newest_ms=max(times, default=None),
            oldest_ms=min(times, default=None),
            errors=[ErrorCount(error, count) for error, count in errors],
            listeners=_known(each.listener for each in self.letters),
            sources=_known(each.source for each in self.letters),
            groups=_known(each.group for each in self.letters),
        )

    def _is_done(self, letter: CountedLetter) -> bool:
        done = self.done.get(letter.partition)
        return done is not None and letter.offset in done


def _known(values: Iterable[str | None]) -> list[str]:
    return sorted({each for each in values if each is not None})


@dataclass(frozen=True)
class KnownLetters:
    """What one user may know of all letter topics."""

    counts: Mapping[str, LetterCounts]
    due_ms: Mapping[str, int]
    """When the next retry is due, by retry topic."""
    problems: tuple[str, ...]


@dataclass
class _User:
    topics: dict[str, _Topic] = field(default_factory=dict)
    counts: dict[str, LetterCounts] = field(default_factory=dict)
    due_ms: dict[str, int] = field(default_factory=dict)
    heads: dict[TopicPartition, tuple[int, int | None]] = field(default_factory=dict)
    """The offset of the next record of a retry topic's partition, and when it is due."""
    problems: dict[str, str] = field(default_factory=dict)
    reading: asyncio.Task[None] | None = None
    not_before: float = 0.0


class LetterTally:
    """One for a console; users are told apart by their clients, and forgotten with them."""

    def __init__(self, readers: LetterReaders) -> None:
        self._readers = readers
        self._users: WeakKeyDictionary[Clients, _User] = WeakKeyDictionary()

    async def known(
        self,
        clients: Clients,
        snapshot: ClusterSnapshot,
        dead_letters: list[str],
        retries: Mapping[str, str | None],
    ) -> KnownLetters:
        """What is known now of these topics; `retries` has the group of each retry topic."""
        user = self._read_soon(clients, snapshot, dead_letters, retries)
        if user.reading is not None and not user.reading.done():
            await asyncio.wait([user.reading], timeout=WAIT_SECONDS)
        _settle_due(user, snapshot, retries)
        problems = list(user.problems.values())
        if len(dead_letters) > MAX_TOPICS:
            problems.append(f"the letters of the first {MAX_TOPICS} dead-letter topics are counted")
        return KnownLetters(dict(user.counts), dict(user.due_ms), tuple(problems))

    def glance(
        self, clients: Clients, snapshot: ClusterSnapshot, dead_letters: list[str]
    ) -> Mapping[str, LetterCounts]:
        """What is known already; the letters that are not are read in the background."""
        user = self._read_soon(clients, snapshot, dead_letters, {}) if dead_letters else None
        return {} if user is None else dict(user.counts)

    def _read_soon(
        self,
        clients: Clients,
        snapshot: ClusterSnapshot,
        dead_letters: list[str],
        retries: Mapping[str, str | None],
    ) -> _User:
        user = self._users.get(clients)
        if user is None:
            user = self._users[clients] = _User()
        if user.reading is None or user.reading.done():
            stale = _stale(user, snapshot, dead_letters)
            heads = _heads(user, snapshot, retries)
            if (stale or heads) and time.monotonic() >= user.not_before:
                user.reading = asyncio.get_running_loop().create_task(
                    self._refresh(clients, user, snapshot, stale, heads)
                )
        return user

    async def _refresh(
        self,
        clients: Clients,
        user: _User,
        snapshot: ClusterSnapshot,
        stale: list[str],
        heads: dict[TopicPartition, int],
    ) -> None:
        def work(session: LetterSession) -> None:
            for name in stale:
                try:
                    _read_topic(session, user, snapshot, name)
                    user.problems.pop(name, None)
                except OttlaError as error:
                    user.problems[name] = f"the letters of {name} are not known: {error}"
                    found = user.topics.get(name)
                    if found is not None:
                        found.read_at = _mark(snapshot, name)
            if heads:
                try:
                    _read_heads(session, user, heads)
                    user.problems.pop("", None)
                except OttlaError as error:
                    user.problems[""] = f"when retries are due is not known: {error}"

        try:
            await self._readers.run(clients, work)
            is_well = not user.problems
        except OttlaError as error:
            user.problems["-"] = f"letters are not counted: {error}"
            is_well = False
        else:
            user.problems.pop("-", None)
        pause = MIN_PAUSE_SECONDS if is_well else FAILED_PAUSE_SECONDS
        user.not_before = time.monotonic() + pause

    def look_again(self) -> None:
        """Letters were moved: do not wait before the next reading."""
        for user in self._users.values():
            user.not_before = 0.0

    async def close(self) -> None:
        """End what reads."""
        reading = [each.reading for each in self._users.values() if each.reading is not None]
        for each in reading:
            each.cancel()
        await asyncio.gather(*reading, return_exceptions=True)


def _mark(snapshot: ClusterSnapshot, name: str) -> object:
    """What changes when the topic or its notes change."""
    names = [name]
    notes = done_topic_of(snapshot, name)
    if notes is not None:
        names.append(notes)
    return [
        (each.start_offset, each.end_offset, each.last_stable_offset)
        for topic in names
        for each in snapshot.topics[topic].partitions
    ]


def _stale(user: _User, snapshot: ClusterSnapshot, wanted: list[str]) -> list[str]:
    """The topics to read now; those that are not there any more are forgotten."""
    some = wanted[:MAX_TOPICS]
    for gone in user.topics.keys() - set(some):
        del user.topics[gone]
        user.counts.pop(gone, None)
        user.problems.pop(gone, None)
    found = []
    for name in some:
        known = user.topics.get(name)
        if known is None or known.read_at != _mark(snapshot, name):
            found.append(name)
    return found


def _heads(
    user: _User, snapshot: ClusterSnapshot, retries: Mapping[str, str | None]
) -> dict[TopicPartition, int]:
    """The records of retry topics that their groups read next, as far as they were not looked at."""
    found: dict[TopicPartition, int] = {}
    for place, offset in _next_records(snapshot, retries).items():
        if user.heads.get(place, (-1, None))[0] != offset and len(found) < MAX_HEADS:
            found[place] = offset
    return found


def _next_records(
    snapshot: ClusterSnapshot, retries: Mapping[str, str | None]
) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for name, group in retries.items():
        committed: Mapping[TopicPartition, int] = {}
        if group is not None and group in snapshot.groups:
            committed = snapshot.groups[group].committed or {}
        for each in snapshot.topics[name].partitions:
            place = TopicPartition(name, each.partition)
            start, end = each.start_offset, each.last_stable_offset or each.end_offset
            if start is None or end is None:
                continue
            offset = max(start, committed.get(place, start))
            if offset < end:
                found[place] = offset
    return found


def _settle_due(user: _User, snapshot: ClusterSnapshot, retries: Mapping[str, str | None]) -> None:
    """The earliest due time of each retry topic that has something waiting."""
    waiting = _next_records(snapshot, retries)
    user.heads = {place: head for place, head in user.heads.items() if place in waiting}
    user.due_ms = {}
    for place, (offset, due_ms) in user.heads.items():
        if waiting[place] == offset and due_ms is not None:
            user.due_ms[place.topic] = min(due_ms, user.due_ms.get(place.topic, due_ms))


def _read_heads(session: LetterSession, user: _User, heads: Mapping[TopicPartition, int]) -> None:
    ends = {place: offset + 1 for place, offset in heads.items()}
    found: dict[TopicPartition, int | None] = dict.fromkeys(heads)
    for record in session.reader.records(ends, heads):
        history = read_history(record)
        place = TopicPartition(record.topic, record.partition)
        found[place] = None if history is None else history.due_ms
    for place, due_ms in found.items():
        user.heads[place] = (heads[place], due_ms)


def _read_topic(session: LetterSession, user: _User, snapshot: ClusterSnapshot, name: str) -> None:
    mark = _mark(snapshot, name)
    description = session.topic(name)
    topic_id = None if description.topic_id is None else str(description.topic_id)
    known = user.topics.get(name)
    if known is None or known.topic_id != topic_id:
        known = user.topics[name] = _Topic(topic_id)
    reader = session.reader
    known.done = reader.done_of(description)
    places = [TopicPartition(name, info.partition) for info in description.partitions]
    starts = session.consumer.beginning_offsets(places)
    ends = session.consumer.end_offsets(places)
    window = max(1, MAX_LETTERS // max(1, len(places)))
    wanted_starts, wanted_ends = {}, {}
    for place in places:
        number = place.partition
        begin = max(known.ends.get(number, starts[place]), starts[place])
        if ends[place] - begin > window:
            begin = ends[place] - window
            known.is_whole = False
        wanted_starts[place], wanted_ends[place] = begin, ends[place]
    for record in reader.records(wanted_ends, wanted_starts):
        history = read_history(record)
        known.letters.append(
            CountedLetter(
                record.partition,
                record.offset,
                record.timestamp_ms,
                None if history is None else _kept(history.error),
                None if history is None else _kept(history.topic),
                None if history is None else _kept(history.group),
                None if history is None else _kept(history.listener),
            )
        )
    known.ends = {place.partition: ends[place] for place in places}
    first = {place.partition: starts[place] for place in places}
    known.letters = [each for each in known.letters if each.offset >= first[each.partition]]
    if len(known.letters) > MAX_LETTERS:
        known.letters.sort(key=lambda each: each.timestamp_ms)
        del known.letters[:-MAX_LETTERS]
        known.is_whole = False
    if not known.letters:
        known.is_whole = True
    known.read_at = mark
    user.counts[name] = known.counts()


def _kept(text: str | None) -> str | None:
    """Few different texts come again and again."""
    return None if text is None else intern(text[:300])
