"""A member of a group that follows the classic protocol."""

from __future__ import annotations

from ottla.client.aio.group.classic.heartbeat import ClassicHeartbeats
from ottla.client.aio.group.classic.leave import leave_group
from ottla.client.aio.group.classic.rebalance import Rebalance
from ottla.client.aio.group.coordinated_member import CoordinatedMember
from ottla.client.aio.group.group import MemberParts
from ottla.client.aio.group.heartbeat_task import HeartbeatTask
from ottla.client.model import ConsumerGroupMetadata
from ottla.client.state.group.membership import Membership, MemberState
from ottla.errors import KafkaError


class ClassicMember(CoordinatedMember):
    """Joins when poll is called, as Kafka's consumer does; heartbeats are sent by a task."""

    def __init__(self, parts: MemberParts) -> None:
        self._membership = Membership(parts.config.group_instance_id)
        super().__init__(parts, self._membership)
        self._heartbeats = ClassicHeartbeats(
            parts, self._coordinator, self._membership, self._leave_after_poll_timeout
        )
        self._rebalance = Rebalance(
            parts=parts,
            coordinator=self._coordinator,
            membership=self._membership,
            topics=self._topics,
            auto_commit=self._auto_commit,
            listener=self._listener,
            metrics=self._metrics,
            on_joined=self._heartbeats.begin,
        )

    @property
    def state(self) -> MemberState:
        """The state of the membership."""
        return self._membership.state

    @property
    def heartbeats(self) -> HeartbeatTask:
        """The task that sends heartbeats."""
        return self._heartbeats

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
        self._set_alarm((self._auto_commit.next_ms, *self._rebalance.due_ms))

    # Leaving

    @property
    def _has_lost_partitions(self) -> bool:
        return self._membership.generation.is_lost or self._membership.is_rebalancing

    async def _cancel_rebalance(self) -> None:
        await self._rebalance.cancel()

    def _leave(self, reason: str) -> None:
        leave_group(self._group_id, self._coordinator, self._membership, reason)

    def _leave_after_poll_timeout(self) -> None:
        """Leave because the program has not polled for max.poll.interval.ms (KIP-62)."""
        self._warn_of_poll_timeout()
        self._leave("consumer poll timeout has expired.")
        self._membership.left_after_poll_timeout()
