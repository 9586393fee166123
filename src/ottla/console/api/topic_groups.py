"""The groups that have offsets in a topic, with their lags in offsets and in records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from ottla.console.api.topics import check_page, topic_of
from ottla.console.cluster.snapshot import ClusterSnapshot, GroupSnapshot
from ottla.console.console import Console
from ottla.console.groups.record_lags import RecordLag
from ottla.console.http.routes import Call, Route
from ottla.console.transactions.held import GroupPosition, group_position
from ottla.inspection.lag import Span
from ottla.model import TopicPartition

# Logs are read behind the committed offsets of so many groups of a page, and of no more partitions of each.
MAX_READ_GROUPS: Final = 10
MAX_READ_PARTITIONS: Final = 64


@dataclass(frozen=True)
class TopicGroupsQuery:
    """Which groups, and in which order."""

    q: str = ""
    """A part of the group id."""
    sort: Literal["group_id", "state", "lag", "records_per_second"] = "lag"
    order: Literal["asc", "desc"] = "desc"
    offset: int = 0
    limit: int = 50


@dataclass(frozen=True)
class TopicGroupRow:
    """A group as it reads one topic. What is None is not known."""

    group_id: str
    state: str | None
    type: str | None
    partition_count: int
    """The partitions of the topic for which it has committed an offset."""
    lag: int
    """The ends minus the committed offsets: markers count, and records that compaction removed."""
    record_lag: int | None
    """Records only; no more than that if `is_counted` is false."""
    is_counted: bool
    """Whether all of the log after the committed offsets was read."""
    lagging_count: int
    """The partitions with a lag."""
    waiting_count: int
    """The partitions where it has read all that is stable, and an open transaction holds back the rest."""
    lost_count: int
    """The partitions where records were deleted before it read them."""
    first_at_ms: int | None
    """The timestamp of the oldest record that was found unread."""
    records_per_second: float | None
    """Consumed, from all its topics."""


@dataclass(frozen=True)
class TopicGroupsPage:
    """A part of the groups of a topic."""

    at_ms: int
    total: int
    lag: int
    rows: list[TopicGroupRow]
    problems: list[str]


async def groups(call: Call[TopicGroupsQuery, None]) -> TopicGroupsPage:
    """The groups of a topic. The log behind small lags is read in the background: the next answer counts records."""
    query, console = call.query, call.console
    check_page(query.offset, query.limit)
    snapshot = (await call.visible()).snapshot
    topic = topic_of(await call.visible(), call.path["topic"]).name
    names = snapshot.groups_of_topic.get(topic, ())
    part = query.q.casefold()
    found = [snapshot.groups[name] for name in names if part in name.casefold()]
    found.sort(key=lambda group: group.group_id)
    found.sort(key=_order(query.sort, topic), reverse=query.order == "desc")
    page = found[query.offset : query.offset + query.limit]
    _look(page, topic, snapshot, console)
    problem = console.record_lags.problem
    return TopicGroupsPage(
        at_ms=snapshot.at_ms,
        total=len(found),
        lag=sum(group.lags.get(topic, 0) for group in found),
        rows=[_row(group, topic, snapshot, console) for group in page],
        problems=[] if problem is None else [problem],
    )


def _order(by: str, topic: str) -> Callable[[GroupSnapshot], Any]:
    match by:
        case "state":
            return lambda group: str(group.state or "")
        case "lag":
            return lambda group: group.lags.get(topic, 0)
        case "records_per_second":
            return lambda group: (
                -1.0 if group.records_per_second is None else group.records_per_second
            )
    return lambda group: group.group_id


def _spans(
    group: GroupSnapshot, topic: str, snapshot: ClusterSnapshot
) -> dict[TopicPartition, Span]:
    """What is after the committed offsets of one topic, where the ends are known."""
    found = {}
    for key, offset in (group.committed or {}).items():
        place = snapshot.partition(*key) if key.topic == topic else None
        if place is not None and place.end_offset is not None:
            start = max(offset, place.start_offset or 0)
            found[key] = Span(min(start, place.end_offset), place.end_offset)
    return found


def _look(
    page: list[GroupSnapshot], topic: str, snapshot: ClusterSnapshot, console: Console
) -> None:
    behind = [group for group in page if group.lags.get(topic)]
    for group in behind[:MAX_READ_GROUPS]:
        spans = _spans(group, topic, snapshot)
        if len(spans) <= MAX_READ_PARTITIONS:
            console.record_lags.glance_later(group.group_id, spans)


def _row(
    group: GroupSnapshot, topic: str, snapshot: ClusterSnapshot, console: Console
) -> TopicGroupRow:
    spans = _spans(group, topic, snapshot)
    known: dict[TopicPartition, RecordLag] = console.record_lags.known(group.group_id, spans)
    is_known = len(known) == len(spans)
    firsts = [each.first_at_ms for each in known.values() if each.first_at_ms is not None]
    waiting = lost = 0
    for key in spans:
        place = snapshot.partition(*key)
        committed = (group.committed or {})[key]
        if place is None:
            continue
        if place.unstable_count and place.last_stable_offset is not None:
            position = group_position(committed, place.last_stable_offset)
            waiting += position is GroupPosition.WAITING
        lost += place.start_offset is not None and committed < place.start_offset
    return TopicGroupRow(
        group_id=group.group_id,
        state=None if group.state is None else str(group.state),
        type=None if group.type is None else str(group.type),
        partition_count=len(spans),
        lag=group.lags.get(topic, 0),
        record_lag=sum(each.record_count for each in known.values()) if is_known else None,
        is_counted=is_known and all(each.is_whole for each in known.values()),
        lagging_count=sum(span.end_offset > span.start_offset for span in spans.values()),
        waiting_count=waiting,
        lost_count=lost,
        first_at_ms=min(firsts, default=None),
        records_per_second=group.records_per_second,
    )


ROUTES: Final = [
    Route(
        "GET",
        "/api/topics/{topic}/groups",
        groups,
        "The groups that have offsets in a topic",
        query=TopicGroupsQuery,
    ),
]
