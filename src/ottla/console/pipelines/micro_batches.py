"""The last micro-batches of a pipeline, from the end of `__consumer_offsets`.

A micro-batch commits its marker, and the position of its source, in one transaction. Both stay in the log until it is
compacted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.client.model import OffsetAndMetadata
from ottla.console.clients import Clients
from ottla.console.cluster.log_tail import AnyRecord, read_tails
from ottla.console.cluster.snapshot import ClusterSnapshot
from ottla.console.pipelines.states import markers_of
from ottla.core.catalog import GROUPS_TOPIC
from ottla.errors import OttlaError
from ottla.model import TopicPartition, coordinator_partition
from ottla.spark.sink.progress import marker_group
from ottla.wire.compile import decode_stored, stored_version
from ottla.wire.stored.offset_commit import OffsetCommitKey, OffsetCommitValue
from ottla.wire.types import MalformedMessageError

MAX_OFFSETS: Final = 20_000
MAX_MICRO_BATCHES: Final = 200
API_MS: Final = 10_000
LIMIT_SECONDS: Final = 5.0
_OFFSET_KEY_VERSIONS: Final = (0, 1)


class StoredOffset(NamedTuple):
    """An offset that a group committed."""

    group: str
    partition: TopicPartition
    at: OffsetAndMetadata
    commit_timestamp_ms: int
    log_position: tuple[int, int]
    """Partition and offset in `__consumer_offsets`."""


@dataclass(frozen=True)
class MicroBatch:
    """A micro-batch that was committed."""

    query: str
    batch: int
    topic: str
    committed_at_ms: int
    input_count: int | None
    """How many offsets of the source it read: markers count, too. None if that cannot be told."""
    gap_ms: int | None
    """The time since the commit of the one before."""


@dataclass(frozen=True)
class MicroBatches:
    """The newest first."""

    micro_batches: list[MicroBatch]
    is_whole: bool
    """Whether the log was read from its start; compaction may have removed older ones all the same."""
    problem: str | None = None


async def read_micro_batches(
    clients: Clients, snapshot: ClusterSnapshot, pipeline: str
) -> MicroBatches:
    """Read the last records of the partitions that hold the pipeline's groups."""
    topic = snapshot.topics.get(GROUPS_TOPIC)
    if topic is None:
        return MicroBatches([], is_whole=False, problem=f"{GROUPS_TOPIC} cannot be seen")
    groups = (pipeline, marker_group(pipeline))
    places = {
        TopicPartition(GROUPS_TOPIC, coordinator_partition(group, len(topic.partitions)))
        for group in groups
    }
    try:
        async with clients.consumer(
            isolation_level="read_committed", max_poll_records=5_000, default_api_timeout_ms=API_MS
        ) as consumer:
            tails = await read_tails(
                consumer,
                sorted(places),
                max_offsets=MAX_OFFSETS,
                limit_seconds=LIMIT_SECONDS,
                wanted=lambda record: _is_of(record, groups),
            )
    except OttlaError as error:
        return MicroBatches([], is_whole=False, problem=f"{GROUPS_TOPIC} cannot be read: {error}")
    stored = [
        found
        for tail in tails.values()
        for record in tail.records
        if (found := stored_offset(record)) is not None
    ]
    is_whole = all(tail.is_from_start and tail.is_to_end for tail in tails.values())
    return MicroBatches(micro_batches(pipeline, stored)[:MAX_MICRO_BATCHES], is_whole)


def _is_of(record: AnyRecord, groups: Sequence[str]) -> bool:
    key = record.key
    if key is None or stored_version(key) not in _OFFSET_KEY_VERSIONS:
        return False
    try:
        return decode_stored(OffsetCommitKey, key).group in groups
    except MalformedMessageError:
        return False


def stored_offset(record: AnyRecord) -> StoredOffset | None:
    """The committed offset in a record; None for other kinds and for deletions."""
    if record.key is None or record.value is None:
        return None
    try:
        if stored_version(record.key) not in _OFFSET_KEY_VERSIONS:
            return None
        key = decode_stored(OffsetCommitKey, record.key)
        value = decode_stored(OffsetCommitValue, record.value)
    except MalformedMessageError:
        return None
    return StoredOffset(
        key.group,
        TopicPartition(key.topic, key.partition),
        OffsetAndMetadata(value.offset, value.metadata),
        value.commit_timestamp,
        (record.partition, record.offset),
    )


def micro_batches(pipeline: str, stored: Iterable[StoredOffset]) -> list[MicroBatch]:
    """The micro-batches in what a pipeline's two groups committed, the newest first.

    The source's position is sent just before the marker, so it belongs to the next marker by time. A marker that is
    stored again, by the renewal of an idle pipeline, is no micro-batch.
    """
    marker_name = marker_group(pipeline)
    # At the same time the position comes first, as the sink sends it.
    ordered = sorted(stored, key=lambda each: (each.commit_timestamp_ms, each.group == marker_name))
    position: dict[TopicPartition, int] = {}
    moved: int | None = 0
    found: list[MicroBatch] = []
    for each in ordered:
        if each.group == pipeline:
            before = position.get(each.partition)
            position[each.partition] = each.at.offset
            # The first offset of a partition does not tell how far the source has moved.
            moved = None if before is None or moved is None else moved + each.at.offset - before
            continue
        markers = markers_of(pipeline, {each.partition: each.at})
        if not markers:
            continue
        marker = markers[0]
        last = found[-1] if found else None
        if last is not None and (last.query, last.batch) == (marker.query, marker.batch):
            continue
        found.append(
            MicroBatch(
                query=marker.query,
                batch=marker.batch,
                topic=marker.topic,
                committed_at_ms=each.commit_timestamp_ms,
                input_count=moved if position else None,
                gap_ms=None
                if last is None
                else max(0, each.commit_timestamp_ms - last.committed_at_ms),
            )
        )
        moved = 0
    return found[::-1]
