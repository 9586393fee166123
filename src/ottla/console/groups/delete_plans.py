"""What deleting a group, or its offsets in some topics, does. Made without IO."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.console.cluster.snapshot import ClusterSnapshot
from ottla.console.topics.change_plans import counted
from ottla.model import TopicPartition
from ottla.spark.sink.progress import pipeline_of_marker_group

# More lines than these are counted, not told.
MAX_SHOWN: Final = 1_000


@dataclass(frozen=True)
class LostOffset:
    """A committed offset that is forgotten. What is None is not known."""

    topic: str
    partition: int
    committed_offset: int
    end_offset: int | None
    unread_count: int | None
    """The offsets behind it, which the group has not read."""


@dataclass(frozen=True)
class DeletionPlan:
    """What a deletion forgets; `fingerprint` has to be sent to do it."""

    group_id: str
    offsets: list[LostOffset]
    """The first of them."""
    partition_count: int
    topic_count: int
    unread_count: int
    fingerprint: str
    """It stands for the offsets: if the group has committed others meanwhile, nothing is deleted."""
    steps: list[str]


def group_deletion(
    group: str,
    committed: Mapping[TopicPartition, int],
    snapshot: ClusterSnapshot,
    *,
    may_have_hidden: bool,
) -> DeletionPlan:
    """The plan of deleting a group with all its offsets."""
    steps = ["The coordinator forgets the group."]
    if may_have_hidden:
        steps.append("Offsets in topics that you may not see are deleted, too.")
    return _plan(group, committed, snapshot, [*steps, *_pipeline_steps(group)])


def offset_deletion(
    group: str, committed: Mapping[TopicPartition, int], snapshot: ClusterSnapshot
) -> DeletionPlan:
    """The plan of deleting the offsets of a group in some topics; `committed` is those."""
    steps = ["The group stays, with its offsets in other topics."]
    return _plan(group, committed, snapshot, [*steps, *_pipeline_steps(group)])


def _plan(
    group: str,
    committed: Mapping[TopicPartition, int],
    snapshot: ClusterSnapshot,
    steps: Sequence[str],
) -> DeletionPlan:
    offsets = [_lost(key, committed[key], snapshot) for key in sorted(committed)]
    return DeletionPlan(
        group_id=group,
        offsets=offsets[:MAX_SHOWN],
        partition_count=len(offsets),
        topic_count=len({each.topic for each in offsets}),
        unread_count=sum(each.unread_count or 0 for each in offsets),
        fingerprint=_fingerprint(committed),
        steps=[*steps, *_offset_steps(offsets)],
    )


def _lost(key: TopicPartition, offset: int, snapshot: ClusterSnapshot) -> LostOffset:
    place = snapshot.partition(*key)
    end = None if place is None else place.end_offset
    start = 0 if place is None else place.start_offset or 0
    unread = None if end is None else max(0, end - max(offset, start))
    return LostOffset(key.topic, key.partition, offset, end, unread)


def _offset_steps(offsets: Sequence[LostOffset]) -> Iterator[str]:
    if not offsets:
        yield "The group has committed nothing."
        return
    yield (
        f"{counted(len(offsets), 'committed offset')} {'is' if len(offsets) == 1 else 'are'} forgotten. "
        "That cannot be undone."
    )
    yield (
        "Consumers that come back begin where auto.offset.reset says: with earliest they read everything again, with "
        "latest they skip what they have not read."
    )
    unread = sum(each.unread_count or 0 for each in offsets)
    if unread:
        yield f"{counted(unread, 'offset')} {'has' if unread == 1 else 'have'} not been read."


def _pipeline_steps(group: str) -> Iterator[str]:
    pipeline = pipeline_of_marker_group(group)
    if pipeline is not None:
        yield (
            f"If it holds the markers of the Spark pipeline {pipeline}, the pipeline does not know any more which "
            "micro-batches it has written, and may write one again."
        )


def _fingerprint(committed: Mapping[TopicPartition, int]) -> str:
    lines = [f"{topic}\n{number}\n{at}" for (topic, number), at in sorted(committed.items())]
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()[:32]
