"""AddOffsetsToTxn: makes a group's offsets part of a transaction (KIP-98); v4 is KIP-890's."""

from __future__ import annotations

from ottla.wire.declare import message, wire
from ottla.wire.types import Int16, Int32, Int64, String


@message(api=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest:
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    group_id: String


@message(api=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse:
    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16
