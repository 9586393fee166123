"""Interceptors of producers and consumers: their protocols, and chains of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from ottla.client.model import (
    NO_OFFSET,
    NO_TIMESTAMP,
    ConsumerRecords,
    OffsetAndMetadata,
    ProducerRecord,
    RecordMetadata,
)
from ottla.config.options import code_name
from ottla.model import TopicPartition

logger = logging.getLogger(__name__)

T = TypeVar("T")


class ProducerInterceptor(Protocol):
    """The interface of a producer's `interceptor.classes`; a class may lack any of these methods."""

    def configure(self, config: Mapping[str, Any]) -> None:
        """Called once, with the producer's options."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """The record to send in place of `record`, before it is serialized; in the thread that sends."""

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        """The outcome of a record: where it was written, or why not; on the producer's own thread.

        With an error the offset is -1, and so is the partition if none was chosen.
        """

    def close(self) -> None:
        """The producer is being closed."""


class ConsumerInterceptor(Protocol):
    """The interface of a consumer's `interceptor.classes`; a class may lack any of these methods."""

    def configure(self, config: Mapping[str, Any]) -> None:
        """Called once, with the consumer's options."""

    def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
        """The records that poll returns in place of `records`."""

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """These offsets were committed."""

    def close(self) -> None:
        """The consumer is being closed."""


def unwritten_metadata(topic: str, partition: int) -> RecordMetadata:
    """The metadata of a record that was not written."""
    return RecordMetadata(topic, partition, NO_OFFSET, NO_TIMESTAMP, -1, -1)


class _Chain:
    """Interceptors in order; an exception of one is logged, and the others are called all the same."""

    def __init__(self, interceptors: Sequence[object] = ()) -> None:
        self._interceptors = tuple(interceptors)

    def __bool__(self) -> bool:
        return bool(self._interceptors)

    def close(self) -> None:
        """Close all of them."""
        self._call_all(self._methods_named("close"))

    def _methods_named(self, method: str) -> list[Callable[..., Any]]:
        found = [getattr(interceptor, method, None) for interceptor in self._interceptors]
        return [each for each in found if callable(each)]

    @staticmethod
    def _call_all(methods: list[Callable[..., Any]], *arguments: object) -> None:
        for method in methods:
            try:
                method(*arguments)
            except Exception:
                logger.warning("The interceptor %s failed", code_name(method), exc_info=True)

    @staticmethod
    def _pass_through(methods: list[Callable[[T], Any]], value: T) -> T:
        """Call each with the result of the one before; one that fails is skipped."""
        for method in methods:
            try:
                result = method(value)
                if not isinstance(result, type(value)):
                    raise TypeError(f"it returned {type(result).__name__}")
            except Exception:
                logger.warning("The interceptor %s failed", code_name(method), exc_info=True)
            else:
                value = result
        return value


class ProducerInterceptors(_Chain):
    """The interceptors of a producer."""

    def __init__(self, interceptors: Sequence[object] = ()) -> None:
        super().__init__(interceptors)
        self._senders = self._methods_named("on_send")
        self._acknowledged = self._methods_named("on_acknowledgement")

    @property
    def sees_sends(self) -> bool:
        """Whether an interceptor has `on_send`."""
        return bool(self._senders)

    @property
    def sees_acknowledgements(self) -> bool:
        """Whether an interceptor has `on_acknowledgement`."""
        return bool(self._acknowledged)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """The record to send."""
        return self._pass_through(self._senders, record)

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        """Call `on_acknowledgement` with the outcome of a record that was sent."""
        self._call_all(self._acknowledged, metadata, error)

    def on_send_error(
        self, record: ProducerRecord, partition: int | None, error: Exception
    ) -> None:
        """Call `on_acknowledgement` for a record that was not sent; the partition is -1 if none was chosen."""
        known = record.partition if partition is None else partition
        self._call_all(
            self._acknowledged,
            unwritten_metadata(record.topic, -1 if known is None else known),
            error,
        )


class Acknowledgement:
    """The callback of a record: calls the interceptors first, as in Kafka, then the callback of the program."""

    __slots__ = ("_interceptors", "_key", "on_delivery")

    def __init__(
        self,
        interceptors: ProducerInterceptors,
        key: TopicPartition,
        on_delivery: Callable[[RecordMetadata | None, Exception | None], Any] | None,
    ) -> None:
        self._interceptors = interceptors
        self._key = key
        self.on_delivery = on_delivery

    def __call__(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        self._interceptors.on_acknowledgement(metadata or unwritten_metadata(*self._key), error)
        if self.on_delivery is not None:
            self.on_delivery(metadata, error)


class ConsumerInterceptors(_Chain):
    """The interceptors of a consumer."""

    def __init__(self, interceptors: Sequence[object] = ()) -> None:
        super().__init__(interceptors)
        self._consumers = self._methods_named("on_consume")
        self._committed = self._methods_named("on_commit")

    def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
        """The records for the application."""
        return self._pass_through(self._consumers, records)

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Call `on_commit` with the committed offsets."""
        self._call_all(self._committed, offsets)
