"""The rules of an EndTxn request."""

from __future__ import annotations

from typing import Final, final

from ottla.core.outcomes import Refused
from ottla.core.turn import ProducerIdentity
from ottla.core.txn.events import LAST_EPOCH, VERSION_2, TransactionSaved
from ottla.core.txn.requests import EndRequest
from ottla.core.txn.states import AT_REST, IN_BETWEEN, RESULT_OF, Result, TxnState
from ottla.errors import ErrorCode


@final
class EndNow:
    """The transaction ends now."""

    __slots__ = ()


@final
class EndedBefore:
    """The request repeats one that has ended the transaction."""

    __slots__ = ()


END_NOW: Final = EndNow()
ENDED_BEFORE: Final = EndedBefore()


def decide_end(saved: TransactionSaved, request: EndRequest) -> EndNow | EndedBefore | Refused:
    """Decides about an EndTxn; as in Kafka, by the rules of the request's transaction version."""
    if request.version >= VERSION_2:
        return _decide_end_of_version_2(saved, request)
    return _decide_end_of_version_1(saved, request)


def is_epoch_of(saved: TransactionSaved, producer: ProducerIdentity) -> bool:
    """Whether the producer has the current epoch; no producer has the one above the last, which only fences."""
    return producer.producer_epoch == saved.producer_epoch <= LAST_EPOCH


def _decide_end_of_version_2(
    saved: TransactionSaved, request: EndRequest
) -> EndNow | EndedBefore | Refused:
    """The epoch tells the end of this transaction from a retry of the last one's end (KIP-890).

    A delayed EndTxn must not end a transaction that began after it.
    """
    if saved.state in IN_BETWEEN:
        # Checked first: the producer may already have the identity that follows this transaction (KAFKA-18464).
        return Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    if saved.state in RESULT_OF and _is_retry(saved, request.producer):
        return _decide_retry(saved, request)
    if _is_of_used_up_id(saved, request.producer) and saved.state is TxnState.EMPTY:
        return Refused(ErrorCode.PRODUCER_FENCED)
    if request.producer.producer_id != saved.producer_id:
        return Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if not is_epoch_of(saved, request.producer):
        return Refused(ErrorCode.PRODUCER_FENCED)
    return _decide_begun(saved, request)


def _is_retry(saved: TransactionSaved, producer: ProducerIdentity) -> bool:
    """Whether this was the producer's identity before its last transaction ended.

    Only an end of version 2 changes the identity. After one of version 1 the epoch before belongs to a fenced producer:
    Kafka tells it the current epoch, Ottla does not (ADR 0014).
    """
    if saved.client_version < VERSION_2:
        return False
    if producer == (saved.producer_id, saved.producer_epoch - 1):
        return True
    return _is_of_used_up_id(saved, producer)


def _is_of_used_up_id(saved: TransactionSaved, producer: ProducerIdentity) -> bool:
    used_up = (saved.previous_producer_id, LAST_EPOCH)
    return saved.state in AT_REST and saved.producer_epoch == 0 and producer == used_up


def _decide_retry(saved: TransactionSaved, request: EndRequest) -> EndedBefore | Refused:
    if RESULT_OF[saved.state] is request.result:
        return ENDED_BEFORE
    if request.result is Result.COMMIT:
        # The transaction timed out. Clients recover from this error, but not from INVALID_TXN_STATE (KAFKA-20785).
        return Refused(ErrorCode.PRODUCER_FENCED)
    return Refused(ErrorCode.INVALID_TXN_STATE)


def _decide_begun(saved: TransactionSaved, request: EndRequest) -> EndNow | Refused:
    """A client may abort a transaction that has not begun: it cannot know whether its first append failed."""
    if saved.state is TxnState.ONGOING:
        return END_NOW
    aborts = request.result is Result.ABORT and request.version >= VERSION_2
    return END_NOW if aborts else Refused(ErrorCode.INVALID_TXN_STATE)


def _decide_end_of_version_1(
    saved: TransactionSaved, request: EndRequest
) -> EndNow | EndedBefore | Refused:
    if request.producer.producer_id != saved.producer_id:
        return Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if not is_epoch_of(saved, request.producer):
        return Refused(ErrorCode.PRODUCER_FENCED)
    if saved.state in IN_BETWEEN:
        return Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    if RESULT_OF.get(saved.state) is request.result:
        return ENDED_BEFORE
    return _decide_begun(saved, request)
