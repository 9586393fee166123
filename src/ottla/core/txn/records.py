"""Transaction events as the records of `__transaction_state`, in Kafka's formats."""

from __future__ import annotations

from ottla.core.txn.events import Event, TransactionDeleted, TransactionSaved
from ottla.core.txn.states import TxnState
from ottla.model import TopicPartition
from ottla.wire.compile import decode_stored, encode_stored, stored_version
from ottla.wire.stored.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from ottla.wire.types import MalformedMessageError

Buffer = bytes | bytearray | memoryview

KEY_VERSION = 0
VALUE_VERSION = 1


def encode(event: Event) -> tuple[bytes, bytes | None]:
    """The key and the value of an event's record; a deletion has no value."""
    key = encode_stored(TransactionLogKey(transactional_id=event.transactional_id), KEY_VERSION)
    if isinstance(event, TransactionDeleted):
        return key, None
    return key, encode_stored(_value(event), VALUE_VERSION)


def decode(key: Buffer | None, value: Buffer | None) -> Event | None:
    """The event of a record; None if its kind is unknown. Raises MalformedMessageError."""
    if key is None or stored_version(key) != KEY_VERSION:
        return None
    transactional_id = decode_stored(TransactionLogKey, key).transactional_id
    if value is None:
        return TransactionDeleted(transactional_id)
    return _event(transactional_id, decode_stored(TransactionLogValue, value))


def _value(event: TransactionSaved) -> TransactionLogValue:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in event.partitions:
        by_topic.setdefault(topic, []).append(partition)
    partitions = [
        PartitionsSchema(topic=topic, partition_ids=numbers) for topic, numbers in by_topic.items()
    ]
    # As in Kafka: null for an empty id, which is not the same as an empty list.
    is_empty = event.state is TxnState.EMPTY
    return TransactionLogValue(
        producer_id=event.producer_id,
        producer_epoch=event.producer_epoch,
        transaction_timeout_ms=event.timeout_ms,
        transaction_status=event.state,
        transaction_partitions=None if is_empty else partitions,
        transaction_last_update_timestamp_ms=event.updated_at_ms,
        transaction_start_timestamp_ms=event.started_at_ms,
        previous_producer_id=event.previous_producer_id,
        next_producer_id=event.next_producer_id,
        client_transaction_version=event.client_version,
    )


def _event(transactional_id: str, value: TransactionLogValue) -> TransactionSaved:
    try:
        state = TxnState(value.transaction_status)
    except ValueError as error:
        raise MalformedMessageError(
            f"a transaction cannot have the state {value.transaction_status}"
        ) from error
    partitions = tuple(
        TopicPartition(found.topic, partition)
        for found in value.transaction_partitions or ()
        for partition in found.partition_ids
    )
    return TransactionSaved(
        transactional_id,
        value.producer_id,
        value.producer_epoch,
        value.transaction_timeout_ms,
        state,
        partitions,
        value.transaction_last_update_timestamp_ms,
        value.transaction_start_timestamp_ms,
        value.previous_producer_id,
        value.next_producer_id,
        value.client_transaction_version,
    )
