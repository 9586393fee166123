"""Requests to the transaction coordinator and what it decides; handlers translate them from and to messages."""

from __future__ import annotations

from typing import NamedTuple

from ottla.core.turn import ProducerIdentity
from ottla.core.txn.events import NO_TIMESTAMP
from ottla.core.txn.states import Result, TxnState
from ottla.model import TopicPartition


class TransactionConfig(NamedTuple):
    """The broker's options for transactions."""

    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 604_800_000
    abort_check_interval_ms: int = 10_000
    expiry_check_interval_ms: int = 3_600_000


class InitRequest(NamedTuple):
    """`expected` is the identity of a producer that goes on after an error (KIP-360)."""

    transactional_id: str
    timeout_ms: int
    expected: ProducerIdentity | None


class EndRequest(NamedTuple):
    """`version` is the transaction version that the request's own version stands for."""

    transactional_id: str
    producer: ProducerIdentity
    result: Result
    version: int


class SendMarkers(NamedTuple):
    """An effect: the markers of a transaction are sent when its end is durable."""

    transactional_id: str
    producer: ProducerIdentity
    result: Result
    partitions: tuple[TopicPartition, ...]
    version: int


class DescribedTransaction(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: TxnState
    timeout_ms: int
    started_at_ms: int
    partitions: tuple[TopicPartition, ...]


class TransactionFilter(NamedTuple):
    """Which transactions ListTransactions asks for; empty sets mean all, as does a negative duration."""

    states: frozenset[str]
    producer_ids: frozenset[int]
    min_duration_ms: int
    now_ms: int

    def includes(self, found: DescribedTransaction) -> bool:
        if self.states and found.state.title not in self.states:
            return False
        if self.producer_ids and found.producer_id not in self.producer_ids:
            return False
        return self.min_duration_ms < 0 or (
            found.started_at_ms != NO_TIMESTAMP
            and self.now_ms - found.started_at_ms > self.min_duration_ms
        )
