"""AddPartitionsToTxn: names partitions as part of a transaction, or asks if they are (KIP-890).

Clients speak versions 0 to 3, one transaction each; brokers speak 4 and later among themselves.
"""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import Bool, Int16, Int32, Int64, String


@struct
class AddPartitionsToTxnTopic:
    name: String
    partitions: list[Int32]


@struct
class AddPartitionsToTxnTransaction:
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    verify_only: Bool = wire(default=False)
    topics: list[AddPartitionsToTxnTopic]


@message(api=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest:
    transactions: list[AddPartitionsToTxnTransaction] = wire(since=4, default_factory=list)
    v3_and_below_transactional_id: String = wire(until=3, default="")
    v3_and_below_producer_id: Int64 = wire(until=3, default=0)
    v3_and_below_producer_epoch: Int16 = wire(until=3, default=0)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = wire(until=3, default_factory=list)


@struct
class AddPartitionsToTxnPartitionResult:
    partition_index: Int32
    partition_error_code: Int16


@struct
class AddPartitionsToTxnTopicResult:
    name: String
    results_by_partition: list[AddPartitionsToTxnPartitionResult]


@struct
class AddPartitionsToTxnResult:
    transactional_id: String
    topic_results: list[AddPartitionsToTxnTopicResult]


@message(api=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse:
    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16 = wire(since=4, default=0)
    results_by_transaction: list[AddPartitionsToTxnResult] = wire(since=4, default_factory=list)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = wire(
        until=3, default_factory=list
    )
