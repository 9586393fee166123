"""What an Ottla broker tells beyond Kafka's protocol: its log, its loop, its storage, its cleaner, its requests.

Every user may see counts and times. Lists that name topics are cut to those that the user sees. The texts of the log
and the metrics name clients, groups and topics: only users who see everything, and admins, may read them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Literal, TypeVar

from ottla.console.access.roles import Role
from ottla.console.access.visible import Visible
from ottla.console.http.errors import ApiError, bad_request
from ottla.console.http.routes import Call, Route, ServerEvent
from ottla.console.internals.event_feed import EventFeed, FeedState
from ottla.console.internals.metric_samples import MetricSample
from ottla.console.internals.report import (
    BrokerEvent,
    BrokerReport,
    CompactedPartition,
    Compaction,
    Disk,
    Durations,
    Hold,
    PartitionName,
    TopicStorage,
)
from ottla.console.internals.request_rates import ApiRates, BrokerRates

P = TypeVar("P", PartitionName, Compaction, CompactedPartition)

NOT_OFFERED: Final = "this cluster tells nothing beyond Kafka's protocol"
HOW_TO_OFFER: Final = (
    "an Ottla broker does: start the console with --internals URL, where its metrics are, "
    "or with the broker, as ottla serve --console does"
)
MAX_LIMIT: Final = 1000


def _report(call: Call[Any, None]) -> tuple[BrokerReport, BrokerRates | None]:
    """The newest report; ApiError if there is none."""
    internals = call.console.internals
    if not internals.is_offered:
        raise ApiError(HTTPStatus.NOT_IMPLEMENTED, NOT_OFFERED, HOW_TO_OFFER)
    told = internals.latest
    if told is None:
        raise ApiError(
            HTTPStatus.SERVICE_UNAVAILABLE,
            internals.problem or "the broker has not told its internals yet",
            "the console goes on asking",
        )
    return told.report, told.rates


def _check_sees_log(call: Call[Any, None], visible: Visible) -> None:
    """Raise ApiError for users from whom the cluster hides something."""
    session = call.visit.session
    # A read-only console takes the role from all, but not the right to read.
    role = call.identity.role if session is None else session.role
    if not visible.is_everything and role < Role.ADMIN:
        raise ApiError(
            HTTPStatus.FORBIDDEN,
            "the broker's log and metrics name topics, groups and clients that you may not see",
            "users who may alter the configs of the cluster see them",
        )


# Summary


@dataclass(frozen=True)
class RateSamples:
    """How busy the broker was: a point for each report, the oldest first."""

    at_ms: list[int]
    requests_per_second: list[float]
    errors_per_second: list[float]
    received_bytes_per_second: list[float]
    sent_bytes_per_second: list[float]
    p99_ms: list[float | None]
    held_ms: list[float]
    connections: list[int]


@dataclass(frozen=True)
class InternalsSummary:
    """Whether the broker tells its internals, and the most important of them."""

    is_offered: bool
    why_not: str | None
    """A sentence where it does not."""
    advice: str | None
    sees_log: bool
    """Whether this user may read the log and the metrics."""
    version: str | None = None
    started_at_ms: int | None = None
    at_ms: int | None = None
    connections: int | None = None
    requests_per_second: float | None = None
    errors_per_second: float | None = None
    p99_ms: float | None = None
    worst_held_ms: float | None = None
    """Of the last hour."""
    offline_count: int | None = None
    disk: Disk | None = None
    samples: RateSamples | None = None


async def summary(call: Call[None, None]) -> InternalsSummary:
    """What the broker told last, or why it tells nothing."""
    visible = await call.visible()
    try:
        _check_sees_log(call, visible)
        sees_log = True
    except ApiError:
        sees_log = False
    try:
        report, rates = _report(call)
    except ApiError as error:
        is_offered = call.console.internals.is_offered
        return InternalsSummary(is_offered, error.message, error.advice, sees_log)
    return InternalsSummary(
        is_offered=True,
        why_not=None,
        advice=None,
        sees_log=sees_log,
        version=report.version,
        started_at_ms=report.started_at_ms,
        at_ms=report.at_ms,
        connections=sum(node.connections for node in report.nodes),
        requests_per_second=None if rates is None else rates.requests_per_second,
        errors_per_second=None if rates is None else rates.errors_per_second,
        p99_ms=None if rates is None else rates.p99_ms,
        worst_held_ms=max((hold.held_ms for hold in report.loop.intervals), default=0.0),
        offline_count=sum(node.offline_count for node in report.nodes),
        disk=report.storage.disk,
        samples=_samples(call.console.internals.samples),
    )


def _samples(samples: Iterable[BrokerRates]) -> RateSamples:
    some = list(samples)
    return RateSamples(
        at_ms=[each.at_ms for each in some],
        requests_per_second=[each.requests_per_second for each in some],
        errors_per_second=[each.errors_per_second for each in some],
        received_bytes_per_second=[each.received_bytes_per_second for each in some],
        sent_bytes_per_second=[each.sent_bytes_per_second for each in some],
        p99_ms=[each.p99_ms for each in some],
        held_ms=[each.held_ms for each in some],
        connections=[each.connections for each in some],
    )


# Requests


@dataclass(frozen=True)
class BrokerRequests:
    """The requests since the last report, by API; the busiest first."""

    at_ms: int
    seconds: float | None
    """The time between the two reports; None if there was only one since the start."""
    rows: list[ApiRates]
    connections_by_listener: dict[str, int]
    connections_accepted: int
    connections_refused: int
    connections_faulted: int


async def requests(call: Call[None, None]) -> BrokerRequests:
    """Rates, errors and latencies of all APIs."""
    report, rates = _report(call)
    by_listener: dict[str, int] = {}
    for node in report.nodes:
        for name, number in node.connections_by_listener.items():
            by_listener[name] = by_listener.get(name, 0) + number
    return BrokerRequests(
        at_ms=report.at_ms,
        seconds=None if rates is None else rates.seconds,
        rows=[] if rates is None else list(rates.apis),
        connections_by_listener=by_listener,
        connections_accepted=sum(node.connections_accepted for node in report.nodes),
        connections_refused=sum(node.connections_refused for node in report.nodes),
        connections_faulted=sum(node.connections_faulted for node in report.nodes),
    )


# Loop


@dataclass(frozen=True)
class LoopStalls:
    """How long the event loop served nobody."""

    at_ms: int
    interval_ms: int
    intervals: list[Hold]
    """The worst of each stretch of time, the oldest first."""
    long_hold_ms: int
    worst: list[Hold]
    """The longest ones, the longest first."""
    histogram_bounds_ms: list[float]
    histogram: list[int]
    """How many stretches of time had their worst below each bound; the last is of what is longer."""


_STALL_BOUNDS_MS: Final = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]
MAX_WORST: Final = 100


async def loop(call: Call[None, None]) -> LoopStalls:
    """The worst stall of each stretch of the last hour, and the longest of all."""
    report, _ = _report(call)
    told = report.loop
    counts = [0] * (len(_STALL_BOUNDS_MS) + 1)
    for hold in told.intervals:
        counts[sum(hold.held_ms > bound for bound in _STALL_BOUNDS_MS)] += 1
    return LoopStalls(
        at_ms=report.at_ms,
        interval_ms=told.interval_ms,
        intervals=told.intervals,
        long_hold_ms=told.long_hold_ms,
        worst=sorted(told.long_holds, key=lambda hold: -hold.held_ms)[:MAX_WORST],
        histogram_bounds_ms=_STALL_BOUNDS_MS,
        histogram=counts,
    )


# Storage


@dataclass(frozen=True)
class BrokerStorage:
    """The logs on the disk; `topics` are the largest of those that the user sees."""

    at_ms: int
    folder: str | None
    disk: Disk | None
    topic_count: int
    partition_count: int
    size_bytes: int
    topics: list[TopicStorage]
    syncs: Durations
    """How long group commits waited for the disk, since the start."""
    sync_count: int
    sync_mean_ms: float | None
    sync_median_ms: float | None
    sync_p99_ms: float | None
    offline: list[PartitionName]


async def storage(call: Call[None, None]) -> BrokerStorage:
    """Sizes, segments, and how long the disk takes."""
    visible = await call.visible()
    report, _ = _report(call)
    told = report.storage
    syncs = told.syncs
    return BrokerStorage(
        at_ms=report.at_ms,
        folder=told.folder,
        disk=told.disk,
        topic_count=told.topic_count,
        partition_count=told.partition_count,
        size_bytes=told.size_bytes,
        topics=[each for each in told.topics if visible.sees_topic(each.name)],
        syncs=syncs,
        sync_count=syncs.count,
        sync_mean_ms=syncs.total_ms / syncs.count if syncs.count else None,
        sync_median_ms=syncs.quantile_ms(0.5),
        sync_p99_ms=syncs.quantile_ms(0.99),
        offline=_seen(visible, (each for node in report.nodes for each in node.offline)),
    )


def _seen(visible: Visible, partitions: Iterable[P]) -> list[P]:
    return [each for each in partitions if visible.sees_topic(each.topic)]


# Cleaning


@dataclass(frozen=True)
class NodeCleaning:
    """The rounds of compaction and of retention of a node."""

    node_id: int
    is_compaction_enabled: bool
    compaction_rounds: int
    is_compacting: bool
    compaction_began_at_ms: int | None
    compaction_took_ms: float | None
    cleaning: PartitionName | None
    retention_interval_ms: int
    retention_rounds: int
    is_deleting: bool
    retention_began_at_ms: int | None
    retention_took_ms: float | None
    uncleanable_count: int
    uncleanable: list[PartitionName]


@dataclass(frozen=True)
class BrokerCleaning:
    """What the broker does to keep its logs small; partitions are those that the user sees."""

    at_ms: int
    nodes: list[NodeCleaning]
    compactions: list[Compaction]
    """The last ones, the newest first."""
    partitions: list[CompactedPartition]
    """Those with a compacted log, the dirtiest first."""


async def cleaning(call: Call[None, None]) -> BrokerCleaning:
    """Rounds of compaction and retention, what was compacted, and what waits for it."""
    visible = await call.visible()
    report, _ = _report(call)
    nodes = []
    for node in report.nodes:
        cleaner, retention = node.cleaner, node.retention
        cleaned = cleaner.cleaning
        nodes.append(
            NodeCleaning(
                node_id=node.node_id,
                is_compaction_enabled=cleaner.is_enabled,
                compaction_rounds=cleaner.rounds,
                is_compacting=cleaner.is_at_work,
                compaction_began_at_ms=cleaner.last_began_at_ms,
                compaction_took_ms=cleaner.last_took_ms,
                cleaning=None
                if cleaned is None or not visible.sees_topic(cleaned.topic)
                else cleaned,
                retention_interval_ms=retention.interval_ms,
                retention_rounds=retention.rounds,
                is_deleting=retention.is_at_work,
                retention_began_at_ms=retention.last_began_at_ms,
                retention_took_ms=retention.last_took_ms,
                uncleanable_count=cleaner.uncleanable_count,
                uncleanable=_seen(visible, cleaner.uncleanable),
            )
        )
    compactions = [each for node in report.nodes for each in node.cleaner.compactions]
    partitions = [each for node in report.nodes for each in node.cleaner.partitions]
    return BrokerCleaning(
        at_ms=report.at_ms,
        nodes=nodes,
        compactions=_seen(visible, sorted(compactions, key=lambda each: -each.at_ms)),
        partitions=_seen(visible, sorted(partitions, key=lambda each: -each.dirty_ratio)),
    )


# Events


@dataclass(frozen=True)
class LogEvent:
    """An event of the broker's log; `id` is unlike those of all others, also after a start of the broker."""

    id: str
    event: BrokerEvent


