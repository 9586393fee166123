"""How serializers reach the registry: on a thread that may wait, or awaited on an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

from ottla.client.plugins.serializers import LookupPending
from ottla.errors import ConfigError
from ottla.schemas.client.aio import AsyncSchemaRegistryClient
from ottla.schemas.client.blocking import SchemaRegistryClient
from ottla.schemas.client.exchange import Exchange

T = TypeVar("T")

AnyRegistryClient: TypeAlias = SchemaRegistryClient | AsyncSchemaRegistryClient
Registry: TypeAlias = AnyRegistryClient | str | Mapping[str, object]
"""A client, the address of a registry, or the options of a client."""


def client_of(
    registry: Registry | None, options: Mapping[str, object]
) -> tuple[AnyRegistryClient, bool]:
    """The client that is meant, and whether it was made here and has to be closed."""
    if isinstance(registry, SchemaRegistryClient | AsyncSchemaRegistryClient):
        if options:
            raise ConfigError(
                f"{next(iter(options))} is an option of the registry's client: give it to the client"
            )
        return registry, False
    if registry is None:
        given: dict[str, object] = dict(options)
    elif isinstance(registry, str):
        given = {"schema.registry.url": registry, **options}
    else:
        given = {**registry, **options}
    return SchemaRegistryClient(given), True


class Lookups:
    """Exchanges with the registry, each of them once at a time."""

    def __init__(self, client: AnyRegistryClient, is_own: bool) -> None:
        self.client = client
        self.operations = client.operations
        self._is_own = is_own
        self._lock = threading.Lock()
        self._in_flight: dict[tuple[int, object], asyncio.Task[Any]] = {}

    def run(self, key: object, begin: Callable[[], Exchange[T]], what: str) -> T:
        """Carry out an exchange; on an event loop, or with an asyncio client, raise LookupPending instead."""
        client = self.client
        if isinstance(client, AsyncSchemaRegistryClient) or _is_on_event_loop():

            async def wait() -> None:
                await self.run_async(key, begin)

            raise LookupPending(
                f"{what} has to be asked of the registry, and that would block the event loop: "
                "`await serializer.prepare(topic)` first, or `await` encode or decode",
                wait,
            )
        return client.run(begin())

    async def run_async(self, key: object, begin: Callable[[], Exchange[T]]) -> T:
        """Carry out an exchange without blocking the loop; calls with one key share it."""
        loop = asyncio.get_running_loop()
        place = (id(loop), key)
        task: asyncio.Task[T] | None = self._in_flight.get(place)
        if task is None:
            task = self._in_flight[place] = loop.create_task(self._run_async(begin))
            task.add_done_callback(lambda done: self._finished(place, done))
        # One caller that is cancelled must not take the lookup from the others.
        return await asyncio.shield(task)

    async def _run_async(self, begin: Callable[[], Exchange[T]]) -> T:
        client = self.client
        if isinstance(client, AsyncSchemaRegistryClient):
            return await client.run(begin())
        return await asyncio.to_thread(client.run, begin())

    def _finished(self, place: tuple[int, object], task: asyncio.Task[Any]) -> None:
        self._in_flight.pop(place, None)
        if not task.cancelled():
            task.exception()  # seen, even if all callers were cancelled

    def close(self) -> None:
        """Close the client if it was made for this serializer."""
        if self._is_own and isinstance(self.client, SchemaRegistryClient):
            self.client.close()


def _is_on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
