"""A member of a group that follows the classic protocol."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from contextlib import nullcontext

from ottla.client.aio.consumer.wakeup import Interruptible
from ottla.client.aio.group.auto_commit import AutoCommit
from ottla.client.aio.group.classic.heartbeat import HeartbeatTask
from ottla.client.aio.group.classic.leave import leave_group
from ottla.client.aio.group.classic.rebalance import Rebalance
from ottla.client.aio.group.commits import Commits
from ottla.client.aio.group.coordinator import CoordinatorLink
from ottla.client.aio.group.group import GroupMember, MemberParts, OnCommit
from ottla.client.aio.group.offset_fetch import CommittedOffsets
from ottla.client.aio.group.rebalance_listener import ListenerCalls
from ottla.client.aio.group.subscribed_topics import SubscribedTopics
from ottla.client.metrics.group_metrics import GroupMetrics
from ottla.client.model import ConsumerGroupMetadata, OffsetAndMetadata
from ottla.client.state.group.group_offsets import Offsets
from ottla.client.state.group.membership import Membership, MemberState
from ottla.errors import FatalError, KafkaError
from ottla.model import TopicPartition

log = logging.getLogger("ottla.client.group")


class ClassicMember(GroupMember):
    """Joins when poll is called, as Kafka's consumer does; heartbeats are sent by a task."""

    def __init__(self, parts: MemberParts) -> None:
        self._group_id = parts.group_id
        self._config = parts.config
        self._subscriptions = parts.subscriptions
        self._wake = parts.wake
        self._loop = asyncio.get_running_loop()
        self._membership = Membership(parts.config.group_instance_id)
        metrics = GroupMetrics(parts.metrics)
        self._coordinator = CoordinatorLink(parts.network, self._group_id, metrics, parts.wake)
        self._commits = Commits(parts, self._coordinator, self._membership)
        self._auto_commit = AutoCommit(parts, self._commits)
        self._offsets = CommittedOffsets(self._group_id, parts.network, self._coordinator)
        self._heartbeats = HeartbeatTask(
            parts, self._coordinator, self._membership, self._leave_after_poll_timeout
        )
        self._topics = SubscribedTopics(parts)
        self._listener = ListenerCalls(parts.subscriptions, metrics)
        self._rebalance = Rebalance(
            parts=parts,
            coordinator=self._coordinator,
            membership=self._membership,
            topics=self._topics,
            auto_commit=self._auto_commit,
            listener=self._listener,
            metrics=metrics,
            on_joined=self._heartbeats.begin,
        )
        self._alarm: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def group_id(self) -> str:
        """group.id."""
        return self._group_id

    @property
    def state(self) -> MemberState:
        """The state of the membership."""
        return self._membership.state

    @property
    def has_coordinator(self) -> bool:
        """Whether the group's coordinator is known and connected."""
        return self._coordinator.is_known

    @property
    def last_heartbeat_ms(self) -> float | None:
        """When the coordinator last answered a heartbeat, by the loop's clock."""
        return self._heartbeats.last_answered_ms

    @property
    def fencing(self) -> KafkaError | None:
        """The error that ended this membership for good."""
        return self._rebalance.fencing or self._commits.fencing or self._heartbeats.fencing

    def group_metadata(self) -> ConsumerGroupMetadata:
        """The group metadata that a transactional producer sends with offsets (KIP-447)."""
        return self._rebalance.group_metadata

    def request_rejoin(self, reason: str) -> None:
        """Join again in the next poll."""
        self._membership.request_rejoin(reason)

    def subscription_changed(self) -> None:
        """Request the metadata of the subscribed topics."""
        self._topics.subscription_changed()
        self._wake()

    # Polling

    async def poll(self) -> None:
        """Do what is due, without waiting for the network."""
        await self._commits.run_callbacks()
        if self._subscriptions.uses_group:
            # First of all, so that a search for the coordinator does not count as a program that stopped polling.
            self._heartbeats.polled()
            if self._rebalance.fencing is not None:
                raise self._rebalance.fencing
            self._coordinator.raise_lookup_error()
            if not self._coordinator.is_known:
                self._coordinator.look_up()
            elif self._rebalance.is_needed() and (
                self._rebalance.is_joining or self._topics.is_fresh()
            ):
                await self._rebalance.step()
        self._auto_commit.commit_if_due()
        self._set_alarm()

    def _set_alarm(self) -> None:
        """Wake the consumer's poll at the next time when something is due."""
        if self._alarm is not None:
            self._alarm.cancel()
        rebalance = self._rebalance
        due_ms = (
            self._auto_commit.next_ms,
            rebalance.not_before_ms,
            rebalance.commit_deadline_ms,
        )
        now_ms = self._now_ms()
        future = [at_ms for at_ms in due_ms if at_ms is not None and at_ms > now_ms]
        self._alarm = self._loop.call_at(min(future) / 1000, self._wake) if future else None

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
            if self._rebalance.fencing is None:
                await self._auto_commit.commit_at_close(deadline_ms, patience_ms)
            await self._commits.finish(deadline_ms)
        except FatalError as error:
            # An earlier poll or commit has raised it.
            log.debug("group %s: closing in spite of %s", self._group_id, error)
        except Exception as error:
            self._listener.keep_error(error)
        finally:
            await self._heartbeats.close()
            await self._give_partitions_up()
            self._leave("the consumer is being closed")
            await self._rebalance.cancel()
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
            if self._membership.generation.is_lost or self._membership.is_rebalancing:
                await self._listener.lost(owned)
            else:
                await self._listener.revoked(owned)
        finally:
            self._subscriptions.assign_from_group(())

    def _leave(self, reason: str) -> None:
        leave_group(self._group_id, self._coordinator, self._membership, reason)

    def _leave_after_poll_timeout(self) -> None:
        """Leave because the program has not polled for max.poll.interval.ms (KIP-62)."""
        log.warning(
            "group %s: leaving, since poll() was not called for max.poll.interval.ms = %s. Process less between "
            "polls (lower max.poll.records) or raise max.poll.interval.ms",
            self._group_id,
            self._config.max_poll_interval_ms,
        )
        self._leave("consumer poll timeout has expired.")
        self._membership.left_after_poll_timeout()

    # Time

    def _deadline_ms(self, timeout_ms: float | None) -> float:
        limit_ms = self._config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        return self._now_ms() + limit_ms

    def _now_ms(self) -> float:
        return self._loop.time() * 1000
