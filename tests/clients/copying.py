"""Consume, transform, produce: a copier whose output and offsets are in one transaction, with any client."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field

from tests.clients.driver import (
    ConsumerOptions,
    Member,
    RefusedError,
    TransactionalDriver,
    TransactionalProducer,
)
from tests.clients.messages import Message, Received, numbered
from tests.clients.transactions_seen import (
    offsets_partition,
    wait_until_at_rest,
    wait_until_stable,
)

from ottla.model import TopicPartition

TURN_RECORDS = 10
COMMITTED = ConsumerOptions(isolation="read_committed")


@dataclass
class Copier:
    """Copies a topic into another one of as many partitions."""

    client: TransactionalDriver
    source: str
    target: str
    transactional_id: str
    group_id: str
    partition_count: int
    records_per_partition: int
    prefix: bytes = b"copy of "
    pause_seconds: float = 0.0
    # How often a turn is sent and aborted before it is sent and committed.
    aborts_first: int = 0
    turns: int = 0
    failures: list[Exception] = field(default_factory=list)
    # How far it is known to have come.
    positions: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def sources(self) -> list[TopicPartition]:
        return [TopicPartition(self.source, number) for number in range(self.partition_count)]

    @property
    def targets(self) -> list[TopicPartition]:
        return [TopicPartition(self.target, number) for number in range(self.partition_count)]

    @property
    def is_done(self) -> bool:
        return all(self.positions.get(one) == self.records_per_partition for one in self.sources)

    def producer(self) -> TransactionalProducer:
        return self.client.transactional_producer(self.transactional_id)

    def member(self) -> Member:
        return self.client.member(self.group_id, self.source)

    def next_offsets(self, records: list[Received]) -> dict[TopicPartition, int]:
        return {
            TopicPartition(self.source, record.partition): record.offset + 1 for record in records
        }

    def send(
        self, producer: TransactionalProducer, member: Member, records: list[Received]
    ) -> None:
        """Output and offsets, when they are in the logs."""
        for partition in sorted({record.partition for record in records}):
            messages = [
                Message(self.prefix + (one.value or b""), one.key)
                for one in records
                if one.partition == partition
            ]
            producer.send(self.target, messages, partition)
        producer.send_offsets(self.next_offsets(records), member)

    def rewind(self, member: Member, records: list[Received]) -> None:
        firsts: dict[TopicPartition, int] = {}
        for record in records:
            firsts.setdefault(TopicPartition(self.source, record.partition), record.offset)
        for partition, offset in firsts.items():
            member.seek(partition, offset)

    def copy(
        self, producer: TransactionalProducer, member: Member, records: list[Received]
    ) -> None:
        producer.begin()
        self.send(producer, member, records)
        producer.commit()
        self.positions |= self.next_offsets(records)
        self.turns += 1

    def give_up(
        self, producer: TransactionalProducer, member: Member, records: list[Received]
    ) -> None:
        """Everything is sent, then aborted; the records come again."""
        producer.begin()
        self.send(producer, member, records)
        producer.abort()
        self.rewind(member, records)
        self.turns += 1

    def run(self) -> None:
        """Copies all; whenever anything fails it starts afresh, as a program does that is started again."""
        while not self.is_done:
            try:
                with ExitStack() as stack:
                    producer = stack.enter_context(self.producer())
                    member = stack.enter_context(self.member())
                    # The last commit may have failed for us and not for the broker.
                    self.positions = {one: member.committed(one) or 0 for one in self.sources}
                    while not self.is_done:
                        for _ in range(self.aborts_first):
                            self.give_up(producer, member, self._read(member))
                        self.copy(producer, member, self._read(member))
                        time.sleep(self.pause_seconds)
            except (RefusedError, TimeoutError) as error:
                self.failures.append(error)

    def _read(self, member: Member) -> list[Received]:
        """A consumer that finds nothing where there is something has lost its way."""
        records = member.read(TURN_RECORDS)
        if not records:
            raise TimeoutError("the consumer finds nothing")
        return records

    def check_exactly_once(self) -> None:
        """Every record has one copy, in order, and the group has read exactly what was copied."""
        servers = self.client.bootstrap_servers
        wait_until_at_rest(servers, self.transactional_id)
        wait_until_stable(servers, *self.targets, offsets_partition(self.group_id))
        for number in range(self.partition_count):
            expected = source_messages(number, self.records_per_partition)
            copies = self.client.read(self.target, len(expected), 0, number, COMMITTED)
            assert [one.value for one in copies] == [
                self.prefix + (message.value or b"") for message in expected
            ]
        with self.member() as member:
            for partition in self.sources:
                assert member.committed(partition) == self.records_per_partition


def source_messages(partition: int, count: int) -> list[Message]:
    return numbered(count, start=partition * count)


def new_copier(
    client: TransactionalDriver, topic: str, partition_count: int, records_per_partition: int
) -> Copier:
    """A copier with topics, in which there is something to copy."""
    target = f"{topic}-copy"
    for name in (topic, target):
        client.create_topic(name, partition_count)
    for number in range(partition_count):
        client.send(topic, source_messages(number, records_per_partition), number)
    return Copier(
        client, topic, target, f"{topic}-id", topic, partition_count, records_per_partition
    )
