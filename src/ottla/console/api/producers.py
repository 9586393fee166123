"""The producers that partitions remember, and the last batches of a partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ottla.client.aio.admin.client import Admin
from ottla.client.aio.consumer.log_batches import LogBatches
from ottla.console.cluster.snapshot import ClusterSnapshot, PartitionSnapshot
from ottla.console.http.errors import bad_request, not_found
from ottla.console.http.routes import Call, Route
from ottla.console.producers.last_batches import BatchRow, batch_rows, read_last_batches
from ottla.console.producers.states import ProducerRow, matches, producer_rows
from ottla.console.transactions.coordinators import ASK_SECONDS, names_of_producers
from ottla.errors import OttlaError, PartialFailureError
from ottla.inspection.transactions import PartitionTransaction
from ottla.model import TopicPartition

MAX_PARTITIONS: Final = 100
# With a filter for producers, partitions are asked until so many were looked at.
MAX_SEARCHED: Final = 2000
ASKED_AT_ONCE: Final = 500
MAX_PRODUCERS: Final = 500
MAX_BATCHES: Final = 100


@dataclass(frozen=True)
class ProducersQuery:
    """Which partitions, and which of their producers."""

    topic: str = ""
    """All partitions of one topic."""
    partition: int | None = None
    q: str = ""
    """A part of a topic's name, if no topic is given."""
    producer: str = ""
    """A producer id, or a part of a transactional id."""
    state: Literal["all", "open", "active", "idle", "expired"] = "all"
    internal: bool = False
    """Whether internal topics are listed, too."""
    offset: int = 0
    limit: int = 20
    """The partitions of a page."""


@dataclass(frozen=True)
class PartitionProducers:
    """A partition with the producers that it remembers."""

    topic: str
    partition: int
    leader_id: int | None
    start_offset: int | None
    end_offset: int | None
    last_stable_offset: int | None
    unseen_count: int
    producer_count: int
    """All that match; `producers` has the first of them."""
    producers: list[ProducerRow]
    problem: str | None


@dataclass(frozen=True)
class ProducersPage:
    """Some partitions with their producers."""

    at_ms: int
    total: int
    """The partitions to choose from."""
    next_offset: int | None
    """Where to go on; None if all partitions were asked."""
    partitions: list[PartitionProducers]
    expiration_ms: int
    is_expiration_known: bool
    problems: list[str]


async def producers(call: Call[ProducersQuery, None]) -> ProducersPage:
    """The producers of some partitions; only these are asked."""
    query, console = call.query, call.console
    if query.offset < 0 or not 0 < query.limit <= MAX_PARTITIONS:
        raise bad_request(f"offset is 0 or more, and limit is 1 to {MAX_PARTITIONS}")
    snapshot = (await call.visible()).snapshot
    admin = call.identity.clients.admin()
    places = _places(snapshot, query)
    expiration = await console.producer_expiration.time(admin, min(snapshot.brokers, default=0))
    hanging = console.open_transactions.latest.hanging
    search = _Search(query, snapshot.at_ms, expiration.ms, hanging)
    await search.run(admin, places[query.offset :])
    next_offset = query.offset + search.searched_count
    return ProducersPage(
        at_ms=snapshot.at_ms,
        total=len(places),
        next_offset=next_offset if next_offset < len(places) else None,
        partitions=search.found,
        expiration_ms=expiration.ms,
        is_expiration_known=expiration.is_known,
        problems=search.problems,
    )


def _places(snapshot: ClusterSnapshot, query: ProducersQuery) -> list[PartitionSnapshot]:
    """The partitions to choose from: those whose last stable offset is held up first."""
    if query.topic:
        topic = snapshot.topics.get(query.topic)
        if topic is None:
            raise not_found(f"there is no topic {query.topic!r}")
        if query.partition is None:
            return list(topic.partitions)
        place = snapshot.partition(query.topic, query.partition)
        if place is None:
            raise not_found(f"{query.topic!r} has no partition {query.partition}")
        return [place]
    if query.partition is not None:
        raise bad_request("a partition needs its topic")
    part = query.q.casefold()
    every = [
        place
        for topic in snapshot.topics.values()
        if part in topic.name.casefold() and (query.internal or not topic.is_internal)
        for place in topic.partitions
    ]
    return sorted(every, key=lambda place: not place.unstable_count)


