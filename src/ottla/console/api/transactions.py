"""Transactional ids, what open transactions hold up, which hang, which have ended, and aborting them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from ottla.client.admin_model.transactions import (
    TransactionDescription,
    TransactionListing,
    TransactionState,
)
from ottla.client.aio.admin.client import Admin
from ottla.console.access.roles import Role
from ottla.console.access.visible import Visible
from ottla.console.cluster.snapshot import ClusterSnapshot, TransactionSnapshot
from ottla.console.cluster.snapshot_part import NOT_WHOLLY
from ottla.console.console import Console
from ottla.console.http.errors import bad_request, not_found
from ottla.console.http.routes import Call, Route
from ottla.console.transactions.abort import (
    AbortPlan,
    check_same_start,
    check_unchanged,
    fence_plan,
    marker_plan,
)
from ottla.console.transactions.coordinators import describe_existing
from ottla.console.transactions.ended import BUCKET_MS, EndedTransaction
from ottla.console.transactions.held import (
    GroupPosition,
    HeldPartition,
    held_groups,
    held_partition,
)
from ottla.console.transactions.history import TransactionHistory, read_history
from ottla.console.transactions.own_records import own_records
from ottla.console.transactions.watch import OpenOnPartitions, find_open, open_on
from ottla.errors import OttlaError
from ottla.inspection.transactions import OPEN_STATES, PartitionTransaction
from ottla.model import TopicPartition

MAX_LIMIT: Final = 500
# A transaction of more partitions is shown without what it holds up on the rest of them.
MAX_PARTITIONS: Final = 200
MAX_TOPICS: Final = 5
MINUTE_MS: Final = 60_000
_PHASES: Final = {
    "open": frozenset(OPEN_STATES),
    "committed": frozenset({TransactionState.COMPLETE_COMMIT}),
    "aborted": frozenset({TransactionState.COMPLETE_ABORT}),
    "empty": frozenset({TransactionState.EMPTY}),
}

# The list


@dataclass(frozen=True)
class TransactionsQuery:
    """Which transactional ids, and in which order; `age` sorts open ones first."""

    q: str = ""
    state: Literal["all", "open", "committed", "aborted", "empty"] = "all"
    topic: str = ""
    sort: Literal["age", "transactional_id", "state", "producer_id", "coordinator_id"] = "age"
    order: Literal["asc", "desc"] = "desc"
    offset: int = 0
    limit: int = 50


@dataclass(frozen=True)
class TransactionRow:
    """A transactional id. What is None is not known, or does not apply to an id without an open transaction."""

    transactional_id: str
    state: str
    is_open: bool
    coordinator_id: int | None
    producer_id: int
    producer_epoch: int | None
    started_at_ms: int | None
    timeout_ms: int | None
    partition_count: int | None
    topics: list[str]
    held_partition_count: int
    """The partitions whose last stable offset it holds up."""
    held_count: int | None
    """The offsets that readers of committed records do not see because of it; None if it is too young to tell."""
    waiting_groups: list[str]
    committed_count: int
    aborted_count: int
    ended_at_ms: int | None


@dataclass(frozen=True)
class JournalView:
    """How ended transactions are counted: see `JournalSource`."""

    source: str
    since_ms: int
    skipped_count: int
    problem: str | None


@dataclass(frozen=True)
class TransactionsPage:
    """A part of the transactional ids."""

    at_ms: int
    total: int
    counts: dict[str, int]
    """All ids by state."""
    rows: list[TransactionRow]
    journal: JournalView
    problems: list[str]


async def transactions(call: Call[TransactionsQuery, None]) -> TransactionsPage:
    """The transactional ids, open ones first."""
    query, console = call.query, call.console
    limit = _limit(query.offset, query.limit)
    visible = await call.visible()
    snapshot = visible.snapshot
    found = await console.transactional_ids.ids()
    # The snapshot may be newer or older than the list: an id is open if the snapshot says so.
    listings = {
        **{
            name: each
            for name, each in found.listings.items()
            if visible.sees_transactional_id(name)
        },
        **_listings_of(snapshot),
    }
    chosen = [each for each in listings.values() if _is_chosen(each, query, snapshot)]
    _sort(chosen, query, snapshot)
    page = chosen[query.offset : query.offset + limit]
    opened = {**snapshot.transactions, **await _begun_since(page, visible, console)}
    return TransactionsPage(
        at_ms=snapshot.at_ms,
        total=len(chosen),
        counts=dict(Counter(str(each.state) for each in listings.values())),
        rows=[_row(each, opened.get(each.transactional_id), visible, console) for each in page],
        journal=journal_view(console),
        problems=list(found.problems),
    )


async def _begun_since(
    page: list[TransactionListing], visible: Visible, console: Console
) -> dict[str, TransactionSnapshot]:
    """The open transactions of a page that the snapshot does not have yet."""
    known = visible.snapshot.transactions
    names = [
        each.transactional_id
        for each in page
        if each.state in OPEN_STATES and each.transactional_id not in known
    ]
    try:
        described = await describe_existing(console.clients.admin(), names)
    except OttlaError:
        return {}
    return {
        name: TransactionSnapshot(
            name,
            each.producer_id,
            each.state,
            each.coordinator_id,
            producer_epoch=each.producer_epoch,
            timeout_ms=each.transaction_timeout_ms,
            started_at_ms=each.transaction_start_time_ms,
            partitions=tuple(key for key in each.partitions if visible.sees_topic(key.topic)),
        )
        for name, each in described.items()
        if each.state in OPEN_STATES
    }


def _listings_of(snapshot: ClusterSnapshot) -> dict[str, TransactionListing]:
    return {
        name: TransactionListing(name, each.producer_id, each.state, each.coordinator_id)
        for name, each in snapshot.transactions.items()
    }


def _is_chosen(
    listing: TransactionListing, query: TransactionsQuery, snapshot: ClusterSnapshot
) -> bool:
    name = listing.transactional_id
    if query.state != "all" and listing.state not in _PHASES[query.state]:
        return False
    if query.topic and name not in snapshot.transactions_of_topic.get(query.topic, ()):
        return False
    return query.q.casefold() in name.casefold() or query.q == str(listing.producer_id)


def _sort(
    listings: list[TransactionListing], query: TransactionsQuery, snapshot: ClusterSnapshot
) -> None:
    is_descending = query.order == "desc"
    listings.sort(key=lambda each: each.transactional_id)
    match query.sort:
        case "transactional_id":
            listings.sort(key=lambda each: each.transactional_id, reverse=is_descending)
        case "state":
            listings.sort(key=lambda each: str(each.state), reverse=is_descending)
        case "producer_id":
            listings.sort(key=lambda each: each.producer_id, reverse=is_descending)
        case "coordinator_id":
            listings.sort(key=lambda each: each.coordinator_id or -1, reverse=is_descending)
        case "age":
            listings.sort(key=lambda each: _age_ms(each, snapshot), reverse=is_descending)


def _age_ms(listing: TransactionListing, snapshot: ClusterSnapshot) -> int:
    """How long its transaction has been open; -1 if none is."""
    if listing.state not in OPEN_STATES:
        return -1
    found = snapshot.transactions.get(listing.transactional_id)
    if found is None or found.started_at_ms is None:
        return 0
    return max(0, snapshot.at_ms - found.started_at_ms)


def _row(
    listing: TransactionListing,
    found: TransactionSnapshot | None,
    visible: Visible,
    console: Console,
) -> TransactionRow:
    name = listing.transactional_id
    counts = console.journal.ended.counts_of(name)
    ends = [] if counts is None else [counts.committed_at_ms, counts.aborted_at_ms]
    held = [] if found is None else _held_now(found, visible, console.open_transactions.latest)
    partitions = None if found is None else found.partitions
    return TransactionRow(
        transactional_id=name,
        state=str(listing.state),
        is_open=listing.state in OPEN_STATES,
        coordinator_id=listing.coordinator_id,
        producer_id=listing.producer_id,
        producer_epoch=None if found is None else found.producer_epoch,
        started_at_ms=None if found is None else found.started_at_ms,
        timeout_ms=None if found is None else found.timeout_ms,
        partition_count=None if partitions is None else len(partitions),
        topics=list(dict.fromkeys(topic for topic, _ in partitions or ()))[:MAX_TOPICS],
        held_partition_count=sum(each.is_held for each in held),
        held_count=sum(each.freed_count for each in held) if held else None,
        waiting_groups=_waiting(held),
        committed_count=0 if counts is None else counts.committed,
        aborted_count=0 if counts is None else counts.aborted,
        ended_at_ms=max((each for each in ends if each is not None), default=None),
    )


def _held_now(
    found: TransactionSnapshot, visible: Visible, opened: OpenOnPartitions
) -> list[HeldPartition]:
    """What is known in the background of the partitions of a transaction."""
    return [
        _held(visible, each, found.producer_id, opened)
        for each in found.partitions or ()
        if each in opened.by_partition
    ]


def _waiting(held: list[HeldPartition]) -> list[str]:
    return sorted(
        {
            group.group_id
            for each in held
            if each.is_held
            for group in each.groups
            if group.position is GroupPosition.WAITING
        }
    )


def journal_view(console: Console) -> JournalView:
    """How ended transactions are counted now."""
    state = console.journal.state
    return JournalView(str(state.source), state.since_ms, state.skipped_count, state.problem)


def _limit(offset: int, limit: int) -> int:
    if offset < 0 or not 0 < limit <= MAX_LIMIT:
        raise bad_request(f"offset is 0 or more, and limit is 1 to {MAX_LIMIT}")
    return limit


# All that is open together


@dataclass(frozen=True)
class OpenSummary:
    """All open transactions together, and what ended in the last minute."""

    at_ms: int
    open_count: int
    oldest_started_at_ms: int | None
    held_partition_count: int
    """The partitions whose last stable offset is behind their end."""
    held_count: int
    """The offsets that readers of committed records do not see now."""
    waiting_groups: list[str]
    """Groups that have read up to a last stable offset that stands."""
    hanging_count: int
    committed_last_minute: int
    aborted_last_minute: int
    journal: JournalView


async def summary(call: Call[None, None]) -> OpenSummary:
    """What is open, what that holds up, and what has just ended."""
    visible, console = await call.visible(), call.console
    snapshot, opened = visible.snapshot, console.open_transactions.latest
    begun = [
        each.started_at_ms
        for each in snapshot.transactions.values()
        if each.state in OPEN_STATES and each.started_at_ms is not None
    ]
    standing = [
        place
        for topic in snapshot.topics.values()
        if topic.unstable_count
        for place in topic.partitions
        if place.unstable_count
    ]
    waiting = {
        group.group_id
        for place in standing
        if (key := TopicPartition(place.topic, place.partition)) in opened.by_partition
        for group in held_groups(snapshot, key, place.last_stable_offset or 0)
        if group.position is GroupPosition.WAITING
    }
    sees = None if visible.is_everything else visible.sees_transactional_id
    minute = console.journal.ended.rates(snapshot.at_ms - MINUTE_MS, snapshot.at_ms, sees)
    return OpenSummary(
        at_ms=snapshot.at_ms,
        open_count=len(snapshot.transactions),
        oldest_started_at_ms=min(begun, default=None),
        held_partition_count=len(standing),
        held_count=sum(place.unstable_count for place in standing),
        waiting_groups=sorted(waiting)[:MAX_LIMIT],
        hanging_count=len(_hanging_seen(console, visible)),
        committed_last_minute=sum(each.committed for each in minute),
        aborted_last_minute=sum(each.aborted for each in minute),
        journal=journal_view(console),
    )


# What has ended


@dataclass(frozen=True)
class EndedQuery:
    """Which of the transactions that have ended."""

    q: str = ""
    outcome: Literal["all", "committed", "aborted"] = "all"
    offset: int = 0
    limit: int = 50


@dataclass(frozen=True)
class EndedRow:
    """A transaction that has ended."""

    transactional_id: str
    outcome: str
    has_timed_out: bool
    producer_id: int
    producer_epoch: int
    started_at_ms: int | None
    ended_at_ms: int
    duration_ms: int | None
    partition_count: int | None
    topics: list[str]


@dataclass(frozen=True)
class EndRates:
    """How many transactions ended in each stretch of time."""

    bucket_ms: int
    at_ms: list[int]
    committed: list[int]
    aborted: list[int]


@dataclass(frozen=True)
class EndedPage:
    """The newest transactions that have ended, and how many since the console watches."""

    at_ms: int
    total: int
    committed_count: int
    aborted_count: int
    rows: list[EndedRow]
    rates: EndRates
    journal: JournalView


async def ended(call: Call[EndedQuery, None]) -> EndedPage:
    """The newest transactions that were committed or aborted."""
    query, journal = call.query, call.console.journal
    limit = _limit(query.offset, query.limit)
    visible = await call.visible()
    now_ms = visible.snapshot.at_ms
    sees = None if visible.is_everything else visible.sees_transactional_id
    chosen = [
        each
        for each in journal.ended.newest(sees)
        if query.outcome in ("all", each.outcome)
        and query.q.casefold() in each.transactional_id.casefold()
    ]
    committed_count, aborted_count = journal.ended.totals(sees)
    rates = journal.ended.rates(journal.state.since_ms, now_ms, sees)
    return EndedPage(
        at_ms=now_ms,
        total=len(chosen),
        committed_count=committed_count,
        aborted_count=aborted_count,
        rows=[_ended_row(each, visible) for each in chosen[query.offset : query.offset + limit]],
        rates=EndRates(
            bucket_ms=BUCKET_MS,
            at_ms=[each.at_ms for each in rates],
            committed=[each.committed for each in rates],
            aborted=[each.aborted for each in rates],
        ),
        journal=journal_view(call.console),
    )


def _ended_row(each: EndedTransaction, visible: Visible) -> EndedRow:
    partitions = each.partitions
    if partitions is not None:
        partitions = tuple(key for key in partitions if visible.sees_topic(key[0]))
    return EndedRow(
        transactional_id=each.transactional_id,
        outcome=str(each.outcome),
        has_timed_out=each.has_timed_out,
        producer_id=each.producer_id,
        producer_epoch=each.producer_epoch,
        started_at_ms=each.started_at_ms,
        ended_at_ms=each.ended_at_ms,
        duration_ms=each.duration_ms,
        partition_count=None if partitions is None else len(partitions),
        topics=list(dict.fromkeys(topic for topic, _ in partitions or ()))[:MAX_TOPICS],
    )


# What hangs


@dataclass(frozen=True)
class HangingRow:
    """A transaction that is open on a partition, and that no coordinator will end."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int | None
    transactional_id: str | None
    """The id that has this producer id now; its coordinator does not have the partition in a transaction."""
    standing_since_ms: int | None
    last_written_at_ms: int | None
    """When its producer wrote there last, by the producer's clock."""
    held: HeldPartition


