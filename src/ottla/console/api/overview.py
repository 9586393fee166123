"""The overview: throughput, latency, errors, lag, brokers, and what needs attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import Final, Literal

from ottla.console.access.visible import Visible
from ottla.console.apps.letter_counts import LetterCounts
from ottla.console.apps.letter_topics import letter_topic_of
from ottla.console.attention.rules import all_worries, holds_markers
from ottla.console.attention.worries import AttentionFacts, Severity, Worry, ranked
from ottla.console.cluster.history import LONG_MS, RECENT_MS, thinned
from ottla.console.cluster.snapshot import BrokerSnapshot, Part
from ottla.console.console import Console
from ottla.console.groups.standing import WITHOUT_MEMBERS
from ottla.console.http.routes import Call, Route
from ottla.console.transactions.watch import OpenOnPartitions

MAX_BROKERS: Final = 200
MAX_BUSIEST: Final = 5
# More than a chart has room for make the answer long: each browser asks for it after each poll.
MAX_POINTS: Final = 180
_SPANS_MS: Final = {"recent": RECENT_MS, "long": LONG_MS}
# The last letters of names of dead-letter topics: a look at all names of a large cluster takes time.
_DEAD_LETTER_ENDS: Final = ("dlt", "dlq")


@dataclass(frozen=True)
class LogDirRow:
    """A log directory; `error` says why the broker does not use it."""

    path: str
    error: str | None
    total_bytes: int | None
    usable_bytes: int | None
    replicas_bytes: int


@dataclass(frozen=True)
class BrokerRow:
    """A broker; `log_dirs` is None if the cluster does not tell them."""

    id: int
    host: str
    port: int
    rack: str | None
    is_controller: bool
    leader_count: int
    replica_count: int
    log_dirs: list[LogDirRow] | None


@dataclass(frozen=True)
class OverviewTotals:
    """Sums over what the user may see; None where a part is not known."""

    topic_count: int
    partition_count: int
    record_count: int | None
    size_bytes: int | None
    """Of all replicas on all brokers, whoever may see them."""
    group_count: int
    active_group_count: int
    """Those with members."""
    open_transaction_count: int | None
    records_per_second: float | None
    bytes_per_second: float | None
    consumed_per_second: float | None
    lag: int | None
    unstable_count: int
    """The offsets that readers of committed records do not see yet."""
    offline_count: int
    under_replicated_count: int
    below_min_in_sync_count: int


@dataclass(frozen=True)
class BrokerNow:
    """What only Ottla's broker tells, since its last report: how many requests, how fast, how many errors."""

    requests_per_second: float
    errors_per_second: float
    received_bytes_per_second: float
    sent_bytes_per_second: float
    median_ms: float | None
    p99_ms: float | None
    connections: int
    held_ms: float
    """The worst time of late that the broker's loop served nobody."""
    version: str
    started_at_ms: int


@dataclass(frozen=True)
class Internals:
    """Whether the broker tells its internals, and what it told last."""

    is_offered: bool
    problem: str | None
    now: BrokerNow | None


@dataclass(frozen=True)
class BusyTopic:
    """A topic that is written to."""

    name: str
    records_per_second: float
    bytes_per_second: float | None


@dataclass(frozen=True)
class LateGroup:
    """A group with a lag."""

    group_id: str
    state: str | None
    lag: int
    records_per_second: float | None


@dataclass(frozen=True)
class PartState:
    """When a part of the cluster was told last; None if it never was."""

    part: str
    told_at_ms: int | None
    problem: str | None
    since_ms: int | None


@dataclass(frozen=True)
class Overview:
    """The cluster as it is now."""

    at_ms: int
    version: int
    cluster_id: str | None
    controller_id: int | None
    is_whole: bool
    """Whether the user may see everything; sums are of what it may see."""
    totals: OverviewTotals
    brokers: list[BrokerRow]
    broker_count: int
    attention: list[Worry]
    """What needs attention, the worst first."""
    attention_counts: dict[str, int]
    """By severity."""
    busiest_topics: list[BusyTopic]
    latest_groups: list[LateGroup]
    """Those that are furthest behind."""
    internals: Internals
    parts: list[PartState]


