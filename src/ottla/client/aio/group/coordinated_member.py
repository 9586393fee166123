"""What members of both protocols do alike: committed offsets, leaving in order, listeners, alarms."""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Collection, Iterable
from contextlib import nullcontext

from ottla.client.aio.consumer.wakeup import Interruptible
from ottla.client.aio.group.auto_commit import AutoCommit
from ottla.client.aio.group.commits import Commits
from ottla.client.aio.group.coordinator import CoordinatorLink
from ottla.client.aio.group.group import GroupMember, MemberParts, OnCommit
from ottla.client.aio.group.heartbeat_task import HeartbeatTask
from ottla.client.aio.group.offset_commit import CommittingMember
from ottla.client.aio.group.offset_fetch import CommittedOffsets
from ottla.client.aio.group.rebalance_listener import ListenerCalls
from ottla.client.aio.group.subscribed_topics import SubscribedTopics
from ottla.client.metrics.group_metrics import GroupMetrics
from ottla.client.model import OffsetAndMetadata
from ottla.client.state.group.group_offsets import Offsets
from ottla.errors import FatalError
from ottla.model import TopicPartition

log = logging.getLogger("ottla.client.group")


class CoordinatedMember(GroupMember):
    """A member with a coordinator; a protocol adds joining, heartbeats, and when partitions change hands."""

    def __init__(self, parts: MemberParts, membership: CommittingMember) -> None:
        self._group_id = parts.group_id
        self._config = parts.config
        self._subscriptions = parts.subscriptions
        self._wake = parts.wake
        self._loop = asyncio.get_running_loop()
        self._metrics = GroupMetrics(parts.metrics)
        self._coordinator = CoordinatorLink(
            parts.network, self._group_id, self._metrics, parts.wake
        )
        self._commits = Commits(parts, self._coordinator, membership)
        self._auto_commit = AutoCommit(parts, self._commits)
        self._offsets = CommittedOffsets(
            self._group_id, parts.network, self._coordinator, membership
        )
        self._topics = SubscribedTopics(parts)
        self._listener = ListenerCalls(parts.subscriptions, self._metrics)
        self._alarm: asyncio.TimerHandle | None = None
        self._closed = False

    # What a protocol implements

    @property
    @abstractmethod
    def heartbeats(self) -> HeartbeatTask:
        """The task that sends heartbeats."""

    @property
    @abstractmethod
    def _has_lost_partitions(self) -> bool:
        """Whether other members may have the partitions by now, so that the listener is told that they are lost."""

    @abstractmethod
    async def _cancel_rebalance(self) -> None:
        """Give up what a rebalance still waits for."""

    @abstractmethod
    def _leave(self, reason: str) -> None:
        """Tell the coordinator that the member leaves, without waiting for the answer."""

    # Properties

    @property
    def group_id(self) -> str:
        """group.id."""
        return self._group_id

    @property
    def has_coordinator(self) -> bool:
        """Whether the group's coordinator is known and connected."""
        return self._coordinator.is_known

    @property
    def last_heartbeat_ms(self) -> float | None:
        """When the coordinator last answered a heartbeat, by the loop's clock."""
        return self.heartbeats.last_answered_ms

    def subscription_changed(self) -> None:
        """Request the metadata of the subscribed topics."""
        self._topics.subscription_changed()
        self._wake()

    # Offsets

    async def commit(
        self,
        offsets: Offsets | None = None,
        timeout_ms: float | None = None,
        interruptible: Interruptible = nullcontext,
    ) -> None:
        """Commit these offsets, or everything consumed; retries until the timeout."""
        await self._commits.commit(offsets, self._deadline_ms(timeout_ms), interruptible)

    def commit_async(
        self, offsets: Offsets | None = None, on_commit: OnCommit | None = None
    ) -> None:
        """Send the commit and return; `on_commit` is called in a later poll, commit or close."""
        self._commits.commit_async(offsets, on_commit)

    async def committed(
        self, partitions: Collection[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The committed offsets; None for a partition without one."""
        return await self._offsets.fetch(partitions, self._deadline_ms(timeout_ms))

    def commit_before_assign(self) -> None:
        """Send an automatic commit that is due."""
        self._auto_commit.commit_if_due()

    def stop_auto_commit(self) -> None:
        """Turn automatic commits off."""
        self._auto_commit.stop()

    # Leaving

    async def unsubscribe(self) -> None:
        """Call the listener for the partitions, and leave the group."""
        try:
            await self._give_partitions_up()
        finally:
            self.leave()
        self._listener.raise_first()

    def leave(self) -> None:
        """Leave the group without calling the listener."""
        self._leave("the consumer unsubscribed from all topics")

    async def close(self, timeout_ms: float, patience_ms: float | None = None) -> None:
        """Commit if automatic commits are on, call the listener, leave the group."""
        if self._closed:
            return
        self._closed = True
        deadline_ms = self._now_ms() + timeout_ms
        try:
            if self.fencing is None:
                await self._auto_commit.commit_at_close(deadline_ms, patience_ms)
            await self._commits.finish(deadline_ms)
        except FatalError as error:
            # An earlier poll or commit has raised it.
            log.debug("group %s: closing in spite of %s", self._group_id, error)
        except Exception as error:
            self._listener.keep_error(error)
        finally:
            await self.heartbeats.close()
            await self._give_partitions_up()
            self._leave("the consumer is being closed")
            await self._cancel_rebalance()
            await self._coordinator.drain(deadline_ms - self._now_ms())
            await self._coordinator.close()
            if self._alarm is not None:
                self._alarm.cancel()
            self._topics.close()
        self._listener.raise_first()

    async def _give_partitions_up(self) -> None:
        owned = self._subscriptions.assigned()
        if not self._subscriptions.uses_group or not owned:
            return
        try:
            if self._has_lost_partitions:
                await self._listener.lost(owned)
            else:
                await self._listener.revoked(owned)
        finally:
            self._subscriptions.assign_from_group(())

    def _warn_of_poll_timeout(self) -> None:
        log.warning(
            "group %s: leaving, since poll() was not called for max.poll.interval.ms = %s. Process less between "
            "polls (lower max.poll.records) or raise max.poll.interval.ms",
            self._group_id,
            self._config.max_poll_interval_ms,
        )

    # Time

    def _set_alarm(self, due_ms: Iterable[float | None]) -> None:
        """Wake the consumer's poll at the first of these times that is in the future."""
        if self._alarm is not None:
            self._alarm.cancel()
        now_ms = self._now_ms()
        future = [at_ms for at_ms in due_ms if at_ms is not None and at_ms > now_ms]
        self._alarm = self._loop.call_at(min(future) / 1000, self._wake) if future else None

    def _deadline_ms(self, timeout_ms: float | None) -> float:
        limit_ms = self._config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        return self._now_ms() + limit_ms

    def _now_ms(self) -> float:
        return self._loop.time() * 1000
