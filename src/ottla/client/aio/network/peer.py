"""A broker as the client sees it: its address, its connection, and when to connect again."""

from __future__ import annotations

import asyncio
import logging
import random

from ottla.client.aio.network.connection import Connection
from ottla.client.aio.network.connector import Opener
from ottla.client.state.backoff import Backoff
from ottla.errors import ErrorCode, KafkaError, exception_for
from ottla.model import Endpoint

log = logging.getLogger("ottla.client")

# How suitable a peer is for a request that any broker can answer, the best first.
_READY, _CONNECTING, _UNCONNECTED, _THROTTLED, _WAITING = range(5)


class Peer:
    """One broker; at most one connection to it, made when it is needed."""

    def __init__(
        self,
        node_id: int,
        endpoint: Endpoint,
        opener: Opener,
        reconnect: Backoff,
        setup: Backoff,
    ) -> None:
        self.node_id = node_id
        self.endpoint = endpoint
        self.current: Connection | None = None
        self._opener = opener
        self._reconnect = reconnect
        self._setup = setup
        self._failures = 0
        self._setup_failures = 0
        self._not_before = 0.0
        self._attempt: asyncio.Future[Connection] | None = None
        self._tasks: set[asyncio.Task[Connection]] = set()
        self._loop = asyncio.get_running_loop()

    @property
    def waits(self) -> bool:
        """Whether there is no connection, and reconnect.backoff.ms is not over."""
        return self.current is None and self._loop.time() < self._not_before

    @property
    def unreachable(self) -> bool:
        """Whether the last attempt to connect failed and reconnect.backoff.ms is not over."""
        return self.waits and self._setup_failures > 0

    @property
    def load(self) -> tuple[int, int]:
        """For comparisons: peers with a connection first, then by requests in flight."""
        if self.current is not None:
            is_throttled = self.current.throttled_until > self._loop.time()
            return (_THROTTLED if is_throttled else _READY, self.current.in_flight)
        if self.waits:
            return (_WAITING, self._failures)
        return (_UNCONNECTED if self._attempt is None else _CONNECTING, self._failures)

    async def connection(self) -> Connection:
        """The connection, made if there is none: one attempt, after reconnect.backoff.ms since the last failure."""
        while self.current is not None:
            pause = self.current.throttled_until - self._loop.time()
            if pause <= 0:
                return self.current
            await asyncio.wait({self.current.gone}, timeout=pause)
        # Other tasks may wait for the same attempt: the cancellation of this one must not end it.
        return await asyncio.shield(self.attempt())

    def attempt(self) -> asyncio.Future[Connection]:
        """The attempt to connect, begun if none is under way; all tasks that need the connection share it."""
        if self._attempt is None:
            attempt: asyncio.Future[Connection] = self._loop.create_future()
            self._attempt = attempt
            task = self._loop.create_task(self._connect())
            self._tasks.add(task)
            task.add_done_callback(lambda task: self._connected(task, attempt))
        return self._attempt

    def adopt(self, other: Peer) -> None:
        """Take over the connection to the same address that was made under another node id."""
        if self.current is None and self._attempt is None and other.current is not None:
            self.current, other.current = other.current, None
            self.current.node_id = self.node_id

    def lost(self, connection: Connection, error: KafkaError) -> bool:
        """The connection has ended; True if it was the current one, which the client has not closed."""
        if connection is not self.current:
            return False
        self.current = None
        # A broker that closes connections at once is not tried without a pause either.
        self._pause()
        log.debug("lost the connection to %s: %s", self.endpoint, error)
        return True

    def close(self, why: str = "the client was closed") -> None:
        """End the connection and the attempt to make one; tasks that wait for it get an error."""
        attempt, self._attempt = self._attempt, None
        for task in self._tasks:
            task.cancel()
        if attempt is not None and not attempt.done():
            error = exception_for(
                ErrorCode.NETWORK_EXCEPTION, f"Cannot connect: {why}.", broker=str(self.endpoint)
            )
            _fail(attempt, error)
        if self.current is not None:
            current, self.current = self.current, None
            current.close(why)

    @property
    def is_ending(self) -> bool:
        """Whether cancelled attempts are still cleaning up."""
        return bool(self._tasks)

    async def ended(self) -> None:
        """Wait until the attempts that `close` cancelled have cleaned up."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connect(self) -> Connection:
        pause = self._not_before - self._loop.time()
        if pause > 0:
            await asyncio.sleep(pause)
        limit_ms = self._setup.delay_ms(self._setup_failures, random.random())
        return await self._opener.open(self.endpoint, self.node_id, limit_ms)

    def _connected(
        self, task: asyncio.Task[Connection], attempt: asyncio.Future[Connection]
    ) -> None:
        self._tasks.discard(task)
        is_wanted = self._attempt is attempt
        if is_wanted:
            self._attempt = None
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._failed(error)
            if not attempt.done():
                _fail(attempt, error)
            return
        connection = task.result()
        if not is_wanted:
            connection.close("it is not needed any more")
            return
        self._failures = self._setup_failures = 0
        if connection.closed is None:
            self.current = connection
        else:
            self._pause()
        attempt.set_result(connection)

    def _failed(self, error: BaseException) -> None:
        self._pause()
        self._setup_failures += 1
        if isinstance(error, KafkaError):
            # Only the first failure until a connection succeeds is a warning.
            level = logging.WARNING if self._failures <= 1 else logging.DEBUG
            log.log(level, "%s: %s", self._opener.client_id, error)
        else:
            log.error("connecting to %s failed", self.endpoint, exc_info=error)

    def _pause(self) -> None:
        delay_ms = self._reconnect.delay_ms(self._failures, random.random())
        self._not_before = self._loop.time() + delay_ms / 1000
        self._failures += 1


def _fail(attempt: asyncio.Future[Connection], error: BaseException) -> None:
    attempt.set_exception(error)
    # Retrieved here, or the loop would log it if all waiting tasks were cancelled.
    attempt.exception()
