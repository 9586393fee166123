"""Rebalances of a member: whether to rejoin, giving partitions up before, attempts to join, taking the assignment."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Mapping

from ottla.client.aio.consumer.user_code import call_user
from ottla.client.aio.group.auto_commit import AutoCommit
from ottla.client.aio.group.classic.attempt_failure import AttemptFailedError
from ottla.client.aio.group.classic.join import JoinAttempt
from ottla.client.aio.group.coordinator import CoordinatorLink
from ottla.client.aio.group.group import MemberParts
from ottla.client.aio.group.rebalance_commit import RebalanceCommit
from ottla.client.aio.group.rebalance_listener import ListenerCalls
from ottla.client.aio.group.subscribed_topics import SubscribedTopics
from ottla.client.metrics.group_metrics import GroupMetrics
from ottla.client.model import ConsumerGroupMetadata
from ottla.client.state.group.group_leader import (
    Racks,
    elected_assignor,
    on_assignment_of,
    read_assignment,
    rebalance_protocol,
    user_data_of,
)
from ottla.client.state.group.membership import AfterError, Membership, MemberState
from ottla.core.assignors.model import RebalanceProtocol, Subscription
from ottla.core.assignors.protocol import encode_subscription
from ottla.errors import ErrorCode, KafkaError, RetriableError
from ottla.model import TopicPartition
from ottla.wire.messages.join_group import JoinGroupRequestProtocol

log = logging.getLogger("ottla.client.group")


class Rebalance:
    """Leads a member from one assignment to the next, a step with every poll."""

    def __init__(
        self,
        parts: MemberParts,
        coordinator: CoordinatorLink,
        membership: Membership,
        topics: SubscribedTopics,
        auto_commit: AutoCommit,
        listener: ListenerCalls,
        metrics: GroupMetrics,
        on_joined: Callable[[], None],
    ) -> None:
        self._parts = parts
        self._group_id = parts.group_id
        self._network = parts.network
        self._config = parts.config
        self._subscriptions = parts.subscriptions
        self._assignors = parts.assignors
        self._protocol = rebalance_protocol(parts.assignors)
        self._coordinator = coordinator
        self._membership = membership
        self._topics = topics
        self._auto_commit = auto_commit
        self._listener = listener
        self._metrics = metrics
        self._on_joined = on_joined
        self._loop = asyncio.get_running_loop()
        self.group_metadata = ConsumerGroupMetadata(
            self._group_id, group_instance_id=parts.config.group_instance_id
        )
        self.fencing: KafkaError | None = None
        """The error that ended this membership for good."""
        self._attempt: JoinAttempt | None = None
        self._failures = 0
        self._not_before_ms = 0.0
        self._commit = RebalanceCommit(parts, auto_commit)
        self._joined_topics: frozenset[str] | None = None
        self._assigned_from: Mapping[str, Racks] | None = None
        self._topics_changed = False

    @property
    def due_ms(self) -> tuple[float | None, ...]:
        """When the next attempt may begin, and when to look at the commit before it."""
        return (self._not_before_ms, *self._commit.due_ms)

    @property
    def is_joining(self) -> bool:
        """Whether an attempt to join is under way."""
        return self._attempt is not None

    def is_needed(self) -> bool:
        """Whether the member has to join, or to join again."""
        if self._attempt is not None:
            return True
        if self._topics.follow():
            self._topics_changed = True
        if self._topics_changed and not self._membership.rejoin_needed:
            self._topics_changed = False
            self._request_rejoin_for_topics()
        return self._membership.rejoin_needed

    def _request_rejoin_for_topics(self) -> None:
        # Only a leader compares the metadata: the other members get its assignment.
        if self._assigned_from is not None and self._assigned_from != self._topics.snapshot:
            self._membership.request_rejoin("cached metadata has changed")
            return
        subscribed = frozenset(self._subscriptions.subscription())
        if self._joined_topics is not None and self._joined_topics != subscribed:
            self._membership.request_rejoin("subscription has changed")

    async def step(self) -> None:
        """Go on with the rebalance as far as possible without waiting for the network."""
        membership = self._membership
        while self.is_needed():
            if not self._coordinator.is_known:
                self._coordinator.look_up()
                return
            if membership.needs_prepare:
                # Cleared first, so that a listener that raises is not called again.
                membership.needs_prepare = False
                if not await self._prepare():
                    membership.needs_prepare = True
                    return
                if not self._subscriptions.uses_group:
                    return  # the listener has unsubscribed
            if self._attempt is None:
                if self._now_ms() < self._not_before_ms:
                    return
                await self._begin_attempt()
            assert self._attempt is not None
            await self._attempt.leader.run_assignor()
            if not self._attempt.done:
                return
            await self._end_attempt()

    async def cancel(self) -> None:
        """Give an attempt up that is under way."""
        if self._attempt is not None:
            await self._attempt.cancel()

    # Before joining

    async def _prepare(self) -> bool:
        """Commit, and give up the partitions that the protocol requires; False while the commit is under way."""
        if not self._has_committed():
            return False
        remaining: list[TopicPartition] = []
        owned = self._subscriptions.assigned()
        # In any case, also if the listener's call is cancelled, partitions that were given up are not read any more.
        try:
            if self._membership.generation.is_lost:
                if owned:
                    await self._listener.lost(owned)
            elif self._protocol is RebalanceProtocol.EAGER:
                await self._listener.revoked(owned)
            else:
                topics = self._subscriptions.subscription()
                remaining = [partition for partition in owned if partition.topic in topics]
                if len(remaining) < len(owned):
                    await self._listener.revoked(tp for tp in owned if tp not in remaining)
        finally:
            if len(remaining) < len(owned) and self._subscriptions.uses_group:
                self._subscriptions.assign_from_group(remaining)
            self._subscriptions.reset_group_subscription()
        self._listener.raise_first()
        return True

    def _has_committed(self) -> bool:
        """Whether the automatic commit before the rebalance is over."""
        if self._membership.generation.is_lost:
            # A member that was removed cannot commit; waiting would return records that other members have by now.
            return self._commit.skip()
        if self._config.enable_auto_commit and self._protocol is RebalanceProtocol.EAGER:
            # A poll must not return records behind the offsets of this commit.
            self._subscriptions.mark_pending_revocation(self._subscriptions.assigned())
        return self._commit.is_over()

    # Joining

    async def _begin_attempt(self) -> None:
        topics = self._subscriptions.subscription()
        self._joined_topics = frozenset(topics)
        protocols = []
        for assignor in self._assignors:
            subscription = Subscription(
                topics=tuple(topics),
                user_data=await call_user(user_data_of(assignor), tuple(topics)),
                owned_partitions=self._subscriptions.assigned(),
                generation_id=self._membership.generation.generation_id,
                rack_id=self._config.client_rack or None,
            )
            metadata = encode_subscription(subscription)
            protocols.append(JoinGroupRequestProtocol(name=assignor.name, metadata=metadata))
        self._attempt = JoinAttempt(
            self._parts, self._coordinator, self._membership, self._protocol, self._on_joined
        )
        self._metrics.rebalance_began()
        self._attempt.start(protocols)

    async def _end_attempt(self) -> None:
        attempt = self._attempt
        assert attempt is not None
        try:
            assignment = attempt.result()
        except AttemptFailedError as failure:
            self._attempt = None
            self._try_again(failure.next, failure.cause)
            return
        except RetriableError as error:
            self._attempt = None
            self._try_again(AfterError.RETRY, error)
            return
        except Exception as error:
            self._attempt = None
            self._metrics.rebalance_failed()
            self._membership.attempt_failed(type(error).__name__)
            raise
        self._failures = 0
        self._topics_changed = True
        self._topics.joined()
        self._metrics.rebalance_ended()
        membership = self._membership
        if membership.generation.is_reset or membership.state is not MemberState.STABLE:
            membership.reset_and_rejoin("the member left while it was given its partitions")
            self._attempt = None
            return
        # If this raises, the attempt is still there, and the next poll comes here again.
        await self._take_assignment(attempt, assignment)
        self._attempt = None
        membership.needs_prepare = True
        self._listener.raise_first()

    def _try_again(self, step: AfterError, error: KafkaError) -> None:
        # Every member is refused once, to be given its member id (KIP-394).
        level = logging.DEBUG if error.code is ErrorCode.MEMBER_ID_REQUIRED else logging.INFO
        log.log(level, "group %s: joining failed: %s", self._group_id, error)
        self._metrics.rebalance_failed()
        self._membership.attempt_failed(error.name)
        if step is AfterError.TELL:
            if error.code is ErrorCode.FENCED_INSTANCE_ID:
                # Joining again would fence the member that uses our group.instance.id now.
                self.fencing = error
            raise error
        if step is not AfterError.JOIN_AGAIN:
            delay_ms = self._network.retry.delay_ms(self._failures, random.random())
            self._failures += 1
            self._not_before_ms = self._now_ms() + delay_ms

    # After joining

    async def _take_assignment(self, attempt: JoinAttempt, data: bytes) -> None:
        generation = self._membership.generation
        if self._assigned_from is not None and not attempt.leader.leads:
            # The new leader follows the topics that only other members subscribe to.
            self._topics.subscription_changed()
        self._assigned_from = attempt.leader.assigned_from
        assignor = elected_assignor(self._assignors, generation.protocol_name)
        self.group_metadata = ConsumerGroupMetadata(
            self._group_id,
            generation.generation_id,
            generation.member_id,
            group_instance_id=self._config.group_instance_id,
        )
        assignment = read_assignment(self._group_id, data)
        assigned = sorted(dict.fromkeys(assignment.partitions))
        if not self._subscriptions.matches_subscription(assigned):
            self._membership.request_rejoin(
                "received assignment does not match the current subscription"
            )
            return
        owned = self._subscriptions.assigned()
        added = [partition for partition in assigned if partition not in owned]
        if self._protocol is RebalanceProtocol.COOPERATIVE:
            removed = [partition for partition in owned if partition not in assigned]
            if removed:
                await self._listener.revoked(removed)
                # Other members get these partitions only in a later generation (KIP-429).
                self._membership.request_rejoin("need to revoke partitions and re-join")
        self._add_topics(assigned)
        try:
            await call_user(on_assignment_of(assignor), assignment, generation.generation_id)
        except Exception as error:
            self._listener.keep_error(error)
        if not self._subscriptions.uses_group:
            return  # the listener has unsubscribed
        self._auto_commit.restart_interval()
        self._subscriptions.assign_from_group(assigned)
        await self._listener.assigned(added)

    def _add_topics(self, assigned: Collection[TopicPartition]) -> None:
        """Add assigned topics to a pattern's: the leader may have newer metadata than this member."""
        if not self._subscriptions.has_pattern or self._joined_topics is None:
            return
        added = {partition.topic for partition in assigned} - self._joined_topics
        if added:
            self._subscriptions.subscribe_from_pattern(
                [*self._subscriptions.subscription(), *sorted(added)]
            )
            self._joined_topics |= added
            self._network.request_update()

    def _now_ms(self) -> float:
        return self._loop.time() * 1000
