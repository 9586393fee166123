"""Groups, their members and lags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from ottla.client.admin_model.groups import (
    GroupDescription,
    GroupState,
    GroupType,
    MemberDescription,
)
from ottla.client.model import OffsetAndMetadata
from ottla.console.access.visible import Visible
from ottla.console.cluster.history import LONG_MS, RECENT_MS, Series
from ottla.console.cluster.snapshot import ClusterSnapshot, GroupSnapshot
from ottla.console.console import Console
from ottla.console.groups.record_lags import MAX_PARTITIONS, RecordLag
from ottla.console.groups.standing import (
    WITHOUT_MEMBERS,
    is_held_up,
    is_stuck,
    readable_lag,
    topics_read_by,
)
from ottla.console.http.errors import bad_request, not_found
from ottla.console.http.routes import Call, Route
from ottla.errors import ErrorCode, KafkaError, OttlaError, PartialFailureError
from ottla.inspection.lag import Span
from ottla.model import TopicPartition

MAX_LIMIT: Final = 500
MAX_TOPICS: Final = 5
# More members and topics than these are counted, not shown.
MAX_MEMBERS: Final = 1_000
MAX_SHOWN_TOPICS: Final = 1_000
MAX_ASSIGNED: Final = 500
TREND_POINTS: Final = 40
# A lag that small may well be markers only: it is worth a look also in lists.
MAX_GLANCED_OFFSETS: Final = 200
MAX_GLANCED_PARTITIONS: Final = 50
MAX_GLANCED_GROUPS: Final = 10
REBALANCING: Final = (
    GroupState.PREPARING_REBALANCE,
    GroupState.COMPLETING_REBALANCE,
    GroupState.ASSIGNING,
    GroupState.RECONCILING,
)

# The list


@dataclass(frozen=True)
class GroupsQuery:
    """Which groups, and in which order."""

    q: str = ""
    state: Literal["all", "stuck", "lagging", "empty", "rebalancing", "stable"] = "all"
    type: Literal["all", "classic", "consumer", "share", "streams", "other"] = "all"
    topic: str = ""
    sort: Literal["group_id", "state", "type", "lag", "records_per_second", "rebalanced_at_ms"] = (
        "group_id"
    )
    order: Literal["asc", "desc"] = "asc"
    offset: int = 0
    limit: int = 50


@dataclass(frozen=True)
class GroupRow:
    """A group. What is None is not known."""

    group_id: str
    state: str | None
    type: str | None
    protocol_type: str
    """What its members are: `consumer`, `connect`; empty for a group that has only committed offsets."""
    is_rebalancing: bool
    is_stuck: bool
    """Whether it has members and a lag, and has committed nothing for a minute."""
    is_held_up: bool
    """The same, and all of the lag is behind last stable offsets: it waits for open transactions."""
    standing_since_ms: int | None
    """Since when a group with a lag has committed nothing, as far as the console has looked."""
    member_count: int | None
    topic_count: int
    topics: list[str]
    lag: int | None
    """In offsets, markers of transactions included."""
    record_lag: int | None
    """In records; None where nobody has looked into the log."""
    records_per_second: float | None
    rebalanced_at_ms: int | None
    """When its last rebalance ended, or began if it goes on; None if the console has not seen it."""
    lag_trend: list[float | None]
    """The lag of the last quarter of an hour."""


@dataclass(frozen=True)
class GroupsPage:
    """A part of the groups."""

    at_ms: int
    total: int
    counts: dict[str, int]
    """How many of all groups are stuck, lag, are empty, or rebalance."""
    rows: list[GroupRow]
    problems: list[str]


async def groups(call: Call[GroupsQuery, None]) -> GroupsPage:
    """The groups that the user may see."""
    query, console = call.query, call.console
    limit = _limit(query.offset, query.limit)
    visible = await call.visible()
    snapshot = visible.snapshot
    chosen = [
        each
        for each in _in_topic(snapshot, query.topic)
        if _is_chosen(each, query, console, snapshot)
    ]
    chosen.sort(key=lambda each: each.group_id)
    if query.sort != "group_id" or query.order == "desc":
        chosen.sort(key=_order_by(query.sort, console), reverse=query.order == "desc")
    page = chosen[query.offset : query.offset + limit]
    described = await console.group_descriptions.of(each.group_id for each in page)
    _glance(page, visible, console)
    return GroupsPage(
        at_ms=snapshot.at_ms,
        total=len(chosen),
        counts=_counts(snapshot, console),
        rows=[_row(each, described.get(each.group_id), visible, console) for each in page],
        problems=list(snapshot.problems),
    )


def _in_topic(snapshot: ClusterSnapshot, topic: str) -> list[GroupSnapshot]:
    if not topic:
        return list(snapshot.groups.values())
    names = snapshot.groups_of_topic.get(topic, ())
    return [snapshot.groups[name] for name in names if name in snapshot.groups]


def _is_chosen(
    group: GroupSnapshot, query: GroupsQuery, console: Console, snapshot: ClusterSnapshot
) -> bool:
    if query.q.casefold() not in group.group_id.casefold():
        return False
    if query.type != "all" and query.type != _type_word(group.type):
        return False
    match query.state:
        case "stuck":
            return _is_stuck(group, console, snapshot)
        case "lagging":
            return bool(group.lag)
        case "empty":
            return group.state in WITHOUT_MEMBERS
        case "rebalancing":
            return group.state in REBALANCING
        case "stable":
            return group.state is GroupState.STABLE
    return True


def _type_word(group_type: GroupType | None) -> str:
    word = "classic" if group_type is None else str(group_type).casefold()
    return word if word in ("classic", "consumer", "share", "streams") else "other"


def _is_stuck(group: GroupSnapshot, console: Console, snapshot: ClusterSnapshot) -> bool:
    """A group whose lag is only markers, or behind last stable offsets, has read all that it may."""
    watch, name = console.group_watch, group.group_id
    return (
        is_stuck(group, watch.standing.get(name), snapshot.at_ms)
        and readable_lag(group, snapshot, watch.read_topics.get(name)) > 0
        and _known_records(group, snapshot, console) != 0
    )


def _is_held_up(group: GroupSnapshot, console: Console, snapshot: ClusterSnapshot) -> bool:
    watch, name = console.group_watch, group.group_id
    return is_held_up(group, watch.standing.get(name), snapshot, watch.read_topics.get(name))


def _order_by(sort: str, console: Console) -> Callable[[GroupSnapshot], Any]:
    match sort:
        case "state":
            return lambda each: str(each.state or "")
        case "type":
            return lambda each: str(each.type or "")
        case "lag":
            return lambda each: -1 if each.lag is None else each.lag
        case "records_per_second":
            return lambda each: -1.0 if each.records_per_second is None else each.records_per_second
        case "rebalanced_at_ms":
            return lambda each: _rebalanced_at_ms(each.group_id, console) or 0
    return lambda each: each.group_id


def _counts(snapshot: ClusterSnapshot, console: Console) -> dict[str, int]:
    found = Counter({"all": 0, "stuck": 0, "lagging": 0, "empty": 0, "rebalancing": 0})
    for each in snapshot.groups.values():
        found["all"] += 1
        found["stuck"] += _is_stuck(each, console, snapshot)
        found["lagging"] += bool(each.lag)
        found["empty"] += each.state in WITHOUT_MEMBERS
        found["rebalancing"] += each.state in REBALANCING
    return dict(found)


def _glance(page: list[GroupSnapshot], visible: Visible, console: Console) -> None:
    """Look, in the background, at the lags of a page that may be no more than markers."""
    small = [each for each in page if each.lag and each.lag <= MAX_GLANCED_OFFSETS]
    for each in small[:MAX_GLANCED_GROUPS]:
        spans = _spans(each.committed or {}, visible.snapshot)
        if len(spans) <= MAX_GLANCED_PARTITIONS:
            console.record_lags.glance_later(each.group_id, spans)


def _spans(
    committed: Mapping[TopicPartition, int], snapshot: ClusterSnapshot
) -> dict[TopicPartition, Span]:
    """What is after the committed offsets, where the ends are known."""
    found = {}
    for key, offset in committed.items():
        place = snapshot.partition(*key)
        if place is None or place.end_offset is None:
            continue
        found[key] = Span(max(offset, place.start_offset or 0), place.end_offset)
    return found


def _row(
    group: GroupSnapshot, described: GroupDescription | None, visible: Visible, console: Console
) -> GroupRow:
    standing = console.group_watch.standing.get(group.group_id)
    topics = list(dict.fromkeys(topic for topic, _ in group.committed or ()))
    if described is not None and not topics:
        topics = [each for each in topics_read_by(described) if visible.sees_topic(each)]
    trend = console.history.group(group.group_id, RECENT_MS).values["lag"]
    return GroupRow(
        group_id=group.group_id,
        state=_word(group.state),
        type=_word(group.type),
        protocol_type=group.protocol_type,
        is_rebalancing=group.state in REBALANCING,
        is_stuck=_is_stuck(group, console, visible.snapshot),
        is_held_up=_is_held_up(group, console, visible.snapshot),
        standing_since_ms=None if standing is None else standing.since_ms,
        member_count=None if described is None else len(described.members),
        topic_count=len(topics),
        topics=sorted(topics)[:MAX_TOPICS],
        lag=group.lag,
        record_lag=_known_records(group, visible.snapshot, console),
        records_per_second=group.records_per_second,
        rebalanced_at_ms=_rebalanced_at_ms(group.group_id, console),
        lag_trend=_thinned(trend) if _sees_all_topics(visible, group.group_id) else [],
    )


def _rebalanced_at_ms(name: str, console: Console) -> int | None:
    timeline = console.rebalances.timelines.of(name)
    last = None if timeline is None else timeline.latest
    return None if last is None else last.ended_at_ms or last.began_at_ms


def _word(word: object | None) -> str | None:
    return None if word is None else str(word)


def _known_records(group: GroupSnapshot, snapshot: ClusterSnapshot, console: Console) -> int | None:
    """The records of all partitions, if the console has looked at all of them."""
    spans = _spans(group.committed or {}, snapshot)
    known = console.record_lags.known(group.group_id, spans)
    if group.committed is None or len(known) < len(spans):
        return None
    return sum(each.record_count for each in known.values())


def _thinned(values: list[float | None]) -> list[float | None]:
    """The newest value, and others at equal distances before it."""
    step = -(-len(values) // TREND_POINTS) or 1
    return values[::-1][::step][::-1]


def _limit(offset: int, limit: int) -> int:
    if offset < 0 or not 0 < limit <= MAX_LIMIT:
        raise bad_request(f"offset is 0 or more, and limit is 1 to {MAX_LIMIT}")
    return limit


# One group


@dataclass(frozen=True)
class GroupQuery:
    """A group; in the query, because its name may have any characters."""

    id: str


@dataclass(frozen=True)
class AssignedTopic:
    """The partitions of one topic that a member has."""

    topic: str
    partitions: list[int]


@dataclass(frozen=True)
class MemberRow:
    """A member, as the coordinator describes it. Epochs and targets are those of the new protocol (KIP-848)."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    type: str | None
    rack_id: str | None
    epoch: int | None
    partition_count: int
    assignment: list[AssignedTopic]
    target: list[AssignedTopic] | None
    """What it is to have; None if the protocol knows no targets."""
    is_at_target: bool | None
    lag: int | None
    """In offsets, of the partitions that it has."""
    subscribed_topics: list[str]
    subscribed_regex: str | None


