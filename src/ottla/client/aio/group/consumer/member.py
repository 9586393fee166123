"""A member of a group that follows the protocol of KIP-848."""

from __future__ import annotations

import logging
from uuid import uuid4

from ottla.client.aio.group.consumer.heartbeat import ConsumerHeartbeats
from ottla.client.aio.group.consumer.reconciler import Reconciler
from ottla.client.aio.group.coordinated_member import CoordinatedMember
from ottla.client.aio.group.group import MemberParts
from ottla.client.aio.group.heartbeat_task import HeartbeatTask
from ottla.client.model import ConsumerGroupMetadata
from ottla.client.state.group.consumer.membership import ConsumerMembership, ConsumerState
from ottla.errors import KafkaError
from ottla.model import topic_id_text

log = logging.getLogger("ottla.client.group")


class ConsumerMember(CoordinatedMember):
    """Joins and changes its partitions when poll is called; heartbeats are sent by a task."""

    def __init__(self, parts: MemberParts) -> None:
        self._membership = ConsumerMembership(
            topic_id_text(uuid4()), parts.config.group_instance_id
        )
        super().__init__(parts, self._membership)
        self._heartbeats = ConsumerHeartbeats(
            parts, self._coordinator, self._membership, self._leave_after_poll_timeout
        )
        self._reconciler = Reconciler(
            parts=parts,
            membership=self._membership,
            auto_commit=self._auto_commit,
            listener=self._listener,
            metrics=self._metrics,
            on_reconciled=self._heartbeats.send_news,
        )

    @property
    def state(self) -> ConsumerState:
        """The state of the membership."""
        return self._membership.state

    @property
    def heartbeats(self) -> HeartbeatTask:
        """The task that sends heartbeats."""
        return self._heartbeats

    @property
    def fencing(self) -> KafkaError | None:
        """The error that ended this membership for good."""
        return self._membership.fatal or self._commits.fencing

    def group_metadata(self) -> ConsumerGroupMetadata:
        """The group metadata that a transactional producer sends with offsets (KIP-447)."""
        generation = self._membership.metadata_generation
        return ConsumerGroupMetadata(
            self._group_id,
            generation.generation_id,
            generation.member_id,
            group_instance_id=self._config.group_instance_id,
        )

    def request_rejoin(self, reason: str) -> None:
        """Only warn: the coordinator alone decides when members get other partitions."""
        log.warning(
            "group %s: a rebalance cannot be enforced with group.protocol=consumer (%s)",
            self._group_id,
            reason,
        )

    async def poll(self) -> None:
        """Do what is due, without waiting for the network."""
        await self._commits.run_callbacks()
        if self._subscriptions.uses_group:
            self._heartbeats.polled()
            self._coordinator.raise_lookup_error()
            self._topics.follow()
            await self._poll_membership()
        self._auto_commit.commit_if_due()
        self._set_alarm((self._auto_commit.next_ms, *self._reconciler.due_ms))

    async def _poll_membership(self) -> None:
        membership = self._membership
        if membership.state is ConsumerState.UNSUBSCRIBED and self._topics.is_fresh():
            self._join()
        self._heartbeats.send_news()
        await self._reconciler.step()
        # Perhaps since just now, while a listener was called.
        if membership.has_to_release:
            await self._reconciler.release()
            if not self._subscriptions.uses_group:
                return  # the listener has unsubscribed
            if membership.fatal is not None:
                raise membership.fatal
            self._join()
        self._listener.raise_first()

    def _join(self) -> None:
        log.info("group %s: joining as %s", self._group_id, self._membership.member_id)
        self._membership.join()
        self._topics.joined()
        self._heartbeats.join()

    # Leaving

    @property
    def _has_lost_partitions(self) -> bool:
        return self._membership.stable_generation is None

    async def _cancel_rebalance(self) -> None:
        self._reconciler.forget()

    def _leave(self, reason: str) -> None:
        if self._membership.is_in_group and self._coordinator.is_known:
            log.info("group %s: leaving because %s", self._group_id, reason)
            self._heartbeats.leave()
        self._membership.left()
        self._reconciler.forget()

    def _leave_after_poll_timeout(self) -> None:
        """Leave because the program has not polled for max.poll.interval.ms (KIP-62)."""
        self._warn_of_poll_timeout()
        self._heartbeats.leave()
        self._membership.poll_expired()
