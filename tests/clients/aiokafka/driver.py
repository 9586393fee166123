"""aiokafka."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import aiokafka
from aiokafka import errors
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
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

from ottla.errors import ErrorCode
from ottla.model import TopicPartition

T = TypeVar("T")


@contextmanager
def translated() -> Iterator[None]:
    """Turns an error that has Kafka's number into the driver's exception."""
    try:
        yield
    except errors.KafkaTimeoutError as error:
        raise RefusedError(ErrorCode.REQUEST_TIMED_OUT, str(error)) from error
    except errors.ProducerFenced as error:
        raise RefusedError(ErrorCode.PRODUCER_FENCED, str(error)) from error
    except errors.BrokerResponseError as error:
        raise RefusedError(error.errno, str(error)) from error
    except errors.KafkaError as error:
        raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, repr(error)) from error


def options_of(options: ProducerOptions) -> dict[str, Any]:
    """aiokafka's options for those of the tests."""
    acks: int | str | None = options.acks
    if acks in ("0", "1"):
        acks = int(acks)
    chosen = {
        "compression_type": None if options.codec == "none" else options.codec,
        "acks": acks,
        "linger_ms": options.linger_ms,
        "max_request_size": options.max_request_bytes,
        "enable_idempotence": options.idempotent,
        "request_timeout_ms": options.give_up_ms,
    }
    return those_set(chosen)


class AioProducer(Producer):
    """An AIOKafkaProducer on a loop of its own."""

    def __init__(self, bootstrap_servers: str, **options: Any) -> None:
        self.runner = asyncio.Runner()
        try:
            self.client = self.runner.run(self._started(bootstrap_servers, options))
        except BaseException:
            self.runner.close()
            raise

    async def _started(self, bootstrap_servers: str, options: dict[str, Any]) -> Any:
        client = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap_servers, **options)
        try:
            await client.start()
        except BaseException:
            await client.stop()
            raise
        return client

    def send(self, topic: str, messages: Sequence[Message], partition: int = 0) -> list[int]:
        with translated():
            return self.runner.run(self._send(topic, messages, partition))

    async def _send(self, topic: str, messages: Sequence[Message], partition: int) -> list[int]:
        futures = [
            await self.client.send(
                topic,
                value=message.value,
                key=message.key,
                headers=list(message.headers),
                partition=partition,
                timestamp_ms=message.timestamp_ms,
            )
            for message in messages
        ]
        sent = await asyncio.wait_for(asyncio.gather(*futures), READ_SECONDS)
        # With acks=0 there is no metadata to give.
        return [-1 if metadata is None else metadata.offset for metadata in sent]

    def close(self) -> None:
        try:
            with translated():
                self.runner.run(self.client.stop())
        finally:
            self.runner.close()


async def read(client: Any, count: int) -> list[Received]:
    """The next records; fewer when they do not come in time."""
    received: list[Received] = []
    deadline = time.monotonic() + READ_SECONDS
    while len(received) < count and time.monotonic() < deadline:
        found = await client.getmany(timeout_ms=10_000, max_records=count - len(received))
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


class AioTransactionalProducer(AioProducer, TransactionalProducer):
    """An AIOKafkaProducer with a transactional id; its start initialises it."""

    def __init__(self, bootstrap_servers: str, transactional_id: str, timeout_ms: int) -> None:
        with translated():
            super().__init__(
                bootstrap_servers,
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
            )

    def _run(self, step: Coroutine[Any, Any, None]) -> None:
        with translated():
            self.runner.run(asyncio.wait_for(step, READ_SECONDS))

    def begin(self) -> None:
        self._run(self.client.begin_transaction())

    def send_offsets(self, offsets: Mapping[TopicPartition, int], member: Member) -> None:
        assert isinstance(member, AioMember)
        places = {
            aiokafka.TopicPartition(*partition): offset for partition, offset in offsets.items()
        }
        self._run(self.client.send_offsets_to_transaction(places, member.group_id))

    def commit(self) -> None:
        self._run(self.client.commit_transaction())

    def abort(self) -> None:
        self._run(self.client.abort_transaction())


class AioMember(Member):
    """An AIOKafkaConsumer that subscribes, on a loop and a thread of its own: heartbeats go on between reads."""

    def __init__(self, bootstrap_servers: str, group_id: str, topic: str) -> None:
        self.group_id = group_id
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        try:
            self.client = self._run(self._started(bootstrap_servers, topic))
        except BaseException:
            self._end_loop()
            raise

    def _run(self, step: Coroutine[Any, Any, T]) -> T:
        with translated():
            return asyncio.run_coroutine_threadsafe(step, self.loop).result(2 * READ_SECONDS)

    async def _started(self, bootstrap_servers: str, topic: str) -> Any:
        client = aiokafka.AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap_servers,
            group_id=self.group_id,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            # One that could not leave holds its successor up for so long.
            session_timeout_ms=6_000,
            heartbeat_interval_ms=500,
        )
        try:
            await client.start()
        except BaseException:
            await client.stop()
            raise
        return client

    def read(self, count: int) -> list[Received]:
        return self._run(read(self.client, count))

    def seek(self, partition: TopicPartition, offset: int) -> None:
        async def seek() -> None:
            self.client.seek(aiokafka.TopicPartition(*partition), offset)

        self._run(seek())

    def committed(self, partition: TopicPartition) -> int | None:
        found: int | None = self._run(self.client.committed(aiokafka.TopicPartition(*partition)))
        return found

    def close(self) -> None:
        try:
            # It cancels itself when it stops while it looks for its coordinator.
            with suppress(CancelledError):
                self._run(self.client.stop())
        finally:
            self._end_loop()

    def _end_loop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


