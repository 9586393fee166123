"""The consumer protocol: subscriptions and assignments in JoinGroup and SyncGroup.

Clients write it, and the broker reads the topics that members subscribe to. Versions only add fields at the end, so a
newer one is read as the newest that is known.
"""

from __future__ import annotations

from ottla.wire.compile import decode_stored
from ottla.wire.declare import stored, struct, wire
from ottla.wire.types import Buffer, Bytes, Int32, String


@struct
class TopicPartition:
    topic: String
    partitions: list[Int32]


@stored(versions="0-3", readable="0+", flexible="none")
class ConsumerProtocolSubscription:
    topics: list[String]
    user_data: Bytes | None = wire(default=None)
    owned_partitions: list[TopicPartition] = wire(since=1, default_factory=list)  # KIP-429
    generation_id: Int32 = wire(since=2, default=-1)  # KIP-792
    rack_id: String | None = wire(since=3, default=None)  # KIP-881


@stored(versions="0-3", readable="0+", flexible="none")
class ConsumerProtocolAssignment:
    assigned_partitions: list[TopicPartition]
    user_data: Bytes | None = wire(default=None)


@stored(versions="0", readable="0+", flexible="none")
class SubscriptionPrefix:
    """The fields at the start of a subscription of any version."""

    topics: list[String]
    user_data: Bytes | None = wire(default=None)


def subscribed_topics(subscription: Buffer) -> list[str]:
    """The topics of a subscription of any version, which is all that Kafka's coordinator reads."""
    # Some clients write version 1 without the field that it added.
    return decode_stored(SubscriptionPrefix, subscription).topics
