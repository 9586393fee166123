"""A member of a group with Ottla's own client, the blocking one."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tests.groups.workers.reporting import (
    BATCH_RECORDS,
    POLL_SECONDS,
    Identity,
    Place,
    Reporter,
)

from ottla import Consumer
from ottla.errors import KafkaError
from ottla.model import TopicPartition


class Worker:
    """Processes and commits; also the listener of its own rebalances."""

    def __init__(self, reporter: Reporter) -> None:
        self.reporter = reporter
        options = reporter.options
        self.consumer = Consumer(
            bootstrap_servers=options["bootstrap.servers"],
            group_id=options["group.id"],
            client_id=options["client.id"],
            group_instance_id=options.get("group.instance.id"),
            partition_assignment_strategy=options["assignor"],
            session_timeout_ms=reporter.number("session.timeout.ms"),
            heartbeat_interval_ms=reporter.number("heartbeat.interval.ms"),
            max_poll_interval_ms=reporter.number("max.poll.interval.ms"),
            metadata_max_age_ms=reporter.number("metadata.max.age.ms"),
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=100,
            max_poll_records=BATCH_RECORDS,
            allow_auto_create_topics=False,
        )

    @property
    def identity(self) -> Identity:
        metadata = self.consumer.group_metadata()
        return Identity(metadata.generation_id, metadata.member_id)

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.reporter.assigned(_places(partitions), self.identity)

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.commit()
        self.reporter.revoked(_places(partitions), self.identity)

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.reporter.lost(_places(partitions), self.identity)

    def commit(self) -> None:
        offsets = dict(self.reporter.pending)
        if not offsets:
            return
        who, began = self.identity, time.monotonic()
        try:
            self.consumer.commit(dict(offsets.items()))
        except KafkaError as failure:
            self.reporter.commit_failed(offsets, who, began, failure.name, self.identity)
        else:
            self.reporter.committed(offsets, who, began)

    def run(self) -> None:
        options = self.reporter.options
        wanted = f"^{options['pattern']}" if "pattern" in options else self.reporter.topics
        self.consumer.subscribe(wanted, self)
        while not self.reporter.is_leaving:
            for record in self.consumer.poll(POLL_SECONDS):
                place = record.topic, record.partition
                self.reporter.record(place, record.offset, record.value, self.identity)
            time.sleep(self.reporter.commit_delay_seconds)
            self.commit()
        self.commit()
        # Closing revokes, which reports.
        self.consumer.close()
        self.reporter.left()


def _places(partitions: Sequence[TopicPartition]) -> list[Place]:
    return [(one.topic, one.partition) for one in partitions]


if __name__ == "__main__":
    Worker(Reporter()).run()
