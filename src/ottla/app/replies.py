"""Request and reply: a topic of the app for replies, and who waits for which."""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import Any, Final, Protocol

from ottla.app.declarations.handler_results import CORRELATION_ID
from ottla.app.declarations.listener_spec import RawRecord
from ottla.app.declarations.record_decoding import last_header
from ottla.client.admin_model.topics import NewTopic
from ottla.client.aio.admin.client import Admin
from ottla.client.aio.consumer.consumer import Consumer
from ottla.errors import ErrorCode, IllegalStateError, KafkaError, RetriableError, TimedOutError

log = logging.getLogger("ottla.app")

_POLL_SECONDS: Final = 0.5
_BACKOFF_SECONDS: Final = 0.5
# Replies are read at once; what nobody reads any more need not be kept.
_RETENTION_MS: Final = 3_600_000


class ReplyClients(Protocol):
    """What waiting for replies needs."""

    @property
    def admin(self) -> Admin:
        """Creates the topic of replies."""

    def consumer(self, options: dict[str, object]) -> Consumer[Any, Any]:
        """Reads it."""


class Replies:
    """Reads the app's topic of replies, from its end on, in every process of the app."""

    def __init__(self, clients: ReplyClients, topic: str) -> None:
        self.topic = topic
        self._clients = clients
        self._waiting: dict[bytes, asyncio.Future[RawRecord]] = {}
        self._starting: asyncio.Future[None] | None = None
        self._consumer: Consumer[Any, Any] | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Be ready to receive; the first request starts it."""
        if self._starting is None or (self._starting.done() and self._starting.exception()):
            self._starting = asyncio.ensure_future(self._start())
        elif self._task is not None and self._task.done():
            # It could not go on: a new consumer may.
            await self._stop_reading()
            self._starting = asyncio.ensure_future(self._start())
        await asyncio.shield(self._starting)

    async def _start(self) -> None:
        try:
            await self._clients.admin.create_topics(
                [NewTopic(self.topic, configs={"retention.ms": str(_RETENTION_MS)})]
            )
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        consumer = self._clients.consumer(
            {"enable.auto.commit": False, "auto.offset.reset": "latest"}
        )
        try:
            found = await consumer.list_topics()
            partitions = [(self.topic, each.partition) for each in found.get(self.topic, [])] or [
                (self.topic, 0)
            ]
            ends = await consumer.end_offsets(partitions)
            consumer.assign(partitions)
            for partition, end in ends.items():
                consumer.seek(partition, end)
        except BaseException:
            await consumer.close()
            raise
        self._consumer = consumer
        self._task = asyncio.ensure_future(self._read(consumer))

    async def _read(self, consumer: Consumer[Any, Any]) -> None:
        while True:
            try:
                records = await consumer.poll(_POLL_SECONDS)
            except RetriableError as error:
                log.warning("%s: replies cannot be read: %s", self.topic, error)
                await asyncio.sleep(_BACKOFF_SECONDS)
                continue
            except Exception as error:
                self._fail(error)
                return
            for record in records:
                correlation = last_header(record.headers, CORRELATION_ID)
                waiting = None if correlation is None else self._waiting.pop(correlation, None)
                # A reply that comes too late, or that another process waits for.
                if waiting is not None and not waiting.done():
                    waiting.set_result(record)

    def _fail(self, error: Exception) -> None:
        """No reply can be read: those who wait need not wait for their timeouts."""
        log.error("%s: replies cannot be read any more: %s", self.topic, error)
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(error)
        self._waiting.clear()

    def expect(self) -> tuple[bytes, asyncio.Future[RawRecord]]:
        """A new correlation id, and the reply that will come for it."""
        correlation = uuid.uuid4().bytes
        reply: asyncio.Future[RawRecord] = asyncio.get_running_loop().create_future()
        self._waiting[correlation] = reply
        return correlation, reply

    async def wait(
        self, topic: str, correlation: bytes, reply: asyncio.Future[RawRecord], seconds: float
    ) -> RawRecord:
        """The reply; TimedOutError if none comes in time."""
        try:
            async with asyncio.timeout(seconds):
                return await reply
        except TimeoutError:
            raise TimedOutError(
                message=f"No reply to the request to {topic} came within {seconds:g} s.",
                context={"topic": topic},
            ) from None
        finally:
            self._waiting.pop(correlation, None)

    def forget(self, correlation: bytes) -> None:
        """The request was not sent."""
        self._waiting.pop(correlation, None)

    async def close(self) -> None:
        """Stop reading; requests that wait fail."""
        await self._stop_reading()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(
                    IllegalStateError("the app was stopped before the reply came")
                )
        self._waiting.clear()

    async def _stop_reading(self) -> None:
        task, self._task = self._task, None
        consumer, self._consumer = self._consumer, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        if consumer is not None:
            await consumer.close()
