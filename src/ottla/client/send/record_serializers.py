"""Keys and values as bytes, with the limits of their size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ottla.client.model import Headers
from ottla.client.plugins.serializers import BytesSerializer, LookupPending, Serializer
from ottla.client.send.delivery import size_of
from ottla.client.send.record_sizes import record_bound_bytes
from ottla.client.state.producer.accumulator import Accumulator
from ottla.errors import ErrorCode, KafkaError, SerializationError, exception_for
from ottla.records.client_kernel import longest_bytes

# More than the bound of a record without headers has besides key and value.
_RECORD_OVERHEAD_BYTES: Final = 100


class RecordSerializers:
    """The serializers of a producer."""

    def __init__(self, key: Serializer, value: Serializer, accumulator: Accumulator) -> None:
        self.pass_bytes = type(key) is BytesSerializer and type(value) is BytesSerializer
        """Whether bytes stay as they are."""
        self._key = key
        self._value = value
        self._accumulator = accumulator

    def serialize(
        self, topic: str, headers: Headers, key: Any, value: Any
    ) -> tuple[bytes | None, bytes | None]:
        """Key and value of a record; SerializationError, or MESSAGE_TOO_LARGE."""
        key = _serialize(self._key, "key", topic, headers, key)
        value = _serialize(self._value, "value", topic, headers, value)
        self._check_size(topic, headers, key, value)
        return key, value

    def serialize_many(
        self, topic: str, headers: Headers, keys: Sequence[Any] | None, values: Sequence[Any]
    ) -> tuple[Sequence[bytes | None] | None, Sequence[bytes | None]]:
        """As `serialize`, for records with the same headers."""
        values, longest = _serialize_many(self._value, "value", topic, headers, values)
        if keys is not None:
            keys, longest_key = _serialize_many(self._key, "key", topic, headers, keys)
            longest += longest_key
        if longest + _RECORD_OVERHEAD_BYTES > self._accumulator.plain_limit_bytes or headers:
            for index, value in enumerate(values):
                self._check_size(topic, headers, None if keys is None else keys[index], value)
        return keys, values

    def _check_size(
        self, topic: str, headers: Headers, key: bytes | None, value: bytes | None
    ) -> None:
        settings = self._accumulator.settings
        size_bytes = record_bound_bytes(key, value, headers)
        for option, limit_bytes in (
            ("max.request.size", settings.max_request_bytes),
            ("buffer.memory", settings.memory_bytes),
        ):
            if size_bytes > limit_bytes:
                raise exception_for(
                    ErrorCode.MESSAGE_TOO_LARGE,
                    f"The record has {size_bytes} bytes, and {option} is {limit_bytes}.",
                    api="Produce",
                    topic=topic,
                )


def _serialize(
    serializer: Serializer, what: str, topic: str, headers: Headers, thing: Any
) -> bytes | None:
    try:
        data = serializer.serialize(topic, headers, thing)
    except SerializationError as error:
        if type(error) is not SerializationError:
            raise  # a subclass of the user's own
        raise SerializationError(f"the {what} of a record for {topic}: {error}") from error
    except (LookupPending, KafkaError):
        raise  # no fault of the record: a schema registry is asked first, or did not answer
    except Exception as error:
        raise SerializationError(
            f"the {what} of a record for {topic} cannot be serialized: {error!r}"
        ) from error
    if data is None or type(data) is bytes:
        return data
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    raise SerializationError(
        f"the {what}.serializer made {type(data).__name__} of a {type(thing).__name__}, not bytes"
    )


def _serialize_many(
    serializer: Serializer, what: str, topic: str, headers: Headers, things: Sequence[Any]
) -> tuple[Sequence[Any], int]:
    """All as bytes, and the length of the longest."""
    longest = longest_bytes(things) if type(serializer) is BytesSerializer else None
    if longest is None:
        things = [_serialize(serializer, what, topic, headers, each) for each in things]
        longest = max(map(size_of, things), default=-1)
    return things, longest
