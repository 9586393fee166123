"""The asyncio client of schema registries."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

from ottla.errors import IllegalStateError
from ottla.schemas.client.exchange import Exchange, Pause, Reply, Response, Send
from ottla.schemas.client.http import httpx_arguments, unreachable
from ottla.schemas.client.operations import Operations, Version
from ottla.schemas.config import read_registry_config
from ottla.schemas.extra import require
from ottla.schemas.model import CompatibilityResult, RegisteredSchema, Schema, SubjectVersion

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")


class AsyncSchemaRegistryClient:
    """As `SchemaRegistryClient`, for asyncio: the methods are coroutines."""

    def __init__(self, config: Mapping[str, object] | None = None, /, **options: object) -> None:
        settings, security = read_registry_config({**(config or {}), **options})
        self.addresses = settings.addresses
        self.operations = Operations(settings)
        self._arguments = httpx_arguments(settings, security)
        # Connections belong to the loop that made them; a client may be used on several, one after another.
        self._http: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = (
            WeakKeyDictionary()
        )
        self._is_closed = False

    async def run(self, exchange: Exchange[T]) -> T:
        """Carry out an exchange on the running loop."""
        reply: Reply = None
        while True:
            try:
                step = exchange.send(reply)
            except StopIteration as stopped:
                result: T = stopped.value
                return result
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                reply = None
            else:
                reply = await self._send(step)

    async def _send(self, step: Send) -> Reply:
        if self._is_closed:
            raise IllegalStateError("the schema registry's client is closed")
        try:
            answer = await self._client().request(
                step.method, step.url, headers=dict(step.headers), content=step.body
            )
        except require("httpx", "a schema registry's client").HTTPError as error:
            return unreachable(error)
        return Response(answer.status_code, answer.content)

    def _client(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        client = self._http.get(loop)
        if client is None:
            module = require("httpx", "a schema registry's client")
            client = self._http[loop] = module.AsyncClient(**self._arguments)
        return client

    async def aclose(self) -> None:
        """Close the connections of the running loop, and answer no more calls."""
        self._is_closed = True
        client = self._http.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def register_schema(
        self, subject: str, schema: Schema, *, normalize: bool = False
    ) -> RegisteredSchema:
        """Register a schema, or find it if the subject has it already."""
        return await self.run(self.operations.register_schema(subject, schema, normalize))

    async def lookup_schema(
        self, subject: str, schema: Schema, *, normalize: bool = False, deleted: bool = False
    ) -> RegisteredSchema:
        """The subject's version that has this schema."""
        return await self.run(self.operations.lookup_schema(subject, schema, normalize, deleted))

    async def get_schema(
        self, schema_id: int, *, subject: str | None = None, format: str | None = None
    ) -> Schema:
        """The schema with this id."""
        return await self.run(self.operations.get_schema(schema_id, subject, format))

    async def get_schema_by_guid(self, guid: UUID, *, format: str | None = None) -> Schema:
        """The schema with this GUID."""
        return await self.run(self.operations.get_schema_by_guid(guid, format))

    async def get_version(
        self, subject: str, version: Version, *, deleted: bool = False, format: str | None = None
    ) -> RegisteredSchema:
        """A version of a subject."""
        return await self.run(self.operations.get_version(subject, version, deleted, format))

    async def get_latest_version(
        self, subject: str, *, format: str | None = None
    ) -> RegisteredSchema:
        """The latest version of a subject, as old as latest.cache.ttl.sec allows."""
        return await self.run(self.operations.get_latest_version(subject, format))

    async def get_subjects(self, prefix: str = "", *, deleted: bool = False) -> list[str]:
        """The names of subjects."""
        return await self.run(self.operations.get_subjects(prefix, deleted))

    async def get_versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        """The numbers of a subject's versions."""
        return await self.run(self.operations.get_versions(subject, deleted))

    async def get_schema_versions(self, schema_id: int) -> list[SubjectVersion]:
        """The subjects and versions that have the schema with this id."""
        return await self.run(self.operations.get_schema_versions(schema_id))

    async def get_schema_types(self) -> list[str]:
        """The formats that the registry knows."""
        return await self.run(self.operations.get_schema_types())

    async def get_referenced_by(self, subject: str, version: Version) -> list[int]:
        """The ids of the schemas that refer to a version."""
        return await self.run(self.operations.get_referenced_by(subject, version))

    async def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Delete a subject, and return its versions; a permanent deletion deletes it softly first."""
        return await self.run(self.operations.delete_subject(subject, permanent))

    async def delete_version(
        self, subject: str, version: Version, *, permanent: bool = False
    ) -> int:
        """Delete a version, and return its number; a permanent deletion deletes it softly first."""
        return await self.run(self.operations.delete_version(subject, version, permanent))

    async def test_compatibility(
        self,
        subject: str,
        schema: Schema,
        *,
        version: Version | None = "latest",
        normalize: bool = False,
    ) -> CompatibilityResult:
        """Whether a schema is compatible with a version; None: with all that the subject's level asks for."""
        return await self.run(
            self.operations.test_compatibility(subject, schema, version, normalize)
        )

    async def get_config(
        self, subject: str | None = None, *, default_to_global: bool = False
    ) -> dict[str, Any]:
        """The config of a subject or of all: compatibilityLevel and more."""
        return await self.run(self.operations.get_config(subject, default_to_global))

    async def set_config(
        self, config: Mapping[str, Any], subject: str | None = None
    ) -> dict[str, Any]:
        """Change the config of a subject or of all: {"compatibility": "FULL"}."""
        return await self.run(self.operations.set_config(subject, dict(config)))

    async def delete_config(self, subject: str | None = None) -> None:
        """Return to the default config."""
        await self.run(self.operations.delete_config(subject))

    async def get_mode(self, subject: str | None = None, *, default_to_global: bool = False) -> str:
        """The mode of a subject or of all: READWRITE, READONLY, IMPORT."""
        return await self.run(self.operations.get_mode(subject, default_to_global))

    async def set_mode(self, mode: str, subject: str | None = None, *, force: bool = False) -> str:
        """Change the mode of a subject or of all."""
        return await self.run(self.operations.set_mode(subject, mode, force))

    async def delete_mode(self, subject: str | None = None) -> None:
        """Return to the default mode."""
        await self.run(self.operations.delete_mode(subject))
