"""Apps by their retry and dead-letter topics; dead letters, one letter, replaying and dropping them.

Names and offsets are those that the console has polled, of topics that the user may see. Letters are read and counted
over the user's own connection, so the cluster decides who may.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ottla.console.access.roles import Role
from ottla.console.access.visible import Visible
from ottla.console.apps.letter_changes import (
    ChangePlan,
    ChangeSpec,
    LetterChangeView,
)
from ottla.console.apps.letter_counts import ErrorCount, KnownLetters, LetterCounts
from ottla.console.apps.letter_pages import (
    LetterDetail,
    LetterFilter,
    LetterPage,
    LetterPager,
    LetterRow,
    Place,
    read_letter,
)
from ottla.console.apps.letter_session import LetterSession
from ottla.console.apps.letter_topics import (
    AppGroup,
    LetterTopicName,
    app_groups_of,
    letter_topic_of,
    letter_topics_of,
    reading_groups_of,
    waiting_of,
)
from ottla.console.cluster.snapshot import ClusterSnapshot
from ottla.console.http.errors import bad_request, not_found
from ottla.console.http.parameters import check_times
from ottla.console.http.routes import Call, Route
from ottla.inspection.dead_letters.changes import Target, ToGroup, ToSource, ToTopic

MAX_LIMIT: Final = 500
MAX_PAGE_LETTERS: Final = 200
MAX_PLACES: Final = 1_000
_OLDER: Final = re.compile(r"[0-9]{1,9}:[0-9]{1,18}(?:,[0-9]{1,9}:[0-9]{1,18})*")

# Apps


@dataclass(frozen=True)
class AppsQuery:
    """Which apps, and in which order."""

    q: str = ""
    state: Literal["all", "letters", "waiting", "stopped"] = "all"
    """With open letters, with records that wait for a retry, without a member of the group."""
    sort: Literal["group", "source", "open", "waiting", "lag", "newest"] = "open"
    order: Literal["asc", "desc"] = "desc"
    offset: int = 0
    limit: int = 50


@dataclass(frozen=True)
class RetryTopicRow:
    """A retry topic of a listener."""

    topic: str
    number: int
    waiting: int | None
    """The records that its group has yet to read, counted by offsets; None if no group reads it."""
    due_ms: int | None
    """When the next of them is due."""
    record_count: int | None


@dataclass(frozen=True)
class DeadLetterTopicRow:
    """A dead-letter topic of a listener."""

    topic: str
    record_count: int | None
    """Counted by offsets: the markers of transactions count, and deleted letters do not."""
    counts: LetterCounts | None
    """None until its letters were read, or if the user may not read them."""
    reading_groups: list[str]


@dataclass(frozen=True)
class AppRow:
    """A group that reads a topic, with its retries and dead letters. What is None is not known."""

    group: str | None
    group_state: str | None
    source: str | None
    listeners: list[str]
    naming: str
    """ottla: an app of Ottla's. others: Spring Kafka and whoever follows its names."""
    lag: int | None
    """Of the group in the source topic."""
    retry_topics: list[RetryTopicRow]
    dead_letter_topics: list[DeadLetterTopicRow]
    waiting: int
    """In all retry topics."""
    due_ms: int | None
    open_count: int | None
    is_whole: bool
    """Whether all letters were counted."""
    newest_ms: int | None


@dataclass(frozen=True)
class AppTotals:
    """Sums over all apps that the user sees."""

    app_count: int
    stopped_count: int
    waiting: int
    open_count: int
    is_whole: bool
    oldest_ms: int | None
    errors: list[ErrorCount]


@dataclass(frozen=True)
class AppsPage:
    """A part of the apps."""

    at_ms: int
    total: int
    totals: AppTotals
    rows: list[AppRow]
    problems: list[str]


_ORDERS: Final[dict[str, Callable[[AppRow], Any]]] = {
    "group": lambda row: row.group or "",
    "source": lambda row: row.source or "",
    "open": lambda row: (row.open_count or 0, row.newest_ms or 0),
    "waiting": lambda row: row.waiting,
    "lag": lambda row: -1 if row.lag is None else row.lag,
    "newest": lambda row: row.newest_ms or 0,
}
_STOPPED: Final = ("empty", "dead")


