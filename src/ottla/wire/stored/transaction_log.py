"""A transactional id in __transaction_state; a null value deletes it."""

from __future__ import annotations

from ottla.wire.declare import stored, struct, wire
from ottla.wire.types import Int8, Int16, Int32, Int64, String


@stored(versions="0", flexible="none")
class TransactionLogKey:
    transactional_id: String


@struct
class PartitionsSchema:
    topic: String
    partition_ids: list[Int32]


# Kafka writes version 0, which has no room for tags, where the feature transaction.version is 0.
@stored(versions="0-1", flexible="1+")
class TransactionLogValue:
    producer_id: Int64
    # The id of the transaction before, whose end may be asked for again (KIP-890).
    previous_producer_id: Int64 = wire(since=1, tag=0, default=-1)
    # The producer id that replaces this one, once the epochs of this one are used up.
    next_producer_id: Int64 = wire(since=1, tag=1, default=-1)
    producer_epoch: Int16
    transaction_timeout_ms: Int32
    transaction_status: Int8
    # Null while the id is Empty.
    transaction_partitions: list[PartitionsSchema] | None
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64
    client_transaction_version: Int16 = wire(since=1, tag=2, default=0)
    # Kafka 4.1 and later, for two-phase commit (KIP-939).
    next_producer_epoch: Int16 = wire(since=1, tag=3, default=-1)