@dataclass(frozen=True)
class GroupTopic:
    """What a group has committed in a topic."""

    topic: str
    partition_count: int
    """The partitions with a committed offset."""
    lag: int | None
    is_subscribed: bool
    """Whether a member reads it now."""
    exists: bool


@dataclass(frozen=True)
class GroupDetail:
    """What the coordinator knows of a group, as it tells the user, and its lag."""

    at_ms: int
    group_id: str
    state: str
    type: str | None
    protocol_type: str
    assignor: str
    coordinator_id: int
    epoch: int | None
    """Of the new protocol only."""
    target_epoch: int | None
    is_rebalancing: bool
    is_stuck: bool
    is_held_up: bool
    standing_since_ms: int | None
    lag: int | None
    end_is_stable: bool
    """Whether no open transaction holds up what the group reads."""
    held_count: int
    """The offsets behind last stable offsets in its partitions: readers of committed records wait for them."""
    records_per_second: float | None
    partition_count: int
    topics: list[GroupTopic]
    member_count: int
    members: list[MemberRow]
    commits_offsets: bool
    """Whether the group commits offsets at all: share groups do not."""
    problems: list[str]


async def group(call: Call[GroupQuery, None]) -> GroupDetail:
    """One group: its members are what the user's own connection is told."""
    name, console = call.query.id, call.console
    visible = await call.visible()
    snapshot = visible.snapshot
    described = await describe(call, name)
    problems = list(snapshot.problems)
    committed: Mapping[TopicPartition, OffsetAndMetadata] = {}
    try:
        committed = await committed_of(call, name)
    except OttlaError as error:
        problems.append(f"committed offsets are not known: {error}")
    seen = snapshot.groups.get(name)
    standing = console.group_watch.standing.get(name)
    read = topics_read_by(described)
    places = [snapshot.partition(*key) for key in committed]
    lags = _offset_lags({key: each.offset for key, each in committed.items()}, snapshot)
    unknown = [key for key in committed if key not in lags and key.topic in snapshot.topics]
    if unknown:
        problems.append(
            f"the end of {unknown[0]}"
            + (f" and of {len(unknown) - 1} more partitions" if unknown[1:] else "")
            + " is not known: the lag is at least what is shown"
        )
    return GroupDetail(
        at_ms=snapshot.at_ms,
        group_id=name,
        state=str(described.state),
        type=str(described.type),
        protocol_type=described.protocol_type,
        assignor=described.partition_assignor,
        coordinator_id=described.coordinator.id,
        epoch=described.group_epoch,
        target_epoch=described.target_assignment_epoch,
        is_rebalancing=described.state in REBALANCING,
        is_stuck=seen is not None and _is_stuck(seen, console, snapshot),
        is_held_up=seen is not None and _is_held_up(seen, console, snapshot),
        standing_since_ms=None if standing is None else standing.since_ms,
        lag=sum(lags.values()) if lags or (committed and not unknown) else None,
        end_is_stable=not any(each.unstable_count for each in places if each is not None),
        held_count=sum(each.unstable_count for each in places if each is not None),
        records_per_second=None if seen is None else seen.records_per_second,
        partition_count=len(committed),
        topics=_topics(committed, lags, read, snapshot),
        member_count=len(described.members),
        members=[_member(each, lags) for each in described.members[:MAX_MEMBERS]],
        commits_offsets=described.type is not GroupType.SHARE,
        problems=problems,
    )


