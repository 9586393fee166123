"""A member of a group with aiokafka."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError
from tests.groups.workers.reporting import (
    BATCH_RECORDS,
    POLL_SECONDS,
    Identity,
    Place,
    Reporter,
)

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class Worker(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, reporter: Reporter) -> None:
        self.reporter = reporter
        # Its rebalances run beside the program: what was fetched is processed and committed before
        # partitions go.
        self.processing = asyncio.Lock()
        self.revocations = 0
        options = reporter.options
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=options["bootstrap.servers"].split(","),
            group_id=options["group.id"],
            client_id=options["client.id"],
            group_instance_id=options.get("group.instance.id"),
            partition_assignment_strategy=[ASSIGNORS[options["assignor"]]],
            session_timeout_ms=reporter.number("session.timeout.ms"),
            heartbeat_interval_ms=reporter.number("heartbeat.interval.ms"),
            max_poll_interval_ms=reporter.number("max.poll.interval.ms"),
            rebalance_timeout_ms=reporter.number("max.poll.interval.ms"),
            metadata_max_age_ms=reporter.number("metadata.max.age.ms"),
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=100,
        )
        if "pattern" in options:
            self.consumer.subscribe(pattern=f"^{options['pattern']}", listener=self)
        else:
            self.consumer.subscribe(reporter.topics, listener=self)

    @property
    def identity(self) -> Identity:
        # It tells nobody, but knows.
        coordinator = self.consumer._coordinator
        return Identity(coordinator.generation, coordinator.member_id)

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self.reporter.assigned(_places(assigned), self.identity)

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        async with self.processing:
            self.revocations += 1
            if self.identity.generation < 0:
                # It has no other word for it.
                self.reporter.lost(_places(revoked), self.identity)
            else:
                await self.commit()
                self.reporter.revoked(_places(revoked), self.identity)

    async def commit(self) -> None:
        offsets = dict(self.reporter.pending)
        if not offsets:
            return
        who, began = self.identity, time.monotonic()
        try:
            await self.consumer.commit(
                {TopicPartition(*place): offset for place, offset in offsets.items()}
            )
        except KafkaError as failure:
            error = type(failure).__name__
            self.reporter.commit_failed(offsets, who, began, error, self.identity)
        else:
            self.reporter.committed(offsets, who, began)

    async def run(self) -> None:
        await self.consumer.start()
        poll_ms = int(POLL_SECONDS * 1000)
        while not self.reporter.is_leaving:
            # Not under the lock: during a rebalance it waits for the end of it.
            found = await self.consumer.getmany(timeout_ms=poll_ms, max_records=BATCH_RECORDS)
            revocations = self.revocations
            async with self.processing:
                if revocations != self.revocations:
                    continue
                for records in found.values():
                    for record in records:
                        place = record.topic, record.partition
                        self.reporter.record(place, record.offset, record.value, self.identity)
                await asyncio.sleep(self.reporter.commit_delay_seconds)
                await self.commit()
        async with self.processing:
            self.reporter.revoked(set(self.reporter.owned), self.identity)
        await self.consumer.stop()
        self.reporter.left()


def _places(partitions: Iterable[TopicPartition]) -> list[Place]:
    return [(one.topic, one.partition) for one in partitions]


async def main() -> None:
    await Worker(Reporter()).run()


if __name__ == "__main__":
    asyncio.run(main())
