"""Spark's pipelines with `format("ottla")`: what they have committed, and how far behind they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from ottla.console.access.visible import Visible
from ottla.console.api.transactions import JournalView, journal_view
from ottla.console.cluster.snapshot import ClusterSnapshot
from ottla.console.http.errors import bad_request, not_found
from ottla.console.http.routes import Call, Route
from ottla.console.pipelines.lister import FoundPipelines
from ottla.console.pipelines.micro_batches import MicroBatches, read_micro_batches
from ottla.console.pipelines.states import (
    PipelineFacts,
    PipelineMarker,
    PipelineRow,
    facts_seen,
    pipeline_row,
)

MAX_LIMIT: Final = 500
MAX_SOURCE_PARTITIONS: Final = 500


@dataclass(frozen=True)
class PipelinesQuery:
    """Which pipelines, and in which order."""

    q: str = ""
    state: Literal[
        "all", "writing", "running", "waiting", "fenced", "aborted", "stopped", "unknown"
    ] = "all"
    sort: Literal["name", "state", "committed_at_ms", "lag", "batch"] = "name"
    order: Literal["asc", "desc"] = "asc"
    offset: int = 0
    limit: int = 50


@dataclass(frozen=True)
class PipelinesPage:
    """A part of the pipelines."""

    at_ms: int
    total: int
    counts: dict[str, int]
    """All pipelines by state."""
    rows: list[PipelineRow]
    journal: JournalView
    problems: list[str]


_ORDERS: Final[dict[str, Callable[[PipelineRow], Any]]] = {
    "name": lambda row: row.name,
    "state": lambda row: (row.state, row.name),
    "committed_at_ms": lambda row: row.committed_at_ms or 0,
    "lag": lambda row: -1 if row.lag is None else row.lag,
    "batch": lambda row: -1 if row.batch is None else row.batch,
}


async def pipelines(call: Call[PipelinesQuery, None]) -> PipelinesPage:
    """The pipelines."""
    query, console = call.query, call.console
    if query.offset < 0 or not 0 < query.limit <= MAX_LIMIT:
        raise bad_request(f"offset is 0 or more, and limit is 1 to {MAX_LIMIT}")
    visible = await call.visible()
    snapshot = visible.snapshot
    found = await console.pipelines.pipelines()
    rows = [
        pipeline_row(facts, snapshot)
        for each in found.pipelines.values()
        if (facts := facts_seen(each, visible)) is not None
    ]
    part = query.q.casefold()
    chosen = [
        row
        for row in rows
        if query.state in ("all", row.state)
        and any(part in text.casefold() for text in _searched(row))
    ]
    chosen.sort(key=_ORDERS[query.sort], reverse=query.order == "desc")
    return PipelinesPage(
        at_ms=snapshot.at_ms,
        total=len(chosen),
        counts=dict(Counter(str(row.state) for row in rows)),
        rows=chosen[query.offset :][: query.limit],
        journal=journal_view(console),
        problems=_problems(found, visible),
    )


def _problems(found: FoundPipelines, visible: Visible) -> list[str]:
    """What could not be asked; the errors of the cluster name groups, which not everybody may see."""
    if visible.is_everything or not found.problems:
        return list(found.problems)
    return ["the cluster did not tell the console everything about pipelines"]


def _searched(row: PipelineRow) -> list[str]:
    return [row.name, row.query or "", *row.source_topics, *row.target_topics]


# One pipeline


@dataclass(frozen=True)
class PipelineQuery:
    """A pipeline's name; in the query, because it may have any characters."""

    name: str


@dataclass(frozen=True)
class SourcePartition:
    """A partition that a pipeline reads."""

    topic: str
    partition: int
    offset: int
    start_offset: int | None
    end_offset: int | None
    last_stable_offset: int | None
    lag: int | None
    is_differing: bool
    """Whether not all sources of the query have read up to the offset."""


@dataclass(frozen=True)
class PipelineDetail:
    """A pipeline with its sources."""

    at_ms: int
    row: PipelineRow
    group_id: str
    marker_group_id: str
    markers: list[PipelineMarker]
    sources: list[SourcePartition]
    journal: JournalView
    problems: list[str]


async def pipeline(call: Call[PipelineQuery, None]) -> PipelineDetail:
    """One pipeline."""
    console, name = call.console, call.query.name
    visible = await call.visible()
    snapshot = visible.snapshot
    found = await console.pipelines.pipelines()
    whole = found.pipelines.get(name)
    facts = None if whole is None else facts_seen(whole, visible)
    if facts is None:
        raise not_found(
            f"there is no pipeline {name!r}",
            "a pipeline shows as soon as its first micro-batch is written, and for seven days after its last",
        )
    return PipelineDetail(
        at_ms=snapshot.at_ms,
        row=pipeline_row(facts, snapshot),
        group_id=name,
        marker_group_id=f"{name}.marker",
        markers=list(facts.markers),
        sources=_sources(facts, snapshot),
        journal=journal_view(console),
        problems=_problems(found, visible),
    )


def _sources(facts: PipelineFacts, snapshot: ClusterSnapshot) -> list[SourcePartition]:
    differing = set(facts.differing_partitions)
    found = []
    for key, at in sorted(facts.offsets.items())[:MAX_SOURCE_PARTITIONS]:
        place = snapshot.partition(*key)
        end_offset = stable_offset = None
        if place is not None:
            end_offset, stable_offset = place.end_offset, place.last_stable_offset
        if end_offset is not None and end_offset < at.offset:
            # The commit is newer than the snapshot.
            if stable_offset == end_offset:
                stable_offset = at.offset
            end_offset = at.offset
        end = end_offset if stable_offset is None else stable_offset
        found.append(
            SourcePartition(
                topic=key.topic,
                partition=key.partition,
                offset=at.offset,
                start_offset=None if place is None else place.start_offset,
                end_offset=end_offset,
                last_stable_offset=stable_offset,
                lag=None if end is None else max(0, end - at.offset),
                is_differing=key in differing,
            )
        )
    return found


async def history(call: Call[PipelineQuery, None]) -> MicroBatches:
    """The last micro-batches of a pipeline, read by the user's own connection."""
    snapshot = (await call.visible()).snapshot
    return await read_micro_batches(call.identity.clients, snapshot, call.query.name)


ROUTES: Final = [
    Route("GET", "/api/pipelines", pipelines, "Pipelines of Spark", query=PipelinesQuery),
    Route("GET", "/api/pipeline", pipeline, "One pipeline of Spark", query=PipelineQuery),
    Route(
        "GET",
        "/api/pipeline/history",
        history,
        "The last micro-batches of a pipeline",
        query=PipelineQuery,
    ),
]
