"""The records of `__transaction_state` as changes of transactional ids, and the transactions that end with them."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

from ottla.client.model import ConsumerRecord
from ottla.console.transactions.ended import EndedTransaction, Outcome
from ottla.core.txn.events import TransactionDeleted, TransactionSaved
from ottla.core.txn.records import decode
from ottla.core.txn.states import TxnState
from ottla.wire.types import MalformedMessageError

OUTCOMES: Final = {
    TxnState.COMPLETE_COMMIT: Outcome.COMMITTED,
    TxnState.COMPLETE_ABORT: Outcome.ABORTED,
}
_PREPARED: Final = (TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT)
# The state comes after version, producer id, epoch and timeout, in all versions.
_STATE_AT: Final = 16
_MAX_PREPARED: Final = 10_000

Change = TransactionSaved | TransactionDeleted


def change_of(record: ConsumerRecord[Any, Any]) -> Change | None:
    """The change in a record of `__transaction_state`; None if it has another format."""
    try:
        return decode(record.key, record.value)
    except MalformedMessageError:
        return None


class EndsOfTransactions:
    """Finds the transactions that end among the records of `__transaction_state`, in the order of each partition.

    The record of the end has no partitions any more: those of the one before, which prepares the end, are kept until
    then.
    """

    def __init__(self) -> None:
        self._prepared: OrderedDict[str, TransactionSaved] = OrderedDict()

    def next(self, record: ConsumerRecord[Any, Any]) -> EndedTransaction | None:
        """The transaction that ends with a record, if one does."""
        value = record.value
        if value is None or len(value) <= _STATE_AT:
            return None
        # Most records only add partitions: they need not be decoded.
        state = value[_STATE_AT]
        if state not in OUTCOMES and state not in _PREPARED:
            return None
        change = change_of(record)
        if not isinstance(change, TransactionSaved):
            return None
        if change.state in _PREPARED:
            self._prepared[change.transactional_id] = change
            if len(self._prepared) > _MAX_PREPARED:
                self._prepared.popitem(last=False)
            return None
        return self._ended(change, self._prepared.pop(change.transactional_id, None))

    def _ended(
        self, change: TransactionSaved, prepared: TransactionSaved | None
    ) -> EndedTransaction:
        started_at_ms = change.started_at_ms
        if prepared is not None and started_at_ms < 0:
            started_at_ms = prepared.started_at_ms
        return EndedTransaction(
            transactional_id=change.transactional_id,
            producer_id=change.producer_id if prepared is None else prepared.producer_id,
            producer_epoch=change.producer_epoch if prepared is None else prepared.producer_epoch,
            outcome=OUTCOMES[change.state],
            ended_at_ms=change.updated_at_ms,
            started_at_ms=None if started_at_ms < 0 else started_at_ms,
            timeout_ms=change.timeout_ms,
            partitions=None if prepared is None else prepared.partitions,
        )
