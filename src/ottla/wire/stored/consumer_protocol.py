"""The consumer protocol: what members of a group say to each other through JoinGroup and SyncGroup.

Clients write it and the broker reads it, to know which topics a group is subscribed to. Versions
only ever add fields at the end, so that a newer one is read in the newest form that is known.
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
    """What a subscription of any version begins with."""

    topics: list[String]
    user_data: Bytes | None = wire(default=None)


def subscribed_topics(subscription: Buffer) -> list[str]:
    """The topics of a subscription of any version, as far as Kafka's coordinator looks at it."""
    # A client that claims version 1 and leaves out what it added has a subscription all the same.
    return decode_stored(SubscriptionPrefix, subscription).topics
