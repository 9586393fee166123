"""kafka-python."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import kafka
from kafka import codec, errors
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
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

# A step of a transaction takes milliseconds.
STEP_SECONDS = READ_SECONDS / 4
# Of the reads of a member, which may spin without end, one is given up before another takes its place.
MEMBER_READ_SECONDS = READ_SECONDS / 2


@contextmanager
def translated() -> Iterator[None]:
    """Turns an error that has Kafka's number into the driver's exception."""
    try:
        yield
    except errors.KafkaTimeoutError as error:
        raise RefusedError(ErrorCode.REQUEST_TIMED_OUT, str(error)) from error
    except errors.BrokerResponseError as error:
        raise RefusedError(error.errno, str(error)) from error
    except errors.KafkaError as error:
        raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, repr(error)) from error


def options_of(options: ProducerOptions) -> dict[str, Any]:
    """kafka-python's options for those of the tests."""
    acks: int | str | None = options.acks
    if acks in ("0", "1"):
        acks = int(acks)
    chosen = {
        "compression_type": None if options.codec == "none" else options.codec,
        "acks": acks,
        "linger_ms": options.linger_ms,
        "max_request_size": options.max_request_bytes,
        "enable_idempotence": options.idempotent,
    }
    if options.give_up_ms is not None:
        chosen |= {
            "delivery_timeout_ms": options.give_up_ms,
            "request_timeout_ms": options.give_up_ms - 100,
            "max_block_ms": options.give_up_ms,
            "retries": 0,
            "enable_idempotence": False,
        }
    return those_set(chosen)


def step_in_time(step: Callable[[], None]) -> None:
    """A step of a transaction; the client forgets a request whose connection is refused."""
    with translated():
        in_time(step, STEP_SECONDS)


def send(
    client: kafka.KafkaProducer,
    topic: str,
    messages: Sequence[Message],
    partition: int,
    seconds: float,
) -> list[int]:
    """The offsets, when all are acknowledged."""
    with translated():
        futures = [
            client.send(
                topic,
                value=message.value,
                key=message.key,
                headers=list(message.headers),
                partition=partition,
                timestamp_ms=message.timestamp_ms,
            )
            for message in messages
        ]
        client.flush(seconds)
        return [future.get(timeout=seconds).offset for future in futures]


def read(client: kafka.KafkaConsumer, count: int, seconds: float) -> list[Received]:
    """The next records; fewer when they do not come in time."""
    received: list[Received] = []
    deadline = time.monotonic() + seconds
    while len(received) < count and time.monotonic() < deadline:
        with translated():
            found = client.poll(timeout_ms=5_000, max_records=count - len(received))
        received += [
            Received(
                record.partition,
                record.offset,
                record.timestamp,
                record.key,
                record.value,
                tuple(record.headers),
            )
            for records in found.values()
            for record in records
        ]
    return received


class PythonProducer(Producer):
    """A KafkaProducer."""

    def __init__(self, bootstrap_servers: str, options: ProducerOptions) -> None:
        self.client = kafka.KafkaProducer(
            bootstrap_servers=bootstrap_servers, **options_of(options)
        )

    def send(self, topic: str, messages: Sequence[Message], partition: int = 0) -> list[int]:
        return send(self.client, topic, messages, partition, READ_SECONDS)

    def close(self) -> None:
        self.client.close(timeout=1)


class PythonConsumer(Consumer):
    """A KafkaConsumer."""

    def __init__(self, bootstrap_servers: str, options: ConsumerOptions) -> None:
        chosen = {
            "isolation_level": options.isolation,
            "fetch_max_wait_ms": options.fetch_wait_ms,
            "fetch_min_bytes": options.fetch_min_bytes,
        }
        self.client = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap_servers,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            **those_set(chosen),
        )

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.client.assign([kafka.TopicPartition(*partition) for partition in offsets])
        for partition, offset in offsets.items():
            self.client.seek(kafka.TopicPartition(*partition), offset)

    def read(self, count: int) -> list[Received]:
        return read(self.client, count, READ_SECONDS)

    def offset_at(self, partition: TopicPartition, timestamp_ms: int) -> int | None:
        asked = kafka.TopicPartition(*partition)
        found = self.client.offsets_for_times({asked: timestamp_ms})[asked]
        return None if found is None else int(found.offset)

    def bounds(self, partition: TopicPartition) -> Bounds:
        asked = kafka.TopicPartition(*partition)
        return Bounds(
            self.client.beginning_offsets([asked])[asked], self.client.end_offsets([asked])[asked]
        )

    def close(self) -> None:
        self.client.close(autocommit=False)


