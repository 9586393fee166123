"""Decides what to do with a micro-batch from its plan and the committed progress: one table, no IO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

from ottla.model import TopicPartition
from ottla.spark.sink.commit_plan import CommitPlan, PlanOrigin
from ottla.spark.sink.progress import (
    CommittedProgress,
    Marker,
    ProgressError,
    TakenOverError,
    Target,
    marker_group,
)
from ottla.spark.source.stream_offsets import SourceRange

ACCEPT_OPTION: Final = "failOnUnknownProgress"
"""The option that accepts the risk where progress is not known."""


class Standing(Enum):
    """How a micro-batch's plan compares with the checkpoint and with the marker in Kafka."""

    PLAN_REPLACED = "the checkpoint has another plan than the tasks had"
    NOT_ASKED = "the marker has not been read"
    NOTHING_YET = "there is no marker, and this is the first micro-batch"
    FIRST_OF_OURS = "there is no marker, and Spark's own connector wrote the micro-batches before"
    LOST = "there is no marker, but this is not the first micro-batch"
    JUST_BEFORE = "the marker is that of the micro-batch before"
    HERE = "the marker is that of this micro-batch"
    OTHER_PLAN = "the marker has the number of this micro-batch, but not its plan"
    AHEAD = "the marker is that of a later micro-batch"
    FAR_BEHIND = "micro-batches between the marker and this one are missing"
    OTHER_QUERY_WE_CONTINUE = (
        "the marker is another query's, which ended where this micro-batch begins"
    )
    OTHER_QUERY_HAD_STATE = "as before, but this query keeps state and does not have the other's"
    OTHER_QUERY = "the marker is another query's, and nothing shows that this one continues it"
    ELSEWHERE = "the marker is no help, and the group's offsets are not where this query begins"


class Decision(Enum):
    """The decision about a micro-batch."""

    READ_MARKER = "read the marker, then decide"
    WRITE = "write it"
    SKIP = "it was committed before"
    REFUSE_UNKNOWN = "refuse, unless the user accepts that records may be repeated or missing"
    REFUSE = "refuse"


DECISIONS: Final[Mapping[Standing, Decision]] = {
    # The records are those of one plan, the checkpoint has another instance's. A restart follows the checkpoint, so a
    # commit would give these records the offsets, or the number, of others.
    Standing.PLAN_REPLACED: Decision.REFUSE,
    Standing.NOT_ASKED: Decision.READ_MARKER,
    Standing.NOTHING_YET: Decision.WRITE,
    Standing.FIRST_OF_OURS: Decision.WRITE,
    Standing.LOST: Decision.REFUSE_UNKNOWN,
    Standing.JUST_BEFORE: Decision.WRITE,
    Standing.HERE: Decision.SKIP,
    # The checkpoint is older than the output. Its next micro-batches reuse numbers that are committed, with other
    # records: to skip them would lose these records.
    Standing.OTHER_PLAN: Decision.REFUSE,
    Standing.AHEAD: Decision.REFUSE,
    Standing.FAR_BEHIND: Decision.REFUSE_UNKNOWN,
    Standing.OTHER_QUERY_WE_CONTINUE: Decision.WRITE,
    Standing.OTHER_QUERY_HAD_STATE: Decision.REFUSE_UNKNOWN,
    Standing.OTHER_QUERY: Decision.REFUSE_UNKNOWN,
    # Nothing is unknown here: records would be repeated or missing.
    Standing.ELSEWHERE: Decision.REFUSE,
}

# Standings that a later reading of the marker does not undo: what is committed stays committed.
FINAL_STANDINGS: Final = (
    Standing.PLAN_REPLACED,
    Standing.HERE,
    Standing.OTHER_PLAN,
    Standing.AHEAD,
)


def decide(
    target: Target,
    plan: CommitPlan,
    committed: CommittedProgress | None,
    sources: Sequence[SourceRange] = (),
) -> Decision:
    """READ_MARKER, WRITE or SKIP; a ProgressError or TakenOverError says why none is right, and what to do.

    `committed` is None before the marker was read. `sources` are those whose offsets the pipeline's group has.
    """
    place = standing(plan, committed, sources)
    decision = decision_of(place, target)
    if decision is Decision.REFUSE or decision is Decision.REFUSE_UNKNOWN:
        raise _refusal(place, target.pipeline, plan, committed)
    return decision


def decision_of(place: Standing, target: Target) -> Decision:
    """The table's decision, or WRITE where the user accepts what is not known."""
    decision = DECISIONS[place]
    if decision is Decision.REFUSE_UNKNOWN and not target.fails_on_unknown:
        return Decision.WRITE
    return decision


def standing(
    plan: CommitPlan, committed: CommittedProgress | None, sources: Sequence[SourceRange] = ()
) -> Standing:
    """Compare the plan of the tasks, the checkpoint at the commit, and the marker."""
    if plan.origin is PlanOrigin.REPLACED:
        return Standing.PLAN_REPLACED
    if committed is None:
        return Standing.NOT_ASKED
    marker = committed.marker
    if marker is None:
        if plan.batch == 0:
            return Standing.NOTHING_YET
        if _is_written(committed.offsets, sources):
            return Standing.ELSEWHERE
        return Standing.FIRST_OF_OURS if plan.is_first_of_ours else Standing.LOST
    if marker.query != plan.query:
        if _continues(plan, committed, sources):
            if plan.keeps_state:
                return Standing.OTHER_QUERY_HAD_STATE
            return Standing.OTHER_QUERY_WE_CONTINUE
        return Standing.ELSEWHERE if _differs(committed.offsets, sources) else Standing.OTHER_QUERY
    if marker.batch > plan.batch:
        return Standing.AHEAD
    if marker.batch == plan.batch:
        digest = plan.marker.plan
        is_other = None not in (marker.plan, digest) and marker.plan != digest
        return Standing.OTHER_PLAN if is_other else Standing.HERE
    if marker.batch == plan.batch - 1:
        return Standing.JUST_BEFORE
    return Standing.ELSEWHERE if _is_written(committed.offsets, sources) else Standing.FAR_BEHIND


