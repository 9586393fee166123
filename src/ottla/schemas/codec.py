"""What a program that encodes and decodes records with schemas needs of a codec; `codec_for` makes one.

`try_encode` and `try_decode` never wait: when the schema is not known yet they return `NOT_CACHED`, and the caller
awaits `encode` or `decode`, which ask the registry once and remember the answer:

    data = codec.try_encode(topic, is_key, value)
    if data is NOT_CACHED:
        data = await codec.encode(topic, is_key, value)
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Generic, Literal, Protocol, TypeAlias, TypeVar

from ottla.client.model import Headers

T = TypeVar("T")

Format: TypeAlias = Literal["avro", "json", "protobuf"]
"""The formats of schemas."""

Data: TypeAlias = bytes | memoryview


class NotCached(Enum):
    """The answer of a call that must not wait, when it would have to ask the registry."""

    NOT_CACHED = "the schema is not cached: await encode or decode"


NOT_CACHED: Final = NotCached.NOT_CACHED


class Codec(Protocol, Generic[T]):
    """Values of one type to and from bytes, with their schema in a registry.

    None is a record without a value: it is None on both sides, and needs no schema. A value that has no bytes raises
    SerializationError, bytes that are no value DeserializationError; a registry that cannot be reached raises
    RegistryUnavailableError, which is a RetriableError and no fault of the record.
    """

    def try_encode(
        self, topic: str, is_key: bool, value: T | None, headers: Headers = ()
    ) -> bytes | NotCached | None:
        """The bytes of a value, or NOT_CACHED; it never waits."""
        ...

    async def encode(
        self, topic: str, is_key: bool, value: T | None, headers: Headers = ()
    ) -> bytes | None:
        """The bytes of a value; it asks the registry if the schema is not cached."""
        ...

    def try_decode(
        self, topic: str, is_key: bool, data: Data | None, headers: Headers = ()
    ) -> T | NotCached | None:
        """The value of bytes, or NOT_CACHED; it never waits."""
        ...

    async def decode(
        self, topic: str, is_key: bool, data: Data | None, headers: Headers = ()
    ) -> T | None:
        """The value of bytes; it asks the registry if the schema is not cached."""
        ...

    def close(self) -> None:
        """Close the registry's client, if it was made for this codec."""
        ...
