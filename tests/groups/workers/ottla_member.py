"""What the two faces of Ottla's own client have in common as members of a group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from tests.groups.workers.reporting import BATCH_RECORDS, Identity, Place, Reporter

from ottla import SubscriptionPattern
from ottla.client.model import ConsumerGroupMetadata, ConsumerRecord
from ottla.model import TopicPartition


class _Consumer(Protocol):
    @property
    def group_metadata(self) -> Callable[[], ConsumerGroupMetadata]: ...


C = TypeVar("C", bound=_Consumer)


class OttlaMember(Generic[C]):
    """Processes, and listens to its own rebalances; how it commits and polls is up to the face."""

    def __init__(self, consumer_class: Callable[..., C], reporter: Reporter) -> None:
        self.reporter = reporter
        options = reporter.options
        if options["group.protocol"] == "consumer":
            assigned: dict[str, object] = {
                "group_protocol": "consumer",
                "group_remote_assignor": options["assignor"],
            }
        else:
            assigned = {
                "partition_assignment_strategy": options["assignor"],
                "session_timeout_ms": reporter.number("session.timeout.ms"),
                "heartbeat_interval_ms": reporter.number("heartbeat.interval.ms"),
            }
        self.consumer = consumer_class(
            bootstrap_servers=options["bootstrap.servers"],
            group_id=options["group.id"],
            client_id=options["client.id"],
            group_instance_id=options.get("group.instance.id"),
            max_poll_interval_ms=reporter.number("max.poll.interval.ms"),
            metadata_max_age_ms=reporter.number("metadata.max.age.ms"),
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=100,
            max_poll_records=BATCH_RECORDS,
            allow_auto_create_topics=False,
            **assigned,
        )

    @property
    def identity(self) -> Identity:
        metadata = self.consumer.group_metadata()
        return Identity(metadata.generation_id, metadata.member_id)

    @property
    def wanted(self) -> Any:
        """What it subscribes to."""
        options = self.reporter.options
        if "broker.pattern" in options:
            return SubscriptionPattern(options["broker.pattern"])
        return f"^{options['pattern']}" if "pattern" in options else self.reporter.topics

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.reporter.assigned(places(partitions), self.identity)

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.reporter.lost(places(partitions), self.identity)

    def process(self, records: Iterable[ConsumerRecord]) -> None:
        for record in records:
            place = record.topic, record.partition
            self.reporter.record(place, record.offset, record.value, self.identity)


def places(partitions: Iterable[TopicPartition]) -> list[Place]:
    return [(one.topic, one.partition) for one in partitions]