@dataclass(frozen=True)
class HangingPage:
    """All that hang, as far as they were looked for."""

    checked_at_ms: int
    """0 if no last stable offset has stood still for long enough to look."""
    standing_count: int
    """The partitions whose last stable offset is behind their end now."""
    left_out_count: int
    rows: list[HangingRow]
    problems: list[str]


async def hanging(call: Call[None, None]) -> HangingPage:
    """The transactions that no coordinator will end."""
    visible = await call.visible()
    watch = call.console.open_transactions
    opened = watch.latest
    rows = []
    for each in _hanging_seen(call.console, visible):
        producer = each.producer
        standing = watch.standing.get(each.partition)
        name = opened.names.get(producer.producer_id)
        rows.append(
            HangingRow(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                coordinator_epoch=producer.coordinator_epoch,
                transactional_id=name if name and visible.sees_transactional_id(name) else None,
                standing_since_ms=None if standing is None else standing.since_ms,
                last_written_at_ms=None
                if producer.last_timestamp_ms < 0
                else producer.last_timestamp_ms,
                held=_held(visible, each.partition, producer.producer_id, opened),
            )
        )
    return HangingPage(
        checked_at_ms=opened.at_ms,
        standing_count=sum(visible.sees_topic(each.topic) for each in watch.standing),
        left_out_count=opened.left_out_count,
        rows=rows,
        problems=_problems_seen(opened, visible),
    )