class AioConsumer(Consumer):
    """An AIOKafkaConsumer on a loop of its own."""

    def __init__(self, bootstrap_servers: str, options: ConsumerOptions) -> None:
        chosen = {
            "isolation_level": options.isolation,
            "fetch_max_wait_ms": options.fetch_wait_ms,
            "fetch_min_bytes": options.fetch_min_bytes,
        }
        given = those_set(chosen)
        self.runner = asyncio.Runner()
        self.client = self.runner.run(self._started(bootstrap_servers, given))

    async def _started(self, bootstrap_servers: str, options: dict[str, Any]) -> Any:
        client = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap_servers,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            **options,
        )
        await client.start()
        return client

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.runner.run(self._assign(offsets))

    async def _assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.client.assign([aiokafka.TopicPartition(*partition) for partition in offsets])
        for partition, offset in offsets.items():
            self.client.seek(aiokafka.TopicPartition(*partition), offset)

    def read(self, count: int) -> list[Received]:
        with translated():
            return self.runner.run(read(self.client, count))

    def offset_at(self, partition: TopicPartition, timestamp_ms: int) -> int | None:
        asked = aiokafka.TopicPartition(*partition)
        found = self.runner.run(self.client.offsets_for_times({asked: timestamp_ms}))[asked]
        return None if found is None else int(found.offset)

    def bounds(self, partition: TopicPartition) -> Bounds:
        asked = aiokafka.TopicPartition(*partition)
        start = self.runner.run(self.client.beginning_offsets([asked]))[asked]
        end = self.runner.run(self.client.end_offsets([asked]))[asked]
        return Bounds(start, end)

    def close(self) -> None:
        self.runner.run(self.client.stop())
        self.runner.close()


class AioAdmin(Admin):
    """An AIOKafkaAdminClient on a loop of its own."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.runner = asyncio.Runner()
        self.client = self.runner.run(self._started(bootstrap_servers))

    async def _started(self, bootstrap_servers: str) -> Any:
        client = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
        await client.start()
        return client

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        replication_factor: int = 1,
    ) -> None:
        new = NewTopic(topic, partitions, replication_factor, topic_configs=dict(configs or {}))
        answer = self.runner.run(self.client.create_topics([new]))
        _, code, message = answer.topic_errors[0][:3]
        if code:
            raise RefusedError(code, message)

    def delete_topic(self, topic: str) -> None:
        answer = self.runner.run(self.client.delete_topics([topic]))
        _, code = answer.topic_error_codes[0][:2]
        if code:
            raise RefusedError(code, topic)

    def topics(self) -> set[str]:
        return set(self.runner.run(self.client.list_topics()))

    def partition_count(self, topic: str) -> int:
        (described,) = self.runner.run(self.client.describe_topics([topic]))
        if described["error_code"]:
            raise RefusedError(described["error_code"], topic)
        return len(described["partitions"])

    def create_partitions(self, topic: str, total: int) -> None:
        with translated():
            self.runner.run(self.client.create_partitions({topic: NewPartitions(total)}))

    def configs(self, topic: str) -> dict[str, str | None]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        (answer,) = self.runner.run(self.client.describe_configs([resource]))
        code, message, _, _, entries = answer.resources[0][:5]
        if code:
            raise RefusedError(code, message)
        return {entry[0]: entry[1] for entry in entries}

    def set_config(self, topic: str, name: str, value: str) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})
        (answer,) = self.runner.run(self.client.alter_configs([resource]))
        code, message = answer.resources[0][:2]
        if code:
            raise RefusedError(code, message)

    def delete_records(self, partition: TopicPartition, before_offset: int) -> int:
        asked = aiokafka.TopicPartition(*partition)
        deleting = self.client.delete_records({asked: RecordsToDelete(before_offset)})
        with translated():
            return int(self.runner.run(deleting)[asked])

    def close(self) -> None:
        self.runner.run(self.client.close())
        self.runner.close()


class AioKafka(DriverOfParts):
    """The driver."""

    name = "aiokafka"
    knows_invalid_record = False
    takes_default_replication = False
    parts = Parts(
        producer=lambda servers, options: AioProducer(servers, **options_of(options)),
        consumer=AioConsumer,
        admin=AioAdmin,
        transactional_producer=AioTransactionalProducer,
        member=AioMember,
    )

    def cannot_send(self, message: Message) -> str | None:
        if message.key is None and message.value is None:
            return "aiokafka insists on a key or a value"
        return None
