"""What the cluster says about a pipeline's progress, and what that means for a micro-batch: decisions without IO.

The marker {query, batch, plan} is committed in the same transaction as the records of its micro-batch, as the metadata
of an offset in a group of its own. So it is the truth about which micro-batch was written last, whatever the source is.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from ottla.client.model import OffsetAndMetadata
from ottla.errors import OttlaError
from ottla.model import TopicPartition
from ottla.records.record import Buffer

ACCEPT_OPTION: Final = "failOnUnknownProgress"
"""The option that accepts the risk where progress is not known."""


class ProgressError(OttlaError):
    """Whether a micro-batch was written cannot be told, or it is not the one that this query has planned."""


class TakenOverError(OttlaError):
    """Another instance of the pipeline has taken over: this one has to stop."""


_ID_PREFIX: Final = "ottla-pipeline-"


def transactional_id(pipeline: str) -> str:
    """Under which a pipeline writes: not its bare name, which may be that of another program's producer."""
    return f"{_ID_PREFIX}{pipeline}"


def marker_group(pipeline: str) -> str:
    """The group that has the marker: not the pipeline's own, which tools look at for its lag."""
    return f"{pipeline}.marker"


class Marker(NamedTuple):
    """The micro-batch that was committed last."""

    query: str
    batch: int
    plan: str | None = None
    """A digest of what Spark had planned for it; None if the checkpoint could not be read."""
    writer: str | None = None
    """The transactional id under which it was written; None if that was the pipeline's bare name (ADR 0030)."""

    def to_offset(self) -> OffsetAndMetadata:
        """How a group keeps it: the batch as the offset, the rest as metadata."""
        fields: dict[str, object] = {"query": self.query, "batch": self.batch, "plan": self.plan}
        if self.writer is not None:
            fields["writer"] = self.writer
        return OffsetAndMetadata(self.batch, json.dumps(fields, separators=(",", ":")))

    @classmethod
    def from_offset(cls, kept: OffsetAndMetadata, group: str) -> Marker:
        """What `to_offset` made; anything else in that place is no progress of a pipeline."""
        try:
            fields = json.loads(kept.metadata or "")
            query, batch = fields["query"], fields["batch"]
            plan, writer = fields.get("plan"), fields.get("writer")
            is_marker = (
                isinstance(query, str)
                and type(batch) is int
                and batch == kept.offset
                and (plan is None or isinstance(plan, str))
                and (writer is None or isinstance(writer, str))
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            is_marker = False
        if not is_marker:
            raise ProgressError(
                f"Group {group!r} has an offset that no pipeline wrote: {kept.offset} with "
                f"{kept.metadata!r}. Give the pipeline another name, or delete that group."
            )
        return cls(query, batch, plan, writer)

    @property
    def is_under_bare_name(self) -> bool:
        """Whether its writer, who may be alive, has the pipeline's bare name as its transactional id."""
        return self.writer is None


class Records(NamedTuple):
    """An encoded record batch and where it goes."""

    topic: str
    partition: int
    data: Buffer


class SourceRange(NamedTuple):
    """What a source of ours gives to a micro-batch: offsets from `start` to `end` of a cluster's partitions.

    `start` lacks partitions whose begin is not known.
    """

    cluster: str | None
    start: Mapping[TopicPartition, int]
    end: Mapping[TopicPartition, int]
    group: str | None = None
    """The group that the source was given, if it is that of a pipeline."""


def group_offsets(sources: Sequence[SourceRange]) -> dict[TopicPartition, OffsetAndMetadata]:
    """What a group is told of the sources' ends.

    Several sources may read one partition (a self-join), not all as far: then the group has the least, and says that
    it is not the position of all, or a query that begins there would repeat what others had read.
    """
    ends: dict[TopicPartition, list[int]] = {}
    for source in sources:
        for each, at in source.end.items():
            ends.setdefault(each, []).append(at)
    return {
        each: OffsetAndMetadata(min(at), "" if min(at) == max(at) else DIFFERING)
        for each, at in ends.items()
    }


DIFFERING: Final = "sources differ"
"""The metadata of an offset that not all sources of its partition have."""


@dataclass(frozen=True)
class MicroBatch:
    """What is to be committed as one."""

    query: str
    number: int
    records: Iterable[Records] = ()
    """Taken once, when they are sent."""
    plan: str | None = None
    sources: Sequence[SourceRange] = ()
    keeps_state: bool = False
    """Whether it is the first of a query that keeps state."""
    is_first_of_ours: bool = False
    """Whether the query's micro-batches before were written by another sink: Spark's own connector planned them."""

    @property
    def marker(self) -> Marker:
        """What says that it was committed."""
        return Marker(self.query, self.number, self.plan)


@dataclass(frozen=True)
class CommittedProgress:
    """What groups have committed."""

    marker: Marker | None
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Of the pipeline's own group, those of the micro-batch's partitions."""
    differing: Collection[TopicPartition] = ()
    """Those of them that not all sources had reached."""


class Standing(Enum):
    """Where the marker stands, seen from a micro-batch."""

    NOTHING_YET = "there is no marker, and this is the first micro-batch"
    FIRST_OF_OURS = (
        "there is no marker, and the micro-batches before are those of Spark's own connector"
    )
    LOST = "there is no marker, but this is not the first micro-batch"
    JUST_BEFORE = "it is that of the micro-batch before"
    HERE = "it is that of this micro-batch"
    OTHER_PLAN = "it has the number of this micro-batch, but not its plan"
    AHEAD = "it is that of a later micro-batch"
    FAR_BEHIND = "micro-batches between are missing"
    OTHER_QUERY_WE_CONTINUE = "it is another query's, which ended where this micro-batch begins"
    OTHER_QUERY_HAD_STATE = (
        "it is another query's, which ended where this one begins, without its state"
    )
    OTHER_QUERY = "it is another query's, and nothing shows that this one continues it"
    ELSEWHERE = "it does not show this query's progress, and the group's offsets are not where this one begins"


class MicroBatchAction(Enum):
    """What to do with a micro-batch."""

    WRITE = "write it"
    SKIP = "it was committed before"
    ASK = "fail, unless the user accepts that records may be repeated or missing"
    FAIL = "fail"


VERDICTS: Final[Mapping[Standing, MicroBatchAction]] = {
    Standing.NOTHING_YET: MicroBatchAction.WRITE,
    Standing.FIRST_OF_OURS: MicroBatchAction.WRITE,
    Standing.LOST: MicroBatchAction.ASK,
    Standing.JUST_BEFORE: MicroBatchAction.WRITE,
    Standing.HERE: MicroBatchAction.SKIP,
    # Of a checkpoint that is older than the output: its next micro-batches have the numbers of others that were
    # committed, with other records. To take them for committed would lose theirs.
    Standing.OTHER_PLAN: MicroBatchAction.FAIL,
    Standing.AHEAD: MicroBatchAction.FAIL,
    Standing.FAR_BEHIND: MicroBatchAction.ASK,
    Standing.OTHER_QUERY_WE_CONTINUE: MicroBatchAction.WRITE,
    Standing.OTHER_QUERY_HAD_STATE: MicroBatchAction.ASK,
    Standing.OTHER_QUERY: MicroBatchAction.ASK,
    # Not unknown: records would be repeated, or missing.
    Standing.ELSEWHERE: MicroBatchAction.FAIL,
}

# What is committed stays so: a later look finds the same, or one that is further ahead.
SETTLED: Final = (Standing.HERE, Standing.OTHER_PLAN, Standing.AHEAD)


def standing(
    found: CommittedProgress, batch: MicroBatch, sources: Sequence[SourceRange]
) -> Standing:
    """Where the marker stands; `sources` are those whose offsets the pipeline's group has."""
    marker = found.marker
    if marker is None:
        if batch.number == 0:
            return Standing.NOTHING_YET
        if is_written(found.offsets, sources):
            return Standing.ELSEWHERE
        return Standing.FIRST_OF_OURS if batch.is_first_of_ours else Standing.LOST
    if marker.query != batch.query:
        if continues(found, batch, sources):
            if batch.keeps_state:
                return Standing.OTHER_QUERY_HAD_STATE
            return Standing.OTHER_QUERY_WE_CONTINUE
        return Standing.ELSEWHERE if differs(found.offsets, sources) else Standing.OTHER_QUERY
    if marker.batch > batch.number:
        return Standing.AHEAD
    if marker.batch == batch.number:
        is_other = None not in (marker.plan, batch.plan) and marker.plan != batch.plan
        return Standing.OTHER_PLAN if is_other else Standing.HERE
    if marker.batch == batch.number - 1:
        return Standing.JUST_BEFORE
    return Standing.ELSEWHERE if is_written(found.offsets, sources) else Standing.FAR_BEHIND


def differs(committed: Mapping[TopicPartition, int], sources: Sequence[SourceRange]) -> bool:
    """Whether a source is known to begin elsewhere than where the group's offsets are."""
    return any(
        committed.get(each, at) != at for source in sources for each, at in source.start.items()
    )


def is_written(committed: Mapping[TopicPartition, int], sources: Sequence[SourceRange]) -> bool:
    """Whether the group's offsets show that records of these sources were written before."""
    return any(
        committed.get(each, at) > at for source in sources for each, at in source.start.items()
    )


def continues(found: CommittedProgress, batch: MicroBatch, sources: Sequence[SourceRange]) -> bool:
    """Whether a micro-batch begins exactly where the group's offsets are.

    A partition of which the group has no offset was in no micro-batch: every one commits all its partitions.
    """
    known = [
        (source.start.get(each), end, found.offsets[each])
        for source in sources
        for each, end in source.end.items()
        if each in found.offsets
    ]
    if not known or found.differing or any(start != at for start, _, at in known):
        return False
    # Between equal offsets nothing tells whether the micro-batch was committed; a query's first one was not, or the
    # marker would be its own.
    return batch.number == 0 or any(start != end for start, end, _ in known)


def check(
    pipeline: str,
    found: CommittedProgress,
    batch: MicroBatch,
    sources: Sequence[SourceRange],
    *,
    fails_on_unknown: bool,
) -> MicroBatchAction:
    """WRITE or SKIP; a ProgressError or TakenOverError tells why neither is right, and what to do."""
    place = standing(found, batch, sources)
    verdict = VERDICTS[place]
    if verdict is MicroBatchAction.ASK and not fails_on_unknown:
        return MicroBatchAction.WRITE
    if verdict in (MicroBatchAction.WRITE, MicroBatchAction.SKIP):
        return verdict
    if place is Standing.AHEAD:
        assert found.marker is not None
        raise TakenOverError(
            f"Micro-batch {found.marker.batch} of pipeline {pipeline!r} is committed, and this query is only at "
            f"{batch.number}: another instance took over, or the checkpoint is older than the output. "
            f"{_NEW_CHECKPOINT}"
        )
    raise ProgressError(_explain(place, pipeline, found, batch))


_NEW_CHECKPOINT: Final = (
    "If no other instance runs, start with a new checkpoint: a source with the option pipeline then goes on where "
    "the committed output ends."
)


def _explain(place: Standing, pipeline: str, found: CommittedProgress, batch: MicroBatch) -> str:
    accept = (
        f"With {ACCEPT_OPTION}=false the micro-batch is written anyway, at the risk that its records are "
        "there twice."
    )
    number, marker = batch.number, found.marker
    if place is Standing.LOST:
        return (
            f"Pipeline {pipeline!r} has no marker in group {marker_group(pipeline)!r}, so nobody knows whether "
            f"micro-batch {number} was committed. Groups forget offsets that are not renewed for "
            "offsets.retention.minutes (seven days), or when the output topic is deleted; or the pipeline had "
            "another name or wrote to another cluster before; or another sink wrote this query's micro-batches before, "
            f"and its source is still the same. {accept}"
        )
    if place is Standing.ELSEWHERE:
        return (
            f"Micro-batch {number} of pipeline {pipeline!r} (query {batch.query}) does not begin where the committed "
            f"output ends: the group's offsets are {_show(found.offsets)}, and the last micro-batch was "
            f"{_show_marker(marker)}. Its records are written already, or others between are not. {_NEW_CHECKPOINT} "
            f"To write them again on purpose, give the pipeline another name, or delete its groups {pipeline!r} and "
            f"{marker_group(pipeline)!r} and start with a new checkpoint."
        )
    assert marker is not None
    if place is Standing.OTHER_PLAN:
        return (
            f"Micro-batch {number} of pipeline {pipeline!r} is committed, but with another plan than the "
            f"checkpoint has: the checkpoint is older than the output. {_NEW_CHECKPOINT}"
        )
    if place is Standing.OTHER_QUERY_HAD_STATE:
        return (
            f"Pipeline {pipeline!r} would go on where query {marker.query} ended, but this query keeps state "
            "(aggregations, joins of streams, duplicates that are dropped), and that was in a checkpoint which is not "
            "this one: counts would begin at nothing. Put the checkpoint back; or give the pipeline another name and "
            "begin at the sources' start, into another topic. "
            f"With {ACCEPT_OPTION}=false it goes on with empty state."
        )
    if place is Standing.FAR_BEHIND:
        return (
            f"The last micro-batch of pipeline {pipeline!r} that was committed is {marker.batch}, and the next one "
            f"is {number}: those between were written by another sink, or at least once only. {accept}"
        )
    return (
        f"Pipeline {pipeline!r} was last written by query {marker.query} (micro-batch {marker.batch}), and nothing "
        f"shows that micro-batch {number} of query {batch.query} begins where that one ended: its group's offsets "
        f"are {_show(found.offsets)}. Another instance may be running; or it is another pipeline, which needs a "
        f"name of its own. {accept}"
    )


def _show_marker(marker: Marker | None) -> str:
    return "forgotten" if marker is None else f"{marker.batch} of query {marker.query}"


def _show(offsets: Mapping[TopicPartition, int]) -> str:
    shown = [f"{each}={at}" for each, at in sorted(offsets.items())[:5]]
    more = [f"and {len(offsets) - 5} more"] if len(offsets) > 5 else []
    return ", ".join(shown + more) if shown else "none"
