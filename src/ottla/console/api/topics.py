"""Topics and their partitions, offsets, sizes, rates, and why their last stable offsets stand."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final, Literal

from ottla.console.access.visible import Visible
from ottla.console.cluster.history import LONG_MS, RECENT_MS, Series
from ottla.console.cluster.snapshot import PartitionSnapshot, TopicSnapshot
from ottla.console.cluster.snapshot_part import NOT_WHOLLY
from ottla.console.console import Console
from ottla.console.http.errors import ApiError, bad_request, not_found
from ottla.console.http.routes import Call, Route
from ottla.console.topics.partition_rows import OpenHere, PartitionRow, has_problem, partition_row
from ottla.console.topics.topic_problems import HeldTopic, TopicProblem, held_topics
from ottla.console.topics.topic_rows import (
    Show,
    Sort,
    TopicCounts,
    TopicRow,
    TopicTable,
)
from ottla.console.transactions.watch import open_on
from ottla.model import TopicPartition

MAX_LIMIT: Final = 500

# The list


@dataclass(frozen=True)
class TopicsQuery:
    """Which topics, and in which order."""

    q: str = ""
    """A part of the name."""
    internal: bool = False
    """Whether internal topics are listed, too."""
    show: Show = "all"
    sort: Sort = "name"
    order: Literal["asc", "desc"] = "asc"
    offset: int = 0
    limit: int = 50


@dataclass(frozen=True)
class TopicsPage:
    """A part of the topics."""

    at_ms: int
    total: int
    counts: TopicCounts
    rows: list[TopicRow]
    problems: list[str]


async def topics(call: Call[TopicsQuery, None]) -> TopicsPage:
    """The topics that fit the search and the filter."""
    query = call.query
    check_page(query.offset, query.limit)
    snapshot = (await call.visible()).snapshot
    table = TopicTable(snapshot, held_now(call.console))
    found = table.found(query.q, includes_internal=query.internal)
    chosen = [topic for topic in found if table.shows(topic, query.show)]
    table.sort(chosen, query.sort, is_descending=query.order == "desc")
    page = chosen[query.offset : query.offset + query.limit]
    return TopicsPage(
        at_ms=snapshot.at_ms,
        total=len(chosen),
        counts=table.counts(found),
        rows=[table.row(topic) for topic in page],
        problems=list(snapshot.problems),
    )


def held_now(console: Console) -> dict[str, HeldTopic]:
    """The topics with a partition that is held up now."""
    watch = console.open_transactions
    return held_topics(watch.standing, (each.partition for each in watch.latest.hanging))


def check_page(offset: int, limit: int) -> None:
    """Raise ApiError where a page cannot be cut."""
    if offset < 0 or not 0 < limit <= MAX_LIMIT:
        raise bad_request(f"offset is 0 or more, and limit is 1 to {MAX_LIMIT}")


# One topic


@dataclass(frozen=True)
class LeaderShare:
    """How many of a topic's partitions a broker leads."""

    broker_id: int
    partition_count: int


@dataclass(frozen=True)
class TopicDetail:
    """A topic. What is None is not known."""

    at_ms: int
    name: str
    topic_id: str | None
    is_internal: bool
    partition_count: int
    replication_factor: int
    broker_count: int
    storage_folder: str | None
    """Where an Ottla broker keeps all records: replicas are a number there, and copies are what the storage has."""
    record_count: int | None
    size_bytes: int | None
    records_per_second: float | None
    bytes_per_second: float | None
    lag: int | None
    group_count: int
    held_partition_count: int
    held_since_ms: int | None
    unstable_count: int
    open_transaction_count: int
    """The transactions that coordinators have open on it."""
    cleanup_policy: str | None
    retention_ms: int | None
    retention_bytes: int | None
    min_in_sync_replicas: int | None
    leaders: list[LeaderShare]
    worries: list[TopicProblem]
    problems: list[str]
    """What the cluster does not tell."""


async def topic(call: Call[None, None]) -> TopicDetail:
    """One topic."""
    console = call.console
    visible = await call.visible()
    snapshot = visible.snapshot
    found = topic_of(visible, call.path["topic"])
    table = TopicTable(snapshot, held_now(console))
    row = table.row(found)
    settings = found.settings
    leaders = Counter(each.leader_id for each in found.partitions if each.leader_id is not None)
    told = console.internals.latest
    return TopicDetail(
        at_ms=snapshot.at_ms,
        name=found.name,
        topic_id=None if found.topic_id is None else str(found.topic_id),
        is_internal=found.is_internal,
        partition_count=row.partition_count,
        replication_factor=row.replication_factor,
        broker_count=len(snapshot.brokers),
        storage_folder=None if told is None else told.report.storage.folder,
        record_count=row.record_count,
        size_bytes=row.size_bytes,
        records_per_second=row.records_per_second,
        bytes_per_second=row.bytes_per_second,
        lag=row.lag,
        group_count=row.group_count,
        held_partition_count=row.held_partition_count,
        held_since_ms=row.held_since_ms,
        unstable_count=row.unstable_count,
        open_transaction_count=len(snapshot.transactions_of_topic.get(found.name, ())),
        cleanup_policy=row.cleanup_policy,
        retention_ms=row.retention_ms,
        retention_bytes=None if settings is None else settings.retention_bytes,
        min_in_sync_replicas=None if settings is None else settings.min_in_sync_replicas,
        leaders=[LeaderShare(broker, count) for broker, count in sorted(leaders.items())],
        worries=row.problems,
        problems=list(snapshot.problems),
    )