async def apps(call: Call[AppsQuery, None]) -> AppsPage:
    """The groups that have retry or dead-letter topics."""
    query = call.query
    if query.offset < 0 or not 0 < query.limit <= MAX_LIMIT:
        raise bad_request(f"offset is 0 or more, and limit is 1 to {MAX_LIMIT}")
    visible = await call.visible()
    rows, known = await _app_rows(call, visible)
    part = query.q.casefold()
    chosen = [
        row
        for row in rows
        if _is_in_state(row, query.state)
        and any(part in text.casefold() for text in _searched(row))
    ]
    chosen.sort(key=lambda row: (row.source or "", row.group or ""))
    chosen.sort(key=_ORDERS[query.sort], reverse=query.order == "desc")
    return AppsPage(
        at_ms=visible.snapshot.at_ms,
        total=len(chosen),
        totals=_totals(rows),
        rows=chosen[query.offset :][: query.limit],
        problems=list(known.problems),
    )


async def _app_rows(call: Call[Any, Any], visible: Visible) -> tuple[list[AppRow], KnownLetters]:
    snapshot = visible.snapshot
    topics = letter_topics_of(snapshot)
    retries = {
        each.name: group.group
        for group in app_groups_of(snapshot, {})
        for each in group.retry_topics
    }
    known = await call.console.letter_tally.known(
        call.identity.clients,
        snapshot,
        [each.name for each in topics if each.is_dead_letters],
        retries,
    )
    told = {name: _only(counts) for name, counts in known.counts.items()}
    groups = app_groups_of(snapshot, told)
    return [_app_row(each, snapshot, known, visible) for each in groups], known


def _only(counts: LetterCounts) -> tuple[str | None, str | None]:
    """Group and source, if all letters of a topic have the same."""
    group = counts.groups[0] if len(counts.groups) == 1 else None
    source = counts.sources[0] if len(counts.sources) == 1 else None
    return group, source


def _app_row(
    app: AppGroup, snapshot: ClusterSnapshot, known: KnownLetters, visible: Visible
) -> AppRow:
    group = None if app.group is None else snapshot.groups.get(app.group)
    retries = [_retry_row(each, app.group, snapshot, known) for each in app.retry_topics]
    letters = [_dead_letter_row(each, snapshot, known) for each in app.dead_letter_topics]
    counted = [each.counts for each in letters if each.counts is not None]
    lags = {} if group is None else group.lags
    listeners = sorted({name for each in counted for name in each.listeners})
    namings = [each.naming for each in (*app.retry_topics, *app.dead_letter_topics)]
    # Headers name groups and topics as well, and these may not be for this user.
    is_seen = app.group is None or visible.sees_group(app.group)
    return AppRow(
        group=app.group if is_seen else None,
        group_state=None if group is None or group.state is None else str(group.state),
        source=app.source if app.source is None or visible.sees_topic(app.source) else None,
        listeners=listeners,
        naming=str(namings[0]),
        lag=None if app.source is None else lags.get(app.source),
        retry_topics=retries,
        dead_letter_topics=letters,
        waiting=sum(each.waiting or 0 for each in retries),
        due_ms=min((each.due_ms for each in retries if each.due_ms is not None), default=None),
        open_count=sum(each.open for each in counted) if len(counted) == len(letters) else None,
        is_whole=len(counted) == len(letters) and all(each.is_whole for each in counted),
        newest_ms=max((each.newest_ms for each in counted if each.newest_ms), default=None),
    )


def _retry_row(
    topic: LetterTopicName, group: str | None, snapshot: ClusterSnapshot, known: KnownLetters
) -> RetryTopicRow:
    waiting = waiting_of(snapshot, topic.name, group)
    return RetryTopicRow(
        topic=topic.name,
        number=topic.number or 0,
        waiting=waiting,
        due_ms=known.due_ms.get(topic.name),
        record_count=snapshot.topics[topic.name].record_count,
    )


