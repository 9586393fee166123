"""Subscriptions and assignments as the bytes that JoinGroup and SyncGroup carry."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.core.assignors.java_order import text_order
from ottla.core.assignors.model import Assignment, Subscription
from ottla.model import TopicPartition
from ottla.wire.compile import decode_stored, encode_stored
from ottla.wire.stored import consumer_protocol
from ottla.wire.stored.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from ottla.wire.types import Buffer

NEWEST_VERSION = 3


def encode_subscription(subscription: Subscription, version: int = NEWEST_VERSION) -> bytes:
    """The bytes that Kafka's client writes, with the fields of this version."""
    owned = sorted(
        subscription.owned_partitions, key=lambda tp: (text_order(tp.topic), tp.partition)
    )
    value = ConsumerProtocolSubscription(
        topics=sorted(subscription.topics, key=text_order),
        user_data=subscription.user_data,
        owned_partitions=_by_topic(owned),
        generation_id=subscription.generation_id,
        rack_id=subscription.rack_id,
    )
    return encode_stored(value, version)


def decode_subscription(buffer: Buffer, group_instance_id: str | None = None) -> Subscription:
    """Reads a subscription; the instance id is another field of the JoinGroup response."""
    value = decode_stored(ConsumerProtocolSubscription, buffer)
    return Subscription(
        topics=tuple(value.topics),
        user_data=None if value.user_data is None else bytes(value.user_data),
        owned_partitions=_flat(value.owned_partitions),
        generation_id=value.generation_id,
        rack_id=value.rack_id or None,
        group_instance_id=group_instance_id,
    )


def encode_assignment(assignment: Assignment, version: int = NEWEST_VERSION) -> bytes:
    """The bytes that Kafka's client writes: topics in the order of their first partitions."""
    value = ConsumerProtocolAssignment(
        assigned_partitions=_by_topic(assignment.partitions), user_data=assignment.user_data
    )
    return encode_stored(value, version)


def decode_assignment(buffer: Buffer) -> Assignment:
    """Reads an assignment."""
    value = decode_stored(ConsumerProtocolAssignment, buffer)
    return Assignment(
        partitions=_flat(value.assigned_partitions),
        user_data=None if value.user_data is None else bytes(value.user_data),
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> list[consumer_protocol.TopicPartition]:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return [
        consumer_protocol.TopicPartition(topic=topic, partitions=numbers)
        for topic, numbers in topics.items()
    ]


def _flat(topics: Iterable[consumer_protocol.TopicPartition]) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(each.topic, partition) for each in topics for partition in each.partitions
    )
