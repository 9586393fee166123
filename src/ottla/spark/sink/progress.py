"""A pipeline's progress as the cluster keeps it: the marker of the last micro-batch and the offsets of its group.

The marker {query, batch, plan} is committed in the same transaction as the records of its micro-batch, as metadata of
an offset in a group of its own. So it says which micro-batch was written last, whatever the source is.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ottla.client.blocking.admin import Admin
from ottla.client.model import OffsetAndMetadata
from ottla.errors import OttlaError
from ottla.model import TopicPartition
from ottla.spark.cluster_queries import retriable_as_a_whole
from ottla.spark.source.stream_offsets import SourceRange


class ProgressError(OttlaError):
    """The sink cannot tell whether a micro-batch was written, or the micro-batch is not the next one."""


class TakenOverError(OttlaError):
    """Another instance of the pipeline has taken over: this one has to stop."""


_ID_PREFIX: Final = "ottla-pipeline-"
_MARKER_SUFFIX: Final = ".marker"


def transactional_id(pipeline: str) -> str:
    """The transactional id of a pipeline. The bare name may be that of another program's producer (ADR 0030)."""
    return f"{_ID_PREFIX}{pipeline}"


def marker_group(pipeline: str) -> str:
    """The group that holds the marker, apart from the pipeline's own group, whose lag tools show."""
    return f"{pipeline}{_MARKER_SUFFIX}"


def pipeline_of_transactional_id(name: str) -> str | None:
    """The pipeline of a transactional id; None if it is that of another program."""
    return name.removeprefix(_ID_PREFIX) if name.startswith(_ID_PREFIX) else None


def pipeline_of_marker_group(group: str) -> str | None:
    """The pipeline of a group that may hold a marker; other programs may have groups with such names."""
    return group.removesuffix(_MARKER_SUFFIX) if group.endswith(_MARKER_SUFFIX) else None


class Marker(NamedTuple):
    """The micro-batch that was committed last."""

    query: str
    batch: int
    plan: str | None = None
    """The digest of what Spark had planned for it; None if the checkpoint could not be read."""
    writer: str | None = None
    """The transactional id that wrote it; None if that was the pipeline's bare name (ADR 0030)."""

    def to_offset(self) -> OffsetAndMetadata:
        """How a group stores it: the batch as the offset, the rest as metadata."""
        fields: dict[str, object] = {"query": self.query, "batch": self.batch, "plan": self.plan}
        if self.writer is not None:
            fields["writer"] = self.writer
        return OffsetAndMetadata(self.batch, json.dumps(fields, separators=(",", ":")))

    @classmethod
    def from_offset(cls, stored: OffsetAndMetadata, group: str) -> Marker:
        """The inverse of `to_offset`; a ProgressError for an offset that is no marker."""
        try:
            fields = json.loads(stored.metadata or "")
            query, batch = fields["query"], fields["batch"]
            plan, writer = fields.get("plan"), fields.get("writer")
            is_marker = (
                isinstance(query, str)
                and type(batch) is int
                and batch == stored.offset
                and (plan is None or isinstance(plan, str))
                and (writer is None or isinstance(writer, str))
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            is_marker = False
        if not is_marker:
            raise ProgressError(
                f"Group {group!r} has an offset that no pipeline wrote: {stored.offset} with "
                f"{stored.metadata!r}. Give the pipeline another name, or delete that group."
            )
        return cls(query, batch, plan, writer)

    @property
    def is_under_bare_name(self) -> bool:
        """Whether its writer, which may still run, uses the pipeline's bare name as its transactional id."""
        return self.writer is None


@dataclass(frozen=True)
class Target:
    """Where a pipeline writes."""

    pipeline: str
    """Its stable name: the name of the group with its source's offsets, and part of the transactional id."""
    marker_topic: str
    """The marker is stored as an offset of partition 0 of this topic."""
    # The options may contain passwords.
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Options of the producer, by Kafka's names."""
    admin_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    fails_on_unknown: bool = True

    @property
    def transactional_id(self) -> str:
        """The transactional id of its producer."""
        return transactional_id(self.pipeline)

    @property
    def key(self) -> tuple[object, ...]:
        """Commits with equal keys can share a producer."""
        return (self.pipeline, self.marker_topic, *sorted(self.options.items()))


@dataclass(frozen=True)
class CommittedProgress:
    """The committed offsets and marker of a pipeline's groups."""

    marker: Marker | None
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Offsets of the pipeline's own group, for the partitions of the micro-batch."""
    differing: Collection[TopicPartition] = ()
    """Those partitions that not all sources had read up to the offset."""


def read_progress(
    admin: Admin, target: Target, sources: Sequence[SourceRange], *, is_stable: bool
) -> CommittedProgress:
    """Ask the cluster; with `is_stable` the answer waits for open transactions that would change it."""
    group = marker_group(target.pipeline)
    place = TopicPartition(target.marker_topic, 0)
    wanted: dict[str, list[TopicPartition]] = {group: [place]}
    if ends := [each for source in sources for each in source.end]:
        wanted[target.pipeline] = ends
    found = retriable_as_a_whole(
        lambda: admin.list_consumer_group_offsets(wanted, require_stable=is_stable)
    )
    marker = found[group].get(place)
    offsets = {each: at for each, at in found.get(target.pipeline, {}).items() if at is not None}
    return CommittedProgress(
        None if marker is None else Marker.from_offset(marker, group),
        {each: at.offset for each, at in offsets.items()},
        [each for each, at in offsets.items() if at.metadata == DIFFERING],
    )


DIFFERING: Final = "sources differ"
"""The metadata of a group's offset that is not the position of all sources of its partition."""


def group_offsets(sources: Sequence[SourceRange]) -> dict[TopicPartition, OffsetAndMetadata]:
    """The offsets that the pipeline's group gets for the ends of these sources.

    Several sources may read one partition (a self-join), not all as far. The group then gets the smallest offset,
    marked as DIFFERING: a query that starts there would repeat what the other sources had read.
    """
    ends: dict[TopicPartition, list[int]] = {}
    for source in sources:
        for each, at in source.end.items():
            ends.setdefault(each, []).append(at)
    return {
        each: OffsetAndMetadata(min(at), "" if min(at) == max(at) else DIFFERING)
        for each, at in ends.items()
    }


def fence_bare_name(admin: Admin, pipeline: str, marker: Marker | None) -> bool:
    """Fence the producer whose transactional id is the bare name, if one wrote the marker; whether it did."""
    if marker is None or not marker.is_under_bare_name:
        return False
    retriable_as_a_whole(lambda: admin.fence_producers([pipeline]))
    return True
