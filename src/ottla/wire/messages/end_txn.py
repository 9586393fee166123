"""EndTxn: commits or aborts a transaction (KIP-98); v5 answers with the next epoch (KIP-890)."""

from __future__ import annotations

from ottla.wire.declare import message, wire
from ottla.wire.types import Bool, Int16, Int32, Int64, String


@message(api=26, versions="0-5", flexible="3+")
class EndTxnRequest:
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    committed: Bool


@message(api=26, versions="0-5", flexible="3+")
class EndTxnResponse:
    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16
    producer_id: Int64 = wire(since=5, default=-1)
    producer_epoch: Int16 = wire(since=5, default=-1)
