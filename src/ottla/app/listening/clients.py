"""The clients that running listeners need, made from the options of an app."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ottla.client.aio.admin.client import Admin
from ottla.client.aio.consumer.consumer import Consumer
from ottla.client.aio.producer.producer import Producer
from ottla.config.client import read_client_config
from ottla.config.consumer import ConsumerConfig

RawConsumer = Consumer[bytes | None, bytes | None]


class Clients(Protocol):
    """Makes clients; the caller closes those that it gets from `consumer` and `transactional_producer`."""

    def consumer(self, options: Mapping[str, object]) -> RawConsumer:
        """A consumer of raw bytes with the app's options and these, which have dots."""

    def consumer_config(self, options: Mapping[str, object]) -> ConsumerConfig:
        """The options that such a consumer has."""

    def transactional_producer(self, options: Mapping[str, object]) -> Producer:
        """A producer with the app's options and these."""

    @property
    def producer(self) -> Producer:
        """The producer that the listeners and the template of the app share."""

    @property
    def admin(self) -> Admin:
        """The admin client of the app."""


class ClientFactory:
    """Clients by options with Kafka's names; made inside a running loop."""

    def __init__(
        self,
        *,
        consumer_options: Mapping[str, object],
        producer_options: Mapping[str, object],
        admin_options: Mapping[str, object],
    ) -> None:
        self._consumer_options = dict(consumer_options)
        self._producer_options = dict(producer_options)
        self._admin_options = dict(admin_options)
        self._producer: Producer | None = None
        self._admin: Admin | None = None

    def consumer(self, options: Mapping[str, object]) -> RawConsumer:
        """A consumer with the app's options and these."""
        return Consumer({**self._consumer_options, **options})

    def consumer_config(self, options: Mapping[str, object]) -> ConsumerConfig:
        """The options that such a consumer has; ConfigError if they are wrong."""
        return read_client_config(ConsumerConfig, {**self._consumer_options, **options}, {})

    def transactional_producer(self, options: Mapping[str, object]) -> Producer:
        """A producer with the app's options and these."""
        return Producer({**self._producer_options, **options})

    @property
    def producer(self) -> Producer:
        """The shared producer, made when it is first needed."""
        if self._producer is None:
            self._producer = Producer(self._producer_options)
        return self._producer

    @property
    def admin(self) -> Admin:
        """The admin client, made when it is first needed."""
        if self._admin is None:
            self._admin = Admin(self._admin_options)
        return self._admin

    async def close(self) -> None:
        """Close the shared clients; the producer sends what it has first."""
        producer, self._producer = self._producer, None
        admin, self._admin = self._admin, None
        try:
            if producer is not None:
                await producer.close()
        finally:
            if admin is not None:
                await admin.close()
