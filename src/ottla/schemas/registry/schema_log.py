"""The `_schemas` topic: its reader, which keeps the state, and its one fenced writer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from ottla.client.admin_model.configs import ConfigResource
from ottla.client.admin_model.offsets import OffsetSpec
from ottla.client.admin_model.topics import NewTopic
from ottla.client.aio.admin.client import Admin
from ottla.client.aio.consumer.consumer import Consumer
from ottla.client.aio.producer.producer import Producer
from ottla.client.send.delivery import RecordFuture
from ottla.errors import (
    ConfigError,
    ErrorCode,
    KafkaError,
    NoOffsetError,
    OffsetOutOfRangeError,
    OttlaError,
)
from ottla.events import EventLog
from ottla.model import TopicPartition
from ottla.schemas.registry.state import RegistryState
from ottla.schemas.registry.stored_records import StoredRecord, decode, encode

logger = EventLog("ottla.schemas.registry")

POLL_SECONDS: Final = 0.5
RETRY_SECONDS: Final = 1.0
_TOPIC_ATTEMPTS: Final = 20


class WriteFailedError(OttlaError):
    """A transaction failed, and it is not known whether its records were committed."""


class SchemaLog:
    """Reads the topic from its beginning on, and keeps the state that its records make."""

    def __init__(self, options: Mapping[str, object], topic: str) -> None:
        self.partition = TopicPartition(topic, 0)
        self.state = RegistryState()
        # How often the topic was read from its beginning: a leader of an earlier time does not know it all.
        self.generation = 0
        self.admin = Admin({**options})
        self._consumer: Consumer[bytes, bytes] = Consumer(
            {
                **options,
                "isolation.level": "read_committed",
                "auto.offset.reset": "none",
                "enable.auto.commit": False,
                # A write is answered when it was read: the reader must not be kept waiting.
                "fetch.max.wait.ms": 500,
                "fetch.min.bytes": 1,
            }
        )
        self._position = 0
        self._moved = asyncio.Condition()
        self._reading: asyncio.Task[None] | None = None
        self._syncing: asyncio.Task[None] | None = None

    async def start(self, replication_factor: int | None, timeout: float) -> None:
        """Make the topic if it is missing, and read it to its end."""
        async with asyncio.timeout(timeout):
            await self._ensure_topic(replication_factor)
            self._consumer.assign([self.partition])
            self._consumer.seek_to_beginning([self.partition])
            self._reading = asyncio.create_task(self._read())
            await self.read_to_end()

    async def _ensure_topic(self, replication_factor: int | None) -> None:
        topic = self.partition.topic
        new = NewTopic(
            topic,
            num_partitions=1,
            replication_factor=replication_factor,
            configs={"cleanup.policy": "compact"},
        )
        try:
            await self.admin.create_topics([new])
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        await self._check_topic(topic)

    async def _check_topic(self, topic: str) -> None:
        for attempt in range(_TOPIC_ATTEMPTS):
            try:
                described = (await self.admin.describe_topics([topic]))[topic]
                break
            except KafkaError as error:
                # The broker that is asked may not know a topic yet that was just made.
                is_last = attempt == _TOPIC_ATTEMPTS - 1
                if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or is_last:
                    raise
                await asyncio.sleep(RETRY_SECONDS / 10)
        if len(described.partitions) != 1:
            raise ConfigError(
                f"topic {topic} has {len(described.partitions)} partitions: a registry's topic has one, "
                "because its order is the order of the changes; name another one with topic="
            )
        resource = ConfigResource.topic(topic)
        entries = (await self.admin.describe_configs([resource]))[resource]
        policy = entries["cleanup.policy"].value
        if policy != "compact":
            raise ConfigError(
                f"topic {topic} has cleanup.policy={policy}, which would delete schemas: set it to compact"
            )

    # Reading

    async def _read(self) -> None:
        while True:
            try:
                records = await self._consumer.poll(POLL_SECONDS)
                for record in records:
                    decoded = decode(record.key, record.value)
                    if decoded is not None:
                        self.state.apply(decoded)
                await self._move_to(await self._consumer.position(self.partition))
            except (OffsetOutOfRangeError, NoOffsetError):
                # The topic was deleted and made again, or records were deleted: what it says now counts.
                self.state = RegistryState()
                self.generation += 1
                self._position = 0
                self._consumer.seek_to_beginning([self.partition])
            except KafkaError as error:
                logger.warning(
                    "registry_read_failed",
                    "cannot read %(topic)s, and tries again: %(error)s",
                    topic=self.partition.topic,
                    error=str(error),
                )
                await asyncio.sleep(RETRY_SECONDS)

    async def _move_to(self, position: int) -> None:
        if position != self._position:
            async with self._moved:
                self._position = position
                self._moved.notify_all()

    async def wait_for(self, end_offset: int) -> None:
        """Wait until all records below an offset were read."""
        async with self._moved:
            await self._moved.wait_for(lambda: self._position >= end_offset)

    async def read_to_end(self) -> None:
        """Wait until everything was read that is in the topic now, with no transaction left open."""
        listed = await self.admin.list_offsets({self.partition: OffsetSpec.LATEST})
        await self.wait_for(listed[self.partition].offset)

    async def catch_up(self) -> None:
        """The same for many callers at once: those that come while one is under way wait for the next one."""
        previous = self._syncing
        if previous is not None and not previous.done():
            await asyncio.wait([previous])
        if self._syncing is previous or self._syncing is None or self._syncing.done():
            self._syncing = asyncio.create_task(self.read_to_end())
        await asyncio.shield(self._syncing)

    async def close(self) -> None:
        """Stop reading."""
        for task in (self._reading, self._syncing):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        await self._consumer.close()
        await self.admin.close()


class FencedWriter:
    """Writes transactions under the one transactional id of the registry.

    Its first act fences the writer before it, whose open transaction is aborted and which can never commit again.
    """

    def __init__(self, options: Mapping[str, object], partition: TopicPartition, name: str) -> None:
        self._partition = partition
        self._producer = Producer(
            {
                **options,
                "transactional.id": name,
                "transaction.timeout.ms": 15_000,
                "delivery.timeout.ms": 15_000,
                "request.timeout.ms": 10_000,
                "linger.ms": 0,
                "max.request.size": 4 * 1024 * 1024,
            }
        )

    async def fence_the_previous(self) -> None:
        """Get the next epoch; returns when no earlier transaction can be committed any more."""
        await self._producer.init_transactions()

    async def write(self, records: Sequence[StoredRecord]) -> int:
        """Commit records together; returns the offset behind the last one."""
        try:
            self._producer.begin_transaction()
            futures: list[RecordFuture] = []
            topic, partition = self._partition
            for record in records:
                key, value = encode(record)
                futures.append(await self._producer.send(topic, value, key, partition=partition))
            await self._producer.commit_transaction()
            written = [await future for future in futures]
        except OttlaError as error:
            raise WriteFailedError(str(error)) from error
        return max(each.offset for each in written) + 1

    async def close(self) -> None:
        """Give the connection up; an open transaction is aborted by the next writer."""
        await self._producer.close(0)
