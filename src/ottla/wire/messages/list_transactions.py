"""ListTransactions: the transactional ids of a coordinator (KIP-664, KIP-994, KIP-1152)."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import Int16, Int32, Int64, String


@message(api=66, versions="0-2", flexible="0+")
class ListTransactionsRequest:
    state_filters: list[String]
    producer_id_filters: list[Int64]
    duration_filter: Int64 = wire(since=1, default=-1)
    transactional_id_pattern: String | None = wire(since=2, default=None)


@struct
class TransactionState:
    transactional_id: String
    producer_id: Int64
    transaction_state: String


@message(api=66, versions="0-2", flexible="0+")
class ListTransactionsResponse:
    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16
    unknown_state_filters: list[String]
    transaction_states: list[TransactionState]