def _differs(committed: Mapping[TopicPartition, int], sources: Sequence[SourceRange]) -> bool:
    """Whether a source is known to start at another offset than the group's."""
    return any(
        committed.get(each, at) != at for source in sources for each, at in source.start.items()
    )


def _is_written(committed: Mapping[TopicPartition, int], sources: Sequence[SourceRange]) -> bool:
    """Whether the group's offsets show that records of these sources were written before."""
    return any(
        committed.get(each, at) > at for source in sources for each, at in source.start.items()
    )


def _continues(
    plan: CommitPlan, committed: CommittedProgress, sources: Sequence[SourceRange]
) -> bool:
    """Whether a micro-batch starts exactly at the group's offsets.

    A partition without an offset in the group was in no micro-batch: each commits all its partitions.
    """
    known = [
        (source.start.get(each), end, committed.offsets[each])
        for source in sources
        for each, end in source.end.items()
        if each in committed.offsets
    ]
    if not known or committed.differing or any(start != at for start, _, at in known):
        return False
    # If start and end are equal, it is not known whether the micro-batch was committed. A query's first one was not, or
    # the marker would be its own.
    return plan.batch == 0 or any(start != end for start, end, _ in known)


_NEW_CHECKPOINT: Final = (
    "If no other instance runs, start with a new checkpoint: a source with the option pipeline then continues where "
    "the committed output ends."
)
_ACCEPT: Final = (
    f"With {ACCEPT_OPTION}=false the micro-batch is written anyway, at the risk that its records are "
    "there twice."
)


def _refusal(
    place: Standing, pipeline: str, plan: CommitPlan, committed: CommittedProgress | None
) -> ProgressError | TakenOverError:
    if place is Standing.PLAN_REPLACED:
        return TakenOverError(
            f"The checkpoint {plan.location} has another plan than micro-batch {plan.batch}, which ran: another "
            "instance uses it too and has planned since. Nothing of this micro-batch is written; run one instance of a "
            "pipeline."
        )
    assert committed is not None
    if place is Standing.AHEAD:
        assert committed.marker is not None
        return TakenOverError(
            f"Micro-batch {committed.marker.batch} of pipeline {pipeline!r} is committed, and this query is only at "
            f"{plan.batch}: another instance took over, or the checkpoint is older than the output. "
            f"{_NEW_CHECKPOINT}"
        )
    return ProgressError(_explanation(place, pipeline, plan, committed))


def _explanation(
    place: Standing, pipeline: str, plan: CommitPlan, committed: CommittedProgress
) -> str:
    number, marker, group = plan.batch, committed.marker, marker_group(pipeline)
    if place is Standing.LOST:
        return (
            f"Pipeline {pipeline!r} has no marker in group {group!r}, so the sink cannot tell whether micro-batch "
            f"{number} was committed. Groups forget offsets that are not renewed for offsets.retention.minutes (seven "
            "days), or when the output topic is deleted; or the pipeline had another name or wrote to another cluster "
            "before; or another sink wrote this query's micro-batches before, and its source is still the same. "
            f"{_ACCEPT}"
        )
    if place is Standing.ELSEWHERE:
        return (
            f"Micro-batch {number} of pipeline {pipeline!r} (query {plan.query}) does not begin where the committed "
            f"output ends: the group's offsets are {_show(committed.offsets)}, and the last micro-batch was "
            f"{_show_marker(marker)}. Its records are written already, or others in between are not. {_NEW_CHECKPOINT} "
            f"To write them again on purpose, give the pipeline another name, or delete its groups {pipeline!r} and "
            f"{group!r} and start with a new checkpoint."
        )
    assert marker is not None
    if place is Standing.OTHER_PLAN:
        return (
            f"Micro-batch {number} of pipeline {pipeline!r} is committed, but with another plan than the "
            f"checkpoint has: the checkpoint is older than the output. {_NEW_CHECKPOINT}"
        )
    if place is Standing.OTHER_QUERY_HAD_STATE:
        return (
            f"Pipeline {pipeline!r} would continue where query {marker.query} ended, but this query keeps state "
            "(aggregations, joins of streams, dropDuplicates), which was in another checkpoint than this one: counts "
            "would begin at nothing. Restore that checkpoint; or give the pipeline another name and begin at the "
            f"sources' start, into another topic. With {ACCEPT_OPTION}=false it continues with empty state."
        )
    if place is Standing.FAR_BEHIND:
        return (
            f"The last micro-batch of pipeline {pipeline!r} that was committed is {marker.batch}, and the next one "
            f"is {number}: those between were written by another sink, or with delivery=at-least-once. {_ACCEPT}"
        )
    return (
        f"Pipeline {pipeline!r} was last written by query {marker.query} (micro-batch {marker.batch}), and nothing "
        f"shows that micro-batch {number} of query {plan.query} begins where that one ended: its group's offsets "
        f"are {_show(committed.offsets)}. Another instance may be running; or this is another pipeline, which needs a "
        f"name of its own. {_ACCEPT}"
    )


def _show_marker(marker: Marker | None) -> str:
    return "forgotten" if marker is None else f"{marker.batch} of query {marker.query}"


def _show(offsets: Mapping[TopicPartition, int]) -> str:
    shown = [f"{each}={at}" for each, at in sorted(offsets.items())[:5]]
    more = [f"and {len(offsets) - 5} more"] if len(offsets) > 5 else []
    return ", ".join(shown + more) if shown else "none"
