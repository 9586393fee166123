"""Apache Kafka's own Java client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.clients.driver import (
    DEFAULT_CONSUMER,
    DEFAULT_PRODUCER,
    READ_SECONDS,
    TRANSACTION_TIMEOUT_MS,
    Admin,
    Bounds,
    Consumer,
    ConsumerOptions,
    Member,
    Producer,
    ProducerOptions,
    TransactionalDriver,
    TransactionalProducer,
)
from tests.clients.java.agent import Agent, AgentConnection
from tests.clients.messages import Message, Received

from ottla.model import TopicPartition

READ_MS = int(READ_SECONDS * 1000)


def _words(settings: Mapping[str, object]) -> list[str]:
    return [f"{name}={value}" for name, value in settings.items() if value is not None]


def _number(word: bytes | None) -> int:
    assert word is not None
    return int(word)


def send(
    connection: AgentConnection, topic: str, messages: Sequence[Message], partition: int
) -> list[int]:
    """The offsets, when all are acknowledged."""
    words: list[str | int | bytes | None] = []
    for message in messages:
        words += [message.key, message.value, message.timestamp_ms, len(message.headers)]
        for name, value in message.headers:
            words += [name, value]
    answer = connection.call("send", topic, partition, READ_MS, len(messages), *words)
    return [_number(word) for word in answer]


def read(connection: AgentConnection, count: int) -> list[Received]:
    """The next records; fewer when they do not come in time."""
    words = iter(connection.call("read", count, READ_MS))
    received = []
    for first in words:
        partition, offset, timestamp_ms = (
            _number(first),
            *map(_number, (next(words), next(words))),
        )
        key, value = next(words), next(words)
        headers = [
            ((next(words) or b"").decode(), next(words)) for _ in range(_number(next(words)))
        ]
        received.append(Received(partition, offset, timestamp_ms, key, value, tuple(headers)))
    return received


def _offset_words(offsets: Mapping[TopicPartition, int]) -> list[str | int]:
    return [
        word
        for partition, offset in offsets.items()
        for word in (partition.topic, partition.partition, offset)
    ]


class JavaProducer(Producer):
    """A KafkaProducer."""

    def __init__(self, agent: Agent, bootstrap_servers: str, options: ProducerOptions) -> None:
        settings: dict[str, object] = {
            "bootstrap.servers": bootstrap_servers,
            "compression.type": options.codec,
            "acks": options.acks,
            "linger.ms": options.linger_ms,
            "max.request.size": options.max_request_bytes,
        }
        if options.idempotent is not None:
            settings["enable.idempotence"] = str(options.idempotent).lower()
        if options.give_up_ms is not None:
            settings |= {
                "delivery.timeout.ms": options.give_up_ms,
                "request.timeout.ms": options.give_up_ms - 100,
                "max.block.ms": options.give_up_ms,
                "retries": 0,
                "enable.idempotence": "false",
            }
        self.connection = agent.connect()
        self.connection.call("producer", *_words(settings))

    def send(self, topic: str, messages: Sequence[Message], partition: int = 0) -> list[int]:
        return send(self.connection, topic, messages, partition)

    def close(self) -> None:
        self.connection.close()


class JavaConsumer(Consumer):
    """A KafkaConsumer."""

    def __init__(self, agent: Agent, bootstrap_servers: str, options: ConsumerOptions) -> None:
        settings = {
            "bootstrap.servers": bootstrap_servers,
            "enable.auto.commit": "false",
            "auto.offset.reset": "none",
            "isolation.level": options.isolation,
            "fetch.max.wait.ms": options.fetch_wait_ms,
            "fetch.min.bytes": options.fetch_min_bytes,
        }
        self.connection = agent.connect()
        self.connection.call("consumer", *_words(settings))

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.connection.call("assign", *_offset_words(offsets))

    def read(self, count: int) -> list[Received]:
        return read(self.connection, count)

    def offset_at(self, partition: TopicPartition, timestamp_ms: int) -> int | None:
        (found,) = self.connection.call("offset-at", *partition, timestamp_ms)
        return None if found is None else int(found)

    def bounds(self, partition: TopicPartition) -> Bounds:
        start, end = self.connection.call("bounds", *partition)
        return Bounds(_number(start), _number(end))

    def close(self) -> None:
        self.connection.close()


class JavaTransactionalProducer(TransactionalProducer):
    """A KafkaProducer with a transactional id."""

    def __init__(
        self, agent: Agent, bootstrap_servers: str, transactional_id: str, timeout_ms: int
    ) -> None:
        settings = {
            "bootstrap.servers": bootstrap_servers,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "max.block.ms": READ_MS,
        }
        self.connection = agent.connect()
        self.connection.call("producer", *_words(settings))
        try:
            self.connection.call("init")
        except BaseException:
            self.close()
            raise

    def begin(self) -> None:
        self.connection.call("begin")

    def send(self, topic: str, messages: Sequence[Message], partition: int = 0) -> list[int]:
        return send(self.connection, topic, messages, partition)

    def send_offsets(self, offsets: Mapping[TopicPartition, int], member: Member) -> None:
        assert isinstance(member, JavaMember)
        group = member.connection.call("group")
        self.connection.call("send-offsets", *group, *_offset_words(offsets))

    def commit(self) -> None:
        self.connection.call("commit")

    def abort(self) -> None:
        self.connection.call("abort")

    def close(self) -> None:
        self.connection.close()


class JavaMember(Member):
    """A KafkaConsumer that subscribes."""

    def __init__(self, agent: Agent, bootstrap_servers: str, group_id: str, topic: str) -> None:
        settings = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group_id,
            "isolation.level": "read_committed",
            "enable.auto.commit": "false",
            "auto.offset.reset": "earliest",
        }
        self.connection = agent.connect()
        self.connection.call("consumer", *_words(settings))
        self.connection.call("subscribe", topic)

    def read(self, count: int) -> list[Received]:
        return read(self.connection, count)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.connection.call("seek", *partition, offset)

    def committed(self, partition: TopicPartition) -> int | None:
        (found,) = self.connection.call("committed", *partition)
        return None if found is None else int(found)

    def close(self) -> None:
        self.connection.close()


class JavaAdmin(Admin):
    """An Admin."""

    def __init__(self, agent: Agent, bootstrap_servers: str) -> None:
        self.connection = agent.connect()
        self.connection.call("admin", f"bootstrap.servers={bootstrap_servers}")

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        replication_factor: int = 1,
    ) -> None:
        self.connection.call(
            "create-topic", topic, partitions, replication_factor, *_words(configs or {})
        )

    def delete_topic(self, topic: str) -> None:
        self.connection.call("delete-topic", topic)

    def topics(self) -> set[str]:
        return {(name or b"").decode() for name in self.connection.call("topics")}

    def partition_count(self, topic: str) -> int:
        return _number(self.connection.call("partition-count", topic)[0])

    def create_partitions(self, topic: str, total: int) -> None:
        self.connection.call("create-partitions", topic, total)

    def configs(self, topic: str) -> dict[str, str | None]:
        words = [
            None if word is None else word.decode()
            for word in self.connection.call("configs", topic)
        ]
        return {name or "": value for name, value in zip(words[::2], words[1::2], strict=True)}

    def set_config(self, topic: str, name: str, value: str) -> None:
        self.connection.call("set-config", topic, name, value)

    def delete_records(self, partition: TopicPartition, before_offset: int) -> int:
        return _number(self.connection.call("delete-records", *partition, before_offset)[0])

    def close(self) -> None:
        self.connection.close()


class Java(TransactionalDriver):
    """The driver."""

    name = "java"
    is_idempotent_by_default = True

    def __init__(self, bootstrap_servers: str, agent: Agent) -> None:
        super().__init__(bootstrap_servers)
        self.agent = agent

    def producer(self, options: ProducerOptions = DEFAULT_PRODUCER) -> Producer:
        return JavaProducer(self.agent, self.bootstrap_servers, options)

    def consumer(self, options: ConsumerOptions = DEFAULT_CONSUMER) -> Consumer:
        return JavaConsumer(self.agent, self.bootstrap_servers, options)

    def admin(self) -> Admin:
        return JavaAdmin(self.agent, self.bootstrap_servers)

    def transactional_producer(
        self, transactional_id: str, timeout_ms: int = TRANSACTION_TIMEOUT_MS
    ) -> TransactionalProducer:
        return JavaTransactionalProducer(
            self.agent, self.bootstrap_servers, transactional_id, timeout_ms
        )

    def member(self, group_id: str, topic: str) -> Member:
        return JavaMember(self.agent, self.bootstrap_servers, group_id, topic)
