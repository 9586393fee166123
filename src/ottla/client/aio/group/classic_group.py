"""A member of a group that speaks the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from functools import partial

from ottla.client.aio.consumer.rebalance_listener import ListenerCalls
from ottla.client.aio.consumer.user_code import call_user
from ottla.client.aio.consumer.wakeup import Waiting
from ottla.client.aio.group.commits import CommitInterceptors, Commits, OnCommit
from ottla.client.aio.group.coordinator import CoordinatorLink
from ottla.client.aio.group.group import GroupMember, Wake
from ottla.client.aio.group.heartbeat_task import HeartbeatTask
from ottla.client.aio.group.join import AttemptFailedError, JoinAttempt, log_failure
from ottla.client.aio.group.topic_watch import TopicWatch
from ottla.client.aio.network.brokers import Network
from ottla.client.metrics.group_metrics import GroupMetrics
from ottla.client.metrics.kafka_metrics import Metrics
from ottla.client.model import ConsumerGroupMetadata, OffsetAndMetadata
from ottla.client.state.consumer.subscriptions import SubscriptionState
from ottla.client.state.group.group_leader import (
    Racks,
    elected_assignor,
    on_assignment_of,
    read_assignment,
    rebalance_protocol,
    user_data_of,
)
from ottla.client.state.group.group_offsets import Offsets
from ottla.client.state.group.membership import AfterError, Membership, MemberState, leave_request
from ottla.config.consumer import ConsumerConfig
from ottla.core.assignors.model import Assignor, RebalanceProtocol, Subscription
from ottla.core.assignors.protocol import encode_subscription
from ottla.errors import ErrorCode, FatalError, KafkaError, RetriableError
from ottla.model import TopicPartition
from ottla.wire.messages.join_group import JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest

log = logging.getLogger("ottla.client.group")


class ClassicMember(GroupMember):
    """Joins when poll is called, as Kafka's consumer does; heartbeats go on by themselves."""

    def __init__(
        self,
        network: Network,
        config: ConsumerConfig,
        subscriptions: SubscriptionState,
        assignors: Sequence[Assignor],
        interceptors: CommitInterceptors,
        wake: Wake,
        metrics: Metrics,
    ) -> None:
        assert config.group_id is not None
        self._group_id = config.group_id
        self._network = network
        self._config = config
        self._subscriptions = subscriptions
        self._assignors = assignors
        self._protocol = rebalance_protocol(assignors)
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._membership = Membership(config.group_instance_id)
        self._metrics = GroupMetrics(metrics)
        self._link = CoordinatorLink(network, self._group_id, self._metrics, wake)
        self._commits = Commits(
            network, self._link, self._membership, subscriptions, config, interceptors, wake
        )
        self._heartbeats = HeartbeatTask(
            config, network.retry, self._link, self._membership, self._left_alone, wake
        )
        self._topics = TopicWatch(network, config, subscriptions, wake)
        self._listener = ListenerCalls(subscriptions, self._metrics)
        self._group_metadata = ConsumerGroupMetadata(
            self._group_id, group_instance_id=config.group_instance_id
        )
        self._attempt: JoinAttempt | None = None
        self._failures = 0
        self._not_before_ms = 0.0
        self._prepare_commit: asyncio.Future[None] | None = None
        self._prepare_end_ms: float | None = None
        self._joined_subscription: frozenset[str] | None = None
        self._assigned_from: Mapping[str, Racks] | None = None
        self._topics_changed = False
        self._alarm: asyncio.TimerHandle | None = None
        self._fenced: KafkaError | None = None
        self._closed = False

    @property
    def group_id(self) -> str:
        """The group."""
        return self._group_id

    @property
    def state(self) -> MemberState:
        """How far the member is."""
        return self._membership.state

    @property
    def has_coordinator(self) -> bool:
        """Whether the group's coordinator is known and connected."""
        return self._link.is_known

    @property
    def last_heartbeat_ms(self) -> float | None:
        """When the coordinator last answered a heartbeat, by the loop's clock."""
        return self._heartbeats.last_answered_ms

    @property
    def fencing(self) -> KafkaError | None:
        """Why the group takes this member for good no more."""
        return self._fenced or self._commits.fencing or self._heartbeats.fencing

    def group_metadata(self) -> ConsumerGroupMetadata:
        """What a transactional producer sends along with offsets (KIP-447)."""
        return self._group_metadata

    def request_rejoin(self, reason: str) -> None:
        """Join again in the next poll."""
        self._membership.request_rejoin(reason)

    # Polling

    async def poll(self) -> None:
        """Do what there is to do now, without waiting for the network."""
        await self._commits.run_callbacks()
        if self._subscriptions.uses_group:
            # First of all, so that a coordinator that cannot be found is not taken for a user who is away.
            self._heartbeats.polled()
            if self._fenced is not None:
                raise self._fenced
            self._link.raise_refusal()
            if not self._link.is_known:
                self._link.look_up()
            elif self._attempt is not None or (self._rejoin_needed() and self._topics.is_fresh()):
                await self._join_if_needed()
        self._commits.auto_commit_if_due()
        self._set_alarm()

    def _set_alarm(self) -> None:
        """Have the consumer's poll woken when there will be something to do."""
        if self._alarm is not None:
            self._alarm.cancel()
        due_ms = [self._commits.next_auto_commit_ms, self._not_before_ms, self._prepare_end_ms]
        now_ms = self._now_ms()
        future = [at_ms for at_ms in due_ms if at_ms is not None and at_ms > now_ms]
        self._alarm = self._loop.call_at(min(future) / 1000, self._wake) if future else None

    # Topics

    def subscription_changed(self) -> None:
        """Want the metadata of what is subscribed, and see what matches a pattern."""
        self._topics.subscription_changed()
        self._wake()

    # Joining

    def _rejoin_needed(self) -> bool:
        if self._attempt is not None:
            return True
        if self._topics.follow():
            self._topics_changed = True
        if self._topics_changed and not self._membership.rejoin_needed:
            self._topics_changed = False
            joined, topics = self._joined_subscription, self._subscriptions.subscription()
            # Only a leader has to look at the metadata: the others follow its word.
            if self._assigned_from is not None and self._assigned_from != self._topics.snapshot:
                self._membership.request_rejoin("cached metadata has changed")
            elif joined is not None and joined != frozenset(topics):
                self._membership.request_rejoin("subscription has changed")
        return self._membership.rejoin_needed

    async def _join_if_needed(self) -> None:
        membership = self._membership
        while self._rejoin_needed():
            if not self._link.is_known:
                self._link.look_up()
                return
            if membership.needs_prepare:
                # Cleared first: what a listener raises must not make it be called again.
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
            await self._attempt.run_errand()
            if not self._attempt.done:
                return
            await self._end_attempt()

    async def _begin_attempt(self) -> None:
        topics = self._subscriptions.subscription()
        self._joined_subscription = frozenset(topics)
        protocols = []
        for assignor in self._assignors:
            subscription = Subscription(
                topics=tuple(topics),
                user_data=await call_user(user_data_of(assignor), tuple(topics)),
                owned_partitions=self._subscriptions.assigned(),
                generation_id=self._membership.generation.generation_id,
                rack_id=self._config.client_rack or None,
            )
            protocols.append(
                JoinGroupRequestProtocol(
                    name=assignor.name, metadata=encode_subscription(subscription)
                )
            )
        self._attempt = JoinAttempt(
            self._network,
            self._link,
            self._membership,
            self._subscriptions,
            self._config,
            self._assignors,
            self._protocol,
            self._heartbeats.begin,
            self._wake,
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
        # If this raises, the next poll finds the attempt and comes here again.
        await self._take_assignment(attempt, assignment)
        self._attempt = None
        membership.needs_prepare = True
        self._listener.raise_first()

    def _try_again(self, step: AfterError, error: KafkaError) -> None:
        log_failure(self._group_id, error)
        self._metrics.rebalance_failed()
        self._membership.attempt_failed(error.name)
        if step is AfterError.TELL:
            if error.code is ErrorCode.FENCED_INSTANCE_ID:
                # Joining again would fence whoever has taken our place.
                self._fenced = error
            raise error
        if step is not AfterError.JOIN_AGAIN:
            delay_ms = self._network.retry.delay_ms(self._failures, random.random())
            self._failures += 1
            self._not_before_ms = self._now_ms() + delay_ms

    # Before joining

    async def _prepare(self) -> bool:
        """Commit, and give partitions up as the protocol asks; false while the commit is under way."""
        if not self._committed_before_join():
            return False
        kept: list[TopicPartition] = []
        owned = self._subscriptions.assigned()
        # Whatever becomes of the listener's call, cancelled or not: what was given up is not read any more.
        try:
            if self._membership.generation.is_lost:
                if owned:
                    await self._listener.lost(owned)
            elif self._protocol is RebalanceProtocol.EAGER:
                await self._listener.revoked(owned)
            else:
                topics = self._subscriptions.subscription()
                kept = [partition for partition in owned if partition.topic in topics]
                if len(kept) < len(owned):
                    await self._listener.revoked(tp for tp in owned if tp not in kept)
        finally:
            if len(kept) < len(owned) and self._subscriptions.uses_group:
                self._subscriptions.assign_from_group(kept)
            self._subscriptions.reset_group_subscription()
        self._listener.raise_first()
        return True

    def _committed_before_join(self) -> bool:
        """Whether the automatic commit before a rebalance has come to an end, one way or another."""
        if not self._config.enable_auto_commit or self._membership.generation.is_lost:
            # Who is no member cannot commit; to wait would be to hand out records that others have by now.
            self._prepare_commit = None
            self._prepare_end_ms = None
            return True
        if self._prepare_end_ms is None:
            # Longer than this the others do not wait.
            self._prepare_end_ms = self._now_ms() + self._config.max_poll_interval_ms
        if self._prepare_commit is None:
            if self._now_ms() < self._not_before_ms:
                return False
            if self._protocol is RebalanceProtocol.EAGER:
                # Else records could be handed out that are behind what is being committed.
                self._subscriptions.mark_pending_revocation(self._subscriptions.assigned())
            self._prepare_commit = self._commits.start_auto_commit()
        commit = self._prepare_commit
        if self._now_ms() >= self._prepare_end_ms:
            log.error("group %s: no automatic commit before the rebalance", self._group_id)
        elif not commit.done():
            return False
        elif not commit.cancelled() and isinstance(commit.exception(), RetriableError):
            self._prepare_commit = None
            self._not_before_ms = self._now_ms() + self._config.retry_backoff_ms
            return False
        self._prepare_commit = None
        self._prepare_end_ms = None
        return True

    # After joining

    async def _take_assignment(self, attempt: JoinAttempt, data: bytes) -> None:
        generation = self._membership.generation
        if self._assigned_from is not None and not attempt.leads:
            # The topics that only others want are another's to watch now.
            self._topics.subscription_changed()
        self._assigned_from = attempt.assigned_from if attempt.leads else None
        assignor = elected_assignor(self._assignors, generation.protocol_name)
        self._group_metadata = ConsumerGroupMetadata(
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
            taken = [partition for partition in owned if partition not in assigned]
            if taken:
                await self._listener.revoked(taken)
                # Others may have what was given up only in a generation after this (KIP-429).
                self._membership.request_rejoin("need to revoke partitions and re-join")
        self._add_topics(assigned)
        try:
            await call_user(on_assignment_of(assignor), assignment, generation.generation_id)
        except Exception as error:
            self._listener.note(error)
        if not self._subscriptions.uses_group:
            return  # the listener has unsubscribed
        self._commits.restart_auto_commit()
        self._subscriptions.assign_from_group(assigned)
        await self._listener.assigned(added)

    def _add_topics(self, assigned: Collection[TopicPartition]) -> None:
        """A leader may know topics of our pattern that we have not seen yet."""
        if not self._subscriptions.has_pattern or self._joined_subscription is None:
            return
        added = {partition.topic for partition in assigned} - self._joined_subscription
        if added:
            self._subscriptions.subscribe_from_pattern(
                [*self._subscriptions.subscription(), *sorted(added)]
            )
            self._joined_subscription |= added
            self._network.request_update()

    # Offsets

    async def commit(
        self,
        offsets: Offsets | None = None,
        timeout_ms: float | None = None,
        waiting: Waiting = nullcontext,
    ) -> None:
        """Commit these offsets, or all that was consumed; retries until `default.api.timeout.ms`."""
        await self._commits.commit(offsets, self._deadline_ms(timeout_ms), waiting)

    def commit_async(
        self, offsets: Offsets | None = None, on_commit: OnCommit | None = None
    ) -> None:
        """Send the commit and return; `on_commit` is called in a later poll, commit or close."""
        self._commits.commit_async(offsets, on_commit)

    async def committed(
        self, partitions: Collection[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The committed offsets; None for a partition without one."""
        return await self._commits.committed(partitions, self._deadline_ms(timeout_ms))

    def commit_before_assign(self) -> None:
        """Send the automatic commit that is due, before a manual assignment replaces another."""
        self._commits.auto_commit_if_due()

    # Leaving

    async def unsubscribe(self) -> None:
        """Give the partitions up and leave the group; call it before the subscription is cleared."""
        try:
            await self._give_partitions_up()
        finally:
            self.leave()
        self._listener.raise_first()

    def leave(self) -> None:
        """Leave the group without telling the listener."""
        self._leave("the consumer unsubscribed from all topics")

    def stop_auto_commit(self) -> None:
        """Commit nothing without being asked any more."""
        self._commits.stop_auto_commit()

    async def close(self, timeout_ms: float, patience_ms: float | None = None) -> None:
        """Commit automatically if that is on, give the partitions up, leave the group."""
        if self._closed:
            return
        self._closed = True
        deadline_ms = self._now_ms() + timeout_ms
        try:
            if self._fenced is None:
                await self._commits.auto_commit_and_wait(deadline_ms, patience_ms)
            await self._commits.finish(deadline_ms)
        except FatalError as error:
            # Whoever polled or committed has been told.
            log.debug("group %s: closing in spite of %s", self._group_id, error)
        except Exception as error:
            self._listener.note(error)
        finally:
            await self._heartbeats.close()
            await self._give_partitions_up()
            self._leave("the consumer is being closed")
            if self._attempt is not None:
                await self._attempt.cancel()
            await self._link.drain(deadline_ms - self._now_ms())
            await self._link.close()
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
        """Say goodbye, without waiting for an answer; a static member only forgets who it was."""
        membership = self._membership
        if membership.says_goodbye and self._link.is_known:
            log.info("group %s: leaving because %s", self._group_id, reason)
            build = partial(leave_request, self._group_id, membership.generation.member_id, reason)
            self._link.send(LeaveGroupRequest, build)
        membership.left("consumer pro-actively leaving the group")

    def _left_alone(self) -> None:
        """Nobody has polled for too long: others shall have the partitions."""
        log.warning(
            "group %s: leaving, since poll() was not called for max.poll.interval.ms = %s. Process less between "
            "polls (lower max.poll.records) or raise max.poll.interval.ms",
            self._group_id,
            self._config.max_poll_interval_ms,
        )
        self._leave("consumer poll timeout has expired.")
        self._membership.left_for_rare_polls()

    # Time

    def _deadline_ms(self, timeout_ms: float | None) -> float:
        limit_ms = self._config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        return self._now_ms() + limit_ms

    def _now_ms(self) -> float:
        return self._loop.time() * 1000
