"""confluent-kafka, which is librdkafka."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from tests.clients.driver import (
    DEFAULT_CONSUMER,
    DEFAULT_PRODUCER,
    READ_SECONDS,
    Admin,
    Bounds,
    Consumer,
    ConsumerOptions,
    Driver,
    Producer,
    ProducerOptions,
    RefusedError,
)
from tests.clients.messages import Message, Received

from ottla.errors import ErrorCode
from ottla.model import TopicPartition

# Errors that librdkafka raises itself, as the broker would have said it.
LOCAL_ERRORS = {
    KafkaError._UNKNOWN_TOPIC: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    KafkaError._AUTO_OFFSET_RESET: ErrorCode.OFFSET_OUT_OF_RANGE,
    KafkaError._MSG_TIMED_OUT: ErrorCode.REQUEST_TIMED_OUT,
}


def refused(error: KafkaError) -> RefusedError:
    """The driver's exception for an error of librdkafka."""
    return RefusedError(LOCAL_ERRORS.get(error.code(), error.code()), error.str())


def options_of(options: ProducerOptions) -> dict[str, Any]:
    """librdkafka's options for those of the tests."""
    chosen = {
        "compression.type": options.codec,
        "acks": options.acks,
        "linger.ms": options.linger_ms,
        "message.max.bytes": options.max_request_bytes,
        "enable.idempotence": options.idempotent,
    }
    if options.acks in ("0", "1"):
        chosen["enable.idempotence"] = "false"
    if options.give_up_ms is not None:
        chosen |= {
            "message.timeout.ms": options.give_up_ms,
            "retries": 0,
            "enable.idempotence": "false",
            # Else a topic that does not exist is taken for one that is about to.
            "topic.metadata.propagation.max.ms": 0,
        }
    return {name: value for name, value in chosen.items() if value is not None}


class ConfluentProducer(Producer):
    """A confluent_kafka.Producer."""

    def __init__(self, bootstrap_servers: str, options: ProducerOptions) -> None:
        self.client = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap_servers, **options_of(options)}
        )

    def send(self, topic: str, messages: Sequence[Message], partition: int = 0) -> list[int]:
        offsets: list[int] = []
        errors: list[KafkaError] = []

        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                errors.append(error)
            else:
                offset = message.offset()
                offsets.append(-1 if offset == confluent_kafka.OFFSET_INVALID else offset)

        for message in messages:
            self.client.produce(
                topic,
                value=message.value,
                key=message.key,
                headers=list(message.headers),
                partition=partition,
                timestamp=message.timestamp_ms or 0,
                on_delivery=delivered,
            )
        left = self.client.flush(READ_SECONDS)
        if errors:
            raise refused(errors[0])
        assert left == 0, f"{left} messages were neither delivered nor refused"
        return offsets

    def close(self) -> None:
        # Also for messages that a failed test left behind: they must not be waited for.
        self.client.purge()
        self.client.flush(1)


class ConfluentConsumer(Consumer):
    """A confluent_kafka.Consumer."""

    def __init__(self, bootstrap_servers: str, options: ConsumerOptions) -> None:
        chosen = {
            "isolation.level": options.isolation,
            "fetch.wait.max.ms": options.fetch_wait_ms,
            "fetch.min.bytes": options.fetch_min_bytes,
        }
        self.client = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                # Mandatory; without commits and subscriptions it is not used.
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                **{name: value for name, value in chosen.items() if value is not None},
            }
        )

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.client.assign(
            [
                confluent_kafka.TopicPartition(topic, partition, offset)
                for (topic, partition), offset in offsets.items()
            ]
        )

    def read(self, count: int) -> list[Received]:
        received: list[Received] = []
        deadline = time.monotonic() + READ_SECONDS
        while len(received) < count and time.monotonic() < deadline:
            messages: list[Any] = self.client.consume(count - len(received), timeout=0.1)
            for message in messages:
                error = message.error()
                if error is not None:
                    raise refused(error)
                received.append(
                    Received(
                        message.partition(),
                        message.offset(),
                        message.timestamp()[1],
                        message.key(),
                        message.value(),
                        tuple(message.headers() or ()),
                    )
                )
        return received

    def offset_at(self, partition: TopicPartition, timestamp_ms: int) -> int | None:
        asked = confluent_kafka.TopicPartition(*partition, timestamp_ms)
        (found,) = self.client.offsets_for_times([asked], timeout=READ_SECONDS)
        return None if found.offset == confluent_kafka.OFFSET_END else int(found.offset)

    def bounds(self, partition: TopicPartition) -> Bounds:
        asked = confluent_kafka.TopicPartition(*partition)
        return Bounds(*self.client.get_watermark_offsets(asked, timeout=READ_SECONDS))

    def close(self) -> None:
        self.client.close()


class ConfluentAdmin(Admin):
    """An AdminClient."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.client = AdminClient({"bootstrap.servers": bootstrap_servers})

    def _only(self, futures: Mapping[Any, Any]) -> Any:
        (future,) = futures.values()
        try:
            return future.result(READ_SECONDS)
        except KafkaException as error:
            raise refused(error.args[0]) from None

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        replication_factor: int = 1,
    ) -> None:
        new = NewTopic(topic, partitions, replication_factor, config=dict(configs or {}))
        self._only(self.client.create_topics([new]))

    def delete_topic(self, topic: str) -> None:
        self._only(self.client.delete_topics([topic]))

    def topics(self) -> set[str]:
        return set(self.client.list_topics(timeout=READ_SECONDS).topics)

    def partition_count(self, topic: str) -> int:
        described = self.client.list_topics(topic, timeout=READ_SECONDS).topics[topic]
        if described.error is not None:
            raise refused(described.error)
        return len(described.partitions)

    def create_partitions(self, topic: str, total: int) -> None:
        self._only(self.client.create_partitions([NewPartitions(topic, total)]))

    def configs(self, topic: str) -> dict[str, str | None]:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        entries = self._only(self.client.describe_configs([resource]))
        return {name: entry.value for name, entry in entries.items()}

    def set_config(self, topic: str, name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        self._only(self.client.incremental_alter_configs([resource]))

    def delete_records(self, partition: TopicPartition, before_offset: int) -> int:
        asked = confluent_kafka.TopicPartition(*partition, before_offset)
        return int(self._only(self.client.delete_records([asked])).low_watermark)

    def close(self) -> None:
        pass


class ConfluentKafka(Driver):
    """The driver."""

    name = "confluent-kafka"

    def producer(self, options: ProducerOptions = DEFAULT_PRODUCER) -> Producer:
        return ConfluentProducer(self.bootstrap_servers, options)

    def consumer(self, options: ConsumerOptions = DEFAULT_CONSUMER) -> Consumer:
        return ConfluentConsumer(self.bootstrap_servers, options)

    def admin(self) -> Admin:
        return ConfluentAdmin(self.bootstrap_servers)
