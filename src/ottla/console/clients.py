"""The clients of one identity: of the console itself, or of a user who is logged in."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from ottla.client.aio.admin.client import Admin
from ottla.client.aio.consumer.consumer import Consumer
from ottla.client.aio.consumer.inspecting_consumer import InspectingConsumer
from ottla.client.aio.producer.producer import Producer
from ottla.client.blocking.admin import Admin as BlockingAdmin
from ottla.client.blocking.consumer import Consumer as BlockingConsumer
from ottla.client.blocking.consumer import InspectingConsumer as BlockingInspectingConsumer
from ottla.client.blocking.producer import Producer as BlockingProducer
from ottla.config.admin import AdminConfig
from ottla.config.client import ClientConfig
from ottla.config.consumer import ConsumerConfig
from ottla.config.options import options_of
from ottla.config.producer import ProducerConfig
from ottla.errors import IllegalStateError

CLIENT_ID: Final = "ottla-console"
CLOSE_SECONDS: Final = 2.0
_BYTES: Final[Mapping[str, object]] = {"key.deserializer": "bytes", "value.deserializer": "bytes"}
_TO_BYTES: Final[Mapping[str, object]] = {"key.serializer": "bytes", "value.serializer": "bytes"}
# A consumer of the console reads what it was asked for and leaves nothing behind.
_READER: Final[Mapping[str, object]] = {
    "allow.auto.create.topics": False,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
}

# Somebody waits for the answer: what a cluster does not answer by then is shown as a problem.
_SOON: Final[Mapping[str, object]] = {
    "default.api.timeout.ms": 15_000,
    "request.timeout.ms": 15_000,
}


class Clients:
    """Makes clients with the options of one identity; used on the console's loop.

    `options` are Kafka's, with dots: addresses and security. There is one admin client; consumers and producers belong
    to those who ask for them, and who close them. The blocking ones are for work on a thread.
    """

    def __init__(self, options: Mapping[str, object]) -> None:
        self.options: Final = {"client.id": CLIENT_ID, **options}
        self._admin: Admin | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def admin(self) -> Admin:
        """The admin client of this identity, which `close` closes."""
        if self._admin is None:
            self._admin = Admin({**_SOON, **self._options_for(AdminConfig, {})})
        return self._admin

    def consumer(self, **options: object) -> Consumer[Any, Any]:
        """A consumer without a group that reads bytes; `options` have underscores and take precedence."""
        return Consumer(self._options_for(ConsumerConfig, {**_READER, **_BYTES}, options))

    def inspecting_consumer(
        self, *, shows_control: bool, shows_aborted: bool, **options: object
    ) -> InspectingConsumer:
        """A consumer that also returns control records, or records of aborted transactions, as MarkedRecord."""
        return InspectingConsumer(
            self._options_for(ConsumerConfig, {**_READER, **_BYTES}, options),
            shows_control=shows_control,
            shows_aborted=shows_aborted,
        )

    def producer(self, **options: object) -> Producer:
        """A producer of bytes."""
        return Producer(self._options_for(ProducerConfig, _TO_BYTES, options))

    def blocking_admin(self) -> BlockingAdmin:
        """An admin client for a thread, which has to close it."""
        return BlockingAdmin(self._options_for(AdminConfig, {}))

    def blocking_consumer(self, **options: object) -> BlockingConsumer[Any, Any]:
        """A consumer for a thread."""
        return BlockingConsumer(self._options_for(ConsumerConfig, {**_READER, **_BYTES}, options))

    def blocking_inspecting_consumer(
        self, *, shows_control: bool, shows_aborted: bool, **options: object
    ) -> BlockingConsumer[Any, Any]:
        """A consumer for a thread that also returns what consumers skip."""
        return BlockingInspectingConsumer(
            self._options_for(ConsumerConfig, {**_READER, **_BYTES}, options),
            shows_control=shows_control,
            shows_aborted=shows_aborted,
        )

    def blocking_producer(self, **options: object) -> BlockingProducer:
        """A producer for a thread."""
        return BlockingProducer(self._options_for(ProducerConfig, _TO_BYTES, options))

    async def let_go(self, consumer: Consumer[Any, Any]) -> None:
        """Close a consumer, also for a caller who is cancelled: the stream of a browser that is gone."""
        closing = asyncio.get_running_loop().create_task(consumer.close(CLOSE_SECONDS))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
        # A browser that is gone cancels each step of its stream, and so every wait in here.
        await asyncio.shield(closing)

    async def close(self) -> None:
        """Close the admin client, once and for all."""
        self._is_closed = True
        await asyncio.gather(*self._closing, return_exceptions=True)
        if self._admin is not None:
            await self._admin.close()
            self._admin = None

    def _options_for(
        self,
        kind: type[ClientConfig],
        defaults: Mapping[str, object],
        given: Mapping[str, object] | None = None,
    ) -> dict[str, object]:
        """The options of the identity that this kind of client has, and the caller's own."""
        if self._is_closed:
            raise IllegalStateError("these clients are closed: the user is logged in no longer")
        known = options_of(kind)
        mine = {name: value for name, value in self.options.items() if name in known}
        own = {name.replace("_", "."): value for name, value in (given or {}).items()}
        return {**mine, **defaults, **own}


class NoClients(Clients):
    """The clients of those who are not logged in: there are none."""

    def __init__(self) -> None:
        super().__init__({})
        self._is_closed = True
