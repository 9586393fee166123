"""The task that sends heartbeats while the program works, and that checks max.poll.interval.ms."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable

from ottla.client.aio.group.coordinator import CoordinatorLink
from ottla.client.aio.group.group import MemberParts
from ottla.client.state.group.heartbeat_schedule import DueAction, HeartbeatSchedule
from ottla.errors import ErrorCode, KafkaError

log = logging.getLogger("ottla.client.group")

# How long a waiting poll has to report itself before the member leaves.
_LAST_CALL_MS = 10


class HeartbeatTask(ABC):
    """Sends heartbeats while the member is in the group, and leaves it if the program does not poll."""

    def __init__(
        self,
        parts: MemberParts,
        coordinator: CoordinatorLink,
        on_poll_timeout: Callable[[], None],
    ) -> None:
        self._group_id = parts.group_id
        self._config = parts.config
        self._retry = parts.network.retry
        self._wake = parts.wake
        self._coordinator = coordinator
        self._on_poll_timeout = on_poll_timeout
        self._loop = asyncio.get_running_loop()
        self._schedule = self._first_schedule()
        self._failure: Exception | None = None
        self._is_last_call = False
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        coordinator.on_found = self._coordinator_found

    # What a protocol implements

    @abstractmethod
    def _first_schedule(self) -> HeartbeatSchedule:
        """The deadlines of a member that joins now."""

    @property
    @abstractmethod
    def _is_expected(self) -> bool:
        """Whether the coordinator expects heartbeats."""

    @abstractmethod
    def _send(self) -> None:
        """Send a heartbeat."""

    # Used by the member

    @property
    def last_answered_ms(self) -> float | None:
        """When the coordinator last answered a heartbeat; None if it never did."""
        return self._schedule.last_answered_ms

    @property
    def fencing(self) -> KafkaError | None:
        """The error that ended heartbeats for good: another member uses this group.instance.id."""
        failure = self._failure
        if isinstance(failure, KafkaError) and failure.code is ErrorCode.FENCED_INSTANCE_ID:
            return failure
        return None

    def polled(self) -> None:
        """The program polls; raises the error of a heartbeat: fencing every time, others once."""
        self._schedule.polled(self._now_ms())
        failure = self._failure
        if failure is not None:
            if self.fencing is None:
                self._failure = None
                self._changed.set()
            raise failure

    async def close(self) -> None:
        """Stop the task."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # The task

    def _start(self) -> None:
        """Start the task, or let it look again what is due."""
        self._changed.set()
        if self._task is None:
            self._task = self._loop.create_task(self._run())

    async def _run(self) -> None:
        try:
            while True:
                self._changed.clear()
                await self._wait(self._step())
        except asyncio.CancelledError:
            raise
        except Exception as error:
            log.exception("group %s: heartbeats have ended", self._group_id)
            self._failure = error
            self._task = None
            self._wake()

    def _step(self) -> float | None:
        """Do what is due; returns how long to wait in ms, None to wait until something changes."""
        if not self._is_expected or self._failure is not None:
            return None
        if not self._coordinator.is_known:
            # Only a coordinator can end the session: the next one says whether it did.
            self._coordinator.look_up()
            return self._retry.initial_ms
        now_ms = self._now_ms()
        match self._schedule.due(now_ms):
            case DueAction.SESSION_EXPIRED:
                self._coordinator.forget("no heartbeat was answered for session.timeout.ms")
                return 0
            case DueAction.POLL_EXPIRED if self._is_last_call:
                self._is_last_call = False
                self._on_poll_timeout()
                return 0
            case DueAction.POLL_EXPIRED:
                # If this process was suspended, a poll may be waiting that had no chance to report itself.
                self._is_last_call = True
                self._wake()
                return _LAST_CALL_MS
            case DueAction.SEND:
                self._schedule.sent(now_ms)
                self._send()
        self._is_last_call = False
        # A waiting poll counts as polling, however long it waits: it is woken to report itself.
        self._wake()
        return min(self._schedule.next_ms() - now_ms, self._config.max_poll_interval_ms / 3)

    async def _wait(self, delay_ms: float | None) -> None:
        timeout = None if delay_ms is None else max(delay_ms, 0) / 1000
        # Not wait_for: in Python 3.11 it loses a cancellation that comes together with the event.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._changed.wait()

    def _coordinator_found(self) -> None:
        self._schedule.restart_session(self._now_ms())
        self._changed.set()

    def _now_ms(self) -> float:
        return self._loop.time() * 1000
