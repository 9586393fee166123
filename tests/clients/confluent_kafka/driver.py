"""confluent-kafka, which is librdkafka."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
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
from tests.clients.confluent_kafka.closing import close_member
from tests.clients.driver import (
    READ_SECONDS,
    Admin,
    Bounds,
    Consumer,
    ConsumerOptions,
    DriverOfParts,
    Member,
    Parts,
    Producer,
    ProducerOptions,
    RefusedError,
    TransactionalProducer,
    in_time,
    those_set,
)
from tests.clients.messages import Message, Received

from ottla.errors import ErrorCode
from ottla.model import TopicPartition

# Errors that librdkafka raises itself, as the broker would have said it.
LOCAL_ERRORS = {
    KafkaError._UNKNOWN_TOPIC: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    KafkaError._AUTO_OFFSET_RESET: ErrorCode.OFFSET_OUT_OF_RANGE,
    KafkaError._MSG_TIMED_OUT: ErrorCode.REQUEST_TIMED_OUT,
    KafkaError._TIMED_OUT: ErrorCode.REQUEST_TIMED_OUT,
    KafkaError._FENCED: ErrorCode.PRODUCER_FENCED,
}
# A step of a transaction takes milliseconds.
STEP_SECONDS = READ_SECONDS / 4
RECONNECT = {
    # It waits up to ten seconds before it connects again, where nothing else is said.
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    # Else it may lose a commit of offsets when it finds its brokers again (FINDINGS.md).
    "metadata.recovery.strategy": "none",
    "log_level": 0,
}


def refused(error: KafkaError) -> RefusedError:
    """The driver's exception for an error of librdkafka."""
    return RefusedError(LOCAL_ERRORS.get(error.code(), error.code()), error.str())


@contextmanager
def translated() -> Iterator[None]:
    """Turns an error of librdkafka into the driver's exception."""
    try:
        yield
    except KafkaException as error:
        raise refused(error.args[0]) from error


def received(message: Any) -> Received:
    """The driver's record; raises what librdkafka passes in its place."""
    error = message.error()
    if error is not None:
        raise refused(error)
    return Received(
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )


def read(client: confluent_kafka.Consumer, count: int) -> list[Received]:
    """The next records; fewer when they do not come in time."""
    found: list[Received] = []
    deadline = time.monotonic() + READ_SECONDS
    while len(found) < count and time.monotonic() < deadline:
        messages: list[Any] = client.consume(count - len(found), timeout=0.1)
        found += map(received, messages)
    return found


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
    return those_set(chosen)


def send(
    client: confluent_kafka.Producer, topic: str, messages: Sequence[Message], partition: int
) -> list[int]:
    """The offsets, when all are acknowledged."""
    offsets: list[int] = []
    errors: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Any) -> None:
        if error is not None:
            errors.append(error)
        else:
            offset = message.offset()
            offsets.append(-1 if offset == confluent_kafka.OFFSET_INVALID else offset)

    for message in messages:
        client.produce(
            topic,
            value=message.value,
            key=message.key,
            headers=list(message.headers),
            partition=partition,
            timestamp=message.timestamp_ms or 0,
            on_delivery=delivered,
        )
    left = client.flush(READ_SECONDS)
    if errors:
        raise refused(errors[0])
    assert left == 0, f"{left} messages were neither delivered nor refused"
    return offsets


class ConfluentProducer(Producer):
    """A confluent_kafka.Producer."""

    def __init__(self, bootstrap_servers: str, options: ProducerOptions) -> None:
        self.client = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap_servers, **options_of(options)}
        )

    def send(self, topic: str, messages: Sequence[Message], partition: int = 0) -> list[int]:
        return send(self.client, topic, messages, partition)

    def close(self) -> None:
        # Also for messages that a failed test left behind: they must not be waited for.
        self.client.purge()
        self.client.flush(1)


class ConfluentTransactionalProducer(TransactionalProducer):
    """A confluent_kafka.Producer with a transactional id."""

    def __init__(self, bootstrap_servers: str, transactional_id: str, timeout_ms: int) -> None:
        self.client = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                # It may not be longer than the transaction.
                "message.timeout.ms": min(timeout_ms, 60_000),
                **RECONNECT,
            }
        )
        with translated():
            self.client.init_transactions(READ_SECONDS)

    def begin(self) -> None:
        with translated():
            self.client.begin_transaction()

    def send(self, topic: str, messages: Sequence[Message], partition: int = 0) -> list[int]:
        with translated():
            return send(self.client, topic, messages, partition)

    def send_offsets(self, offsets: Mapping[TopicPartition, int], member: Member) -> None:
        assert isinstance(member, ConfluentMember)
        places = [
            confluent_kafka.TopicPartition(*partition, offset)
            for partition, offset in offsets.items()
        ]
        with translated():
            group = member.client.consumer_group_metadata()
            # Its calls do not always return in the time that they are given (its issues 5456 and 5511).
            in_time(
                lambda: self.client.send_offsets_to_transaction(places, group, STEP_SECONDS),
                2 * STEP_SECONDS,
            )

    def commit(self) -> None:
        with translated():
            in_time(lambda: self.client.commit_transaction(STEP_SECONDS), 2 * STEP_SECONDS)

    def abort(self) -> None:
        with translated():
            in_time(lambda: self.client.abort_transaction(STEP_SECONDS), 2 * STEP_SECONDS)

    def close(self) -> None:
        self.client.purge()
        # One that was fenced says so once more.
        with suppress(KafkaException):
            self.client.flush(1)


class ConfluentMember(Member):
    """A confluent_kafka.Consumer that subscribes."""

    def __init__(self, bootstrap_servers: str, group_id: str, topic: str) -> None:
        self.client = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": group_id,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                **RECONNECT,
            }
        )
        self.client.subscribe([topic])

    def read(self, count: int) -> list[Received]:
        return read(self.client, count)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.client.seek(confluent_kafka.TopicPartition(*partition, offset))

    def committed(self, partition: TopicPartition) -> int | None:
        asked = confluent_kafka.TopicPartition(*partition)
        with translated():
            (found,) = self.client.committed([asked], timeout=READ_SECONDS)
        return None if found.offset == confluent_kafka.OFFSET_INVALID else int(found.offset)

    def close(self) -> None:
        close_member(self.client)


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
                **those_set(chosen),
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
        return read(self.client, count)

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


class ConfluentKafka(DriverOfParts):
    """The driver."""

    name = "confluent-kafka"
    parts = Parts(
        producer=ConfluentProducer,
        consumer=ConfluentConsumer,
        admin=ConfluentAdmin,
        transactional_producer=ConfluentTransactionalProducer,
        member=ConfluentMember,
    )
