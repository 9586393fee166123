"""The positions of a streaming query: how far it has read, and how far it may read next. No IO."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from ottla.errors import OttlaError
from ottla.model import TopicPartition
from ottla.spark.source.offset_ranges import OffsetRange
from ottla.spark.source.partition_maps import flatten_by_topic, nest_by_topic

VERSION: Final = 1


class OffsetFormatError(OttlaError):
    """The checkpoint has an offset that this source did not write."""


class DataLossError(OttlaError):
    """Records were deleted before the query read them."""


@dataclass(frozen=True)
class SourceOffset:
    """A position in each partition, as Spark's checkpoint keeps it."""

    offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    """By name. A topic that was deleted and created again has another id, and other records."""
    cluster: str | None = None
    group: str | None = None
    """The source's option pipeline."""
    new: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The start of partitions that the previous position did not have, or had in a former topic of the name."""
    begin: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The start of the first micro-batch of a query; others start at the previous position.

    Spark stores only the end of a micro-batch. If it repeats the first one, it calls `initialOffset` again, which may
    find another offset for `latest`.
    """

    @property
    def is_initial(self) -> bool:
        """Whether this is the start of a query."""
        return bool(self.offsets) and dict(self.begin) == dict(self.offsets)

    def to_json(self) -> dict[str, Any]:
        """The JSON for Spark's offset log; equal positions have equal texts."""
        found: dict[str, Any] = {"version": VERSION, "topics": nest_by_topic(self.offsets)}
        if self.topic_ids:
            found["ids"] = {name: self.topic_ids[name] for name in sorted(self.topic_ids)}
        if self.new:
            found["new"] = nest_by_topic(self.new)
        if self.begin:
            found["begin"] = nest_by_topic(self.begin)
        if self.cluster is not None:
            found["cluster"] = self.cluster
        if self.group is not None:
            found["group"] = self.group
        return found

    @classmethod
    def from_spark(cls, found: object) -> SourceOffset:
        """As `from_json`, for progress reports, where an offset is an object or its text."""
        if isinstance(found, str):
            try:
                found = json.loads(found)
            except ValueError:
                found = None
        return cls.from_json(found)

    @classmethod
    def from_json(cls, found: object) -> SourceOffset:
        """The inverse of `to_json`; accepts the offsets of Spark's own Kafka source too."""
        try:
            if not isinstance(found, dict):
                raise ValueError("it is not an object")
            # A topic may be called `version`, but then it has partitions.
            if isinstance(found.get("version", {}), dict):
                return cls(flatten_by_topic(found))
            if found["version"] != VERSION:
                raise ValueError(f"version {found['version']} is not known: use a newer Ottla")
            return cls(
                flatten_by_topic(found.get("topics")),
                _texts(found.get("ids", {})),
                _text(found.get("cluster")),
                _text(found.get("group")),
                flatten_by_topic(found.get("new", {})),
                flatten_by_topic(found.get("begin", {})),
            )
        except ValueError as error:
            raise OffsetFormatError(
                f"The checkpoint has an offset that is not of this source: {found!r} ({error})"
            ) from error


def _texts(found: object) -> dict[str, str]:
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise ValueError("ids are not strings")
    return dict(found)


def _text(found: object) -> str | None:
    if found is not None and not isinstance(found, str):
        raise ValueError(f"{found!r} is not a string")
    return found


class FoundPartitions(NamedTuple):
    """The existing partitions of a subscription, with the ids of topics and cluster where brokers have ids."""

    partitions: tuple[TopicPartition, ...]
    topic_ids: Mapping[str, str]
    cluster: str | None = None


class AvailableOffsets(NamedTuple):
    """How far the query can read, and which records were lost before that."""

    end: SourceOffset
    losses: tuple[str, ...]


def new_partitions(start: SourceOffset, found: FoundPartitions) -> list[TopicPartition]:
    """Partitions to read from their first record: new ones, and those of topics that were created again."""
    again = recreated_topics(start, found.topic_ids)
    return [each for each in found.partitions if each not in start.offsets or each.topic in again]


def recreated_topics(start: SourceOffset, topic_ids: Mapping[str, str]) -> set[str]:
    """Topics that were deleted and created again since."""
    return {
        topic
        for topic, topic_id in topic_ids.items()
        if start.topic_ids.get(topic, topic_id) != topic_id
    }


def missing_partitions(start: SourceOffset, found: FoundPartitions) -> list[TopicPartition]:
    """Partitions that were read and are missing: their topic was deleted, or the broker does not know it yet."""
    again = recreated_topics(start, found.topic_ids)
    there = set(found.partitions)
    return [each for each in sorted(start.offsets) if each not in there and each.topic not in again]


def latest_available(
    start: SourceOffset,
    found: FoundPartitions,
    latest: Mapping[TopicPartition, int],
    earliest: Mapping[TopicPartition, int],
) -> AvailableOffsets:
    """The end of all partitions now.

    `latest` has the end of each partition, `earliest` the start of each new one.
    """
    fresh = new_partitions(start, found)
    again = recreated_topics(start, found.topic_ids)
    missing = missing_partitions(start, found)
    losses = []
    if None not in (start.cluster, found.cluster) and start.cluster != found.cluster:
        losses.append(
            f"the checkpoint is of cluster {start.cluster}, and this is cluster {found.cluster}"
        )
    losses += [f"{each} is gone" for each in missing]
    losses += [f"topic {each} was deleted and created again" for each in sorted(again)]
    losses += [
        f"{each} is new and starts at {earliest[each]} instead of 0"
        for each in fresh
        if earliest[each] > 0 and each.topic not in again
    ]
    # A new query has read nothing.
    before = "startingOffsets say" if start.is_initial else "it was read up to"
    losses += [
        f"{each} ends at {latest[each]}, and {before} {start.offsets[each]}"
        for each in truncated_partitions(start, found, latest)
    ]
    end = replace(
        start,
        # A missing topic may come back. Then the query continues at its position.
        offsets={each: start.offsets[each] for each in missing}
        | {each: latest[each] for each in found.partitions},
        topic_ids={
            each.topic: start.topic_ids[each.topic]
            for each in missing
            if each.topic in start.topic_ids
        }
        | dict(found.topic_ids),
        cluster=found.cluster,
        new={each: earliest[each] for each in fresh},
        begin=_begin_after(start),
    )
    return AvailableOffsets(end, tuple(losses))