async def overview(call: Call[None, None]) -> Overview:
    """Totals, brokers, and what needs attention."""
    visible = await call.visible()
    snapshot, console = visible.snapshot, call.console
    worries = all_worries(_facts(call, visible))
    problems = {each.part: each for each in snapshot.part_problems}
    parts = [part for part in Part if part in problems or part in snapshot.told_at_ms]
    brokers = list(snapshot.brokers.values())
    return Overview(
        at_ms=snapshot.at_ms,
        version=snapshot.version,
        cluster_id=snapshot.cluster_id,
        controller_id=snapshot.controller_id,
        is_whole=visible.is_everything,
        totals=_totals(visible),
        brokers=[_broker(each) for each in brokers[:MAX_BROKERS]],
        broker_count=len(brokers),
        attention=ranked(worries),
        attention_counts={
            str(each): sum(worry.severity is each for worry in worries) for each in Severity
        },
        busiest_topics=_busiest(visible),
        latest_groups=_latest(visible),
        internals=_internals(console),
        parts=[
            PartState(
                str(part),
                snapshot.told_at_ms.get(part),
                problems[part].message if part in problems else None,
                problems[part].since_ms if part in problems else None,
            )
            for part in parts
        ],
    )


def _totals(visible: Visible) -> OverviewTotals:
    snapshot = visible.snapshot
    totals = snapshot.totals
    return OverviewTotals(
        topic_count=totals.topic_count,
        partition_count=totals.partition_count,
        record_count=totals.record_count,
        size_bytes=totals.size_bytes,
        group_count=len(snapshot.groups),
        active_group_count=sum(
            group.state is not None and group.state not in WITHOUT_MEMBERS
            for group in snapshot.groups.values()
        ),
        open_transaction_count=len(snapshot.transactions)
        if Part.OPEN_TRANSACTIONS in snapshot.told_at_ms
        else None,
        records_per_second=totals.records_per_second,
        bytes_per_second=totals.bytes_per_second,
        consumed_per_second=totals.consumed_per_second,
        lag=totals.lag,
        unstable_count=totals.unstable_count,
        offline_count=totals.offline_count,
        under_replicated_count=totals.under_replicated_count,
        below_min_in_sync_count=totals.below_min_in_sync_count,
    )


def _broker(broker: BrokerSnapshot) -> BrokerRow:
    log_dirs = broker.log_dirs
    return BrokerRow(
        id=broker.id,
        host=broker.host,
        port=broker.port,
        rack=broker.rack,
        is_controller=broker.is_controller,
        leader_count=broker.leader_count,
        replica_count=broker.replica_count,
        log_dirs=None if log_dirs is None else [LogDirRow(*each) for each in log_dirs],
    )


def _busiest(visible: Visible) -> list[BusyTopic]:
    written = [each for each in visible.snapshot.topics.values() if each.records_per_second]
    return [
        BusyTopic(each.name, each.records_per_second or 0, each.bytes_per_second)
        for each in nlargest(MAX_BUSIEST, written, key=lambda each: each.records_per_second or 0)
    ]


def _latest(visible: Visible) -> list[LateGroup]:
    behind = [
        each for each in visible.snapshot.groups.values() if each.lag and not holds_markers(each)
    ]
    return [
        LateGroup(
            each.group_id,
            None if each.state is None else str(each.state),
            each.lag or 0,
            each.records_per_second,
        )
        for each in nlargest(MAX_BUSIEST, behind, key=lambda each: each.lag or 0)
    ]


