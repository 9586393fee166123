"""Transaction events as the records of `__transaction_state`, in Kafka's formats."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache

from ottla.core.txn.events import NO_PRODUCER_ID, Event, TransactionDeleted, TransactionSaved
from ottla.core.txn.states import TxnState
from ottla.model import TopicPartition
from ottla.wire.compile import decode_stored, stored_version
from ottla.wire.primitives import length_prefix
from ottla.wire.stored.transaction_log import TransactionLogKey, TransactionLogValue
from ottla.wire.types import MalformedMessageError

Buffer = bytes | bytearray | memoryview

KEY_VERSION = 0
VALUE_VERSION = 1
CACHED_PARTITIONS = 1024
MOST_CACHED_PARTITIONS = 32
NO_PARTITIONS = b"\0"

_KEY_START = struct.Struct(">hh")
# Version, producer id, producer epoch, timeout, state.
_START = struct.Struct(">hqhib")
# Last update and start.
_TIMES = struct.Struct(">qq")
# Tag, size, value.
_TAGGED_ID = struct.Struct(">BBq")
_TAGGED_VERSION = struct.Struct(">BBh")
_INT64_BYTES = 8
_INT16_BYTES = 2


def encode(event: Event) -> tuple[bytes, bytes | None]:
    """The key and the value of an event's record; a deletion has no value."""
    key = _key(event.transactional_id)
    if isinstance(event, TransactionDeleted):
        return key, None
    return key, _value(event)


def _key(transactional_id: str) -> bytes:
    name = transactional_id.encode()
    return _KEY_START.pack(KEY_VERSION, len(name)) + name


def decode(key: Buffer | None, value: Buffer | None) -> Event | None:
    """The event of a record; None if its kind is unknown. Raises MalformedMessageError."""
    if key is None or stored_version(key) != KEY_VERSION:
        return None
    transactional_id = decode_stored(TransactionLogKey, key).transactional_id
    if value is None:
        return TransactionDeleted(transactional_id)
    return _event(transactional_id, decode_stored(TransactionLogValue, value))


def _value(event: TransactionSaved) -> bytes:
    # By hand, since three are written for every transaction; the tests compare it with the declaration.
    # As in Kafka: null for an empty id, which is not the same as an empty list.
    partitions = NO_PARTITIONS if event.state is TxnState.EMPTY else _partitions(event.partitions)
    start = _START.pack(
        VALUE_VERSION, event.producer_id, event.producer_epoch, event.timeout_ms, event.state
    )
    times = _TIMES.pack(event.updated_at_ms, event.started_at_ms)
    return b"".join((start, partitions, times, _tagged(event)))


def _partitions(partitions: tuple[TopicPartition, ...]) -> bytes:
    if len(partitions) <= MOST_CACHED_PARTITIONS:
        return _cached_partitions(partitions)
    return _encode_partitions(partitions)


def _encode_partitions(partitions: Sequence[TopicPartition]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    out = bytearray(length_prefix(len(by_topic)))
    for topic, numbers in by_topic.items():
        name = topic.encode()
        out += length_prefix(len(name)) + name + length_prefix(len(numbers))
        out += struct.pack(f">{len(numbers)}i", *numbers)
        out.append(0)
    return bytes(out)


# The same partitions are written again and again; of few names, so that the cache stays small.
_cached_partitions = lru_cache(CACHED_PARTITIONS)(_encode_partitions)


def _tagged(event: TransactionSaved) -> bytes:
    """The tagged fields that do not have their defaults."""
    tags = []
    if event.previous_producer_id != NO_PRODUCER_ID:
        tags.append(_TAGGED_ID.pack(0, _INT64_BYTES, event.previous_producer_id))
    if event.next_producer_id != NO_PRODUCER_ID:
        tags.append(_TAGGED_ID.pack(1, _INT64_BYTES, event.next_producer_id))
    if event.client_version:
        tags.append(_TAGGED_VERSION.pack(2, _INT16_BYTES, event.client_version))
    return bytes((len(tags),)) + b"".join(tags)


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