@dataclass(frozen=True)
class LogState:
    """Whether the broker answers, and how many events were dropped before they were read."""

    problem: str | None
    missed_count: int


async def events(call: Call[None, None]) -> AsyncIterator[ServerEvent]:
    """The newest events of the broker's log, and then those that happen."""
    _check_sees_log(call, await call.visible())
    if not call.console.internals.is_offered:
        raise ApiError(HTTPStatus.NOT_IMPLEMENTED, NOT_OFFERED, HOW_TO_OFFER)
    return _events(call.console.events)


async def _events(feed: EventFeed) -> AsyncIterator[ServerEvent]:
    async with aclosing(feed.listen()) as told:
        async for each in told:
            if isinstance(each, FeedState):
                yield ServerEvent("state", LogState(each.problem, each.missed_count))
            else:
                yield ServerEvent("event", LogEvent(each.id, each.event))


# Metrics


@dataclass(frozen=True)
class MetricsQuery:
    """Which metrics, in which order."""

    q: str = ""
    """A part of a name, of a label or of the documentation."""
    sort: Literal["name", "value"] = "name"
    order: Literal["asc", "desc"] = "asc"
    offset: int = 0
    limit: int = 50


@dataclass(frozen=True)
class BrokerMetrics:
    """The metrics of the broker, as Prometheus gets them, without the buckets of histograms."""

    rows: list[MetricSample]
    total: int
    problems: list[str]