def _problems_seen(opened: OpenOnPartitions, visible: Visible) -> list[str]:
    """What the console could not find out; errors name partitions, which not everybody may see."""
    if visible.is_everything or not opened.problems:
        return list(opened.problems)
    return [NOT_WHOLLY]


def _hanging_seen(console: Console, visible: Visible) -> list[PartitionTransaction]:
    hanging = console.open_transactions.latest.hanging
    return [each for each in hanging if visible.sees_topic(each.partition.topic)]


def _held(
    visible: Visible, partition: TopicPartition, producer_id: int, opened: OpenOnPartitions
) -> HeldPartition:
    """What a transaction holds up on a partition, with the others that are open there."""
    there = opened.by_partition.get(partition, ())
    found = {
        each.producer.producer_id: opened.names.get(each.producer.producer_id) for each in there
    }
    names = {
        each: name for each, name in found.items() if name and visible.sees_transactional_id(name)
    }
    hanging = {each.producer.producer_id for each in opened.hanging if each.partition == partition}
    return held_partition(
        visible.snapshot, partition, producer_id, there, names=names, hanging_ids=hanging
    )


# One id


@dataclass(frozen=True)
class IdQuery:
    """A transactional id; in the query, because it may have any characters."""

    id: str


@dataclass(frozen=True)
class TransactionDetail:
    """What the coordinator knows of an id, and what its open transaction holds up."""

    at_ms: int
    transactional_id: str
    state: str
    is_open: bool
    coordinator_id: int
    producer_id: int
    producer_epoch: int
    started_at_ms: int | None
    timeout_ms: int
    partition_count: int
    partitions: list[HeldPartition]
    committed_count: int
    aborted_count: int
    ended: list[EndedRow]
    journal: JournalView
    problems: list[str]


