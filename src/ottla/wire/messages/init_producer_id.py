"""InitProducerId: a producer id and epoch (KIP-98), epoch bumps (KIP-360), 2PC (KIP-939)."""

from __future__ import annotations

from ottla.wire.declare import message, wire
from ottla.wire.types import Bool, Int16, Int32, Int64, String


@message(api=22, versions="0-6", flexible="2+")
class InitProducerIdRequest:
    transactional_id: String | None
    transaction_timeout_ms: Int32
    producer_id: Int64 = wire(since=3, default=-1)
    producer_epoch: Int16 = wire(since=3, default=-1)
    enable_2pc: Bool = wire(since=6, default=False)
    keep_prepared_txn: Bool = wire(since=6, default=False)


@message(api=22, versions="0-6", flexible="2+")
class InitProducerIdResponse:
    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16
    producer_id: Int64 = wire(default=-1)
    producer_epoch: Int16
    ongoing_txn_producer_id: Int64 = wire(since=6, default=-1)
    ongoing_txn_producer_epoch: Int16 = wire(since=6, default=-1)
