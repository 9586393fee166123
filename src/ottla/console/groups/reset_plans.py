"""What a reset of a group's offsets does, partition by partition. Made without IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ottla.client.admin_model.offsets import OffsetSpec
from ottla.console.topics.change_plans import counted
from ottla.inspection.offset_reset import Offsets, ResetPlan
from ottla.model import TopicPartition


@dataclass(frozen=True)
class ResetPartition:
    """The committed offset of a partition before and after; None where nothing is committed."""

    topic: str
    partition: int
    before_offset: int | None
    after_offset: int
    wanted_offset: int
    """What was asked for; the nearest offset that exists is taken."""
    start_offset: int
    end_offset: int
    again_count: int
    """The offsets that are read again."""
    skipped_count: int
    """The offsets that are skipped, and have not been read."""


@dataclass(frozen=True)
class ResetOffsetsPlan:
    """What a reset does; all of `partitions` is what has to be sent to do it."""

    group_id: str
    partitions: list[ResetPartition]
    changed_count: int
    """The partitions whose committed offset becomes another one."""
    again_count: int
    skipped_count: int
    steps: list[str]


def reset_plan(
    group: str,
    found: ResetPlan,
    committed: Offsets,
    listed: Mapping[int, Offsets],
    gone_topics: Sequence[str],
) -> ResetOffsetsPlan:
    """The plan for offsets that were found."""
    wanted = {each.partition: each.wanted_offset for each in found.moved}
    partitions = [
        _partition(
            key,
            committed.get(key),
            after,
            wanted.get(key, after),
            (listed[OffsetSpec.EARLIEST][key], listed[OffsetSpec.LATEST][key]),
        )
        for key, after in sorted(found.offsets.items())
    ]
    return ResetOffsetsPlan(
        group_id=group,
        partitions=partitions,
        changed_count=sum(each.before_offset != each.after_offset for each in partitions),
        again_count=sum(each.again_count for each in partitions),
        skipped_count=sum(each.skipped_count for each in partitions),
        steps=list(_steps(partitions, gone_topics)),
    )


def _partition(
    key: TopicPartition, before: int | None, after: int, wanted: int, ends: tuple[int, int]
) -> ResetPartition:
    start, end = ends
    # Offsets before the start cannot be read, whatever is committed.
    return ResetPartition(
        topic=key.topic,
        partition=key.partition,
        before_offset=before,
        after_offset=after,
        wanted_offset=wanted,
        start_offset=start,
        end_offset=end,
        again_count=0 if before is None else max(0, min(before, end) - max(after, start)),
        skipped_count=max(0, min(after, end) - max(start if before is None else before, start)),
    )


def _steps(partitions: Sequence[ResetPartition], gone_topics: Sequence[str]) -> Iterable[str]:
    again = sum(each.again_count for each in partitions)
    skipped = sum(each.skipped_count for each in partitions)
    if again:
        yield f"{counted(again, 'offset')} will be read again: consumers see these records twice."
    if skipped:
        yield f"{counted(skipped, 'offset')} will be skipped: the group never reads these records."
    if not again and not skipped:
        yield "Nothing is read again, and nothing is skipped."
    moved = sum(each.wanted_offset != each.after_offset for each in partitions)
    if moved:
        yield (
            f"In {counted(moved, 'partition')} there is no such offset: the nearest that exists is taken."
        )
    for topic in gone_topics:
        yield f"The topic {topic} does not exist: what the group has committed for it stays."
    yield "Offsets are counted with the markers of transactions."
