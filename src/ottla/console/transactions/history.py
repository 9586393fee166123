"""The history of one transactional id, from the end of its partition of `__transaction_state`."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from ottla.console.clients import Clients
from ottla.console.cluster.log_tail import AnyRecord, LogTail, read_tails
from ottla.console.cluster.snapshot import ClusterSnapshot
from ottla.console.http.errors import ApiError
from ottla.console.transactions.state_changes import change_of
from ottla.core.catalog import TRANSACTIONS_TOPIC
from ottla.core.txn.events import TransactionSaved
from ottla.model import TopicPartition, coordinator_partition
from ottla.wire.compile import encode_stored
from ottla.wire.stored.transaction_log import TransactionLogKey

MAX_OFFSETS: Final = 20_000
MAX_CHANGES: Final = 500
LIMIT_SECONDS: Final = 5.0
API_MS: Final = 10_000
_KEY_VERSION: Final = 0


@dataclass(frozen=True)
class TransactionChange:
    """A record of `__transaction_state`; a deletion has no more than its place."""

    offset: int
    at_ms: int
    state: str
    """Kafka's word; `Deleted` if the id has expired."""
    producer_id: int | None = None
    producer_epoch: int | None = None
    started_at_ms: int | None = None
    timeout_ms: int | None = None
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True)
class TransactionHistory:
    """The newest changes first."""

    transactional_id: str
    partition: int
    changes: list[TransactionChange]
    is_whole: bool
    """Whether the log was read from its start; compaction may have removed older changes all the same."""
    is_to_end: bool


async def read_history(
    clients: Clients, snapshot: ClusterSnapshot, transactional_id: str
) -> TransactionHistory:
    """Read the last MAX_OFFSETS records of the id's partition."""
    topic = snapshot.topics.get(TRANSACTIONS_TOPIC)
    if topic is None:
        raise ApiError(
            HTTPStatus.NOT_FOUND,
            f"this cluster does not show {TRANSACTIONS_TOPIC}",
            "it has had no transactions, or the right to describe the topic is missing",
        )
    number = coordinator_partition(transactional_id, len(topic.partitions))
    partition = TopicPartition(TRANSACTIONS_TOPIC, number)
    wanted = encode_stored(TransactionLogKey(transactional_id=transactional_id), _KEY_VERSION)
    async with clients.consumer(max_poll_records=5_000, default_api_timeout_ms=API_MS) as consumer:
        tails = await read_tails(
            consumer,
            [partition],
            max_offsets=MAX_OFFSETS,
            limit_seconds=LIMIT_SECONDS,
            wanted=lambda record: record.key == wanted,
        )
    return _history(transactional_id, number, tails[partition])


def _history(transactional_id: str, partition: int, tail: LogTail) -> TransactionHistory:
    newest = tail.records[-MAX_CHANGES:]
    return TransactionHistory(
        transactional_id=transactional_id,
        partition=partition,
        changes=[_change(each) for each in reversed(newest)],
        is_whole=tail.is_from_start and len(newest) == len(tail.records),
        is_to_end=tail.is_to_end,
    )


def _change(record: AnyRecord) -> TransactionChange:
    change = change_of(record)
    if isinstance(change, TransactionSaved):
        return TransactionChange(
            offset=record.offset,
            at_ms=change.updated_at_ms,
            state=change.state.title,
            producer_id=change.producer_id,
            producer_epoch=change.producer_epoch,
            started_at_ms=None if change.started_at_ms < 0 else change.started_at_ms,
            timeout_ms=change.timeout_ms,
            partitions=tuple(str(each) for each in change.partitions),
        )
    state = "Unknown" if record.value is not None else "Deleted"
    return TransactionChange(record.offset, record.timestamp, state)
