"""The rules of a Produce request as a whole.

The rules of a single batch are in `append`, those of its producer in `producer_state`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, final
from uuid import UUID

from ottla.core.catalog import INTERNAL_TOPICS
from ottla.core.outcomes import Refused
from ottla.core.partition import Partition
from ottla.core.producer_state import Verification
from ottla.core.turn import ProducerIdentity
from ottla.core.txn.events import VERSION_1, VERSION_2
from ottla.errors import ErrorCode
from ottla.records.batch import BatchHeader, begins_transactional
from ottla.records.record import Buffer

ACKS_ALL = -1
ACKS_NONE = 0
ACKS_LEADER = 1

FIRST_VERSION_WITH_ABORTABLE = 11
FIRST_VERSION_OF_TRANSACTION_V2 = 12
FIRST_VERSION_WITH_TOPIC_IDS = 13


def check_topic(topic: str | None, acks: int) -> Refused | None:
    """Whether a client may write to a topic; its name is None if the request has an unknown topic id."""
    if topic is None:
        return Refused(ErrorCode.UNKNOWN_TOPIC_ID)
    if not ACKS_ALL <= acks <= ACKS_LEADER:
        return Refused(ErrorCode.INVALID_REQUIRED_ACKS)
    if topic in INTERNAL_TOPICS:
        return Refused(ErrorCode.INVALID_TOPIC_EXCEPTION)
    return None


def needed_replicas(acks: int, min_insync_replicas: int) -> int:
    """The number of replicas that have to be in sync before a batch is appended."""
    return min_insync_replicas if acks == ACKS_ALL else 1


def check_in_sync(needed: int, in_sync_count: int) -> Refused | None:
    return Refused(ErrorCode.NOT_ENOUGH_REPLICAS) if in_sync_count < needed else None


def check_transactional_id(header: BatchHeader, transactional_id: str | None) -> Refused | None:
    """Transactional batches are only for requests that name their transactional id."""
    if transactional_id is None and header.is_transactional:
        return Refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return None


def has_transactional_batch(records: Buffer | None) -> bool:
    """Whether the records of a partition begin with a transactional batch, as far as one can be read."""
    return records is not None and begins_transactional(records)


def check_same_topic(wanted: UUID, found: UUID, version: int) -> Refused | None:
    """Whether the topic is still the one for which a batch was prepared.

    While the request waited, the topic may have been deleted and created again. The new topic of the same name may have
    other options, and the client did not mean it.
    """
    if wanted == found:
        return None
    uses_ids = version >= FIRST_VERSION_WITH_TOPIC_IDS
    return Refused(ErrorCode.UNKNOWN_TOPIC_ID if uses_ids else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


# The first batch of a transaction on a partition needs the confirmation of the transaction's coordinator (KIP-890).


def transaction_version(version: int) -> int:
    """The transaction version that a version of Produce stands for."""
    return VERSION_2 if version >= FIRST_VERSION_OF_TRANSACTION_V2 else VERSION_1


def missing_verification(
    partition: Partition, header: BatchHeader, version: int
) -> Verification | None:
    """The confirmation without which a batch was refused; None if it was refused for another reason."""
    if not header.is_transactional:
        return None
    verification = partition.verification_for(header, transaction_version(version))
    return verification if isinstance(verification, Verification) else None


class AskCoordinator(NamedTuple):
    """The coordinator has to confirm the transaction of this producer."""

    producer: ProducerIdentity


@final
class Confirmed:
    """The coordinator need not confirm."""

    __slots__ = ()


def decide_verification(
    producers: Collection[ProducerIdentity], version: int, is_enabled: bool
) -> AskCoordinator | Confirmed | Refused:
    """Decides about the unverified batches of a request; those of transaction version 2 always need a confirmation.

    `is_enabled` is the option transaction.partition.verification.enable.
    """
    if transaction_version(version) < VERSION_2 and not is_enabled:
        return Confirmed()
    first, *others = dict.fromkeys(producers)
    if others:
        return Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    return AskCoordinator(first)


# Errors of the coordinator that a producer would not understand; those that pass become one that it retries.
_PRODUCE_ERRORS = {
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.CONCURRENT_TRANSACTIONS: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_COORDINATOR: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.UNKNOWN_SERVER_ERROR: ErrorCode.NOT_ENOUGH_REPLICAS,
}


def refusal_for_producer(refused: Refused, version: int) -> Refused:
    """A refusal of the coordinator as a Produce response has it."""
    error = refused.error
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < FIRST_VERSION_WITH_ABORTABLE:
        return Refused(ErrorCode.INVALID_TXN_STATE)
    return Refused(_PRODUCE_ERRORS.get(error, error))
