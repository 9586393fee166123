"""DescribeTransactions: what a coordinator knows of transactional ids (KIP-664)."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import Int16, Int32, Int64, String


@message(api=65, versions="0", flexible="0+")
class DescribeTransactionsRequest:
    transactional_ids: list[String]


@struct
class TopicData:
    topic: String
    partitions: list[Int32]


@struct
class TransactionState:
    error_code: Int16
    transactional_id: String
    transaction_state: String
    transaction_timeout_ms: Int32
    transaction_start_time_ms: Int64
    producer_id: Int64
    producer_epoch: Int16
    topics: list[TopicData]


@message(api=65, versions="0", flexible="0+")
class DescribeTransactionsResponse:
    throttle_time_ms: Int32 = wire(default=0)
    transaction_states: list[TransactionState]
