"""A pipeline as the cluster shows it. Nothing tells whether its process lives: the state follows from what it left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from ottla.client.admin_model.transactions import TransactionDescription, TransactionState
from ottla.client.model import OffsetAndMetadata
from ottla.console.access.visible import Visible
from ottla.console.cluster.snapshot import ClusterSnapshot
from ottla.console.transactions.ended import EndCounts
from ottla.inspection.transactions import OPEN_STATES
from ottla.model import TopicPartition
from ottla.spark.sink.progress import (
    DIFFERING,
    Marker,
    ProgressError,
    marker_group,
    transactional_id,
)

# A query that has something to read and has committed nothing for so long does not run.
STOPPED_MS: Final = 120_000


class PipelineState(StrEnum):
    """What a pipeline does, as far as its transactions and offsets show."""

    WRITING = "writing"
    """Its transaction is open."""
    RUNNING = "running"
    """It has committed a micro-batch within STOPPED_MS."""
    WAITING = "waiting"
    """It has read everything."""
    FENCED = "fenced"
    """An instance has taken over and has not written yet."""
    ABORTED = "aborted"
    """Its last transaction was aborted, and none was committed since."""
    STOPPED = "stopped"
    """There is something to read, and it has committed nothing for STOPPED_MS."""
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class PipelineMarker:
    """The last micro-batch that was committed with its marker on a topic."""

    topic: str
    query: str
    batch: int
    writer: str | None
    """The transactional id that wrote it; None if that was the pipeline's bare name (ADR 0030)."""


@dataclass(frozen=True)
class PipelineFacts:
    """What the cluster was asked about a pipeline."""

    name: str
    markers: tuple[PipelineMarker, ...] = ()
    """The one with the latest micro-batch first; several if the output topic was changed."""
    offsets: Mapping[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)
    """The source's position, if the source is ours."""
    description: TransactionDescription | None = None
    counts: EndCounts | None = None
    seen_at_ms: int | None = None
    """When the console saw the marker change."""
    last_input_count: int | None = None
    """The source's offsets of the last micro-batch, if the console saw it."""

    @property
    def transactional_id(self) -> str:
        """The id of its producer."""
        if self.markers and self.markers[0].writer is None:
            return self.name
        return transactional_id(self.name)

    @property
    def differing_partitions(self) -> list[TopicPartition]:
        """Partitions that not all sources of the query have read up to the offset."""
        return sorted(each for each, at in self.offsets.items() if at.metadata == DIFFERING)


@dataclass(frozen=True)
class PipelineRow:
    """A pipeline. What is None is not known."""

    name: str
    state: PipelineState
    since_ms: int | None
    """Since when the transaction is open, or when the last one ended."""
    query: str | None
    batch: int | None
    committed_at_ms: int | None
    last_input_count: int | None
    lag: int | None
    source_topics: list[str]
    target_topics: list[str]
    transactional_id: str
    transaction_state: str | None
    producer_id: int | None
    producer_epoch: int | None
    started_at_ms: int | None
    """When the open transaction began; None if none is open."""
    timeout_ms: int | None
    committed_count: int
    aborted_count: int


def markers_of(
    name: str, stored: Mapping[TopicPartition, OffsetAndMetadata]
) -> tuple[PipelineMarker, ...]:
    """The markers in the offsets of a marker group; what is none is left out."""
    found = []
    for place, at in stored.items():
        try:
            marker = Marker.from_offset(at, marker_group(name))
        except ProgressError:
            continue
        found.append(PipelineMarker(place.topic, marker.query, marker.batch, marker.writer))
    return tuple(sorted(found, key=lambda each: each.batch, reverse=True))


def facts_seen(facts: PipelineFacts, visible: Visible) -> PipelineFacts | None:
    """What a user may see of a pipeline: of its two groups, its transactional id and its topics; None if nothing."""
    if visible.is_everything:
        return facts
    sees_markers = visible.sees_group(marker_group(facts.name))
    sees_offsets = visible.sees_group(facts.name)
    sees_id = visible.sees_transactional_id(facts.transactional_id)
    described = facts.description if sees_id else None
    if described is not None:
        partitions = (key for key in described.partitions if visible.sees_topic(key.topic))
        described = replace(described, partitions=tuple(partitions))
    markers = [each for each in facts.markers if sees_markers and visible.sees_topic(each.topic)]
    if not markers and not sees_id:
        return None
    offsets = {key: at for key, at in facts.offsets.items() if visible.sees_topic(key.topic)}
    return replace(
        facts,
        markers=tuple(markers),
        offsets=offsets if sees_offsets else {},
        description=described,
        counts=facts.counts if sees_id else None,
        seen_at_ms=facts.seen_at_ms if sees_markers else None,
        last_input_count=facts.last_input_count if sees_markers and sees_offsets else None,
    )


