"""The connection to a group's coordinator: FindCoordinator, sending requests in order, giving a coordinator up."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from ottla.client.aio.network.connection import Connection
from ottla.client.aio.network.coordinator_cache import KEY_GROUP
from ottla.client.aio.network.network import Network
from ottla.client.metrics.group_metrics import GroupMetrics
from ottla.errors import ErrorCode, KafkaError, RetriableError, TimedOutError, exception_for

log = logging.getLogger("ottla.client.group")


class _Request(NamedTuple):
    """A request that is sent once the coordinator is known."""

    request_class: type[Any]
    build: Callable[[int], Any]
    at_most: int | None
    timeout_ms: float | None
    answer: asyncio.Future[Any]


class CoordinatorLink:
    """Sends a group's requests to its coordinator, in the order of the calls."""

    def __init__(
        self, network: Network, group_id: str, metrics: GroupMetrics, wake: Callable[[], None]
    ) -> None:
        self.on_found: Callable[[], None] = lambda: None
        self._network = network
        self._group_id = group_id
        self._metrics = metrics
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._lookup: asyncio.Task[None] | None = None
        self._attempts = 0
        self._not_before = 0.0
        self._lookup_error: KafkaError | None = None
        self._last_error: KafkaError | None = None
        self._outbox: deque[_Request] = deque()
        self._outbox_timer: asyncio.TimerHandle | None = None
        self._answers: set[asyncio.Future[Any]] = set()

    # Finding the coordinator

    @property
    def is_known(self) -> bool:
        """Whether requests can be sent now: the coordinator was found, and its connection is open."""
        if self._connection is not None and self._connection.closed is not None:
            self.forget(f"{self._connection.closed.message}")
        return self._connection is not None

    @property
    def broker(self) -> str:
        """The coordinator's name in messages."""
        connection = self._connection
        return "unknown" if connection is None else self._network.name_of(connection.node_id)

    def look_up(self) -> None:
        """Start a lookup unless one is running or the coordinator is known; calls `wake` when it is over."""
        if self._lookup is None and not self.is_known:
            self._lookup = self._loop.create_task(self._find())
            self._lookup.add_done_callback(self._looked_up)

    def raise_lookup_error(self) -> None:
        """Raise, once, an error of a lookup that a retry would not cure."""
        error, self._lookup_error = self._lookup_error, None
        if error is not None:
            raise error

    async def wait_until_known(self, deadline_ms: float) -> None:
        """Wait until the coordinator is known; TimedOutError at the deadline."""
        while not self.is_known:
            self.look_up()
            assert self._lookup is not None
            left_seconds = deadline_ms / 1000 - self._loop.time()
            # Not `await self._lookup`: a cancelled call must not cancel a lookup that other calls wait for.
            if left_seconds > 0:
                await asyncio.wait([self._lookup], timeout=left_seconds)
            self.raise_lookup_error()
            if left_seconds <= 0:
                raise self._not_found_in_time()

    def _not_found_in_time(self) -> TimedOutError:
        trouble = self._last_error or self._network.trouble
        why = "" if trouble is None else f" The last attempt failed: {trouble}"
        return TimedOutError(
            message=f"The coordinator of group {self._group_id} was not found in time.{why}",
            context={"api": "FindCoordinator", "group": self._group_id},
        )

    async def _find(self) -> None:
        pause = self._not_before - self._loop.time()
        if pause > 0:
            await asyncio.sleep(pause)
        node_id = await self._network.coordinator(KEY_GROUP, self._group_id)
        self._connection = await self._network.connection(node_id)

    def _looked_up(self, lookup: asyncio.Task[None]) -> None:
        self._lookup = None
        if lookup.cancelled():
            self._fail_outbox(_not_available(self._group_id))
            return
        error = lookup.exception()
        if error is None:
            log.info("group %s: the coordinator is broker %s", self._group_id, self.broker)
            self._attempts = 0
            self.on_found()
            self._flush()
        else:
            self._not_found(error)
        self._wake()

    def _not_found(self, error: BaseException) -> None:
        if not isinstance(error, KafkaError):
            log.error(
                "looking for the coordinator of group %s failed", self._group_id, exc_info=error
            )
            error = _not_available(self._group_id)
        log.debug("group %s: no coordinator: %s", self._group_id, error)
        self._last_error = error
        self._network.forget_coordinator(KEY_GROUP, self._group_id)
        if isinstance(error, RetriableError):
            delay_ms = self._network.retry.delay_ms(self._attempts, random.random())
            self._not_before = self._loop.time() + delay_ms / 1000
            self._attempts += 1
            self._network.request_update()
        else:
            self._lookup_error = error
        self._fail_outbox(error)

    def forget(self, why: str) -> None:
        """Give the coordinator up: close its connection, which fails the requests that it has not answered."""
        connection, self._connection = self._connection, None
        self._network.forget_coordinator(KEY_GROUP, self._group_id)
        if connection is not None:
            log.info(
                "group %s: coordinator %s is given up: %s",
                self._group_id,
                self._network.name_of(connection.node_id),
                why,
            )
            connection.close(why)

    # Sending

    def send(
        self,
        request_class: type[Any],
        build: Callable[[int], Any],
        *,
        at_most: int | None = None,
        timeout_ms: float | None = None,
    ) -> asyncio.Future[Any]:
        """Send to the known coordinator; COORDINATOR_NOT_AVAILABLE if none is known."""
        answer = self._enqueue(request_class, build, at_most, timeout_ms)
        if not self.is_known:
            self._fail_outbox(_not_available(self._group_id))
        return answer

    def send_when_found(
        self, request_class: type[Any], build: Callable[[int], Any], *, at_most: int | None = None
    ) -> asyncio.Future[Any]:
        """Send now, or after a lookup, which this call starts if the coordinator is not known."""
        answer = self._enqueue(request_class, build, at_most, None)
        self.look_up()
        return answer

    async def answered_by(self, answer: asyncio.Future[Any], deadline_ms: float) -> bool:
        """Wait for an answer; False if there is none at the deadline."""
        left_seconds = max(0.0, deadline_ms / 1000 - self._loop.time())
        await asyncio.wait([answer], timeout=left_seconds)
        return answer.done()

    async def back_off(self, attempt: int, deadline_ms: float) -> bool:
        """Wait before the next attempt; False, at once, if the deadline is before the end of the pause."""
        delay_ms = self._network.retry.delay_ms(attempt, random.random())
        if self._loop.time() * 1000 + delay_ms >= deadline_ms:
            return False
        await asyncio.sleep(delay_ms / 1000)
        return True

    async def drain(self, timeout_ms: float) -> None:
        """Wait until all requests are answered, at most for the timeout."""
        if self._answers and timeout_ms > 0:
            await asyncio.wait(self._answers, timeout=timeout_ms / 1000)

    async def close(self) -> None:
        """Stop the lookup, and fail requests that were not sent."""
        if self._outbox_timer is not None:
            self._outbox_timer.cancel()
        self._fail_outbox(_not_available(self._group_id))
        if self._lookup is not None:
            self._lookup.cancel()
            await asyncio.gather(self._lookup, return_exceptions=True)

    def _enqueue(
        self,
        request_class: type[Any],
        build: Callable[[int], Any],
        at_most: int | None,
        timeout_ms: float | None,
    ) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._answers.add(answer)
        answer.add_done_callback(self._answers.discard)
        answer.add_done_callback(_retrieve)
        self._outbox.append(_Request(request_class, build, at_most, timeout_ms, answer))
        self._flush()
        return answer

    def _flush(self) -> None:
        while self._outbox and self.is_known:
            connection = self._connection
            assert connection is not None
            if connection.throttled_until > self._loop.time():
                if self._outbox_timer is not None:
                    self._outbox_timer.cancel()
                self._outbox_timer = self._loop.call_at(connection.throttled_until, self._flush)
                return
            self._send(connection, self._outbox.popleft())

    def _send(self, connection: Connection, request: _Request) -> None:
        try:
            version = connection.version_of(request.request_class, request.at_most)
            message = request.build(version)
        except Exception as error:
            request.answer.set_exception(error)
            return
        api = request.request_class.__name__.removesuffix("Request")
        sent = connection.send(message, version, request.timeout_ms)
        sent_at = self._loop.time()
        self._metrics.sent(api)

        def answered(sent: asyncio.Future[Any]) -> None:
            if request.answer.done():
                _retrieve(sent)
                return
            if sent.cancelled():
                request.answer.cancel()
                return
            error = sent.exception()
            if error is None:
                self._metrics.answered(api, (self._loop.time() - sent_at) * 1000)
                request.answer.set_result(sent.result())
            else:
                if connection is self._connection and connection.closed is not None:
                    self.forget(str(error))
                request.answer.set_exception(error)

        sent.add_done_callback(answered)

    def _fail_outbox(self, error: KafkaError) -> None:
        while self._outbox:
            request = self._outbox.popleft()
            if not request.answer.done():
                request.answer.set_exception(error)


def _not_available(group_id: str) -> KafkaError:
    return exception_for(ErrorCode.COORDINATOR_NOT_AVAILABLE, None, group=group_id)


def _retrieve(answer: asyncio.Future[Any]) -> None:
    """Mark the exception as seen: asyncio logs exceptions that are never retrieved."""
    if not answer.cancelled():
        answer.exception()
