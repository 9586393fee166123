"""A committed offset in __consumer_offsets; a null value deletes it."""

from __future__ import annotations

from ottla.wire.declare import stored, wire
from ottla.wire.types import ZERO_UUID, Int32, Int64, String, Uuid


@stored(versions="0-1", flexible="none")
class OffsetCommitKey:
    group: String
    topic: String
    partition: Int32


@stored(versions="0-4", flexible="4+")
class OffsetCommitValue:
    offset: Int64
    leader_epoch: Int32 = wire(since=3, default=-1)
    metadata: String
    commit_timestamp: Int64
    # Written by brokers before Kafka 2.1, for commits that brought their own retention time.
    expire_timestamp: Int64 = wire(since=1, until=1, default=-1)
    # Kafka 4.1 and later; all zero where the commit went by the topic's name.
    topic_id: Uuid = wire(since=4, tag=0, default=ZERO_UUID)
