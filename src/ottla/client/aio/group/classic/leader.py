"""The leader of a group: it gets the metadata of the group's topics and has its assignor share their partitions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.client.aio.consumer.user_code import call_user
from ottla.client.aio.group.group import MemberParts
from ottla.client.state.group.group_leader import (
    Racks,
    assignable,
    check_cooperative,
    elected_assignor,
    snapshot,
    subscriptions_of,
    topics_of,
    topics_to_watch,
)
from ottla.core.assignors.model import (
    Assignment,
    Assignor,
    PartitionInfo,
    RebalanceProtocol,
    Subscription,
)
from ottla.core.assignors.protocol import encode_assignment
from ottla.core.assignors.sticky import CooperativeStickyAssignor
from ottla.wire.messages.join_group import JoinGroupResponse

log = logging.getLogger("ottla.client.group")

Shares = Mapping[str, Assignment]
"""The assignment of each member, by member id."""


class _AssignorCall(NamedTuple):
    """An assignor that a poll has to call."""

    assignor: Assignor
    cluster: Mapping[str, Sequence[PartitionInfo]]
    subscriptions: Mapping[str, Subscription]
    shares: asyncio.Future[Shares]


class LeaderAssignment:
    """The leader's part of one rebalance."""

    def __init__(self, parts: MemberParts, protocol: RebalanceProtocol) -> None:
        self.leads = False
        """Whether this member leads the group in this rebalance."""
        self.assigned_from: Mapping[str, Racks] | None = None
        """The part of the metadata that the assignment depends on; None of a member that does not lead."""
        self._parts = parts
        self._network = parts.network
        self._subscriptions = parts.subscriptions
        self._config = parts.config
        self._protocol = protocol
        self._call: _AssignorCall | None = None

    async def assign(self, joined: JoinGroupResponse) -> dict[str, bytes]:
        """The encoded assignment of each member."""
        assignor = elected_assignor(self._parts.assignors, joined.protocol_name)
        subscriptions = subscriptions_of(joined.members)
        topics = topics_of(subscriptions)
        await self._follow_topics(topics)
        self.leads = True
        self._take_snapshot()
        if joined.skip_assignment:
            # A static leader came back: its group keeps the assignment that it has (KIP-814).
            return {}
        shares = await self._shares(assignor, subscriptions)
        watched = topics_to_watch(assignor, shares, topics)
        if len(watched) > len(topics):
            await self._follow_topics(watched)
            self._take_snapshot()
        log.info("group %s: assigned %s", self._parts.group_id, shares)
        return {member: encode_assignment(share) for member, share in shares.items()}

    async def run_assignor(self) -> None:
        """Call the assignor if it has to be called: it is user code, and runs in a poll."""
        if self._call is None:
            return
        # A poll that is cancelled here leaves the call for the next one.
        assignor, cluster, subscriptions, future = self._call
        try:
            shares = await call_user(assignor.assign, cluster, subscriptions)
        except Exception as error:
            if not future.done():
                future.set_exception(error)
        else:
            if not future.done():
                future.set_result(shares)
        self._call = None

    async def _shares(
        self, assignor: Assignor, subscriptions: Mapping[str, Subscription]
    ) -> Shares:
        future: asyncio.Future[Shares] = asyncio.get_running_loop().create_future()
        cluster = assignable(self._network.cluster)
        self._call = _AssignorCall(assignor, cluster, subscriptions, future)
        self._parts.wake()
        shares = await future
        is_cooperative = self._protocol is RebalanceProtocol.COOPERATIVE
        # Kafka's own assignor compares generations, and so knows that a partition is free although a member claims it.
        if is_cooperative and not isinstance(assignor, CooperativeStickyAssignor):
            check_cooperative(subscriptions, shares)
        return shares

    async def _follow_topics(self, topics: Sequence[str]) -> None:
        """Request the metadata of the whole group's topics, and wait until each is known to exist or not."""
        self._subscriptions.group_subscribe(topics)
        if self._subscriptions.has_pattern:
            if any(topic not in self._network.cluster.topics for topic in topics):
                self._network.request_update()
                await self._network.updated(self._config.request_timeout_ms)
            return
        self._network.want_only(list(self._subscriptions.metadata_topics()))
        while not all(self._is_known(topic) for topic in topics):
            await self._network.updated(self._config.request_timeout_ms)

    def _is_known(self, topic: str) -> bool:
        cluster = self._network.cluster
        return topic in cluster.topics or topic in cluster.errors

    def _take_snapshot(self) -> None:
        topics = self._subscriptions.metadata_topics()
        self.assigned_from = snapshot(self._network.cluster, topics, self._config.client_rack)