class PythonTransactionalProducer(TransactionalProducer):
    """A KafkaProducer with a transactional id."""

    def __init__(self, bootstrap_servers: str, transactional_id: str, timeout_ms: int) -> None:
        self.client = kafka.KafkaProducer(
            bootstrap_servers=bootstrap_servers,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            max_block_ms=READ_SECONDS * 1000,
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
        return send(self.client, topic, messages, partition, STEP_SECONDS)

    def send_offsets(self, offsets: Mapping[TopicPartition, int], member: Member) -> None:
        assert isinstance(member, PythonMember)
        places = {
            kafka.TopicPartition(*partition): kafka.OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        }
        group = member.client.group_metadata()
        step_in_time(lambda: self.client.send_offsets_to_transaction(places, group))

    def commit(self) -> None:
        step_in_time(self.client.commit_transaction)

    def abort(self) -> None:
        step_in_time(self.client.abort_transaction)

    def close(self) -> None:
        # It would wait for what it has forgotten. When it gives that up, its thread would go on for ever.
        try:
            self.client.close(timeout=0)
        except errors.KafkaError:
            self.client._sender.force_close()


class PythonMember(Member):
    """A KafkaConsumer that subscribes."""

    def __init__(self, bootstrap_servers: str, group_id: str, topic: str) -> None:
        self.client = kafka.KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap_servers,
            group_id=group_id,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            # One that could not leave holds its successor up for so long.
            session_timeout_ms=3_000,
            heartbeat_interval_ms=500,
        )

    def read(self, count: int) -> list[Received]:
        return read(self.client, count, MEMBER_READ_SECONDS)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.client.seek(kafka.TopicPartition(*partition), offset)

    def committed(self, partition: TopicPartition) -> int | None:
        with translated():
            found: int | None = self.client.committed(kafka.TopicPartition(*partition))
        return found

    def close(self) -> None:
        self.client.close(autocommit=False)


class PythonAdmin(Admin):
    """A KafkaAdminClient."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.client = KafkaAdminClient(bootstrap_servers=bootstrap_servers)

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        replication_factor: int = 1,
    ) -> None:
        new = {
            "num_partitions": partitions,
            "replication_factor": replication_factor,
            "configs": dict(configs or {}),
        }
        with translated():
            self.client.create_topics({topic: new})

    def delete_topic(self, topic: str) -> None:
        with translated():
            self.client.delete_topics([topic])

    def topics(self) -> set[str]:
        return set(self.client.list_topics())

    def partition_count(self, topic: str) -> int:
        (described,) = self.client.describe_topics([topic])
        if described["error_code"]:
            raise RefusedError(described["error_code"], topic)
        return len(described["partitions"])

    def create_partitions(self, topic: str, total: int) -> None:
        with translated():
            self.client.create_partitions({topic: total})

    def configs(self, topic: str) -> dict[str, str | None]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        described = self.client.describe_configs([resource], config_filter="all")
        return {name: entry["value"] for name, entry in described["topic"][topic].items()}

    def set_config(self, topic: str, name: str, value: str) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})
        with translated():
            (result,) = self.client.alter_configs([resource])["topic"].values()
        if result != "OK":
            # "[Error 40] InvalidConfigurationError: …" is all that is left of the answer.
            raise RefusedError(int(result.removeprefix("[Error ").partition("]")[0]), result)

    def delete_records(self, partition: TopicPartition, before_offset: int) -> int:
        asked = kafka.TopicPartition(*partition)
        with translated():
            return int(self.client.delete_records({asked: before_offset})[asked]["low_watermark"])

    def close(self) -> None:
        self.client.close()


class KafkaPython(DriverOfParts):
    """The driver."""

    name = "kafka-python"
    is_idempotent_by_default = True
    parts = Parts(
        producer=PythonProducer,
        consumer=PythonConsumer,
        admin=PythonAdmin,
        transactional_producer=PythonTransactionalProducer,
        member=PythonMember,
    )

    def codecs(self) -> list[str]:
        present = {
            **{"none": True, "gzip": codec.has_gzip(), "snappy": codec.has_snappy()},
            **{"lz4": codec.has_lz4(), "zstd": codec.has_zstd()},
        }
        return [name for name in super().codecs() if present[name]]

    def cannot_send(self, message: Message) -> str | None:
        if message.key is None and message.value is None:
            return "kafka-python insists on a key or a value"
        if any(value is None for _, value in message.headers):
            return "kafka-python insists on values of headers"
        return None