def _internals(console: Console) -> Internals:
    told = console.internals.latest
    now = None
    if told is not None and told.rates is not None:
        rates = told.rates
        now = BrokerNow(
            requests_per_second=rates.requests_per_second,
            errors_per_second=rates.errors_per_second,
            received_bytes_per_second=rates.received_bytes_per_second,
            sent_bytes_per_second=rates.sent_bytes_per_second,
            median_ms=rates.median_ms,
            p99_ms=rates.p99_ms,
            connections=rates.connections,
            held_ms=rates.held_ms,
            version=told.report.version,
            started_at_ms=told.report.started_at_ms,
        )
    return Internals(console.internals.is_offered, console.internals.problem, now)


# What needs attention


def _facts(call: Call[None, None], visible: Visible) -> AttentionFacts:
    console, snapshot = call.console, visible.snapshot
    return AttentionFacts(
        snapshot=snapshot,
        standing_offsets=console.open_transactions.standing,
        opened=_opened(console.open_transactions.latest, visible),
        standing_groups=console.group_watch.standing,
        read_topics=console.group_watch.read_topics,
        lag_of=lambda group_id: _lag_of(group_id, visible, console),
        rebalanced_since=lambda group_id, since_ms: _rebalanced_since(group_id, since_ms, console),
        letters=_letters(call, visible),
        internals_problem=console.internals.problem if visible.is_everything else None,
    )


def _opened(opened: OpenOnPartitions, visible: Visible) -> OpenOnPartitions:
    """What is open on partitions that the user may see."""
    if visible.is_everything:
        return opened
    return OpenOnPartitions(
        opened.at_ms,
        {key: each for key, each in opened.by_partition.items() if visible.sees_topic(key.topic)},
        tuple(each for each in opened.hanging if visible.sees_topic(each.partition.topic)),
    )


def _lag_of(group_id: str, visible: Visible, console: Console) -> Sequence[float | None]:
    # The history is of all topics: a group of which the user sees a part has another lag.
    if visible.snapshot.groups.get(group_id) is not visible.whole.groups.get(group_id):
        return ()
    return console.history.group(group_id, RECENT_MS).values["lag"]


def _rebalanced_since(group_id: str, since_ms: int, console: Console) -> Sequence[int]:
    timeline = console.rebalances.timelines.of(group_id)
    return () if timeline is None else timeline.rebalanced_since(since_ms)


def _letters(call: Call[None, None], visible: Visible) -> dict[str, LetterCounts]:
    snapshot = visible.snapshot
    names = [
        name
        for name in snapshot.topics
        if name[-3:].lower() in _DEAD_LETTER_ENDS and _is_dead_letters(name, snapshot.topics)
    ]
    return dict(call.console.letter_tally.glance(call.identity.clients, snapshot, names))


def _is_dead_letters(name: str, topics: Mapping[str, object]) -> bool:
    found = letter_topic_of(name, topics)
    return found is not None and found.is_dead_letters


# Over time


@dataclass(frozen=True)
class SpanQuery:
    """How far back: the last 15 minutes, or 6 hours."""

    span: Literal["recent", "long"] = "recent"


@dataclass(frozen=True)
class OverviewHistory:
    """Values over time, each as long as the times; None where nothing is known."""

    span_ms: int
    is_whole: bool
    """Whether it is of all topics and groups; otherwise of those that the user may see."""
    times_ms: list[int]
    values: dict[str, list[float | None]]


async def history(call: Call[SpanQuery, None]) -> OverviewHistory:
    """Throughput, lag, latency and errors over time, as far as they are known."""
    visible = await call.visible()
    span_ms = _SPANS_MS[call.query.span]
    known = call.console.history
    if visible.is_everything:
        series = known.totals(span_ms)
    else:
        snapshot = visible.snapshot
        groups = [
            name
            for name, group in snapshot.groups.items()
            if visible.whole.groups.get(name) is group
        ]
        series = known.sums(snapshot.topics, groups, span_ms)
    series = thinned(series, MAX_POINTS)
    return OverviewHistory(span_ms, visible.is_everything, series.times_ms, series.values)


ROUTES: Final = [
    Route("GET", "/api/overview", overview, "The cluster now, and what needs attention"),
    Route(
        "GET",
        "/api/overview/history",
        history,
        "The cluster over time",
        query=SpanQuery,
    ),
]
