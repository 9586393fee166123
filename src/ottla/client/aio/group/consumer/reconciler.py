"""Takes partitions over and gives them up in poll, as the target of the coordinator says, and calls the listener."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from uuid import UUID

from ottla.client.aio.group.auto_commit import AutoCommit
from ottla.client.aio.group.group import MemberParts
from ottla.client.aio.group.rebalance_commit import RebalanceCommit
from ottla.client.aio.group.rebalance_listener import ListenerCalls
from ottla.client.metrics.group_metrics import GroupMetrics
from ottla.client.state.consumer.subscriptions import SubscriptionKind
from ottla.client.state.group.consumer.membership import ConsumerMembership, ConsumerState
from ottla.client.state.group.consumer.reconciliation import (
    Reconciliation,
    next_reconciliation,
    unnamed_topics,
)
from ottla.model import TopicPartition

log = logging.getLogger("ottla.client.group")


class Reconciler:
    """Leads a member from the partitions that it has to its target, a step with every poll."""

    def __init__(
        self,
        *,
        parts: MemberParts,
        membership: ConsumerMembership,
        auto_commit: AutoCommit,
        listener: ListenerCalls,
        metrics: GroupMetrics,
        on_reconciled: Callable[[], None],
    ) -> None:
        self._group_id = parts.group_id
        self._network = parts.network
        self._subscriptions = parts.subscriptions
        self._membership = membership
        self._auto_commit = auto_commit
        self._listener = listener
        self._metrics = metrics
        self._on_reconciled = on_reconciled
        self._commit = RebalanceCommit(parts, auto_commit)
        self._plan: Reconciliation | None = None
        self._owned: dict[TopicPartition, UUID] = {}
        self._asked_version: int | None = None

    @property
    def due_ms(self) -> tuple[float | None, ...]:
        """When to look at the commit before a revocation."""
        return self._commit.due_ms

    async def step(self) -> None:
        """Go on as far as possible without waiting for the network."""
        while self._membership.state is ConsumerState.RECONCILING:
            if self._plan is None:
                self._find_names()
                self._plan = self._next_plan()
                if self._plan is None:
                    return  # a topic of the target is not known yet
                self._metrics.rebalance_began()
            plan = self._plan
            if not plan.is_valid(self._membership):
                self._end_plan()
                return
            if plan.revoked and not self._has_committed(plan):
                return
            try:
                await self._carry_out(plan)
            finally:
                # If a listener's call was cancelled, the next plan begins with the partitions as they are.
                self._end_plan()
            self._listener.raise_first()

    async def release(self) -> None:
        """Tell the listener that the partitions are lost: the member was removed, or has left."""
        self._end_plan()
        lost = self._subscriptions.assigned()
        try:
            if lost:
                self._metrics.rebalance_failed()
                await self._listener.lost(lost)
        finally:
            self.forget()

    def forget(self) -> None:
        """The member has no partitions any more."""
        self._end_plan()
        self._owned = {}
        if self._subscriptions.uses_group:
            self._subscriptions.assign_from_group(())

    # The plan

    def _next_plan(self) -> Reconciliation | None:
        assigned = self._subscriptions.states()
        owned = {each: topic_id for each, topic_id in self._owned.items() if each in assigned}
        return next_reconciliation(
            self._membership, owned, self._name_of, self._subscriptions.is_subscribed
        )

    def _end_plan(self) -> None:
        self._plan = None
        self._commit.skip()

    def _has_committed(self, plan: Reconciliation) -> bool:
        """Whether the automatic commit before the revocation is over."""
        # A poll must not return records behind the offsets of this commit.
        self._subscriptions.mark_pending_revocation(plan.revoked)
        return self._commit.is_over()

    async def _carry_out(self, plan: Reconciliation) -> None:
        """Give up what is revoked, and take over what is added; stop if the member is removed or leaves meanwhile."""
        membership = self._membership
        reached = membership.reached
        if plan.revoked:
            try:
                await self._listener.revoked(plan.revoked)
            finally:
                # In any case, also if the listener's call is cancelled, partitions that were given up are not read.
                if plan.is_valid(membership) and self._subscriptions.uses_group:
                    self._assign(plan.kept, follow=plan.assigned)
            if not plan.is_valid(membership) or not self._subscriptions.uses_group:
                return
        if plan.added or plan.revoked or reached is None:
            self._auto_commit.restart_interval()
            self._assign(plan.assigned, follow=plan.assigned)
            await self._listener.assigned(plan.added)
        if plan.is_valid(membership) and self._subscriptions.uses_group:
            membership.reconciled(plan.incarnation, plan.number, plan.partitions)
            self._metrics.rebalance_ended()
            self._on_reconciled()

    def _assign(
        self, partitions: Mapping[TopicPartition, UUID], follow: Mapping[TopicPartition, UUID]
    ) -> None:
        """Assign partitions; for a pattern of the broker, follow the metadata of these topics."""
        self._owned = dict(partitions)
        if self._subscriptions.kind is SubscriptionKind.BROKER_PATTERN:
            self._subscriptions.subscribe_from_broker(each.topic for each in follow)
            self._network.want_only(list(self._subscriptions.metadata_topics()))
        self._subscriptions.assign_from_group(partitions)

    # Names of topics

    def _name_of(self, topic_id: UUID) -> str | None:
        name = self._network.cluster.topic_name(topic_id)
        if name is None:
            # A topic that was deleted, and that the coordinator has not taken away yet.
            return next((each.topic for each, i in self._owned.items() if i == topic_id), None)
        return name

    def _find_names(self) -> None:
        """Ask for the names of topics of the target, once after every answer."""
        unnamed = unnamed_topics(self._membership, self._name_of)
        if self._subscriptions.kind is SubscriptionKind.BROKER_PATTERN:
            self._network.want_names_of(unnamed)
        elif unnamed and self._asked_version != self._network.metadata.version:
            self._asked_version = self._network.metadata.version
            self._network.request_update()