async def transaction(call: Call[IdQuery, None]) -> TransactionDetail:
    """One transactional id."""
    name = call.query.id
    visible = await call.visible()
    admin = call.identity.clients.admin()
    description = await _describe(admin, name)
    partitions, problems = await _held_partitions(call, visible, description)
    journal = call.console.journal
    counts = journal.ended.counts_of(name)
    mine = journal.ended.newest(lambda each: each == name)
    return TransactionDetail(
        at_ms=visible.snapshot.at_ms,
        transactional_id=name,
        state=str(description.state),
        is_open=description.state in OPEN_STATES,
        coordinator_id=description.coordinator_id,
        producer_id=description.producer_id,
        producer_epoch=description.producer_epoch,
        started_at_ms=description.transaction_start_time_ms,
        timeout_ms=description.transaction_timeout_ms,
        partition_count=len(description.partitions),
        partitions=partitions,
        committed_count=0 if counts is None else counts.committed,
        aborted_count=0 if counts is None else counts.aborted,
        ended=[_ended_row(each, visible) for each in mine[:MAX_LIMIT]],
        journal=journal_view(call.console),
        problems=problems,
    )


async def _describe(admin: Admin, name: str) -> TransactionDescription:
    found = (await describe_existing(admin, [name])).get(name)
    if found is None:
        raise not_found(
            f"no coordinator knows the transactional id {name!r}",
            "ids that are not used expire (transactional.id.expiration.ms)",
        )
    return found


