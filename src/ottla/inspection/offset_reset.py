"""What a reset makes of a group's committed offsets: the plan, without asking the cluster or changing anything.

The caller finds out what `offsets_to_list` names, makes the plan, and commits it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from ottla.client.admin_model.groups import GroupDescription, GroupState, GroupType
from ottla.client.admin_model.offsets import OffsetSpec
from ottla.errors import OttlaError
from ottla.model import TopicPartition

Offsets: TypeAlias = Mapping[TopicPartition, int]

_WITHOUT_MEMBERS: Final = (GroupState.EMPTY, GroupState.DEAD)


@dataclass(frozen=True)
class ToEarliest:
    """The first offset of the log."""


@dataclass(frozen=True)
class ToLatest:
    """The end of the log."""


@dataclass(frozen=True)
class ToOffset:
    """The same offset in all partitions."""

    offset: int


@dataclass(frozen=True)
class ToOffsets:
    """An offset for each partition."""

    offsets: Offsets


@dataclass(frozen=True)
class ToTime:
    """The first record at or after a time; the end of the log where there is none."""

    at_ms: int


@dataclass(frozen=True)
class ShiftBy:
    """So many offsets on from the committed one, or back."""

    count: int


@dataclass(frozen=True)
class ToCommitted:
    """The committed offset; the end of the log where there is none."""


ResetTarget: TypeAlias = (
    ToEarliest | ToLatest | ToOffset | ToOffsets | ToTime | ShiftBy | ToCommitted
)


class NothingToShiftError(OttlaError):
    """The group has committed nothing for a partition whose offset is to be shifted."""

    def __init__(self, group: str, partition: TopicPartition) -> None:
        super().__init__(f"group {group} has committed nothing for {partition}")
        self.partition = partition


class MovedOffset(NamedTuple):
    """An offset that does not exist, and the nearest that does."""

    partition: TopicPartition
    wanted_offset: int
    offset: int

    @property
    def text(self) -> str:
        """What is wrong with it."""
        is_behind = self.wanted_offset > self.offset
        how = "higher than the latest" if is_behind else "lower than the earliest"
        return f"new offset ({self.wanted_offset}) is {how} offset of {self.partition}"


@dataclass(frozen=True)
class ResetPlan:
    """The new offsets, and those of them that are not the ones that were asked for."""

    offsets: dict[TopicPartition, int]
    moved: list[MovedOffset] = field(default_factory=list)


def offsets_to_list(target: ResetTarget) -> tuple[int, ...]:
    """The OffsetSpecs whose offsets a plan needs, for each of its partitions."""
    match target:
        case ToEarliest():
            return (OffsetSpec.EARLIEST,)
        case ToLatest() | ToCommitted():
            return (OffsetSpec.LATEST,)
        case ToTime(at_ms):
            return (max(0, at_ms), OffsetSpec.LATEST)
        case _:
            return (OffsetSpec.EARLIEST, OffsetSpec.LATEST)


def plan_reset(
    group: str,
    target: ResetTarget,
    partitions: Sequence[TopicPartition],
    committed: Offsets,
    listed: Mapping[int, Offsets],
) -> ResetPlan:
    """The new offset of each partition. Raises NothingToShiftError."""
    match target:
        case ToEarliest():
            return ResetPlan({each: listed[OffsetSpec.EARLIEST][each] for each in partitions})
        case ToLatest():
            return ResetPlan({each: listed[OffsetSpec.LATEST][each] for each in partitions})
        case ToCommitted():
            end = listed[OffsetSpec.LATEST]
            return ResetPlan({each: committed.get(each, end[each]) for each in partitions})
        case ToTime(at_ms):
            return ResetPlan(_at(partitions, listed[max(0, at_ms)], listed[OffsetSpec.LATEST]))
        case ToOffset(offset):
            return _in_range(dict.fromkeys(partitions, offset), listed)
        case ToOffsets(offsets):
            return _in_range({each: offsets[each] for each in partitions}, listed)
        case ShiftBy(count):
            for partition in partitions:
                if partition not in committed:
                    raise NothingToShiftError(group, partition)
            return _in_range({each: committed[each] + count for each in partitions}, listed)


def _at(
    partitions: Sequence[TopicPartition], found: Offsets, end: Offsets
) -> dict[TopicPartition, int]:
    return {each: end[each] if found[each] < 0 else found[each] for each in partitions}


def _in_range(wanted: Offsets, listed: Mapping[int, Offsets]) -> ResetPlan:
    """The offsets, moved to the nearest that exists."""
    first, end = listed[OffsetSpec.EARLIEST], listed[OffsetSpec.LATEST]
    found = {each: min(max(offset, first[each]), end[each]) for each, offset in wanted.items()}
    moved = [
        MovedOffset(each, wanted[each], offset)
        for each, offset in found.items()
        if offset != wanted[each]
    ]
    return ResetPlan(found, moved)


# Which groups can be reset


def commits_offsets(group: GroupDescription) -> bool:
    """Whether its members commit offsets, as consumers and Kafka Streams do; others may store what they like."""
    if group.type is GroupType.CLASSIC:
        return group.protocol_type in ("consumer", "")
    return group.type is not GroupType.SHARE


def is_active(group: GroupDescription) -> bool:
    """Whether it has members, which would go on from their own positions after a reset."""
    return group.state not in _WITHOUT_MEMBERS
