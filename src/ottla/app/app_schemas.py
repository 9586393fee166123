"""The schemas of an app: codecs for the classes that its handlers and its template use, against one registry."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from ottla.app.declarations.json_conversion import is_pydantic_model, type_name
from ottla.app.declarations.record_decoding import is_protobuf_message
from ottla.client.model import Headers
from ottla.errors import ConfigError
from ottla.schemas.codec import Codec, Data, Format, NotCached

if TYPE_CHECKING:
    from ottla.schemas.serializers.lookups import AnyRegistryClient
    from ottla.schemas.subjects import SubjectStrategy

FORMATS: Final[tuple[Format, ...]] = ("avro", "json", "protobuf")


@dataclasses.dataclass(frozen=True)
class SchemaChoice:
    """How one class is written."""

    format: Format
    subject_strategy: str | SubjectStrategy = "topic"
    namespace: str | None = None


def has_schema(wanted: object) -> bool:
    """Whether a class is its own schema: a dataclass, a pydantic model or a class of Protobuf's compiler."""
    return isinstance(wanted, type) and (
        dataclasses.is_dataclass(wanted) or is_pydantic_model(wanted) or is_protobuf_message(wanted)
    )


class AppSchemas:
    """Makes codecs; the registry's client exists while the app runs."""

    def __init__(
        self,
        registry_options: Mapping[str, object],
        codec_options: Mapping[str, object],
        default_format: str,
    ) -> None:
        from ottla.schemas.config import read_registry_config

        chosen = next((each for each in FORMATS if each == default_format), None)
        if chosen is None:
            raise ConfigError(f"schema_format={default_format!r}: write avro, json or protobuf")
        read_registry_config(dict(registry_options))
        self._registry_options = dict(registry_options)
        self._codec_options = dict(codec_options)
        self._default: Format = chosen
        self._choices: dict[type, SchemaChoice] = {}
        self._client: AnyRegistryClient | None = None
        self._codecs: dict[type, Codec[Any]] = {}

    def use_registry(self, registry_options: Mapping[str, object]) -> None:
        """Use another registry from now on; called while the app does not run."""
        self._registry_options = dict(registry_options)
        self._client = None
        self._codecs.clear()

    def choose(self, wanted: type, choice: SchemaChoice) -> None:
        """Write a class in another format, or under other subjects."""
        if not has_schema(wanted):
            raise ConfigError(
                f"{type_name(wanted)} has no schema: it is no dataclass, pydantic model or Protobuf message"
            )
        if choice.format not in FORMATS:
            raise ConfigError(f"format={choice.format!r}: write avro, json or protobuf")
        self._choices[wanted] = choice
        self.codec(wanted)

    def reads(self, wanted: Any) -> Codec[Any] | None:
        """The codec for parameters of a type; None if the type has no schema."""
        if not has_schema(wanted):
            return None
        # Made at once, so that a class without a schema fails where it is declared.
        self.codec(wanted)
        return _CodecOfRun(self, wanted)

    def writes(self, value: Any, *, is_key: bool) -> Codec[Any] | None:
        """The codec for a value; None if its class has no schema."""
        kind = type(value)
        return self.codec(kind) if kind in self._codecs or has_schema(kind) else None

    def codec(self, wanted: type) -> Codec[Any]:
        """The codec of a class, with the client of this run."""
        found = self._codecs.get(wanted)
        if found is None:
            found = self._codecs[wanted] = self._make(wanted)
        return found

    def _make(self, wanted: type) -> Codec[Any]:
        from ottla.schemas.codecs import codec_for

        if self._client is None:
            self._client = self._new_client()
        choice = self._choices.get(wanted)
        if choice is None:
            choice = SchemaChoice("protobuf" if is_protobuf_message(wanted) else self._default)
        return codec_for(
            wanted,
            choice.format,
            registry=self._client,
            subject_strategy=choice.subject_strategy,
            namespace=choice.namespace,
            options=self._codec_options,
        )

    def _new_client(self) -> AnyRegistryClient:
        from ottla.schemas.client.aio import AsyncSchemaRegistryClient

        return AsyncSchemaRegistryClient(self._registry_options)

    @contextmanager
    def for_threads(self) -> Iterator[AppSchemas]:
        """The same schemas with a client whose connections belong to no event loop."""
        from ottla.schemas.client.blocking import SchemaRegistryClient

        copy = AppSchemas(self._registry_options, self._codec_options, self._default)
        copy._choices = self._choices
        with SchemaRegistryClient(self._registry_options) as client:
            copy._client = client
            yield copy

    async def close(self) -> None:
        """Close the client; the next run makes another."""
        client, self._client = self._client, None
        self._codecs.clear()
        if client is not None:
            from ottla.schemas.client.aio import AsyncSchemaRegistryClient

            # The client of `for_threads` is closed there.
            if isinstance(client, AsyncSchemaRegistryClient):
                await client.aclose()


class _CodecOfRun:
    """The codec of a class, whichever client the app has at the time."""

    def __init__(self, schemas: AppSchemas, wanted: type) -> None:
        self._schemas = schemas
        self._wanted = wanted

    def try_encode(
        self, topic: str, is_key: bool, value: Any, headers: Headers = ()
    ) -> bytes | NotCached | None:
        """As the codec."""
        return self._schemas.codec(self._wanted).try_encode(topic, is_key, value, headers)

    async def encode(
        self, topic: str, is_key: bool, value: Any, headers: Headers = ()
    ) -> bytes | None:
        """As the codec."""
        return await self._schemas.codec(self._wanted).encode(topic, is_key, value, headers)

    def try_decode(self, topic: str, is_key: bool, data: Data | None, headers: Headers = ()) -> Any:
        """As the codec."""
        return self._schemas.codec(self._wanted).try_decode(topic, is_key, data, headers)

    async def decode(
        self, topic: str, is_key: bool, data: Data | None, headers: Headers = ()
    ) -> Any:
        """As the codec."""
        return await self._schemas.codec(self._wanted).decode(topic, is_key, data, headers)

    def close(self) -> None:
        """The app closes its client."""
