"""One attempt to join a group: JoinGroup, the leader's assignment, SyncGroup."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from ottla.client.aio.group.classic.attempt_failure import AttemptFailedError, attempt_failure
from ottla.client.aio.group.classic.leader import LeaderAssignment
from ottla.client.aio.group.classic.sync import sync_group
from ottla.client.aio.group.coordinator import CoordinatorLink
from ottla.client.aio.group.group import MemberParts
from ottla.client.state.group.membership import (
    PROTOCOL_TYPE,
    AfterError,
    Generation,
    Membership,
    check_static_member,
    truncated_reason,
)
from ottla.core.assignors.model import RebalanceProtocol
from ottla.errors import ErrorCode
from ottla.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)

log = logging.getLogger("ottla.client.group")

# How much longer than max.poll.interval.ms the answer to JoinGroup is waited for.
_JOIN_GRACE_MS = 5000


class JoinAttempt:
    """JoinGroup and SyncGroup as a task.

    As a task it reads the answer to JoinGroup, and starts heartbeats, even if the program does not poll at that moment.
    Only the assignor waits for a poll: `leader.run_assignor`.
    """

    def __init__(
        self,
        parts: MemberParts,
        coordinator: CoordinatorLink,
        membership: Membership,
        protocol: RebalanceProtocol,
        on_joined: Callable[[], None],
    ) -> None:
        self.leader = LeaderAssignment(parts, protocol)
        self._group_id = parts.group_id
        self._config = parts.config
        self._wake = parts.wake
        self._coordinator = coordinator
        self._membership = membership
        self._on_joined = on_joined
        self._task: asyncio.Task[bytes] | None = None

    def start(self, protocols: Sequence[JoinGroupRequestProtocol]) -> None:
        """Send JoinGroup; `wake` is called when an assignor is to be called, and at the end."""
        sent = self._membership.join_sent()
        reason = truncated_reason(self._membership.rejoin_reason)
        log.info("group %s: joining%s", self._group_id, f" because {reason}" if reason else "")
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._run(sent, reason, list(protocols)))
        self._task.add_done_callback(lambda _: self._wake())

    @property
    def done(self) -> bool:
        """Whether the attempt has succeeded or failed."""
        return self._task is not None and self._task.done()

    def result(self) -> bytes:
        """The encoded assignment; raises AttemptFailedError, or another error of the attempt."""
        assert self._task is not None
        return self._task.result()

    async def cancel(self) -> None:
        """Give the attempt up; answers of the coordinator are not read any more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(
        self, sent: Generation, reason: str, protocols: list[JoinGroupRequestProtocol]
    ) -> bytes:
        joined = await self._join(sent, reason, protocols)
        assignments: dict[str, bytes] = {}
        if joined.leader == joined.member_id:
            assignments = await self.leader.assign(joined)
        return await sync_group(self._group_id, self._coordinator, self._membership, assignments)

    async def _join(
        self, sent: Generation, reason: str, protocols: list[JoinGroupRequestProtocol]
    ) -> JoinGroupResponse:
        config = self._config

        def build(version: int) -> JoinGroupRequest:
            check_static_member("JoinGroup", config.group_instance_id, version)
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

        # The coordinator answers when all members have joined.
        timeout_ms = max(config.request_timeout_ms, config.max_poll_interval_ms + _JOIN_GRACE_MS)
        response: JoinGroupResponse = await self._coordinator.send(
            JoinGroupRequest, build, timeout_ms=timeout_ms
        )
        if response.error_code:
            step = self._membership.join_failed(response.error_code, sent, response.member_id)
            raise self._failed(response.error_code, step)
        if response.protocol_type not in (None, PROTOCOL_TYPE):
            raise self._failed(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, AfterError.TELL)
        generation = Generation(response.generation_id, response.member_id, response.protocol_name)
        if not self._membership.joined(generation):
            # The member has left in the meantime: it must not continue with this generation.
            raise self._failed(ErrorCode.UNKNOWN_MEMBER_ID, AfterError.JOIN_AGAIN)
        log.info("group %s: joined %s", self._group_id, generation)
        self._on_joined()
        return response

    def _failed(self, code: int, step: AfterError) -> AttemptFailedError:
        return attempt_failure("JoinGroup", self._group_id, self._coordinator, code, step)