async def describe(call: Call[Any, Any], name: str) -> GroupDescription:
    """What the coordinator tells the user; not found if there is no such group."""
    try:
        return (await call.identity.clients.admin().describe_groups([name]))[name]
    except KafkaError as error:
        cause = error.errors.get(name) if isinstance(error, PartialFailureError) else error
        if isinstance(cause, KafkaError) and cause.code is ErrorCode.GROUP_ID_NOT_FOUND:
            raise not_found(
                f"there is no group {name!r}",
                "a group is forgotten when its last offset expires (offsets.retention.minutes)",
            ) from error
        raise


async def committed_of(call: Call[Any, Any], name: str) -> dict[TopicPartition, OffsetAndMetadata]:
    """The committed offsets of a group, as the user's own connection is told."""
    found = await call.identity.clients.admin().list_consumer_group_offsets([name])
    return {key: each for key, each in found[name].items() if each is not None}


def _offset_lags(
    committed: Mapping[TopicPartition, int], snapshot: ClusterSnapshot
) -> dict[TopicPartition, int]:
    return {
        key: max(0, span.end_offset - span.start_offset)
        for key, span in _spans(committed, snapshot).items()
    }


def _topics(
    committed: Mapping[TopicPartition, object],
    lags: Mapping[TopicPartition, int],
    read: Collection[str],
    snapshot: ClusterSnapshot,
) -> list[GroupTopic]:
    counts = Counter(topic for topic, _ in committed)
    sums: Counter[str] = Counter()
    for key, lag in lags.items():
        sums[key.topic] += lag
    names = sorted({*counts, *read})[:MAX_SHOWN_TOPICS]
    return [
        GroupTopic(
            topic=name,
            partition_count=counts[name],
            lag=sums.get(name),
            is_subscribed=name in read,
            exists=name in snapshot.topics,
        )
        for name in names
    ]