class _Search:
    """Asks partitions for their producers until a page is full."""

    def __init__(
        self,
        query: ProducersQuery,
        now_ms: int,
        expiration_ms: int,
        hanging: Sequence[PartitionTransaction],
    ) -> None:
        self._query = query
        self._now_ms = now_ms
        self._expiration_ms = expiration_ms
        self._hanging = hanging
        self._is_filtered = bool(query.producer) or query.state != "all"
        self.found: list[PartitionProducers] = []
        self.searched_count = 0
        self.problems: list[str] = []

    async def run(self, admin: Admin, places: Sequence[PartitionSnapshot]) -> None:
        """Ask no more partitions than needed: those of the page, or with a filter MAX_SEARCHED at most."""
        most = MAX_SEARCHED if self._is_filtered else self._query.limit
        for start in range(0, min(most, len(places)), ASKED_AT_ONCE):
            some = places[start : min(start + ASKED_AT_ONCE, most)]
            answers = await _ask(admin, some, self.problems)
            for place in some:
                self._add(place, answers)
                self.searched_count += 1
                if len(self.found) == self._query.limit:
                    return

    def _add(self, place: PartitionSnapshot, answers: _Answers) -> None:
        key = TopicPartition(place.topic, place.partition)
        rows = producer_rows(
            answers.states.get(key, ()),
            names=answers.names,
            hanging_ids={each.producer.producer_id for each in self._hanging if each[0] == key},
            now_ms=self._now_ms,
            expiration_ms=self._expiration_ms,
        )
        chosen = [
            row
            for row in rows
            if matches(row, self._query.producer) and self._query.state in ("all", row.activity)
        ]
        if chosen or not self._is_filtered:
            self.found.append(_partition(place, chosen, answers.errors.get(key)))


@dataclass(frozen=True)
class _Answers:
    states: Mapping[TopicPartition, Any]
    errors: Mapping[TopicPartition, str]
    names: Mapping[int, str]


async def _ask(admin: Admin, places: Sequence[PartitionSnapshot], problems: list[str]) -> _Answers:
    """The producers of partitions, and their transactional ids."""
    keys = [
        TopicPartition(each.topic, each.partition) for each in places if each.leader_id is not None
    ]
    states: Mapping[Any, Any] = {}
    errors = {
        TopicPartition(each.topic, each.partition): "the partition has no leader"
        for each in places
        if each.leader_id is None
    }
    try:
        states = await admin.describe_producers(keys, timeout=ASK_SECONDS) if keys else {}
    except PartialFailureError as error:
        states = error.results
        errors |= {key: str(cause) for key, cause in error.errors.items()}
    except OttlaError as error:
        if len(keys) > 1:
            problems.append(f"this cluster does not tell producers: {error}")
        errors |= dict.fromkeys(keys, str(error))
    names: Mapping[int, str] = {}
    try:
        ids = {each.producer_id for some in states.values() for each in some}
        names = await names_of_producers(admin, ids)
    except PartialFailureError as error:
        names = {each.producer_id: name for name, each in error.results.items()}
        problems.append("some coordinators do not answer: transactional ids may be missing")
    except OttlaError as error:
        problems.append(f"transactional ids of producers are not known: {error}")
    return _Answers(states, errors, names)


def _partition(
    place: PartitionSnapshot, rows: list[ProducerRow], problem: str | None
) -> PartitionProducers:
    return PartitionProducers(
        topic=place.topic,
        partition=place.partition,
        leader_id=place.leader_id,
        start_offset=place.start_offset,
        end_offset=place.end_offset,
        last_stable_offset=place.last_stable_offset,
        unseen_count=place.unstable_count,
        producer_count=len(rows),
        producers=rows[:MAX_PRODUCERS],
        problem=problem,
    )


# Batches


@dataclass(frozen=True)
class BatchesQuery:
    """How many of the last batches of a partition."""

    topic: str
    partition: int
    limit: int = 20


@dataclass(frozen=True)
class LastBatchesAnswer:
    """The last batches of a partition, the newest first."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    last_stable_offset: int
    batches: list[BatchRow]
    is_limited: bool
    """Whether there are fewer than asked for because they are large."""


async def batches(call: Call[BatchesQuery, None]) -> LastBatchesAnswer:
    """Read the headers of a partition's last batches, by the user's own connection."""
    query = call.query
    if not 0 < query.limit <= MAX_BATCHES:
        raise bad_request(f"limit is 1 to {MAX_BATCHES}")
    snapshot = (await call.visible()).snapshot
    place = snapshot.partition(query.topic, query.partition)
    if place is None:
        raise not_found(f"there is no partition {query.partition} of {query.topic!r}")
    key = TopicPartition(query.topic, query.partition)
    clients = call.identity.clients
    async with clients.inspecting_consumer(
        shows_control=True, shows_aborted=True, default_api_timeout_ms=10_000
    ) as consumer:

        async def read(offset: int, max_bytes: int) -> LogBatches:
            return await consumer.batches(key, offset, max_bytes=max_bytes)

        ends = await consumer.end_offsets([key])
        found = await read_last_batches(read, ends[key], query.limit)
    return LastBatchesAnswer(
        topic=query.topic,
        partition=query.partition,
        start_offset=found.start_offset,
        end_offset=found.end_offset,
        last_stable_offset=found.last_stable_offset,
        batches=batch_rows(found.batches),
        is_limited=found.is_limited,
    )


ROUTES: Final = [
    Route(
        "GET",
        "/api/producers",
        producers,
        "The producers that partitions remember",
        query=ProducersQuery,
    ),
    Route(
        "GET",
        "/api/producers/batches",
        batches,
        "The last batches of a partition",
        query=BatchesQuery,
    ),
]
