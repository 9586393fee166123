"""What the cases act on: a Kafka of some version, and clients for it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.waiting import in_time

import ottla
from ottla.admin import OffsetSpec
from ottla.model import TopicPartition

WAIT_SECONDS = 20.0
POLL_SECONDS = 0.1


@dataclass
class Stage:
    """A Kafka, an admin client of it, and its version."""

    address: str
    admin: ottla.Admin
    version: tuple[int, ...] = (4, 3)

    def topic(self, partitions: int = 1, **configs: str) -> str:
        """A new topic, that the broker leads already: Kafka needs a moment for that."""
        name = self.new_name("topic")
        # Records with times of long ago would go as soon as Kafka looks for old ones.
        options = {"retention.ms": "-1"}
        options |= {option.replace("_", "."): value for option, value in configs.items()}
        self.admin.create_topics([ottla.admin.NewTopic(name, partitions, 1, options)])
        self.admin.list_offsets({(name, number): OffsetSpec.LATEST for number in range(partitions)})
        return name

    def new_name(self, kind: str) -> str:
        return f"{kind}-{uuid.uuid4().hex[:12]}"

    def producer(self, **options: Any) -> ottla.Producer:
        return ottla.Producer(bootstrap_servers=self.address, **{"max_block_ms": 10_000, **options})

    def transactional(self, **options: Any) -> ottla.Producer:
        """A producer that can begin transactions at once."""
        producer = self.producer(**{"transactional_id": self.new_name("id"), **options})
        try:
            producer.init_transactions()
        except BaseException:
            producer.close(1.0)
            raise
        return producer

    def consumer(self, **options: Any) -> ottla.Consumer:
        chosen = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 100, **options}
        return ottla.Consumer(bootstrap_servers=self.address, **chosen)

    def records(self, topic: str, isolation: str = "read_committed") -> list[ottla.ConsumerRecord]:
        """All records of a topic, partition by partition; no transaction may stay open."""
        with self.consumer(isolation_level=isolation) as consumer:
            partitions = [(topic, one.partition) for one in consumer.partitions_for(topic)]
            consumer.assign(partitions)
            # Not the consumer's own ends: it reads on until the markers of the last transaction are written, which
            # takes Kafka a moment after it has answered.
            ends = self.ends(partitions)
            found: list[ottla.ConsumerRecord] = []
            read_until(
                [consumer],
                found,
                lambda: all(consumer.position(one) >= end for one, end in ends.items()),
            )
        return sorted(found, key=lambda record: (record.partition, record.offset))

    def ends(self, partitions: Sequence[tuple[str, int]]) -> dict[TopicPartition, int]:
        """Where partitions end, with all that is not committed yet."""
        listed = self.admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
        return {partition: each.offset for partition, each in listed.items()}

    def values(self, topic: str, isolation: str = "read_committed") -> list[bytes]:
        return [record.value for record in self.records(topic, isolation)]


def read_until(
    consumers: Sequence[ottla.Consumer],
    found: list[ottla.ConsumerRecord],
    condition: Callable[[], bool],
) -> None:
    """Poll the consumers in turn until the condition holds; their records are added to `found`."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        in_time(deadline, "it did not come to pass")
        for consumer in consumers:
            found += consumer.poll(POLL_SECONDS / len(consumers))


def read(consumer: ottla.Consumer, count: int) -> list[ottla.ConsumerRecord]:
    """Polls that give `count` records, and not one more."""
    found: list[ottla.ConsumerRecord] = []
    read_until([consumer], found, lambda: len(found) >= count)
    assert len(found) == count
    return found


def numbers(partitions: Iterable[TopicPartition]) -> list[int]:
    return sorted(partition.partition for partition in partitions)


Body = Callable[[Stage], None]


@dataclass(frozen=True)
class Case:
    """A guarantee that holds with every Kafka from a version on."""

    body: Body
    since: tuple[int, ...]

    @property
    def name(self) -> str:
        return self.body.__name__


CASES: list[Case] = []


def case(*since: int) -> Callable[[Body], Body]:
    """A case, for Kafka of this version or later."""

    def register(body: Body) -> Body:
        CASES.append(Case(body, since))
        return body

    return register
