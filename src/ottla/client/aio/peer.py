"""A broker as the client sees it: its address, its connection, and when to try again."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

from ottla.client.aio.connection import Connection
from ottla.client.state.backoff import Backoff
from ottla.errors import ErrorCode, KafkaError, exception_for
from ottla.model import Endpoint

log = logging.getLogger("ottla.client")

Open = Callable[[Endpoint, int, float], Awaitable[Connection]]
"""Makes a connection that is ready for requests, within so many milliseconds."""


class Peer:
    """One broker; at most one connection to it, made when it is needed."""

    def __init__(
        self,
        node_id: int,
        endpoint: Endpoint,
        open_connection: Open,
        reconnect: Backoff,
        setup: Backoff,
    ) -> None:
        self.node_id = node_id
        self.endpoint = endpoint
        self.current: Connection | None = None
        self._open = open_connection
        self._reconnect = reconnect
        self._setup = setup
        self._failures = 0
        self._not_before = 0.0
        self._connecting: asyncio.Task[Connection] | None = None
        self._loop = asyncio.get_running_loop()

    @property
    def waits(self) -> bool:
        """Whether the last attempt failed and the pause after it is not over."""
        return self.current is None and self._loop.time() < self._not_before

    @property
    def load(self) -> tuple[int, int]:
        """For comparisons: those with a connection first, then by requests in flight."""
        if self.current is None:
            return (2 if self.waits else 1, self._failures)
        return (0, self.current.in_flight)

    async def connection(self) -> Connection:
        """The connection, made if there is none; one attempt, after the pause that the last failure asks for."""
        if self.current is not None:
            pause = self.current.throttled_until - self._loop.time()
            if pause > 0:
                await asyncio.sleep(pause)
            if self.current is not None:
                return self.current
        if self._connecting is None:
            self._connecting = self._loop.create_task(self._connect())
            self._connecting.add_done_callback(self._connected)
        # Others may wait for the same attempt: one that gives up must not end it.
        return await asyncio.shield(self._connecting)

    def lost(self, connection: Connection, error: KafkaError) -> bool:
        """The connection is no more; whether it was in use and has not been closed by us."""
        if connection is not self.current:
            return False
        self.current = None
        # A broker that goes away soon after connecting is not tried without pause.
        self._pause()
        log.debug("lost the connection to %s: %s", self.endpoint, error)
        return True

    def close(self, why: str = "the client was closed") -> None:
        """End the connection, and the attempt to make one."""
        if self._connecting is not None:
            self._connecting.cancel()
        if self.current is not None:
            current, self.current = self.current, None
            current.close(why)

    async def _connect(self) -> Connection:
        pause = self._not_before - self._loop.time()
        if pause > 0:
            await asyncio.sleep(pause)
        limit_ms = self._setup.delay_ms(self._failures, random.random())
        try:
            return await self._open(self.endpoint, self.node_id, limit_ms)
        except KafkaError:
            raise
        except (TimeoutError, OSError) as error:
            why = str(error) or f"no connection within {round(limit_ms)} ms"
            raise exception_for(
                ErrorCode.NETWORK_EXCEPTION, f"Cannot connect: {why}.", broker=str(self.endpoint)
            ) from error

    def _connected(self, attempt: asyncio.Task[Connection]) -> None:
        self._connecting = None
        if attempt.cancelled():
            return
        error = attempt.exception()
        if error is None:
            connection = attempt.result()
            if connection.closed is None:
                self.current = connection
                self._failures = 0
        else:
            self._pause()
            level = logging.WARNING if self._failures <= 1 else logging.DEBUG
            log.log(level, "%s", error)

    def _pause(self) -> None:
        delay_ms = self._reconnect.delay_ms(self._failures, random.random())
        self._not_before = self._loop.time() + delay_ms / 1000
        self._failures += 1
