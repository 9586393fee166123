"""Open transactions, those that no coordinator will end (KIP-664), and descriptions of ids that may be gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.client.admin_model.transactions import (
    AbortTransactionSpec,
    ProducerState,
    TransactionDescription,
    TransactionState,
)
from ottla.errors import ErrorCode, KafkaError, PartialFailureError
from ottla.model import TopicPartition

if TYPE_CHECKING:
    from ottla.client.blocking.admin import Admin

OPEN_STATES: Final = (
    TransactionState.ONGOING,
    TransactionState.PREPARE_COMMIT,
    TransactionState.PREPARE_ABORT,
    TransactionState.PREPARE_EPOCH_FENCE,
)


class PartitionTransaction(NamedTuple):
    """A transaction that is open on a partition."""

    partition: TopicPartition
    producer: ProducerState

    @property
    def start_offset(self) -> int:
        """Its first offset on the partition."""
        start_offset = self.producer.current_transaction_start_offset
        assert start_offset is not None, "the producer has no open transaction"
        return start_offset

    @property
    def abort_spec(self) -> AbortTransactionSpec:
        """What aborts it on this partition alone."""
        # The first transaction of a producer has no coordinator epoch; 0 is below that of any leader.
        return AbortTransactionSpec(
            self.partition,
            self.producer.producer_id,
            self.producer.producer_epoch,
            self.producer.coordinator_epoch or 0,
        )


def open_on_partitions(
    producers: Mapping[TopicPartition, Iterable[ProducerState]],
) -> Iterator[PartitionTransaction]:
    """The open transactions among the producers of partitions."""
    for partition, states in producers.items():
        for producer in states:
            if producer.current_transaction_start_offset is not None:
                yield PartitionTransaction(partition, producer)


def unknown_to_coordinators(
    transactions: Iterable[PartitionTransaction],
    names: Mapping[int, str],
    descriptions: Mapping[str, TransactionDescription],
) -> list[PartitionTransaction]:
    """Those of the transactions whose coordinator does not have their partition: nothing will end them.

    `names` has the transactional ids by producer id, and `descriptions` what their coordinators say.
    """
    hanging = []
    for each in transactions:
        description = descriptions.get(names.get(each.producer.producer_id, ""))
        if description is None or each.partition not in description.partitions:
            hanging.append(each)
    return hanging


def owner_on_partition(
    partition: TopicPartition, descriptions: Mapping[str, TransactionDescription]
) -> tuple[str, TransactionDescription] | None:
    """The transactional id whose coordinator can still end the transaction on a partition."""
    for name, description in descriptions.items():
        if partition in description.partitions:
            return name, description
    return None


def describe_existing_transactions(
    admin: Admin, names: Iterable[str]
) -> Mapping[str, TransactionDescription]:
    """The descriptions of transactional ids, without those that no longer exist."""
    names = list(names)
    if not names:
        return {}
    try:
        return admin.describe_transactions(names)
    except KafkaError as error:
        return without_vanished(error)


def without_vanished(error: KafkaError) -> Mapping[str, TransactionDescription]:
    """What `describe_transactions` found, if its only error is that other ids no longer exist; raises any other."""
    found: Mapping[Any, Any] = {}
    errors: Iterable[KafkaError] = [error]
    if isinstance(error, PartialFailureError):
        found, errors = error.results, error.errors.values()
    for failure in errors:
        if failure.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise failure
    return found
