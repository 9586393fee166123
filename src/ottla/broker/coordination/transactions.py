"""Transactions: what their coordinators are made of, and where a handler finds one."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.coordination.coordinator import Coordinator
from ottla.broker.coordination.coordinators import Kind
from ottla.broker.coordination.event_batches import EventCodec
from ottla.broker.crashpoints import CrashPoint
from ottla.config.broker import BrokerConfig
from ottla.core.catalog import TRANSACTIONS_TOPIC, NewTopic
from ottla.core.outcomes import Refused
from ottla.core.txn import records
from ottla.core.txn.events import Event, TransactionSaved
from ottla.core.txn.machine import TransactionMachine
from ottla.core.txn.requests import TransactionConfig
from ottla.core.txn.states import TxnState
from ottla.errors import ErrorCode
from ottla.ports import StorageError
from ottla.records.compression import Codec

if TYPE_CHECKING:
    from ottla.broker.cluster import Cluster
    from ottla.broker.node import Node

# After this a producer is told that the outcome is not known, and asks again.
WRITE_TIMEOUT_MS = 30_000

_PREPARE = (CrashPoint.BEFORE_PREPARE_APPEND, CrashPoint.AFTER_PREPARE_APPEND)
_COMPLETE = (CrashPoint.BEFORE_COMPLETE_APPEND, CrashPoint.AFTER_COMPLETE_APPEND)
CRASH_POINTS = {
    TxnState.EMPTY: (CrashPoint.BEFORE_EMPTY_APPEND, CrashPoint.AFTER_EMPTY_APPEND),
    TxnState.ONGOING: (CrashPoint.BEFORE_ONGOING_APPEND, CrashPoint.AFTER_ONGOING_APPEND),
    TxnState.PREPARE_COMMIT: _PREPARE,
    TxnState.PREPARE_ABORT: _PREPARE,
    TxnState.COMPLETE_COMMIT: _COMPLETE,
    TxnState.COMPLETE_ABORT: _COMPLETE,
}


def transaction_kind(config: BrokerConfig, cluster: Cluster) -> Kind[TransactionMachine]:
    """Transactions as the options of a broker want them."""
    transactions = TransactionConfig(
        max_timeout_ms=config.transaction_max_timeout_ms,
        id_expiration_ms=config.transactional_id_expiration_ms,
        abort_check_interval_ms=(
            config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        ),
        expiry_check_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
    )
    shape = NewTopic(
        TRANSACTIONS_TOPIC,
        config.transaction_state_log_num_partitions,
        config.transaction_state_log_replication_factor,
        {},
        {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(config.transaction_state_log_min_isr),
            "segment.bytes": str(config.transaction_state_log_segment_bytes),
        },
    )
    return Kind(
        shape,
        lambda: TransactionMachine(transactions, partial(reserve_producer_id, cluster)),
        EventCodec(records.encode, records.decode, Codec.NONE, _crash_points),
        config.transaction_state_log_load_buffer_size,
        WRITE_TIMEOUT_MS,
    )


def _crash_points(event: Event) -> tuple[CrashPoint, CrashPoint]:
    return CRASH_POINTS[event.state if isinstance(event, TransactionSaved) else TxnState.EMPTY]


def reserve_producer_id(cluster: Cluster) -> int | None:
    """A producer id that nobody has had; None if none can be reserved now."""
    try:
        return cluster.next_producer_id()
    except StorageError:
        return None


def fenced_before(first_version: int, version: int, error: ErrorCode) -> ErrorCode:
    """Older clients know of a producer that is out only as one with an old epoch (KIP-588)."""
    if error is ErrorCode.PRODUCER_FENCED and version < first_version:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def find_transaction(
    node: Node, transactional_id: str
) -> Coordinator[TransactionMachine] | Refused:
    """The coordinator of a transactional id; an empty one has none."""
    if not transactional_id:
        return Refused(ErrorCode.INVALID_REQUEST)
    return node.transactions.find(transactional_id)