def _member(member: MemberDescription, lags: Mapping[TopicPartition, int]) -> MemberRow:
    target = member.target_assignment
    known = [lags[each] for each in member.assignment if each in lags]
    return MemberRow(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        host=member.host,
        type=_word(member.type),
        rack_id=member.rack_id,
        epoch=member.member_epoch,
        partition_count=len(member.assignment),
        assignment=_assigned(member.assignment),
        target=None if target is None else _assigned(target),
        is_at_target=None if target is None else set(target) == set(member.assignment),
        lag=sum(known) if known else None,
        subscribed_topics=sorted(member.subscribed_topics)[:MAX_ASSIGNED],
        subscribed_regex=member.subscribed_topic_regex,
    )


def _assigned(partitions: Iterable[TopicPartition]) -> list[AssignedTopic]:
    found: dict[str, list[int]] = {}
    for topic, number in sorted(partitions)[:MAX_ASSIGNED]:
        found.setdefault(topic, []).append(number)
    return [AssignedTopic(topic, numbers) for topic, numbers in found.items()]


# Partitions


@dataclass(frozen=True)
class GroupPartitionsQuery:
    """Which partitions of a group, and in which order."""

    id: str
    q: str = ""
    topic: str = ""
    state: Literal["all", "lagging"] = "all"
    sort: Literal["partition", "lag", "committed_offset", "end_offset", "member"] = "partition"
    order: Literal["asc", "desc"] = "asc"
    offset: int = 0
    limit: int = 50