def truncated_partitions(
    start: SourceOffset, found: FoundPartitions, latest: Mapping[TopicPartition, int]
) -> list[TopicPartition]:
    """Partitions whose end is before the position: the leader is behind, or lost records."""
    fresh = set(new_partitions(start, found))
    return [
        each
        for each in found.partitions
        if each not in fresh and latest[each] < start.offsets[each]
    ]


def start_offset_of(start: SourceOffset, end: SourceOffset, partition: TopicPartition) -> int:
    """Where the read of a partition starts; 0 if neither position has it."""
    known = end.begin if partition in end.begin else start.offsets
    return end.new.get(partition, known.get(partition, 0))


class SourceRange(NamedTuple):
    """The offsets that a source reads for one micro-batch: from `start` to `end` of a cluster's partitions."""

    cluster: str | None
    start: Mapping[TopicPartition, int]
    """Lacks partitions whose start is not known."""
    end: Mapping[TopicPartition, int]
    group: str | None = None
    """The source's option pipeline."""


def source_range(before: SourceOffset | None, end: SourceOffset) -> SourceRange:
    """The range between two positions."""
    start = {**end.begin, **end.new}
    if before is not None:
        start = {each: start_offset_of(before, end, each) for each in end.offsets}
    return SourceRange(end.cluster, start, end.offsets, end.group)


def _begin_after(start: SourceOffset) -> Mapping[TopicPartition, int]:
    """The field `begin` of a micro-batch's end: only the first micro-batch has one."""
    return start.begin if start.is_initial else {}


def ranges_between(start: SourceOffset, end: SourceOffset) -> list[OffsetRange]:
    """The ranges between two positions; partitions that shrank are left out."""
    found = [
        OffsetRange(each, start_offset_of(start, end, each), end.offsets[each])
        for each in sorted(end.offsets)
    ]
    return [each for each in found if each.size > 0]


def offset_count(start: SourceOffset, end: SourceOffset) -> int:
    """The number of offsets between two positions; there may be fewer records."""
    return sum(each.size for each in ranges_between(start, end))


def is_same_position(start: SourceOffset, end: SourceOffset) -> bool:
    """Whether there is nothing to read between two positions, and no new partition."""
    return not end.new and dict(start.offsets) == dict(end.offsets)


def limit_offsets(start: SourceOffset, end: SourceOffset, max_offsets: int) -> SourceOffset:
    """An end with at most `max_offsets` to read, shared in proportion to the sizes of partitions.

    Each partition with records gets at least one, so that none starves. If more partitions than `max_offsets` have
    records, each gets one.
    """
    todo = ranges_between(start, end)
    total = sum(each.size for each in todo)
    if total <= max(max_offsets, len(todo)):
        return end
    spare, room = max(max_offsets - len(todo), 0), total - len(todo)
    # One for each, the rest in proportion; what rounding leaves goes to the largest remainders.
    shares = [1 + spare * (each.size - 1) // room for each in todo]
    left = max(max_offsets, len(todo)) - sum(shares)
    by_remainder = sorted(range(len(todo)), key=lambda at: -(spare * (todo[at].size - 1) % room))
    for at in by_remainder[:left]:
        shares[at] += 1
    read = {
        each.partition: each.start_offset + share for each, share in zip(todo, shares, strict=True)
    }
    return replace(end, offsets={**end.offsets, **read})


def target_from(start: SourceOffset, target: SourceOffset) -> SourceOffset:
    """The target of an available-now query, for a later start: partitions are new only once."""
    new = {each: at for each, at in target.new.items() if each not in start.offsets}
    # The former offsets of a topic that was created again mean nothing.
    again = recreated_topics(start, target.topic_ids)
    new |= {each: at for each, at in target.new.items() if each.topic in again}
    return replace(target, new=new, begin=_begin_after(start))


class Pacing(NamedTuple):
    """When a micro-batch is due: minOffsetsPerTrigger and maxTriggerDelay."""

    min_offsets: int
    max_delay_ms: float

    def is_due(self, offset_count: int, waited_ms: float) -> bool:
        """Whether a micro-batch of `offset_count` offsets is due, `waited_ms` after the last one."""
        return offset_count >= self.min_offsets or waited_ms >= self.max_delay_ms


def resume_offsets(
    committed: Mapping[TopicPartition, int | None], earliest: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Where a pipeline that lost its checkpoint continues.

    A partition without a committed offset was added later, and is read from its first record.
    """
    return {
        each: earliest[each] if offset is None else offset
        for each, offset in sorted(committed.items())
    }


def partition_lags(end: SourceOffset, latest: SourceOffset) -> dict[TopicPartition, int]:
    """The number of offsets between the position and the latest, for each partition."""
    return {
        each: max(offset - end.offsets.get(each, latest.new.get(each, 0)), 0)
        for each, offset in sorted(latest.offsets.items())
    }