def _dead_letter_row(
    topic: LetterTopicName, snapshot: ClusterSnapshot, known: KnownLetters
) -> DeadLetterTopicRow:
    return DeadLetterTopicRow(
        topic=topic.name,
        record_count=snapshot.topics[topic.name].record_count,
        counts=known.counts.get(topic.name),
        reading_groups=list(reading_groups_of(snapshot, topic.name))[:MAX_LIMIT],
    )


def _is_in_state(row: AppRow, state: str) -> bool:
    match state:
        case "letters":
            return bool(row.open_count)
        case "waiting":
            return row.waiting > 0
        case "stopped":
            return _is_stopped(row)
    return True


def _is_stopped(row: AppRow) -> bool:
    return row.group_state is not None and row.group_state.lower() in _STOPPED


def _searched(row: AppRow) -> list[str]:
    topics = [each.topic for each in row.retry_topics]
    topics += [each.topic for each in row.dead_letter_topics]
    return [row.group or "", row.source or "", *row.listeners, *topics]


def _totals(rows: list[AppRow]) -> AppTotals:
    counted = [
        each.counts for row in rows for each in row.dead_letter_topics if each.counts is not None
    ]
    errors: dict[str | None, int] = {}
    for counts in counted:
        for each in counts.errors:
            errors[each.error] = errors.get(each.error, 0) + each.count
    most = sorted(errors.items(), key=lambda item: -item[1])[:8]
    return AppTotals(
        app_count=len(rows),
        stopped_count=sum(_is_stopped(row) for row in rows),
        waiting=sum(row.waiting for row in rows),
        open_count=sum(each.open for each in counted),
        is_whole=all(row.is_whole for row in rows),
        oldest_ms=min((each.oldest_ms for each in counted if each.oldest_ms), default=None),
        errors=[ErrorCount(error, number) for error, number in most],
    )


# Letters


@dataclass(frozen=True)
class LettersQuery:
    """Which letters of a topic; newest first. `older` is that of the page before."""

    topic: str
    state: Literal["open", "done", "all"] = "open"
    error: str = ""
    """A part of the exception's class, of its cause or of its message."""
    source: str = ""
    """The original topic."""
    partition: list[int] = field(default_factory=list)
    since_ms: int | None = None
    until_ms: int | None = None
    older: str = ""
    limit: int = 100


@dataclass(frozen=True)
class LettersPage:
    """A part of the letters of a topic."""

    topic: str
    naming: str | None
    """None if the name is not that of a dead-letter topic."""
    is_retry_topic: bool
    source: str | None
    group: str | None
    partition_count: int
    record_count: int | None
    rows: list[LetterRow]
    older: str | None
    """What continues the list; None at the start of the topic."""
    scanned_count: int
    is_cut: bool
    """Whether the search stopped at a limit before the page was full: `older` goes on."""
    scanned_to_ms: int | None
    """The time of the oldest letter that was looked at."""
    counts: LetterCounts | None


async def letters(call: Call[LettersQuery, None]) -> LettersPage:
    """The letters of a topic, newest first; of any topic, whatever its name."""
    query = call.query
    if not 0 < query.limit <= MAX_PAGE_LETTERS:
        raise bad_request(f"limit is 1 to {MAX_PAGE_LETTERS}")
    check_times(query.since_ms, query.until_ms)
    before = _places_before(query.older)
    visible = await call.visible()
    snapshot = visible.snapshot
    if not visible.sees_topic(query.topic):
        raise _no_topic(query.topic)
    name = letter_topic_of(query.topic, snapshot.topics)
    wanted = LetterFilter(
        error=query.error,
        source=query.source,
        since_ms=query.since_ms,
        until_ms=query.until_ms,
        partitions=frozenset(query.partition),
    )

    def read(session: LetterSession) -> tuple[LetterPage, int]:
        topic = session.topic(query.topic)
        count = len(topic.partitions)
        _check_partitions(wanted.partitions, count)
        return LetterPager(session, topic, wanted, query.state).read(before, query.limit), count

    page, partition_count = await call.console.letter_readers.run(call.identity.clients, read)
    counts = None
    found = snapshot.topics.get(query.topic)
    if found is not None and name is not None and name.is_dead_letters:
        known = await call.console.letter_tally.known(
            call.identity.clients,
            snapshot,
            [each.name for each in letter_topics_of(snapshot) if each.is_dead_letters],
            {},
        )
        counts = known.counts.get(query.topic)
    return LettersPage(
        topic=query.topic,
        naming=None if name is None else str(name.naming),
        is_retry_topic=name is not None and not name.is_dead_letters,
        source=None if name is None else name.source,
        group=None if name is None else name.group,
        partition_count=partition_count,
        record_count=None if found is None else found.record_count,
        rows=page.rows,
        older=page.older,
        scanned_count=page.scanned_count,
        is_cut=page.is_cut,
        scanned_to_ms=page.scanned_to_ms,
        counts=counts,
    )