@dataclass(frozen=True)
class GroupPartition:
    """A partition that a group has committed an offset for, or that a member has. What is None is not known."""

    topic: str
    partition: int
    committed_offset: int | None
    leader_epoch: int | None
    metadata: str
    start_offset: int | None
    last_stable_offset: int | None
    end_offset: int | None
    lag: int | None
    """The end minus the committed offset: markers count, and records that compaction removed."""
    record_lag: int | None
    """Records only; at most that many if `is_counted` is false."""
    is_counted: bool
    """Whether all of the log after the committed offset was read."""
    oldest_at_ms: int | None
    """The timestamp of the first record that was not read."""
    is_behind_start: bool
    """Whether retention has deleted records before the group read them."""
    member_id: str | None
    client_id: str | None
    host: str | None


@dataclass(frozen=True)
class GroupPartitionsPage:
    """A part of the partitions."""

    at_ms: int
    total: int
    rows: list[GroupPartition]
    problems: list[str]


async def partitions(call: Call[GroupPartitionsQuery, None]) -> GroupPartitionsPage:
    """The partitions of a group with committed offsets and lags."""
    query, console = call.query, call.console
    limit = _limit(query.offset, query.limit)
    visible = await call.visible()
    described = await describe(call, query.id)
    committed = await committed_of(call, query.id)
    rows = _partition_rows(query.id, described, committed, visible)
    chosen = [each for each in rows if _is_wanted(each, query)]
    chosen.sort(key=_PARTITION_ORDERS[query.sort], reverse=query.order == "desc")
    page = chosen[query.offset : query.offset + limit]
    spans = _spans(
        {
            TopicPartition(each.topic, each.partition): each.committed_offset
            for each in page
            if each.committed_offset is not None
        },
        visible.snapshot,
    )
    looked = await console.record_lags.glance(query.id, spans)
    problem = console.record_lags.problem
    return GroupPartitionsPage(
        at_ms=visible.snapshot.at_ms,
        total=len(chosen),
        rows=[_with_records(each, looked) for each in page],
        problems=[] if problem is None else [problem],
    )


