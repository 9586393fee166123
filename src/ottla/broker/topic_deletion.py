"""Deleting topics: the catalog first, then their data, then the offsets that groups have committed for them.

A deletion that a crash or an error interrupts stays in `Catalog.deleting`, and `finish` goes on with it. Where nodes
have a store each, every one removes its own data and has its own groups forget; one that is down does so when it is
back. The last of them completes the deletion.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from ottla.broker.catalog_changes import Decide, Decision
from ottla.broker.leaders.leaders import DeletionParts, Leaders
from ottla.broker.loop.loop_share import LoopShare, at_once
from ottla.broker.members import Members
from ottla.broker.requests.gather_responses import respond_to_all, then
from ottla.core.catalog import Catalog, Deleted, Topic
from ottla.core.group.machine import GroupMachine
from ottla.core.outcomes import Refused
from ottla.core.turn import Turn
from ottla.errors import ErrorCode
from ottla.events import EventLog
from ottla.ports import LogStore, PartitionRef, StorageError
from ottla.ports.futures import settled

logger = EventLog(__name__)


class TopicDeletion:
    """The deletions of a cluster that are under way."""

    def __init__(
        self,
        store: LogStore,
        catalog: Catalog,
        share: LoopShare,
        change: Callable[[Decide[Any]], Any],
        members: Members,
        leaders: Leaders,
    ) -> None:
        """`change` changes the catalog (`Cluster.change`)."""
        self._store = store
        self._catalog = catalog
        self._share = share
        self._change = change
        self._members = members
        self._leaders = leaders
        # Deleted topics that groups are forgetting; a dict for its order.
        self._forgetting: dict[uuid.UUID, None] = {}
        # Deleted topics whose data is being removed.
        self._removing: set[uuid.UUID] = set()
        # Those whose data was removed: the store makes that durable before the catalog forgets them.
        self._removed: set[uuid.UUID] = set()

    async def finish(self) -> None:
        """Goes on with deletions that are not complete."""
        if self._catalog.deleting:
            await self._share.run(self.remove_data())

    def finish_at_once(self) -> None:
        """As `finish`, before any client is served."""
        at_once(self.remove_data())

    def followed(self, topics: Sequence[Topic]) -> None:
        """Topics were deleted, perhaps by another process: groups forget them before a client learns that."""
        if topics and self._members.here:
            asyncio.get_running_loop().call_soon(self.forget_offsets_early, topics)

    def remove_data(self) -> Generator[None, None, None]:
        """Removes the data of deleted topics, a partition per step; the next call retries failed ones.

        Topics that groups cannot forget yet are removed once.
        """
        self._removed.intersection_update(self._catalog.deleting)
        found = {
            topic_id: deleted
            for topic_id, deleted in self._catalog.deleting.items()
            if topic_id not in self._removing and not self._is_done_here(deleted)
        }
        gone: dict[uuid.UUID, Deleted] = {}
        self._removing.update(found)
        try:
            for topic_id, deleted in found.items():
                try:
                    if topic_id not in self._removed:
                        for partition in range(deleted.partition_count):
                            self._store.delete(PartitionRef(deleted.name, partition, topic_id))
                            yield
                        self._removed.add(topic_id)
                except StorageError as error:
                    logger.error(
                        "topic_data_not_deleted",
                        "the data of the deleted topic %(topic)s is still there: %(reason)s",
                        topic=deleted.name,
                        reason=str(error),
                    )
                    continue
                # Before nodes have joined, no group is loaded that could forget its offsets.
                if self._members.here and topic_id not in self._forgetting:
                    gone[topic_id] = deleted
        finally:
            self._removing.difference_update(found)
        if gone:
            self._forget_offsets(gone)

    def _is_done_here(self, deleted: Deleted) -> bool:
        """Whether it waits only for other nodes."""
        parts = self._leaders.deletion_parts
        if parts is None or not parts.of_all or not self._members.here:
            return False
        done = deleted.done_of(parts.of_all)
        return all(part in done for part in parts.here)

    def forget_offsets_early(self, topics: Iterable[Topic]) -> None:
        """Makes groups forget topics whose data is still being removed: a new topic may get the name before."""
        for topic in topics:
            deleted = self._catalog.deleting.get(topic.topic_id)
            if deleted is not None:
                for member in self._members.here.values():
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
            left = dict(gone)
            for result in results:
                # Where a partition has moved or is offline, the next `remove_data` tries again.
                for topic_id in gone if isinstance(result, Refused) else result:
                    left.pop(topic_id, None)
            then(self._complete(left, parts), lambda _: ended())

        def ended() -> None:
            for topic_id in gone:
                del self._forgetting[topic_id]

        self._forgetting.update(dict.fromkeys(gone))
        members = list(self._members.here.values())
        # What this process leads later, another may lead now.
        parts = self._leaders.deletion_parts or DeletionParts(list(self._members.here), ())
        respond_to_all(
            [part for member in members for part in member.groups.ask_all(forget)], forgotten
        )

    def _complete(self, topics: Mapping[uuid.UUID, Deleted], parts: DeletionParts) -> Any:
        """Removes deletions from the catalog to which no other process has a part to do; now or later."""
        if not topics:
            return None

        def decide() -> Decision[None]:
            return Decision(self._catalog.deleted_by(topics, parts.here, parts.of_all), None)

        def changed(refused: Refused | None) -> None:
            if refused is not None:
                logger.error(
                    "topic_end_not_noted",
                    "the end of topic %(topic)s was not noted: %(reason)s",
                    topic=", ".join(deleted.name for deleted in topics.values()),
                    reason=refused.text,
                )

        try:
            # A catalog of this process does that itself before a change.
            synced = self._store.sync_deletions()
        except StorageError as error:
            return changed(Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(error)))
        if synced is None:
            return then(self._change(decide), changed)
        return asyncio.ensure_future(self._complete_synced(synced, decide, changed))

    async def _complete_synced(
        self,
        synced: asyncio.Future[None],
        decide: Decide[None],
        changed: Callable[[Refused | None], None],
    ) -> None:
        try:
            await synced
        except StorageError as error:
            changed(Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(error)))
        else:
            changed(await settled(self._change(decide)))


def forget_topic(groups: GroupMachine, turn: Turn, deleted: Deleted) -> Refused | None:
    """Deletes the offsets that a coordinator's groups have committed for a deleted topic."""
    return groups.forget_topic(turn, deleted.name, deleted.deleted_at_ms)
