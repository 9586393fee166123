"""Heartbeats of the classic protocol."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Any

from ottla.client.aio.group.coordinator import CoordinatorLink
from ottla.client.aio.group.group import MemberParts
from ottla.client.aio.group.heartbeat_task import HeartbeatTask
from ottla.client.state.group.heartbeat_schedule import HeartbeatSchedule
from ottla.client.state.group.membership import (
    AfterError,
    Generation,
    Membership,
    check_static_member,
)
from ottla.errors import ErrorCode, KafkaError, RetriableError, exception_for
from ottla.wire.messages.heartbeat import HeartbeatRequest

log = logging.getLogger("ottla.client.group")


class ClassicHeartbeats(HeartbeatTask):
    """Sends Heartbeat requests every heartbeat.interval.ms between JoinGroup and the end of the generation."""

    def __init__(
        self,
        parts: MemberParts,
        coordinator: CoordinatorLink,
        membership: Membership,
        on_poll_timeout: Callable[[], None],
    ) -> None:
        super().__init__(parts, coordinator, on_poll_timeout)
        self._membership = membership

    def begin(self) -> None:
        """The member has joined: the coordinator expects heartbeats from now on."""
        self._schedule.restart(self._now_ms())
        self._start()

    def _first_schedule(self) -> HeartbeatSchedule:
        return HeartbeatSchedule(
            interval_ms=self._config.heartbeat_interval_ms,
            session_timeout_ms=self._config.session_timeout_ms,
            max_poll_interval_ms=self._config.max_poll_interval_ms,
            retry=self._retry,
            now_ms=self._now_ms(),
        )

    @property
    def _is_expected(self) -> bool:
        return self._membership.heartbeats

    def _send(self) -> None:
        membership = self._membership
        sent = membership.generation

        def build(version: int) -> HeartbeatRequest:
            check_static_member("Heartbeat", membership.group_instance_id, version)
            return HeartbeatRequest(
                group_id=self._group_id,
                generation_id=sent.generation_id,
                member_id=sent.member_id,
                group_instance_id=membership.group_instance_id,
            )

        def answered(answer: asyncio.Future[Any]) -> None:
            if not answer.cancelled():
                self._answered(answer, sent)
                self._changed.set()
                self._wake()

        self._coordinator.send(HeartbeatRequest, build).add_done_callback(answered)

    def _answered(self, answer: asyncio.Future[Any], sent: Generation) -> None:
        now_ms = self._now_ms()
        error = answer.exception()
        if error is not None:
            log.debug("group %s: a heartbeat failed: %s", self._group_id, error)
            self._schedule.failed(now_ms, random.random())
            if not isinstance(error, RetriableError):
                self._failure = error if isinstance(error, KafkaError) else RuntimeError(str(error))
            return
        code = ErrorCode(answer.result().error_code)
        if code is ErrorCode.NONE:
            self._schedule.answered(now_ms)
            return
        log.info("group %s: a heartbeat was answered with %s", self._group_id, code.name)
        match self._membership.heartbeat_failed(code, sent):
            # The coordinator knows the member: heartbeats go on while the group rebalances.
            case AfterError.JOIN_AGAIN | AfterError.IGNORE:
                self._schedule.answered(now_ms)
            case AfterError.FIND_COORDINATOR:
                self._schedule.failed(now_ms, random.random())
                self._coordinator.forget(f"Heartbeat was answered with {code.name}")
            case AfterError.TELL:
                self._failure = exception_for(
                    code,
                    None,
                    api="Heartbeat",
                    group=self._group_id,
                    broker=self._coordinator.broker,
                )
            case _:
                self._schedule.failed(now_ms, random.random())
