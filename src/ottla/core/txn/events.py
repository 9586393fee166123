"""The events of transactional ids: the records of `__transaction_state` as values."""

from __future__ import annotations

from typing import NamedTuple

from ottla.core.txn.states import TxnState
from ottla.model import TopicPartition

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_EPOCH = -1
# The highest epoch that a producer gets; the one above only fences it.
LAST_EPOCH = 32766

# Transaction versions: 2 is KIP-890, with a new epoch for every transaction.
VERSION_1 = 1
VERSION_2 = 2


class TransactionSaved(NamedTuple):
    """Everything about a transactional id.

    `previous_producer_id` has used up its epochs; `next_producer_id` follows when the transaction of the last epoch
    is complete.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TxnState
    partitions: tuple[TopicPartition, ...]
    updated_at_ms: int
    started_at_ms: int
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    client_version: int = 0


class TransactionDeleted(NamedTuple):
    """A transactional id that has expired."""

    transactional_id: str


Event = TransactionSaved | TransactionDeleted
