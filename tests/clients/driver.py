"""What the tests ask of a client; one driver per client translates."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import ClassVar, NamedTuple, Self, TypeVar

from tests.clients.messages import Message, Received

from ottla.errors import ErrorCode
from ottla.model import TopicPartition

T = TypeVar("T")

READ_SECONDS = 20.0
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class RefusedError(Exception):
    """The client reported an error of the broker."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{ErrorCode(code).name}: {text}")
        self.error = ErrorCode(code)


def in_time(step: Callable[[], None], seconds: float) -> None:
    """Gives up in the end, which not every client does, whatever time it was given."""
    found: list[BaseException] = []

    def run() -> None:
        try:
            step()
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise RefusedError(ErrorCode.REQUEST_TIMED_OUT, f"nothing came of it in {seconds} s")
    for error in found:
        raise error


@dataclass(frozen=True)
class ProducerOptions:
    """What tests set; None leaves the client's own default."""

    codec: str | None = None
    acks: str | None = None
    linger_ms: int | None = None
    max_request_bytes: int | None = None
    # How long the client tries before it reports a failure; the test gives it no retries.
    give_up_ms: int | None = None
    idempotent: bool | None = None


@dataclass(frozen=True)
class ConsumerOptions:
    """What tests set; None leaves the client's own default."""

    isolation: str | None = None
    fetch_wait_ms: int | None = None
    fetch_min_bytes: int | None = None


def those_set(options: Mapping[str, T | None]) -> dict[str, T]:
    """Without what is left to the client's own default."""
    return {name: value for name, value in options.items() if value is not None}


DEFAULT_PRODUCER = ProducerOptions()
DEFAULT_CONSUMER = ConsumerOptions()


TRANSACTION_TIMEOUT_MS = 60_000
# What a producer that is out may be told: by the coordinator, or by the leader of a partition.
FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)


class Bounds(NamedTuple):
    """The first offset of a partition and the one after the last."""

    start_offset: int
    end_offset: int


class Session(ABC):
    """Something of a client that is to be closed."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Producer(Session):
    """A producer of the client."""

    @abstractmethod
    def send(self, topic: str, messages: Sequence[Message], partition: int = 0) -> list[int]:
        """Sends without waiting in between; the offsets, when all are acknowledged (-1 with acks=0)."""


class Consumer(Session):
    """A consumer of the client, without a group."""

    @abstractmethod
    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Reads these partitions from these offsets on."""

    @abstractmethod
    def read(self, count: int) -> list[Received]:
        """The next records; fewer when they do not come in time."""

    @abstractmethod
    def offset_at(self, partition: TopicPartition, timestamp_ms: int) -> int | None:
        """The first offset with at least this timestamp."""

    @abstractmethod
    def bounds(self, partition: TopicPartition) -> Bounds:
        """Where the partition starts and ends for this consumer."""


class Member(Session):
    """A consumer of the client that is in a group, reads what is committed, and begins at the beginning."""

    @abstractmethod
    def read(self, count: int) -> list[Received]:
        """The next records; fewer when they do not come in time."""

    @abstractmethod
    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Reads on from there."""

    @abstractmethod
    def committed(self, partition: TopicPartition) -> int | None:
        """Where the group goes on."""


class TransactionalProducer(Session):
    """A producer of the client that has initialised its transactions."""

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def send(self, topic: str, messages: Sequence[Message], partition: int = 0) -> list[int]:
        """The offsets, when all are acknowledged: then they are in the log, whatever becomes of the transaction."""

    @abstractmethod
    def send_offsets(self, offsets: Mapping[TopicPartition, int], member: Member) -> None:
        """Makes it part of the transaction that the member's group goes on there."""

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def abort(self) -> None: ...