def _partition_rows(
    group_id: str,
    described: GroupDescription,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    visible: Visible,
) -> list[GroupPartition]:
    committed = _as_old_as_the_ends(committed, visible.snapshot.groups.get(group_id))
    owners = {key: member for member in described.members for key in member.assignment}
    keys = sorted({*committed, *(key for key in owners if visible.sees_topic(key.topic))})
    return [_partition(key, committed.get(key), owners.get(key), visible.snapshot) for key in keys]


def _as_old_as_the_ends(
    committed: Mapping[TopicPartition, OffsetAndMetadata], group: GroupSnapshot | None
) -> dict[TopicPartition, OffsetAndMetadata]:
    """What the snapshot has where the group went on since: with ends from before, its lag would be too small."""
    before = (group.committed or {}) if group is not None else {}
    return {
        key: at._replace(offset=before[key]) if before.get(key, at.offset) < at.offset else at
        for key, at in committed.items()
    }


def _partition(
    key: TopicPartition,
    at: OffsetAndMetadata | None,
    owner: MemberDescription | None,
    snapshot: ClusterSnapshot,
) -> GroupPartition:
    place = snapshot.partition(*key)
    start = None if place is None else place.start_offset
    end = None if place is None else place.end_offset
    lag = None
    if at is not None and end is not None:
        lag = max(0, end - max(at.offset, start or 0))
    return GroupPartition(
        topic=key.topic,
        partition=key.partition,
        committed_offset=None if at is None else at.offset,
        leader_epoch=None if at is None else at.leader_epoch,
        metadata="" if at is None else at.metadata,
        start_offset=start,
        last_stable_offset=None if place is None else place.last_stable_offset,
        end_offset=end,
        lag=lag,
        record_lag=None,
        is_counted=False,
        oldest_at_ms=None,
        is_behind_start=at is not None and start is not None and at.offset < start,
        member_id=None if owner is None else owner.member_id,
        client_id=None if owner is None else owner.client_id,
        host=None if owner is None else owner.host,
    )


def _with_records(
    row: GroupPartition, looked: Mapping[TopicPartition, RecordLag]
) -> GroupPartition:
    found = looked.get(TopicPartition(row.topic, row.partition))
    if found is None:
        return row
    return replace(
        row,
        record_lag=found.record_count,
        is_counted=found.is_whole,
        oldest_at_ms=found.first_at_ms,
    )


_PARTITION_ORDERS: Final[dict[str, Callable[[GroupPartition], Any]]] = {
    "partition": lambda row: (row.topic, row.partition),
    "lag": lambda row: -1 if row.lag is None else row.lag,
    "committed_offset": lambda row: -1 if row.committed_offset is None else row.committed_offset,
    "end_offset": lambda row: -1 if row.end_offset is None else row.end_offset,
    "member": lambda row: (row.client_id or "", row.member_id or ""),
}