def _places_before(older: str) -> dict[int, int]:
    if not older:
        return {}
    if len(older) > 100_000 or _OLDER.fullmatch(older) is None:
        raise bad_request("older is what the page before had")
    pairs = (each.split(":") for each in older.split(","))
    return {int(partition): int(offset) for partition, offset in pairs}


def _no_topic(name: str) -> Exception:
    return not_found(f"there is no topic {name!r}", "it was deleted, or you may not see it")


def _check_partitions(partitions: frozenset[int], count: int) -> None:
    wrong = sorted(each for each in partitions if not 0 <= each < count)
    if wrong:
        raise bad_request(f"there is no partition {wrong[0]}: the topic has {count}")


@dataclass(frozen=True)
class LetterQuery:
    """A letter by its place."""

    topic: str
    partition: int
    offset: int


async def letter(call: Call[LetterQuery, None]) -> LetterDetail:
    """One letter: its key, value, headers, and how it failed."""
    query = call.query
    visible = await call.visible()
    if not visible.sees_topic(query.topic):
        raise _no_topic(query.topic)
    place = Place(query.partition, query.offset)
    return await call.console.letter_readers.run(
        call.identity.clients, lambda session: read_letter(session, query.topic, place)
    )


# Changes


@dataclass(frozen=True)
class LetterPlace:
    """A letter that was chosen."""

    partition: int
    offset: int


@dataclass(frozen=True)
class ChosenLetters:
    """Which open letters: `places` if there are any, else all that have the rest."""

    places: list[LetterPlace] = field(default_factory=list)
    error: str = ""
    source: str = ""
    partitions: list[int] = field(default_factory=list)
    since_ms: int | None = None
    until_ms: int | None = None


@dataclass(frozen=True)
class ReplayBody:
    """Letters to send back; without `preview`, `end_offsets` and `total` have to be those of the preview."""

    topic: str
    chosen: ChosenLetters
    to: Literal["source", "group", "topic"] = "source"
    """Back to the original topic, to the group alone by its first retry topic, or to `to_topic`."""
    to_topic: str = ""
    preview: bool = True
    end_offsets: dict[str, int] | None = None
    total: int | None = None


@dataclass(frozen=True)
class DropBody:
    """Letters to drop; without `preview`, `end_offsets` and `total` have to be those of the preview."""

    topic: str
    chosen: ChosenLetters
    preview: bool = True
    end_offsets: dict[str, int] | None = None
    total: int | None = None


@dataclass(frozen=True)
class ChangeAnswer:
    """The plan of a preview, or the change that has begun."""

    plan: ChangePlan | None
    change: LetterChangeView | None = None


async def replay(call: Call[None, ReplayBody]) -> ChangeAnswer:
    """Send open letters back, each exactly once, however often it is asked for."""
    body = call.body
    target: Target
    match body.to:
        case "source":
            target = ToSource()
        case "group":
            target = ToGroup()
        case "topic":
            if not body.to_topic:
                raise bad_request("to_topic is missing: say to which topic the letters go")
            if body.to_topic == body.topic:
                raise bad_request("the letters are in this topic already", "choose another one")
            target = ToTopic(body.to_topic)
    return await _change(call, target)


