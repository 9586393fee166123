"""Transactions and producers, as `Admin` takes and returns them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ottla.client.admin_model.broker_words import BrokerWord
from ottla.model import TopicPartition


class TransactionState(BrokerWord):
    """The state of a transactional id."""

    UNKNOWN = "Unknown"
    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


@dataclass(frozen=True)
class TransactionListing:
    """A listed transactional id."""

    transactional_id: str
    producer_id: int
    state: TransactionState
    coordinator_id: int | None = None


@dataclass(frozen=True)
class TransactionDescription:
    """The state of a transactional id at its coordinator."""

    coordinator_id: int
    state: TransactionState
    producer_id: int
    producer_epoch: int
    transaction_timeout_ms: int
    transaction_start_time_ms: int | None
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True)
class AbortTransactionSpec:
    """A transaction to abort on a partition, as `describe_producers` returns it."""

    topic_partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


class ProducerIdAndEpoch(NamedTuple):
    """A producer's identity; older epochs are fenced."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True)
class ProducerState:
    """A producer of a partition; fields are None if it has no open transaction, or never had one."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int | None
    current_transaction_start_offset: int | None

    @property
    def last_timestamp(self) -> int:
        """The same as `last_timestamp_ms`, which programs should use: its name has the unit."""
        return self.last_timestamp_ms