def _is_wanted(row: GroupPartition, query: GroupPartitionsQuery) -> bool:
    if query.topic and row.topic != query.topic:
        return False
    if query.state == "lagging" and not row.lag:
        return False
    part = query.q.casefold()
    return any(part in text.casefold() for text in (row.topic, row.client_id or "", row.host or ""))


# Records


@dataclass(frozen=True)
class RecordLagAnswer:
    """The lag of a group in records, as far as it was read."""

    at_ms: int
    lag: int
    """In offsets."""
    record_lag: int
    """In records; offsets that were not read count as records."""
    is_counted: bool
    """Whether all of it was read."""
    partition_count: int
    """How many partitions with a lag were read."""
    left_out_count: int
    """How many partitions with a lag were not, because there are too many."""
    problems: list[str]


async def record_lag(call: Call[GroupQuery, None]) -> RecordLagAnswer:
    """Count the records that a group has yet to read: the log is read, up to 10,000 records of each partition."""
    visible = await call.visible()
    name, lags = call.query.id, call.console.record_lags
    committed = await committed_of(call, name)
    spans = _spans({key: each.offset for key, each in committed.items()}, visible.snapshot)
    behind = {key: span for key, span in spans.items() if span.end_offset > span.start_offset}
    largest = sorted(behind, key=lambda key: behind[key].start_offset - behind[key].end_offset)
    some = {key: behind[key] for key in largest[:MAX_PARTITIONS]}
    found = await lags.count(name, some)
    lag = sum(span.end_offset - span.start_offset for span in behind.values())
    marked = sum(
        span.end_offset - span.start_offset - found[key].record_count
        for key, span in some.items()
        if key in found
    )
    return RecordLagAnswer(
        at_ms=visible.snapshot.at_ms,
        lag=lag,
        record_lag=lag - marked,
        is_counted=len(found) == len(behind) and all(each.is_whole for each in found.values()),
        partition_count=len(found),
        left_out_count=len(behind) - len(found),
        problems=[] if lags.problem is None else [lags.problem],
    )


# Over time


@dataclass(frozen=True)
class GroupHistoryQuery:
    """A group, and how far to look back."""

    id: str
    span: Literal["recent", "long"] = "recent"
    """The last quarter of an hour, or the last six hours."""


@dataclass(frozen=True)
class GroupHistory:
    """Lag and consumption of a group over time; None where nothing is known."""

    at_ms: list[int]
    lag: list[float | None]
    records_per_second: list[float | None]


async def history(call: Call[GroupHistoryQuery, None]) -> GroupHistory:
    """Lag and rate of a group since the console began."""
    visible = await call.visible()
    name = call.query.id
    if not visible.sees_group(name) or not _sees_all_topics(visible, name):
        return GroupHistory([], [], [])
    span_ms = RECENT_MS if call.query.span == "recent" else LONG_MS
    found: Series = call.console.history.group(name, span_ms)
    return GroupHistory(found.times_ms, found.values["lag"], found.values["records_per_second"])


def _sees_all_topics(visible: Visible, name: str) -> bool:
    """Whether the sums of the history are sums of what the user may see."""
    whole = visible.whole.groups.get(name)
    return whole is None or all(visible.sees_topic(topic) for topic in whole.lags)


ROUTES: Final[list[Route]] = [
    Route("GET", "/api/groups", groups, "Groups", query=GroupsQuery),
    Route("GET", "/api/group", group, "One group with its members", query=GroupQuery),
    Route(
        "GET",
        "/api/group/partitions",
        partitions,
        "Committed offsets and lags of a group",
        query=GroupPartitionsQuery,
    ),
    Route(
        "GET",
        "/api/group/record-lag",
        record_lag,
        "The lag of a group in records, without markers",
        query=GroupQuery,
    ),
    Route(
        "GET",
        "/api/group/history",
        history,
        "Lag and rate of a group over time",
        query=GroupHistoryQuery,
    ),
]
