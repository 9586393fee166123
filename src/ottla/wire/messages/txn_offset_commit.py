"""TxnOffsetCommit: a group's positions that count once the transaction commits (KIP-98).

Since v3 it says which member commits (KIP-447); v5 is transaction version 2 (KIP-890);
in v6 topics go by id (KIP-1319).
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import ZERO_UUID, Int16, Int32, Int64, String, Uuid


@struct
class TxnOffsetCommitRequestPartition:
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = wire(since=2, default=-1)
    committed_metadata: String | None


@struct
class TxnOffsetCommitRequestTopic:
    name: String = wire(until=5, default="")
    topic_id: Uuid = wire(since=6, default=ZERO_UUID)
    partitions: Sequence[TxnOffsetCommitRequestPartition]


@message(api=28, versions="0-6", flexible="3+")
class TxnOffsetCommitRequest:
    transactional_id: String
    group_id: String
    producer_id: Int64
    producer_epoch: Int16
    generation_id: Int32 = wire(since=3, default=-1)
    member_id: String = wire(since=3, default="")
    group_instance_id: String | None = wire(since=3, default=None)
    topics: list[TxnOffsetCommitRequestTopic]


@struct
class TxnOffsetCommitResponsePartition:
    partition_index: Int32
    error_code: Int16


@struct
class TxnOffsetCommitResponseTopic:
    name: String = wire(until=5, default="")
    topic_id: Uuid = wire(since=6, default=ZERO_UUID)
    partitions: Sequence[TxnOffsetCommitResponsePartition]


@message(api=28, versions="0-6", flexible="3+")
class TxnOffsetCommitResponse:
    throttle_time_ms: Int32 = wire(default=0)
    topics: list[TxnOffsetCommitResponseTopic]