async def drop(call: Call[None, DropBody]) -> ChangeAnswer:
    """Note open letters as done, and delete what is done at the start of each partition."""
    return await _change(call, None)


async def _change(
    call: Call[None, ReplayBody] | Call[None, DropBody], target: Target | None
) -> ChangeAnswer:
    body, console = call.body, call.console
    visible = await call.visible()
    if not visible.sees_topic(body.topic):
        raise _no_topic(body.topic)
    wanted = _wanted(body.chosen)
    if body.preview:
        spec = ChangeSpec(body.topic, wanted, target, {})
        return ChangeAnswer(await console.letter_changes.plan(call.identity.clients, spec))
    if body.end_offsets is None:
        raise bad_request("end_offsets is missing", "ask for a preview first")
    spec = ChangeSpec(body.topic, wanted, target, _end_offsets(body.end_offsets))
    begun = await console.letter_changes.begin(
        call.identity.name, call.identity.clients, spec, body.total
    )
    return ChangeAnswer(None, begun)


def _wanted(chosen: ChosenLetters) -> LetterFilter:
    if len(chosen.places) > MAX_PLACES:
        raise bad_request(
            f"no more than {MAX_PLACES} letters can be named", "choose them by error or by time"
        )
    check_times(chosen.since_ms, chosen.until_ms)
    places = frozenset(Place(each.partition, each.offset) for each in chosen.places)
    return LetterFilter(
        error=chosen.error,
        source=chosen.source,
        since_ms=chosen.since_ms,
        until_ms=chosen.until_ms,
        partitions=frozenset(chosen.partitions) | {each.partition for each in places},
        places=places or None,
    )


def _end_offsets(given: dict[str, int]) -> dict[int, int]:
    if not all(name.isdecimal() and len(name) < 10 for name in given):
        raise bad_request("end_offsets has offsets by the numbers of partitions")
    return {int(name): offset for name, offset in given.items()}


@dataclass(frozen=True)
class LetterChangeList:
    """The newest first."""

    changes: list[LetterChangeView]


async def changes(call: Call[None, None]) -> LetterChangeList:
    """The replays and drops since the console started; events of the live stream tell their progress."""
    visible = await call.visible()
    found = call.console.letter_changes.all()
    return LetterChangeList([each for each in found if visible.sees_topic(each.topic)])


@dataclass(frozen=True)
class StopBody:
    """Which change to stop."""

    id: int


async def stop(call: Call[None, StopBody]) -> LetterChangeView:
    """End a replay or a drop after the transaction that it is in: what was moved stays moved."""
    number, running = call.body.id, call.console.letter_changes
    visible = await call.visible()
    topic = running.topic_of(number)
    found = None
    if topic is not None and visible.sees_topic(topic):
        found = running.stop(number)
    if found is None:
        raise not_found(f"there is no change {number}", "the console has been restarted since")
    return found


ROUTES: Final[list[Route]] = [
    Route("GET", "/api/apps", apps, "Groups with retry and dead-letter topics", query=AppsQuery),
    Route(
        "GET",
        "/api/dead-letters",
        letters,
        "The letters of a dead-letter topic, newest first",
        query=LettersQuery,
    ),
    Route("GET", "/api/dead-letter", letter, "One dead letter", query=LetterQuery),
    Route(
        "POST",
        "/api/dead-letters/replay",
        replay,
        "Send dead letters back",
        body=ReplayBody,
        role=Role.OPERATOR,
        is_preview=lambda call: call.body.preview,
    ),
    Route(
        "POST",
        "/api/dead-letters/drop",
        drop,
        "Drop dead letters",
        body=DropBody,
        role=Role.OPERATOR,
        is_preview=lambda call: call.body.preview,
    ),
    Route(
        "GET",
        "/api/dead-letters/changes",
        changes,
        "Replays and drops of dead letters, and how far they are",
    ),
    Route(
        "POST",
        "/api/dead-letters/changes/stop",
        stop,
        "Stop a replay or a drop of dead letters",
        body=StopBody,
        role=Role.OPERATOR,
    ),
]
