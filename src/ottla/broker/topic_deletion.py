"""Deleting topics: the catalog first, then their data, then the offsets that groups have committed for them.

A deletion that a crash or an error interrupts stays in `Catalog.deleting`, and `finish` goes on with it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import partial

from ottla.broker.loop.loop_share import LoopShare, at_once
from ottla.broker.members import Member
from ottla.broker.requests.gather_responses import respond_to_all
from ottla.core.catalog import Catalog, Changes, Deleted, Topic
from ottla.core.group.machine import GroupMachine
from ottla.core.outcomes import Refused
from ottla.core.turn import Turn
from ottla.events import EventLog
from ottla.ports import LogStore, PartitionRef, StorageError

logger = EventLog(__name__)


class TopicDeletion:
    """The deletions of a cluster that are under way."""

    def __init__(
        self,
        store: LogStore,
        catalog: Catalog,
        share: LoopShare,
        commit: Callable[[Changes], None],
        members: Callable[[], Iterable[Member]],
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._share = share
        self._commit = commit
        self._members = members
        # Deleted topics that groups are forgetting; a dict for its order.
        self._forgetting: dict[uuid.UUID, None] = {}
        # Deleted topics whose data is being removed.
        self._removing: set[uuid.UUID] = set()

    def delete(self, topics: Sequence[Topic], now_ms: int) -> None:
        """Removes topics from the catalog in one step; `remove_data` does the rest."""
        changes: Changes = {}
        for topic in topics:
            changes |= self._catalog.delete(topic, now_ms)
        self._commit(changes)

    async def finish(self) -> None:
        """Goes on with deletions that are not complete."""
        if self._catalog.deleting:
            await self._share.run(self.remove_data())

    def finish_at_once(self) -> None:
        """As `finish`, before any client is served."""
        at_once(self.remove_data())

    def remove_data(self) -> Generator[None, None, None]:
        """Removes the data of deleted topics, a partition per step; the next call retries failed ones."""
        found = {
            topic_id: deleted
            for topic_id, deleted in self._catalog.deleting.items()
            if topic_id not in self._removing
        }
        gone: dict[uuid.UUID, Deleted] = {}
        self._removing.update(found)
        try:
            for topic_id, deleted in found.items():
                try:
                    for partition in range(deleted.partition_count):
                        self._store.delete(PartitionRef(deleted.name, partition, topic_id))
                        yield
                except StorageError as error:
                    logger.error(
                        "topic_data_not_deleted",
                        "the data of the deleted topic %(topic)s is still there: %(reason)s",
                        topic=deleted.name,
                        reason=str(error),
                    )
                    continue
                # Before nodes have joined, no group is loaded that could forget its offsets.
                if any(self._members()) and topic_id not in self._forgetting:
                    gone[topic_id] = deleted
        finally:
            self._removing.difference_update(found)
        if gone:
            self._forget_offsets(gone)

    def forget_offsets_early(self, topics: Iterable[Topic]) -> None:
        """Makes groups forget topics whose data is still being removed: a new topic may get the name before."""
        for topic in topics:
            deleted = self._catalog.deleting.get(topic.topic_id)
            if deleted is not None:
                for member in self._members():
                    member.groups.ask_all(partial(forget_topic, deleted=deleted))

    def _forget_offsets(self, gone: Mapping[uuid.UUID, Deleted]) -> None:
        """Makes every group forget topics without data; when that is durable, their deletion is complete."""

        def forget(groups: GroupMachine, turn: Turn) -> list[uuid.UUID]:
            """The topics with offsets in an open transaction: the next `remove_data` tries again."""
            return [
                topic_id
                for topic_id, deleted in gone.items()
                if forget_topic(groups, turn, deleted) is not None
            ]

        def forgotten(results: list[list[uuid.UUID] | Refused]) -> None:
            for topic_id in gone:
                del self._forgetting[topic_id]
            in_transactions: set[uuid.UUID] = set()
            for result in results:
                if isinstance(result, Refused):
                    return  # a partition has moved or is offline: the next `remove_data` tries again
                in_transactions.update(result)
            self._complete(
                {
                    topic_id: deleted
                    for topic_id, deleted in gone.items()
                    if topic_id not in in_transactions
                }
            )

        self._forgetting.update(dict.fromkeys(gone))
        parts = [part for member in self._members() for part in member.groups.ask_all(forget)]
        respond_to_all(parts, forgotten)

    def _complete(self, topics: Mapping[uuid.UUID, Deleted]) -> None:
        """Removes complete deletions from the catalog."""
        if not topics:
            return
        changes: Changes = {}
        for topic_id in topics:
            changes |= self._catalog.deleted(topic_id)
        try:
            self._commit(changes)
        except StorageError as error:
            logger.error(
                "topic_end_not_noted",
                "the end of topic %(topic)s was not noted: %(reason)s",
                topic=", ".join(deleted.name for deleted in topics.values()),
                reason=str(error),
            )


def forget_topic(groups: GroupMachine, turn: Turn, deleted: Deleted) -> Refused | None:
    """Deletes the offsets that a coordinator's groups have committed for a deleted topic."""
    return groups.forget_topic(turn, deleted.name, deleted.deleted_at_ms)