async def metrics(call: Call[MetricsQuery, None]) -> BrokerMetrics:
    """A page of the metrics that the broker has now."""
    query, internals = call.query, call.console.internals
    if query.offset < 0 or not 0 < query.limit <= MAX_LIMIT:
        raise bad_request(f"offset is 0 or more, and limit is 1 to {MAX_LIMIT}")
    _check_sees_log(call, await call.visible())
    if not internals.is_offered:
        raise ApiError(HTTPStatus.NOT_IMPLEMENTED, NOT_OFFERED, HOW_TO_OFFER)
    wanted = query.q.casefold()
    found = [
        each
        for each in await internals.metrics()
        if wanted in f"{each.name}{{{each.labels}}} {each.documentation}".casefold()
    ]
    found.sort(key=_SORT_KEYS[query.sort], reverse=query.order == "desc")
    return BrokerMetrics(found[query.offset : query.offset + query.limit], len(found), [])


def _number(sample: MetricSample) -> float:
    try:
        return float(sample.value)
    except ValueError:
        return 0.0


def _name(sample: MetricSample) -> tuple[str, str]:
    return sample.name, sample.labels


_SORT_KEYS: Final[Mapping[str, Callable[[MetricSample], Any]]] = {"name": _name, "value": _number}


ROUTES: Final[list[Route]] = [
    Route(
        "GET",
        "/api/broker/internals",
        summary,
        "Whether the broker tells its internals, and how it is",
    ),
    Route("GET", "/api/broker/requests", requests, "Requests by API: rates, errors, latencies"),
    Route("GET", "/api/broker/loop", loop, "How long the broker's loop served nobody"),
    Route("GET", "/api/broker/storage", storage, "The broker's logs on the disk"),
    Route("GET", "/api/broker/cleaning", cleaning, "Rounds of compaction and retention"),
    Route(
        "GET",
        "/api/broker/events",
        events,
        "The broker's log as it happens",
        events={"event": LogEvent, "state": LogState},
    ),
    Route("GET", "/api/broker/metrics", metrics, "The broker's metrics", query=MetricsQuery),
]
