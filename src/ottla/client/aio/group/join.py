"""One attempt to join a group: JoinGroup, the leader's work, SyncGroup."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ottla.client.aio.consumer.user_code import call_user
from ottla.client.aio.group.commits import no_static_members
from ottla.client.aio.group.coordinator import CoordinatorLink
from ottla.client.aio.network.brokers import Network
from ottla.client.state.consumer.subscriptions import SubscriptionState
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
from ottla.client.state.group.membership import (
    PROTOCOL_TYPE,
    AfterError,
    Generation,
    Membership,
    truncated_reason,
)
from ottla.config.consumer import ConsumerConfig
from ottla.core.assignors.model import Assignment, Assignor, RebalanceProtocol, Subscription
from ottla.core.assignors.protocol import encode_assignment
from ottla.core.assignors.sticky import CooperativeStickyAssignor
from ottla.errors import ErrorCode, KafkaError, exception_for
from ottla.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

log = logging.getLogger("ottla.client.group")

# How much longer than the rebalance may take the answer to JoinGroup is waited for.
_JOIN_GRACE_MS = 5000


class AttemptFailedError(Exception):
    """The coordinator refused; `next` says what to do, `cause` why."""

    def __init__(self, next_step: AfterError, cause: KafkaError) -> None:
        super().__init__(next_step, cause)
        self.next = next_step
        self.cause = cause


def log_failure(group_id: str, error: KafkaError) -> None:
    """Say why an attempt failed; to be given an id first is how every member joins (KIP-394), and no news."""
    is_usual = error.code is ErrorCode.MEMBER_ID_REQUIRED
    level = logging.DEBUG if is_usual else logging.INFO
    log.log(level, "group %s: joining failed: %s", group_id, error)


class JoinAttempt:
    """JoinGroup and SyncGroup as a task; the assignor is called by whoever polls, through `run_errand`.

    So the answer to JoinGroup is seen, and heartbeats begin, even if the user does not poll at that moment.
    """

    def __init__(
        self,
        network: Network,
        link: CoordinatorLink,
        membership: Membership,
        subscriptions: SubscriptionState,
        config: ConsumerConfig,
        assignors: Sequence[Assignor],
        protocol: RebalanceProtocol,
        on_joined: Callable[[], None],
        wake: Callable[[], None],
    ) -> None:
        assert config.group_id is not None
        self.leads = False
        self.assigned_from: Mapping[str, Racks] | None = None
        """Of a leader: what its assignment depends on."""
        self._group_id = config.group_id
        self._network = network
        self._link = link
        self._membership = membership
        self._subscriptions = subscriptions
        self._config = config
        self._assignors = assignors
        self._protocol = protocol
        self._on_joined = on_joined
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._errand: tuple[Callable[..., Any], tuple[Any, ...], asyncio.Future[Any]] | None = None
        self._task: asyncio.Task[bytes] | None = None

    def start(self, protocols: list[JoinGroupRequestProtocol]) -> None:
        """Send JoinGroup; `wake` is called when there is an errand or an outcome."""
        sent = self._membership.join_sent()
        reason = truncated_reason(self._membership.rejoin_reason)
        log.info("group %s: joining%s", self._group_id, f" because {reason}" if reason else "")
        self._task = self._loop.create_task(self._run(sent, reason, protocols))
        self._task.add_done_callback(lambda _: self._wake())

    @property
    def done(self) -> bool:
        """Whether there is an outcome."""
        return self._task is not None and self._task.done()

    def result(self) -> bytes:
        """The assignment; raises AttemptFailedError, or what else went wrong."""
        assert self._task is not None
        return self._task.result()

    async def run_errand(self) -> None:
        """Call the assignor, if it is to be called."""
        if self._errand is None:
            return
        # A poll that is cancelled leaves the errand for the next one.
        function, arguments, answer = self._errand
        try:
            result = await call_user(function, *arguments)
        except Exception as error:
            if not answer.done():
                answer.set_exception(error)
        else:
            if not answer.done():
                answer.set_result(result)
        self._errand = None

    async def cancel(self) -> None:
        """Give up; what the coordinator answers is not read."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(
        self, sent: Generation, reason: str, protocols: list[JoinGroupRequestProtocol]
    ) -> bytes:
        joined = await self._join(sent, reason, protocols)
        assignments: dict[str, bytes] = {}
        if joined.leader == joined.member_id:
            assignments = await self._lead(joined)
        return await self._sync(assignments)

    # JoinGroup

    async def _join(
        self, sent: Generation, reason: str, protocols: list[JoinGroupRequestProtocol]
    ) -> JoinGroupResponse:
        config = self._config

        def build(version: int) -> JoinGroupRequest:
            if config.group_instance_id is not None and version < 5:
                raise no_static_members("JoinGroup")
            return JoinGroupRequest(
                group_id=self._group_id,
                session_timeout_ms=config.session_timeout_ms,
                rebalance_timeout_ms=config.max_poll_interval_ms,
                member_id=sent.member_id,
                group_instance_id=config.group_instance_id,
                protocol_type=PROTOCOL_TYPE,
                protocols=protocols,
                reason=reason,
            )

        # The coordinator holds the answer back until all members have come.
        timeout_ms = max(config.request_timeout_ms, config.max_poll_interval_ms + _JOIN_GRACE_MS)
        response: JoinGroupResponse = await self._link.send(
            JoinGroupRequest, build, timeout_ms=timeout_ms
        )
        if response.error_code:
            step = self._membership.join_failed(response.error_code, sent, response.member_id)
            raise self._refused("JoinGroup", response.error_code, step)
        if response.protocol_type not in (None, PROTOCOL_TYPE):
            raise self._refused("JoinGroup", ErrorCode.INCONSISTENT_GROUP_PROTOCOL, AfterError.TELL)
        generation = Generation(response.generation_id, response.member_id, response.protocol_name)
        if not self._membership.joined(generation):
            # The member has left since: it must not go on with this generation.
            raise self._refused("JoinGroup", ErrorCode.UNKNOWN_MEMBER_ID, AfterError.JOIN_AGAIN)
        log.info("group %s: joined %s", self._group_id, generation)
        self._on_joined()
        return response

    # The leader's work

    async def _lead(self, joined: JoinGroupResponse) -> dict[str, bytes]:
        assignor = elected_assignor(self._assignors, joined.protocol_name)
        subscriptions = subscriptions_of(joined.members)
        topics = topics_of(subscriptions)
        await self._watch(topics)
        self.leads = True
        self._take_snapshot()
        if joined.skip_assignment:
            # A static leader came back: its group goes on with the assignment that it has (KIP-814).
            return {}
        shares = await self._assign(assignor, subscriptions)
        watched = topics_to_watch(assignor, shares, topics)
        if len(watched) > len(topics):
            await self._watch(watched)
            self._take_snapshot()
        log.info("group %s: assigned %s", self._group_id, shares)
        return {member: encode_assignment(share) for member, share in shares.items()}

    async def _assign(
        self, assignor: Assignor, subscriptions: Mapping[str, Subscription]
    ) -> Mapping[str, Assignment]:
        answer: asyncio.Future[Mapping[str, Assignment]] = self._loop.create_future()
        arguments = (assignable(self._network.cluster), subscriptions)
        self._errand = (assignor.assign, arguments, answer)
        self._wake()
        shares = await answer
        is_cooperative = self._protocol is RebalanceProtocol.COOPERATIVE
        # Kafka's own looks at generations and knows better than the claims which partitions are free.
        if is_cooperative and not isinstance(assignor, CooperativeStickyAssignor):
            check_cooperative(subscriptions, shares)
        return shares

    async def _watch(self, topics: Sequence[str]) -> None:
        """Follow the topics of the whole group, and wait until there is word of each."""
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

    # SyncGroup

    async def _sync(self, assignments: Mapping[str, bytes]) -> bytes:
        membership = self._membership
        sent = membership.generation

        def build(version: int) -> SyncGroupRequest:
            if membership.group_instance_id is not None and version < 3:
                raise no_static_members("SyncGroup")
            return SyncGroupRequest(
                group_id=self._group_id,
                generation_id=sent.generation_id,
                member_id=sent.member_id,
                group_instance_id=membership.group_instance_id,
                protocol_type=PROTOCOL_TYPE,
                protocol_name=sent.protocol_name,
                assignments=[
                    SyncGroupRequestAssignment(member_id=member, assignment=assignment)
                    for member, assignment in assignments.items()
                ],
            )

        response = await self._link.send(SyncGroupRequest, build)
        if response.error_code:
            step = membership.sync_failed(response.error_code, sent)
            raise self._refused("SyncGroup", response.error_code, step)
        names = (response.protocol_type, response.protocol_name)
        if names[0] not in (None, PROTOCOL_TYPE) or names[1] not in (None, sent.protocol_name):
            raise self._refused("SyncGroup", ErrorCode.INCONSISTENT_GROUP_PROTOCOL, AfterError.TELL)
        if not membership.synced():
            raise self._refused("SyncGroup", ErrorCode.ILLEGAL_GENERATION, AfterError.JOIN_AGAIN)
        return bytes(response.assignment)

    def _refused(self, api: str, code: int, step: AfterError) -> AttemptFailedError:
        error = exception_for(code, None, api=api, group=self._group_id, broker=self._link.broker)
        if step is AfterError.FIND_COORDINATOR:
            self._link.forget(f"{api} was answered with {error.name}")
        return AttemptFailedError(step, error)