async def _held_partitions(
    call: Call[Any, Any], visible: Visible, description: TransactionDescription
) -> tuple[list[HeldPartition], list[str]]:
    if description.state not in OPEN_STATES:
        return [], []
    some = description.partitions[:MAX_PARTITIONS]
    away = {each for each in some if _is_away(each, visible.snapshot)}
    opened = await _open_on(call, [each for each in some if each not in away])
    problems = [*opened.problems]
    if away:
        first, *others = sorted(away)
        more = f" and {len(others)} more have" if others else " has"
        problems.append(f"{first}{more} no leader: what the transaction wrote there is not known")
    if len(some) < len(description.partitions):
        problems.append(f"only the first {MAX_PARTITIONS} partitions are shown")
    held = [_held(visible, each, description.producer_id, opened) for each in some]
    return sorted(held, key=lambda each: (not each.is_held, each.topic, each.partition)), problems


def _is_away(key: TopicPartition, snapshot: ClusterSnapshot) -> bool:
    place = snapshot.partition(*key)
    return place is not None and place.leader_id is None


async def _open_on(call: Call[Any, Any], partitions: Sequence[TopicPartition]) -> OpenOnPartitions:
    """What is open on partitions whose producers the user may see.

    Whether it hangs, the console's own connection finds out: to a user who may not describe a transactional id,
    coordinators do not tell it, and its transaction would seem to hang.
    """
    allowed, problems = await open_on(call.identity.clients.admin(), partitions)
    seen = {each.partition for each in allowed}
    found = await find_open(call.console.clients.admin(), sorted(seen))
    return replace(found, problems=(*problems, *found.problems))


async def history(call: Call[IdQuery, None]) -> TransactionHistory:
    """The changes of an id in `__transaction_state`, read by the user's own connection."""
    visible = await call.visible()
    return await read_history(call.identity.clients, visible.snapshot, call.query.id)


# Abort


@dataclass(frozen=True)
class AbortBody:
    """Which transaction to abort; without `preview`, producer and start have to be those of the preview."""

    transactional_id: str
    preview: bool = True
    producer_id: int | None = None
    producer_epoch: int | None = None
    started_at_ms: int | None = None


@dataclass(frozen=True)
class AbortHangingBody:
    """Which hanging transaction to abort."""

    topic: str
    partition: int
    start_offset: int
    preview: bool = True
    producer_id: int | None = None
    producer_epoch: int | None = None


@dataclass(frozen=True)
class AbortAnswer:
    """The plan; and what was done, if it was not a preview."""

    plan: AbortPlan
    done: str | None = None


