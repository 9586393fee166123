"""The committed offsets of groups, and the pending ones of open transactions."""

from __future__ import annotations

from typing import NamedTuple

from ottla.core.group.events import OffsetCommitted

TopicPartitionKey = tuple[str, int]


class CommittedOffset(NamedTuple):
    """A committed offset; `position` orders commits as the log does."""

    commit: OffsetCommitted
    position: int


class PartitionOffsets(NamedTuple):
    """The committed offset of a group for a partition, and the pending ones."""

    current: OffsetCommitted | None
    pending: list[OffsetCommitted]


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
        offsets[commit.topic, commit.partition] = CommittedOffset(commit, self._position)

    def commit_pending(self, commit: OffsetCommitted, producer_id: int) -> None:
        """A commit that counts when the producer's transaction is committed."""
        groups = self._pending.setdefault(producer_id, {})
        groups.setdefault(commit.group_id, {})[commit.topic, commit.partition] = self._next(commit)
        self._pending_by_group.setdefault(commit.group_id, {})[producer_id] = None

    def _next(self, commit: OffsetCommitted) -> CommittedOffset:
        self._position += 1
        return CommittedOffset(commit, self._position)

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

    def get(self, group_id: str, topic: str, partition: int) -> OffsetCommitted | None:
        found = self._committed.get(group_id, {}).get((topic, partition))
        return None if found is None else found.commit

    def of_group(self, group_id: str) -> list[OffsetCommitted]:
        return [found.commit for found in self._committed.get(group_id, {}).values()]

    def pending_of_group(self, group_id: str) -> list[OffsetCommitted]:
        return [
            found.commit
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
                    found[group_id, partition] = PartitionOffsets(offset.commit, [])
        for groups in self._pending.values():
            for group_id, offsets in groups.items():
                for (name, partition), offset in offsets.items():
                    if name == topic:
                        of_partition = found.setdefault(
                            (group_id, partition), PartitionOffsets(None, [])
                        )
                        of_partition.pending.append(offset.commit)
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