class Admin(Session):
    """An admin client."""

    @abstractmethod
    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        replication_factor: int = 1,
    ) -> None: ...

    @abstractmethod
    def delete_topic(self, topic: str) -> None: ...

    @abstractmethod
    def topics(self) -> set[str]: ...

    @abstractmethod
    def partition_count(self, topic: str) -> int: ...

    @abstractmethod
    def create_partitions(self, topic: str, total: int) -> None: ...

    @abstractmethod
    def configs(self, topic: str) -> dict[str, str | None]: ...

    @abstractmethod
    def set_config(self, topic: str, name: str, value: str) -> None: ...

    @abstractmethod
    def delete_records(self, partition: TopicPartition, before_offset: int) -> int:
        """Deletes what is before the offset; the new first offset."""


class Driver(ABC):
    """One client."""

    name: ClassVar[str]
    # Whether a producer and a consumer stay between calls: not so with a command line tool.
    keeps_connections: ClassVar[bool] = True
    # Whether its table of errors has INVALID_RECORD; else it reports an unknown one.
    knows_invalid_record: ClassVar[bool] = True
    # Whether -1 can be given for a replication factor of the broker's choice.
    takes_default_replication: ClassVar[bool] = True
    sets_timestamps: ClassVar[bool] = True
    is_idempotent_by_default: ClassVar[bool] = False

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers

    @abstractmethod
    def producer(self, options: ProducerOptions = DEFAULT_PRODUCER) -> Producer: ...

    @abstractmethod
    def consumer(self, options: ConsumerOptions = DEFAULT_CONSUMER) -> Consumer: ...

    @abstractmethod
    def admin(self) -> Admin: ...

    def cannot_send(self, message: Message) -> str | None:
        """Why this client cannot send such a message at all."""
        return None

    def codecs(self) -> list[str]:
        """The codecs that the client has here."""
        return list(CODECS)

    # What most tests need, in one call each.

    def create_topic(
        self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        with self.admin() as admin:
            admin.create_topic(topic, partitions, configs)

    def send(
        self,
        topic: str,
        messages: Sequence[Message],
        partition: int = 0,
        options: ProducerOptions = DEFAULT_PRODUCER,
    ) -> list[int]:
        with self.producer(options) as producer:
            return producer.send(topic, messages, partition)

    def read(
        self,
        topic: str,
        count: int,
        offset: int = 0,
        partition: int = 0,
        options: ConsumerOptions = DEFAULT_CONSUMER,
    ) -> list[Received]:
        with self.consumer(options) as consumer:
            consumer.assign({TopicPartition(topic, partition): offset})
            return consumer.read(count)


class TransactionalDriver(Driver):
    """A client that has transactions."""

    @abstractmethod
    def transactional_producer(
        self, transactional_id: str, timeout_ms: int = TRANSACTION_TIMEOUT_MS
    ) -> TransactionalProducer: ...

    @abstractmethod
    def member(self, group_id: str, topic: str) -> Member: ...


@dataclass(frozen=True)
class Parts:
    """How the sessions of a client are made, where the servers' address is enough for that."""

    producer: Callable[[str, ProducerOptions], Producer]
    consumer: Callable[[str, ConsumerOptions], Consumer]
    admin: Callable[[str], Admin]
    transactional_producer: Callable[[str, str, int], TransactionalProducer]
    member: Callable[[str, str, str], Member]


class DriverOfParts(TransactionalDriver):
    """A client whose sessions need nothing from one another."""

    parts: ClassVar[Parts]

    def producer(self, options: ProducerOptions = DEFAULT_PRODUCER) -> Producer:
        return self.parts.producer(self.bootstrap_servers, options)

    def consumer(self, options: ConsumerOptions = DEFAULT_CONSUMER) -> Consumer:
        return self.parts.consumer(self.bootstrap_servers, options)

    def admin(self) -> Admin:
        return self.parts.admin(self.bootstrap_servers)

    def transactional_producer(
        self, transactional_id: str, timeout_ms: int = TRANSACTION_TIMEOUT_MS
    ) -> TransactionalProducer:
        return self.parts.transactional_producer(
            self.bootstrap_servers, transactional_id, timeout_ms
        )

    def member(self, group_id: str, topic: str) -> Member:
        return self.parts.member(self.bootstrap_servers, group_id, topic)