async def abort(call: Call[None, AbortBody]) -> AbortAnswer:
    """Fence the producer of an id, which aborts its open transaction."""
    body, console = call.body, call.console
    name = body.transactional_id
    admin = call.identity.clients.admin()
    description = await _describe(admin, name)
    held, problems = await _held_partitions(call, await call.visible(), description)
    lost = await own_records(call.identity.clients, description.producer_id, held)
    # A partition that is not known may have records of it, too.
    lost.is_whole = lost.is_whole and not problems
    plan = fence_plan(name, description, tuple(held), lost)
    if body.preview:
        return AbortAnswer(plan)
    check_unchanged(plan, body.producer_id, body.producer_epoch)
    check_same_start(plan, body.started_at_ms)
    fenced = (await admin.fence_producers([name]))[name]
    _look_again(console)
    return AbortAnswer(
        plan,
        f"the transaction of {name} is aborted: producer id {fenced.producer_id} goes on with epoch "
        f"{fenced.producer_epoch}",
    )


async def abort_hanging(call: Call[None, AbortHangingBody]) -> AbortAnswer:
    """Write an abort marker for a transaction that no coordinator will end."""
    body, console = call.body, call.console
    admin = call.identity.clients.admin()
    partition = TopicPartition(body.topic, body.partition)
    # What does not exist, or may not be seen, is an error here.
    await admin.describe_producers([partition])
    visible = await call.visible()
    opened = await _open_on(call, [partition])
    each = _hanging_at(opened, partition, body.start_offset, visible)
    producer_id = each.producer.producer_id
    held = _held(visible, partition, producer_id, opened)
    lost = await own_records(call.identity.clients, producer_id, [held])
    plan = marker_plan(each, held, lost)
    if body.preview:
        return AbortAnswer(plan)
    check_unchanged(plan, body.producer_id, body.producer_epoch)
    await admin.abort_transaction(each.abort_spec)
    _look_again(console)
    return AbortAnswer(
        plan,
        f"the transaction on {partition} is aborted: producer id {plan.producer_id}, epoch {plan.producer_epoch}",
    )


def _hanging_at(
    opened: OpenOnPartitions, partition: TopicPartition, start_offset: int, visible: Visible
) -> PartitionTransaction:
    for each in opened.hanging:
        if each.start_offset == start_offset:
            return each
    for each in opened.by_partition.get(partition, ()):
        if each.start_offset == start_offset:
            name = opened.names.get(each.producer.producer_id)
            if name is None and opened.problems:
                raise bad_request(opened.problems[0], "nothing was done")
            is_named = name is not None and visible.sees_transactional_id(name)
            raise bad_request(
                f"the transaction at offset {start_offset} of {partition} does not hang: "
                + (
                    f"the coordinator of {name} will end it"
                    if is_named
                    else "a coordinator will end it"
                ),
                "abort it by its transactional id",
            )
    if opened.problems:
        raise bad_request(opened.problems[0], "nothing was done")
    raise not_found(
        f"no transaction that starts at offset {start_offset} is open on {partition}",
        "it has ended: nothing was done",
    )


def _look_again(console: Console) -> None:
    console.transactional_ids.forget()
    console.open_transactions.search_soon()
    console.poller.poll_soon()


ROUTES: Final = [
    Route(
        "GET",
        "/api/transactions",
        transactions,
        "Transactional ids, open ones first",
        query=TransactionsQuery,
    ),
    Route("GET", "/api/transactions/summary", summary, "What open transactions hold up together"),
    Route(
        "GET",
        "/api/transactions/ended",
        ended,
        "Transactions that were committed or aborted, and how many over time",
        query=EndedQuery,
    ),
    Route("GET", "/api/transactions/hanging", hanging, "Transactions that no coordinator will end"),
    Route(
        "POST",
        "/api/transactions/hanging/abort",
        abort_hanging,
        "Abort a hanging transaction on its partition",
        body=AbortHangingBody,
        role=Role.OPERATOR,
        is_preview=lambda call: call.body.preview,
    ),
    Route("GET", "/api/transaction", transaction, "One transactional id", query=IdQuery),
    Route(
        "GET",
        "/api/transaction/history",
        history,
        "The state changes of a transactional id",
        query=IdQuery,
    ),
    Route(
        "POST",
        "/api/transaction/abort",
        abort,
        "Abort the open transaction of an id by fencing its producer",
        body=AbortBody,
        role=Role.OPERATOR,
        is_preview=lambda call: call.body.preview,
    ),
]
