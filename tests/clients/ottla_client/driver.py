"""Our own client."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

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
    those_set,
)
from tests.clients.messages import Message, Received

import ottla
from ottla.errors import KafkaError
from ottla.model import TopicPartition


@contextmanager
def translated() -> Iterator[None]:
    """Turns an error that has Kafka's number into the driver's exception."""
    try:
        yield
    except KafkaError as error:
        raise RefusedError(error.code, str(error)) from error


def options_of(options: ProducerOptions) -> dict[str, Any]:
    """Our options for those of the tests."""
    chosen = {
        "compression.type": options.codec,
        "acks": options.acks,
        "linger.ms": options.linger_ms,
        "max.request.size": options.max_request_bytes,
        "enable.idempotence": options.idempotent,
    }
    if options.give_up_ms is not None:
        chosen |= {
            "delivery.timeout.ms": options.give_up_ms,
            "request.timeout.ms": options.give_up_ms - 100,
            "max.block.ms": options.give_up_ms,
            "linger.ms": 0,
            "retries": 0,
            "enable.idempotence": False,
        }
    return those_set(chosen)


def send(
    client: ottla.Producer, topic: str, messages: Sequence[Message], partition: int
) -> list[int]:
    """The offsets, when all are acknowledged."""
    with translated():
        futures = [
            client.send(
                topic,
                value=message.value,
                key=message.key,
                headers=message.headers,
                partition=partition,
                timestamp_ms=message.timestamp_ms,
            )
            for message in messages
        ]
        return [future.result(READ_SECONDS).offset for future in futures]


class Reading:
    """Reads exactly as many records as are asked for: what a poll gave beyond that is for the next time."""

    def __init__(self, client: ottla.Consumer) -> None:
        self.client = client
        self.polled: list[Received] = []

    def read(self, count: int) -> list[Received]:
        """The next records; fewer when they do not come in time."""
        deadline = time.monotonic() + READ_SECONDS
        while len(self.polled) < count and time.monotonic() < deadline:
            with translated():
                records = self.client.poll(1.0)
            self.polled += [
                Received(
                    record.partition,
                    record.offset,
                    record.timestamp_ms,
                    record.key,
                    record.value,
                    record.headers,
                )
                for record in records
            ]
        found, self.polled = self.polled[:count], self.polled[count:]
        return found


class OttlaProducer(Producer):
    """An ottla.Producer."""

    def __init__(self, bootstrap_servers: str, options: ProducerOptions) -> None:
        self.client = ottla.Producer(
            {"bootstrap.servers": bootstrap_servers, **options_of(options)}
        )

    def send(self, topic: str, messages: Sequence[Message], partition: int = 0) -> list[int]:
        return send(self.client, topic, messages, partition)

    def close(self) -> None:
        self.client.close(1.0)


class OttlaTransactionalProducer(TransactionalProducer):
    """An ottla.Producer with a transactional id."""

    def __init__(self, bootstrap_servers: str, transactional_id: str, timeout_ms: int) -> None:
        self.client = ottla.Producer(
            bootstrap_servers=bootstrap_servers,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            max_block_ms=int(READ_SECONDS * 1000),
        )
        try:
            with translated():
                self.client.init_transactions()
        except BaseException:
            self.close()
            raise

    def begin(self) -> None:
        with translated():
            self.client.begin_transaction()

    def send(self, topic: str, messages: Sequence[Message], partition: int = 0) -> list[int]:
        return send(self.client, topic, messages, partition)

    def send_offsets(self, offsets: Mapping[TopicPartition, int], member: Member) -> None:
        assert isinstance(member, OttlaMember)
        places = {
            partition: ottla.OffsetAndMetadata(offset) for partition, offset in offsets.items()
        }
        with translated():
            self.client.send_offsets_to_transaction(places, member.client.group_metadata())

    def commit(self) -> None:
        with translated():
            self.client.commit_transaction()

    def abort(self) -> None:
        with translated():
            self.client.abort_transaction()

    def close(self) -> None:
        self.client.close(1.0)


class OttlaMember(Member):
    """An ottla.Consumer that subscribes."""

    def __init__(self, bootstrap_servers: str, group_id: str, topic: str) -> None:
        self.client = ottla.Consumer(
            bootstrap_servers=bootstrap_servers,
            group_id=group_id,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            # One that could not leave holds its successor up for so long.
            session_timeout_ms=6_000,
            heartbeat_interval_ms=500,
        )
        self.client.subscribe([topic])
        self.reading = Reading(self.client)

    def read(self, count: int) -> list[Received]:
        return self.reading.read(count)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        left = self.reading.polled
        self.reading.polled = [each for each in left if each.partition != partition.partition]
        self.client.seek(partition, offset)

    def committed(self, partition: TopicPartition) -> int | None:
        with translated():
            found = self.client.committed([partition])[partition]
        return None if found is None else found.offset

    def close(self) -> None:
        self.client.close()


class OttlaConsumer(Consumer):
    """An ottla.Consumer without a group."""

    def __init__(self, bootstrap_servers: str, options: ConsumerOptions) -> None:
        chosen = {
            "isolation.level": options.isolation,
            "fetch.max.wait.ms": options.fetch_wait_ms,
            "fetch.min.bytes": options.fetch_min_bytes,
        }
        self.client = ottla.Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "auto.offset.reset": "none",
                **those_set(chosen),
            }
        )
        self.reading = Reading(self.client)

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.reading.polled = []
        self.client.assign(list(offsets))
        for partition, offset in offsets.items():
            self.client.seek(partition, offset)

    def read(self, count: int) -> list[Received]:
        return self.reading.read(count)

    def offset_at(self, partition: TopicPartition, timestamp_ms: int) -> int | None:
        found = self.client.offsets_for_times({partition: timestamp_ms})[partition]
        return None if found is None else found.offset

    def bounds(self, partition: TopicPartition) -> Bounds:
        return Bounds(
            self.client.beginning_offsets([partition])[partition],
            self.client.end_offsets([partition])[partition],
        )

    def close(self) -> None:
        self.client.close()


class OttlaAdmin(Admin):
    """An ottla.Admin."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.client = ottla.Admin(bootstrap_servers=bootstrap_servers)

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        replication_factor: int = 1,
    ) -> None:
        new = ottla.admin.NewTopic(topic, partitions, replication_factor, dict(configs or {}))
        with translated():
            self.client.create_topics([new])

    def delete_topic(self, topic: str) -> None:
        with translated():
            self.client.delete_topics([topic])

    def topics(self) -> set[str]:
        return set(self.client.list_topics())

    def partition_count(self, topic: str) -> int:
        with translated():
            return len(self.client.describe_topics([topic])[topic].partitions)

    def create_partitions(self, topic: str, total: int) -> None:
        with translated():
            self.client.create_partitions({topic: total})

    def configs(self, topic: str) -> dict[str, str | None]:
        resource = ottla.admin.ConfigResource(ottla.admin.ResourceType.TOPIC, topic)
        described = self.client.describe_configs([resource])[resource]
        return {name: entry.value for name, entry in described.items()}

    def set_config(self, topic: str, name: str, value: str) -> None:
        resource = ottla.admin.ConfigResource(ottla.admin.ResourceType.TOPIC, topic)
        with translated():
            self.client.incremental_alter_configs(
                {resource: [ottla.admin.AlterConfig(name, value)]}
            )

    def delete_records(self, partition: TopicPartition, before_offset: int) -> int:
        with translated():
            return self.client.delete_records({partition: before_offset})[partition]

    def close(self) -> None:
        self.client.close()


class Ottla(DriverOfParts):
    """The driver."""

    name = "ottla"
    is_idempotent_by_default = True
    parts = Parts(
        producer=OttlaProducer,
        consumer=OttlaConsumer,
        admin=OttlaAdmin,
        transactional_producer=OttlaTransactionalProducer,
        member=OttlaMember,
    )