def source_lag(facts: PipelineFacts, snapshot: ClusterSnapshot) -> int | None:
    """The offsets that the source has yet to read; None without a position, or without the ends."""
    if not facts.offsets:
        return None
    total = 0
    for partition, at in facts.offsets.items():
        place = snapshot.partition(*partition)
        if place is None:
            continue  # the topic was deleted
        # The source reads committed records, up to the last stable offset.
        end = place.end_offset if place.last_stable_offset is None else place.last_stable_offset
        if end is None:
            return None
        total += max(0, end - max(at.offset, place.start_offset or 0))
    return total


def pipeline_row(facts: PipelineFacts, snapshot: ClusterSnapshot) -> PipelineRow:
    """What the list shows."""
    described = facts.description
    is_open = described is not None and described.state in OPEN_STATES
    lag = source_lag(facts, snapshot)
    committed_at_ms = _committed_at_ms(facts)
    state = _state(facts, is_open=is_open, lag=lag, silent_ms=_silent_ms(committed_at_ms, snapshot))
    started_at_ms = None if described is None else described.transaction_start_time_ms
    newest = facts.markers[0] if facts.markers else None
    since_ms = committed_at_ms
    if is_open:
        since_ms = started_at_ms
    elif state is PipelineState.ABORTED and facts.counts is not None:
        since_ms = facts.counts.aborted_at_ms or since_ms
    targets = [each.topic for each in facts.markers]
    if described is not None and is_open:
        targets += [topic for topic, _ in described.partitions if not topic.startswith("__")]
    return PipelineRow(
        name=facts.name,
        state=state,
        since_ms=since_ms,
        query=None if newest is None else newest.query,
        batch=None if newest is None else newest.batch,
        committed_at_ms=committed_at_ms,
        last_input_count=facts.last_input_count,
        lag=lag,
        source_topics=sorted({each.topic for each in facts.offsets}),
        target_topics=list(dict.fromkeys(targets)),
        transactional_id=facts.transactional_id,
        transaction_state=None if described is None else str(described.state),
        producer_id=None if described is None else described.producer_id,
        producer_epoch=None if described is None else described.producer_epoch,
        started_at_ms=started_at_ms if is_open else None,
        timeout_ms=None if described is None else described.transaction_timeout_ms,
        committed_count=0 if facts.counts is None else facts.counts.committed,
        aborted_count=0 if facts.counts is None else facts.counts.aborted,
    )


def _committed_at_ms(facts: PipelineFacts) -> int | None:
    """When the last micro-batch was committed: as the journal saw it, as the marker changed, or as the id began it."""
    if facts.counts is not None and facts.counts.committed_at_ms is not None:
        return facts.counts.committed_at_ms
    if facts.seen_at_ms is not None:
        return facts.seen_at_ms
    described = facts.description
    if described is not None and described.state is TransactionState.COMPLETE_COMMIT:
        return described.transaction_start_time_ms
    return None


def _silent_ms(committed_at_ms: int | None, snapshot: ClusterSnapshot) -> int | None:
    return None if committed_at_ms is None else max(0, snapshot.at_ms - committed_at_ms)


def _state(
    facts: PipelineFacts, *, is_open: bool, lag: int | None, silent_ms: int | None
) -> PipelineState:
    if is_open:
        return PipelineState.WRITING
    ended = None if facts.description is None else facts.description.state
    if ended is TransactionState.COMPLETE_ABORT:
        return PipelineState.ABORTED
    if ended is TransactionState.EMPTY:
        return PipelineState.FENCED
    if silent_ms is not None and silent_ms < STOPPED_MS:
        return PipelineState.RUNNING
    if lag == 0:
        return PipelineState.WAITING
    if lag is None or silent_ms is None:
        return PipelineState.UNKNOWN
    return PipelineState.STOPPED
