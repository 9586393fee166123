"""A member of a group with kafka-python."""

from __future__ import annotations

import time
from collections.abc import Iterable

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import KafkaConnectionError, KafkaError
from kafka.structs import OffsetAndMetadata
from tests.groups.workers.reporting import (
    BATCH_RECORDS,
    Identity,
    Place,
    Reporter,
)

# Longer than a rebalance takes. When a poll ends in the middle of one that its own leader began
# because of new metadata, kafka-python 3.0.12 drops the assignment that arrives between two polls:
# need_rejoin() is false by then, and nobody waits for the join. See FINDINGS.md.
POLL_MS = 1000
ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


class Worker(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, reporter: Reporter) -> None:
        self.reporter = reporter
        options = reporter.options
        self.consumer = KafkaConsumer(
            bootstrap_servers=options["bootstrap.servers"].split(","),
            group_id=options["group.id"],
            client_id=options["client.id"],
            group_instance_id=options.get("group.instance.id"),
            partition_assignment_strategy=[ASSIGNORS[options["assignor"]]],
            session_timeout_ms=reporter.number("session.timeout.ms"),
            heartbeat_interval_ms=reporter.number("heartbeat.interval.ms"),
            max_poll_interval_ms=reporter.number("max.poll.interval.ms"),
            metadata_max_age_ms=reporter.number("metadata.max.age.ms"),
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=100,
            reconnect_backoff_max_ms=500,
        )
        if "pattern" in options:
            self.consumer.subscribe(pattern=f"^{options['pattern']}", listener=self)
        else:
            self.consumer.subscribe(reporter.topics, listener=self)

    @property
    def identity(self) -> Identity:
        # It tells nobody, but knows.
        generation = self.consumer._coordinator._generation
        return Identity(generation.generation_id, generation.member_id)

    # The listener runs inside poll(), where a commit would wait for the loop that it stops. There is
    # nothing to commit then: whatever poll() gave was committed before the next call.

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self.reporter.assigned(_places(assigned), self.identity)

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self.reporter.revoked(_places(revoked), self.identity)

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        self.reporter.lost(_places(lost), self.identity)

    def commit(self) -> None:
        offsets = dict(self.reporter.pending)
        if not offsets:
            return
        who, began = self.identity, time.monotonic()
        try:
            self.consumer.commit(
                {
                    TopicPartition(*place): OffsetAndMetadata(offset, "", -1)
                    for place, offset in offsets.items()
                }
            )
        except KafkaError as failure:
            error = type(failure).__name__
            self.reporter.commit_failed(offsets, who, began, error, self.identity)
        else:
            self.reporter.committed(offsets, who, began)

    def poll(self) -> dict[TopicPartition, list[ConsumerRecord]]:
        try:
            return self.consumer.poll(POLL_MS, max_records=BATCH_RECORDS)  # type: ignore[no-any-return]
        except KafkaConnectionError:
            # It raises what it meets while no broker can be reached.
            return {}

    def run(self) -> None:
        while not self.reporter.is_leaving:
            for records in self.poll().values():
                for record in records:
                    place = record.topic, record.partition
                    self.reporter.record(place, record.offset, record.value, self.identity)
            time.sleep(self.reporter.commit_delay_seconds)
            self.commit()
        self.reporter.revoked(set(self.reporter.owned), self.identity)
        self.consumer.close()
        self.reporter.left()


def _places(partitions: Iterable[TopicPartition]) -> list[Place]:
    return [(one.topic, one.partition) for one in partitions]


if __name__ == "__main__":
    Worker(Reporter()).run()
