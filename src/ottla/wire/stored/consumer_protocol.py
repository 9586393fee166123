"""The consumer protocol: subscriptions and assignments in JoinGroup and SyncGroup.

Clients write it, and the broker reads the topics that members subscribe to. Versions only add fields at the end, so a
newer one is read as the newest that is known.
"""

from __future__ import annotations

import struct as struct_module
from typing import Final

from ottla.wire.compile import decode_stored
from ottla.wire.declare import stored, struct, wire
from ottla.wire.types import Buffer, Bytes, Int32, MalformedMessageError, String

# What a coordinator reads of a subscription. Kafka stores no group that is larger than a batch may be.
MAX_BYTES: Final = 1 << 20
MAX_TOPICS: Final = 1 << 15
# The version and the number of topics.
_START: Final = struct_module.Struct(">hi")


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


def check_size(subscription: Buffer) -> None:
    """Raises MalformedMessageError for a subscription that takes too long to read on an event loop."""
    if len(subscription) > MAX_BYTES:
        raise MalformedMessageError(f"a subscription of more than {MAX_BYTES} bytes")
    if len(subscription) >= _START.size and _START.unpack_from(subscription)[1] > MAX_TOPICS:
        raise MalformedMessageError(f"a subscription to more than {MAX_TOPICS} topics")


def subscribed_topics(subscription: Buffer) -> list[str]:
    """The topics of a subscription of any version, which is all that Kafka's coordinator reads."""
    check_size(subscription)
    # Some clients write version 1 without the field that it added.
    return decode_stored(SubscriptionPrefix, subscription).topics
