"""What an EndTxn is answered at once, or that the transaction is to be ended now."""

from __future__ import annotations

from ottla.core.turn import ProducerIdentity
from ottla.core.txn.events import LAST_EPOCH, VERSION_2, TransactionSaved
from ottla.core.txn.requests import EndRequest
from ottla.core.txn.states import AT_REST, IN_BETWEEN, RESULT_OF, Result, TxnState
from ottla.errors import ErrorCode


def check_end(saved: TransactionSaved, request: EndRequest) -> ErrorCode | None:
    """None to end the transaction; NONE is a repetition of what was answered already.

    As in Kafka, the rules are those of the request's version, whatever version the transaction before was of.
    """
    if request.version >= VERSION_2:
        return _check_end_of_version_2(saved, request)
    return _check_end_of_version_1(saved, request)


def is_epoch_of(saved: TransactionSaved, producer: ProducerIdentity) -> bool:
    """Whether a producer has the epoch of its id; the one above the last is nobody's, since nothing could fence it."""
    return producer.producer_epoch == saved.producer_epoch <= LAST_EPOCH


def _check_end_of_version_2(saved: TransactionSaved, request: EndRequest) -> ErrorCode | None:
    """What to answer at once, None to end the transaction.

    The epoch tells the end of this transaction from a repetition of the last one's (KIP-890): a delayed EndTxn must
    not end a transaction that began after it.
    """
    if saved.state in IN_BETWEEN:
        # Before all else: the producer may already go by the identity that it has when this is complete (KAFKA-18464).
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if saved.state in RESULT_OF and _is_retry(saved, request.producer):
        return _check_repeated(saved, request)
    if _is_of_used_up_id(saved, request.producer) and saved.state is TxnState.EMPTY:
        return ErrorCode.PRODUCER_FENCED
    if request.producer.producer_id != saved.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if not is_epoch_of(saved, request.producer):
        return ErrorCode.PRODUCER_FENCED
    return _check_begun(saved, request)


def _is_retry(saved: TransactionSaved, producer: ProducerIdentity) -> bool:
    """Whether this is who the producer was before the end of its last transaction changed that.

    Only an end of version 2 changes it. After one of version 1 the epoch before belongs to a producer that was fenced:
    Kafka tells that one the epoch to go on with, we do not (ADR 0014).
    """
    if saved.client_version < VERSION_2:
        return False
    if producer == (saved.producer_id, saved.producer_epoch - 1):
        return True
    return _is_of_used_up_id(saved, producer)


def _is_of_used_up_id(saved: TransactionSaved, producer: ProducerIdentity) -> bool:
    used_up = (saved.previous_producer_id, LAST_EPOCH)
    return saved.state in AT_REST and saved.producer_epoch == 0 and producer == used_up


def _check_repeated(saved: TransactionSaved, request: EndRequest) -> ErrorCode:
    if RESULT_OF[saved.state] is request.result:
        return ErrorCode.NONE
    if request.result is Result.COMMIT:
        # It took too long. Clients can go on after this error, and not after INVALID_TXN_STATE (KAFKA-20785).
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.INVALID_TXN_STATE


def _check_begun(saved: TransactionSaved, request: EndRequest) -> ErrorCode | None:
    """A client may abort what has not begun, because it cannot know: its first append may have failed."""
    if saved.state is TxnState.ONGOING:
        return None
    aborts = request.result is Result.ABORT and request.version >= VERSION_2
    return None if aborts else ErrorCode.INVALID_TXN_STATE


def _check_end_of_version_1(saved: TransactionSaved, request: EndRequest) -> ErrorCode | None:
    if request.producer.producer_id != saved.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if not is_epoch_of(saved, request.producer):
        return ErrorCode.PRODUCER_FENCED
    if saved.state in IN_BETWEEN:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if RESULT_OF.get(saved.state) is request.result:
        return ErrorCode.NONE
    return _check_begun(saved, request)
