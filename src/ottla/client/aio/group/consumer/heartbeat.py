"""Heartbeats of the protocol of KIP-848: they join, stay, report what the member has, and leave."""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Callable
from typing import Any, Final

from ottla.client.aio.group.coordinator import CoordinatorLink
from ottla.client.aio.group.group import MemberParts
from ottla.client.aio.group.heartbeat_task import HeartbeatTask
from ottla.client.state.group.consumer.heartbeat_fields import (
    HeartbeatFields,
    MemberFields,
    NoBrokerPatternsError,
    assigned_partitions,
)
from ottla.client.state.group.consumer.membership import AfterHeartbeat, ConsumerMembership
from ottla.client.state.group.heartbeat_schedule import HeartbeatSchedule
from ottla.errors import ErrorCode, FatalError, KafkaError, RetriableError, exception_for
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

log = logging.getLogger("ottla.client.group")

_API: Final = "ConsumerGroupHeartbeat"
# Until the coordinator says how often it expects heartbeats.
_FIRST_INTERVAL_MS: Final = 5000


class ConsumerHeartbeats(HeartbeatTask):
    """Sends ConsumerGroupHeartbeat requests, one at a time: at the coordinator's interval, and at once with news."""

    def __init__(
        self,
        parts: MemberParts,
        coordinator: CoordinatorLink,
        membership: ConsumerMembership,
        on_poll_timeout: Callable[[], None],
    ) -> None:
        super().__init__(parts, coordinator, on_poll_timeout)
        self._subscriptions = parts.subscriptions
        self._membership = membership
        self._fields = HeartbeatFields(parts.group_id, membership, parts.config.client_rack or None)
        # The incarnation of the member whose heartbeat has no answer yet.
        self._in_flight: int | None = None
        self._told: KafkaError | None = None

    # Used by the member

    def polled(self) -> None:
        """The program polls; raises the error of a heartbeat that it can do something about."""
        super().polled()
        error, self._told = self._told, None
        if error is not None:
            raise error

    def join(self) -> None:
        """The member wants to join: send the first heartbeat."""
        self._fields.reset()
        self._schedule.join(self._now_ms(), random.random())
        self._start()

    def send_news(self) -> None:
        """Send a heartbeat now if it has anything to tell."""
        if self._has_news:
            self._schedule.expedite(self._now_ms())
            self._changed.set()

    def leave(self) -> None:
        """Send the last heartbeat without waiting for the answer."""
        request = self._fields.leave_request()
        self._coordinator.send(ConsumerGroupHeartbeatRequest, lambda _: request)
        self._fields.reset()

    # The task

    def _first_schedule(self) -> HeartbeatSchedule:
        return HeartbeatSchedule(
            interval_ms=_FIRST_INTERVAL_MS,
            # Only the coordinator knows the timeout: it answers UNKNOWN_MEMBER_ID when the session has ended.
            session_timeout_ms=math.inf,
            max_poll_interval_ms=self._config.max_poll_interval_ms,
            retry=self._retry,
            now_ms=self._now_ms(),
        )

    @property
    def _is_expected(self) -> bool:
        return self._membership.is_in_group

    @property
    def _has_news(self) -> bool:
        return self._is_expected and self._fields.has_news(self._current_fields())

    def _current_fields(self) -> MemberFields:
        subscriptions = self._subscriptions
        pattern = subscriptions.broker_pattern
        return MemberFields(
            rebalance_timeout_ms=self._config.max_poll_interval_ms,
            topics=() if pattern is not None else tuple(sorted(subscriptions.subscription())),
            pattern=None if pattern is None else pattern.pattern,
            assignor=self._config.group_remote_assignor,
            reached=self._membership.reached,
        )

    def _send(self) -> None:
        incarnation = self._membership.incarnation
        if self._in_flight == incarnation:
            return  # its answer comes first, or the request times out
        self._in_flight = incarnation

        def build(version: int) -> ConsumerGroupHeartbeatRequest:
            return self._fields.request(self._current_fields(), version)

        def answered(answer: asyncio.Future[Any]) -> None:
            if self._in_flight == incarnation:
                self._in_flight = None
            if answer.cancelled():
                return
            error = answer.exception()
            if incarnation != self._membership.incarnation:
                log.debug("group %s: a late answer to a heartbeat: %s", self._group_id, error)
            elif error is not None:
                self._failed(error)
            else:
                self._answered(answer.result(), incarnation)
            self.send_news()
            self._changed.set()
            self._wake()

        self._coordinator.send(ConsumerGroupHeartbeatRequest, build).add_done_callback(answered)

    def _answered(self, response: ConsumerGroupHeartbeatResponse, incarnation: int) -> None:
        if response.error_code:
            self._refused(response, incarnation)
            return
        now_ms = self._now_ms()
        self._schedule.answered(now_ms)
        self._schedule.follow_interval(response.heartbeat_interval_ms, now_ms)
        self._membership.answered(incarnation, response.member_epoch, assigned_partitions(response))

    def _refused(self, response: ConsumerGroupHeartbeatResponse, incarnation: int) -> None:
        """Handle an error code; the next heartbeat has all fields, since the coordinator may not know them."""
        code = ErrorCode(response.error_code)
        log.info(
            "group %s: a heartbeat was answered with %s: %s",
            self._group_id,
            code.name,
            response.error_message or code.text,
        )
        self._fields.reset()
        was_member = self._membership.stable_generation is not None
        reaction = self._membership.refused(incarnation, code)
        if reaction is not AfterHeartbeat.JOIN_AGAIN or not was_member:
            self._schedule.failed(self._now_ms(), random.random())
        match reaction:
            case AfterHeartbeat.FIND_COORDINATOR:
                self._coordinator.forget(f"{_API} was answered with {code.name}")
            case AfterHeartbeat.TELL_AND_RETRY:
                self._told = self._error(code, response.error_message)
            case AfterHeartbeat.GIVE_UP:
                self._membership.give_up(self._error(code, response.error_message))

    def _failed(self, error: BaseException) -> None:
        """Handle a heartbeat that was not answered."""
        log.debug("group %s: a heartbeat failed: %s", self._group_id, error)
        self._fields.reset()
        self._schedule.failed(self._now_ms(), random.random())
        if isinstance(error, RetriableError):
            return
        if not isinstance(error, KafkaError):
            self._failure = RuntimeError(str(error))
        elif isinstance(error, NoBrokerPatternsError):
            self._membership.give_up(error)
        else:
            self._membership.give_up(self._error(error.code, error.message))

    def _error(self, code: ErrorCode, message: str | None) -> KafkaError:
        where = {"api": _API, "group": self._group_id, "broker": self._coordinator.broker}
        if code is ErrorCode.UNSUPPORTED_VERSION:
            message = (
                "The broker does not have the group protocol of KIP-848, or it is switched off: "
                "use group.protocol=classic."
            )
            return FatalError(code, message, where)
        return exception_for(code, message, **where)
