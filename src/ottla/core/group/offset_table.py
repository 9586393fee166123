"""The committed offsets of groups, and the pending ones of open transactions."""

from __future__ import annotations

from typing import Any, NamedTuple, cast
from uuid import UUID

from ottla.core.group.events import OffsetCommitted, OffsetsCommitted
from ottla.records.offset_kernel import put_offsets

TopicPartitionKey = tuple[str, int]


class CommittedOffset(NamedTuple):
    """The fields of an `OffsetCommitted`, and a `position` that orders commits as the log does.

    Flat, because a broker may have millions of them.
    """

    group_id: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    committed_at_ms: int
    expires_at_ms: int
    topic_id: UUID | None
    position: int

    @property
    def commit(self) -> OffsetCommitted:
        return OffsetCommitted(*self[:-1])


class PartitionOffsets(NamedTuple):
    """The committed offset of a group for a partition, and the pending ones."""

    current: CommittedOffset | None
    pending: list[CommittedOffset]


# As CommittedOffset._make, without its checks: a replay makes one for every record.
_new = cast(Any, tuple.__new__)


class OffsetTable:
    """The offsets that a replay of the log restores."""

    def __init__(self) -> None:
        self._committed: dict[str, dict[TopicPartitionKey, CommittedOffset]] = {}
        # By producer id: a marker ends everything that the producer has pending on the partition.
        self._pending: dict[int, dict[str, dict[TopicPartitionKey, CommittedOffset]]] = {}
        # By group: the producers that have something pending for it; dicts for their order.
        self._pending_by_group: dict[str, dict[int, None]] = {}
        self._position = 0

    # Changes.

    def commit(self, commit: OffsetCommitted) -> None:
        offsets = self._committed.get(commit.group_id)
        if offsets is None:
            offsets = self._committed[commit.group_id] = {}
        self._position += 1
        offsets[commit.topic, commit.partition] = _new(CommittedOffset, (*commit, self._position))

    def commit_columns(self, commit: OffsetsCommitted) -> None:
        """As `commit`, for many offsets of a topic."""
        offsets = self._committed.get(commit.group_id)
        if offsets is None:
            offsets = self._committed[commit.group_id] = {}
        self._put(offsets, commit)

    def _put(
        self, offsets: dict[TopicPartitionKey, CommittedOffset], commit: OffsetsCommitted
    ) -> None:
        put_offsets(offsets, CommittedOffset, *commit, self._position)
        self._position += len(commit.partitions)

    def commit_pending(self, commit: OffsetCommitted | OffsetsCommitted, producer_id: int) -> None:
        """Commits that count when the producer's transaction is committed."""
        offsets = self._pending.setdefault(producer_id, {}).setdefault(commit.group_id, {})
        if isinstance(commit, OffsetsCommitted):
            self._put(offsets, commit)
        else:
            self._position += 1
            offsets[commit.topic, commit.partition] = CommittedOffset(*commit, self._position)
        self._pending_by_group.setdefault(commit.group_id, {})[producer_id] = None

    def delete(self, group_id: str, topic: str, partition: int) -> None:
        """Deletes an offset, also pending ones."""
        _drop(self._committed, group_id, (topic, partition))
        for producer_id in list(self._pending_by_group.get(group_id, ())):
            groups = self._pending[producer_id]
            _drop(groups, group_id, (topic, partition))
            if group_id not in groups:
                self._forget_pending(producer_id, group_id)
            if not groups:
                del self._pending[producer_id]

    def commit_transaction(self, producer_id: int) -> None:
        """Makes the pending offsets of a producer current.

        Of a plain commit and one in a transaction, the later one in the log counts, not the marker: compaction may keep
        the marker and drop the earlier commit, and a replay has to come to the same result.
        """
        for group_id, offsets in self._end(producer_id).items():
            committed = self._committed.setdefault(group_id, {})
            for key, pending in offsets.items():
                current = committed.get(key)
                if current is None or current.position < pending.position:
                    committed[key] = pending

    def abort_transaction(self, producer_id: int) -> None:
        self._end(producer_id)

    def _end(self, producer_id: int) -> dict[str, dict[TopicPartitionKey, CommittedOffset]]:
        ended = self._pending.pop(producer_id, {})
        for group_id in ended:
            self._forget_pending(producer_id, group_id)
        return ended

    def _forget_pending(self, producer_id: int, group_id: str) -> None:
        producers = self._pending_by_group[group_id]
        del producers[producer_id]
        if not producers:
            del self._pending_by_group[group_id]

    # Queries.

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        return self._committed.get(group_id, {}).get((topic, partition))

    def of_group(self, group_id: str) -> list[CommittedOffset]:
        return list(self._committed.get(group_id, {}).values())

    def pending_of_group(self, group_id: str) -> list[CommittedOffset]:
        return [
            found
            for producer_id in self._pending_by_group.get(group_id, ())
            for found in self._pending[producer_id][group_id].values()
        ]

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        return any(
            (topic, partition) in self._pending[producer_id][group_id]
            for producer_id in self._pending_by_group.get(group_id, ())
        )

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether there is an offset, committed or pending."""
        is_committed = (topic, partition) in self._committed.get(group_id, {})
        return is_committed or self.is_pending(group_id, topic, partition)

    def has_group(self, group_id: str) -> bool:
        return group_id in self._committed or group_id in self._pending_by_group

    def group_ids(self) -> list[str]:
        """Every group with an offset, committed or pending."""
        return list(dict.fromkeys((*self._committed, *self._pending_by_group)))

    def of_topic(self, topic: str) -> dict[tuple[str, int], PartitionOffsets]:
        """The offsets of a topic, by group and partition."""
        found: dict[tuple[str, int], PartitionOffsets] = {}
        for group_id, offsets in self._committed.items():
            for (name, partition), offset in offsets.items():
                if name == topic:
                    found[group_id, partition] = PartitionOffsets(offset, [])
        for groups in self._pending.values():
            for group_id, offsets in groups.items():
                for (name, partition), offset in offsets.items():
                    if name == topic:
                        of_partition = found.setdefault(
                            (group_id, partition), PartitionOffsets(None, [])
                        )
                        of_partition.pending.append(offset)
        return found

    def state(self) -> object:
        """All of it as plain values, to compare it with a replay."""
        return (
            {
                group_id: {key: offset.commit for key, offset in offsets.items()}
                for group_id, offsets in self._committed.items()
            },
            {
                (producer_id, group_id): {key: offset.commit for key, offset in offsets.items()}
                for producer_id, groups in self._pending.items()
                for group_id, offsets in groups.items()
            },
        )


def _drop(
    groups: dict[str, dict[TopicPartitionKey, CommittedOffset]],
    group_id: str,
    key: TopicPartitionKey,
) -> None:
    offsets = groups.get(group_id)
    if offsets is None:
        return
    offsets.pop(key, None)
    if not offsets:
        del groups[group_id]
