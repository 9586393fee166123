"""Transaction coordinators: their state machine, their topic, and how a handler asks one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ottla.broker.cluster import Cluster
from ottla.broker.coordination.coordinator import PARKED, Coordinator, Parked, When
from ottla.broker.coordination.coordinators import Coordinators, Kind
from ottla.broker.coordination.machine_log import EventCodec
from ottla.broker.crashpoints import CrashPoint
from ottla.broker.requests.gather_responses import NowOrLater
from ottla.config.broker import BrokerConfig
from ottla.core.catalog import TRANSACTIONS_TOPIC, NewTopic
from ottla.core.outcomes import Refused
from ottla.core.turn import Ticket, Turn
from ottla.core.txn import records
from ottla.core.txn.events import Event, TransactionSaved
from ottla.core.txn.machine import TransactionMachine
from ottla.core.txn.requests import TransactionConfig
from ottla.core.txn.states import TxnState
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.records.compression import Codec

T = TypeVar("T")
R = TypeVar("R")

# After this time the producer gets an error, because the outcome is unknown, and asks again.
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
    """The transaction coordinators of a broker with these options."""
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
        lambda: TransactionMachine(transactions, cluster.producer_ids.take),
        EventCodec(records.encode, records.decode, Codec.NONE, _crash_points),
        config.transaction_state_log_load_buffer_size,
        WRITE_TIMEOUT_MS,
    )


def _crash_points(event: Event) -> tuple[CrashPoint, CrashPoint]:
    return CRASH_POINTS[event.state if isinstance(event, TransactionSaved) else TxnState.EMPTY]


def fenced_before(first_version: int, version: int, error: ErrorCode) -> ErrorCode:
    """The error for a fenced producer: older clients know only INVALID_PRODUCER_EPOCH (KIP-588)."""
    if error is ErrorCode.PRODUCER_FENCED and version < first_version:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def find_transaction(
    transactions: Coordinators[TransactionMachine], transactional_id: str
) -> Coordinator[TransactionMachine] | Refused:
    """The coordinator of a transactional id; an empty one has none."""
    return (
        transactions.find(transactional_id)
        if transactional_id
        else Refused(ErrorCode.INVALID_REQUEST)
    )


def ask_transaction(
    transactions: Coordinators[TransactionMachine],
    transactional_id: str,
    decide: Callable[[TransactionMachine, Turn, Ticket], T | Refused | Parked],
    respond: Callable[[T | Refused], R],
    when: When = When.SOON,
) -> NowOrLater[R]:
    """Lets the coordinator of a transactional id decide, if it is on this node (`Coordinator.ask`)."""
    coordinator = find_transaction(transactions, transactional_id)
    if isinstance(coordinator, Refused):
        return respond(coordinator)
    return coordinator.ask(decide, respond, when)


def decide_after_end(
    transactional_id: str, decide: Callable[[TransactionMachine, Turn], T]
) -> Callable[[TransactionMachine, Turn, Ticket], T | Parked]:
    """The decision about a request that begins something new, and waits a moment for what ends (ADR 0073)."""

    def decide_or_wait(machine: TransactionMachine, turn: Turn, ticket: Ticket) -> T | Parked:
        waits = machine.waits_for_end(
            turn, ticket, transactional_id, lambda later: decide(machine, later)
        )
        return PARKED if waits else decide(machine, turn)

    return decide_or_wait


# Adding partitions to a transaction: all of them, or none.


def refuse_partitions(
    cluster: Cluster,
    partitions: Sequence[TopicPartition],
    is_forbidden: Callable[[str], bool] = lambda topic: False,
) -> list[Refused] | None:
    """The errors of partitions if some do not exist, or are of topics that the client may not write to."""
    forbidden = {topic for topic in {topic: None for topic, _ in partitions} if is_forbidden(topic)}
    if not forbidden and None not in [cluster.topic_of(*partition) for partition in partitions]:
        return None
    return [Refused(_error(cluster, partition, forbidden)) for partition in partitions]


def _error(cluster: Cluster, partition: TopicPartition, forbidden: set[str]) -> ErrorCode:
    if partition.topic in forbidden:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if cluster.topic_of(*partition) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.OPERATION_NOT_ATTEMPTED