def topic_of(visible: Visible, name: str) -> TopicSnapshot:
    """The topic of a path; an error if there is none that the user may see."""
    found = visible.snapshot.topics.get(name)
    if found is None:
        raise no_such_topic(name)
    return found


def no_such_topic(name: str) -> ApiError:
    """What is answered for topics that do not exist, or that the user may not see."""
    return not_found(
        f"there is no topic {name!r}", "it may have been deleted, or you may not describe it"
    )


# Partitions


@dataclass(frozen=True)
class PartitionsQuery:
    """Which partitions of a topic, and in which order."""

    show: Literal["all", "held", "problems"] = "all"
    sort: Literal["partition", "leader_id", "records", "size", "unstable", "standing_since"] = (
        "partition"
    )
    order: Literal["asc", "desc"] = "asc"
    offset: int = 0
    limit: int = 50


@dataclass(frozen=True)
class PartitionsPage:
    """A part of the partitions of a topic."""

    at_ms: int
    total: int
    held_count: int
    problem_count: int
    rows: list[PartitionRow]
    problems: list[str]


async def partitions(call: Call[PartitionsQuery, None]) -> PartitionsPage:
    """The partitions of a topic, with the transactions that hold up their last stable offsets."""
    query = call.query
    check_page(query.offset, query.limit)
    visible = await call.visible()
    found = topic_of(visible, call.path["topic"])
    least = None if found.settings is None else found.settings.min_in_sync_replicas
    held = [each for each in found.partitions if each.unstable_count]
    poor = [each for each in found.partitions if has_problem(each, least)]
    chosen = {"all": list(found.partitions), "held": held, "problems": poor}[query.show]
    _sort(chosen, query, call.console)
    page = chosen[query.offset : query.offset + query.limit]
    opened, problems = await _open_here(call, visible, page)
    standing = call.console.open_transactions.standing
    return PartitionsPage(
        at_ms=visible.snapshot.at_ms,
        total=len(chosen),
        held_count=len(held),
        problem_count=len(poor),
        rows=[
            partition_row(
                each,
                visible.snapshot,
                opened,
                standing.get(TopicPartition(each.topic, each.partition)),
            )
            for each in page
        ],
        problems=problems,
    )


def _sort(places: list[PartitionSnapshot], query: PartitionsQuery, console: Console) -> None:
    standing = console.open_transactions.standing

    def value(place: PartitionSnapshot) -> int | None:
        match query.sort:
            case "partition":
                return place.partition
            case "leader_id":
                return place.leader_id
            case "records":
                return place.record_count
            case "size":
                return place.size_bytes
            case "unstable":
                return place.unstable_count
            case "standing_since":
                found = standing.get(TopicPartition(place.topic, place.partition))
                return None if found is None else found.since_ms

    told = [(found, place) for place in places if (found := value(place)) is not None]
    rest = [place for place in places if value(place) is None]
    told.sort(key=lambda each: each[0], reverse=query.order == "desc")
    places[:] = [*(place for _, place in told), *rest]


async def _open_here(
    call: Call[PartitionsQuery, None], visible: Visible, page: list[PartitionSnapshot]
) -> tuple[OpenHere, list[str]]:
    """Who has a transaction open on the partitions of a page, as the console has found it.

    To who logs in it is told where the own connection may ask for producers: the cluster wants the right to read.
    """
    keys = [TopicPartition(each.topic, each.partition) for each in page if each.unstable_count]
    found = call.console.open_transactions.latest
    if not keys:
        return OpenHere({}, (), {}), []
    by_partition = found.by_partition
    problems = list(found.problems)
    if not visible.is_everything:
        # Those of the console's own questions name partitions that this user may not see.
        problems = [NOT_WHOLLY] if problems else []
        allowed, refusals = await open_on(call.identity.clients.admin(), keys)
        told = {each.partition for each in allowed}
        by_partition = {key: some for key, some in by_partition.items() if key in told}
        problems += refusals
    names = {
        producer: name
        for producer, name in found.names.items()
        if visible.sees_transactional_id(name)
    }
    return OpenHere(by_partition, found.hanging, names), problems


# History


@dataclass(frozen=True)
class HistoryQuery:
    """How far back."""

    span: Literal["recent", "long"] = "recent"
    """15 minutes in steps of ten seconds, or six hours in steps of a minute."""


async def history(call: Call[HistoryQuery, None]) -> Series:
    """The rates and the lag of a topic over time, as the console has seen them."""
    visible = await call.visible()
    found = topic_of(visible, call.path["topic"])
    span_ms = RECENT_MS if call.query.span == "recent" else LONG_MS
    series = call.console.history.topic(found.name, span_ms)
    if visible.is_everything:
        return series
    # The lag is of all groups, also of those that this user may not see.
    nothing: list[float | None] = [None] * len(series.times_ms)
    return Series(series.times_ms, {**series.values, "lag": nothing})


ROUTES: Final = [
    Route("GET", "/api/topics", topics, "The topics", query=TopicsQuery),
    Route("GET", "/api/topics/{topic}", topic, "One topic"),
    Route(
        "GET",
        "/api/topics/{topic}/partitions",
        partitions,
        "The partitions of a topic, and why their last stable offsets stand",
        query=PartitionsQuery,
    ),
    Route(
        "GET",
        "/api/topics/{topic}/history",
        history,
        "The rates and the lag of a topic over time",
        query=HistoryQuery,
    ),
]
