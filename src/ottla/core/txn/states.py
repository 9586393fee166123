"""The states of a transactional id, and which may follow which."""

from __future__ import annotations

from enum import IntEnum


class TxnState(IntEnum):
    """The numbers are those of Kafka's records."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """The word that DescribeTransactions uses."""
        return "".join(word.capitalize() for word in self.name.split("_"))


class Result(IntEnum):
    """The end of a transaction: commit or abort."""

    ABORT = 0
    COMMIT = 1


# PREPARE_EPOCH_FENCE is never written: fencing a producer and aborting its transaction are one decision.
MAY_BECOME = {
    TxnState.EMPTY: (TxnState.EMPTY, TxnState.ONGOING, TxnState.PREPARE_ABORT),
    TxnState.ONGOING: (TxnState.ONGOING, TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT),
    TxnState.PREPARE_COMMIT: (TxnState.COMPLETE_COMMIT,),
    TxnState.PREPARE_ABORT: (TxnState.COMPLETE_ABORT,),
    TxnState.COMPLETE_COMMIT: (TxnState.EMPTY, TxnState.ONGOING, TxnState.PREPARE_ABORT),
    TxnState.COMPLETE_ABORT: (TxnState.EMPTY, TxnState.ONGOING, TxnState.PREPARE_ABORT),
}
PREPARED = {Result.COMMIT: TxnState.PREPARE_COMMIT, Result.ABORT: TxnState.PREPARE_ABORT}
COMPLETED = {
    TxnState.PREPARE_COMMIT: TxnState.COMPLETE_COMMIT,
    TxnState.PREPARE_ABORT: TxnState.COMPLETE_ABORT,
}
RESULT_OF = {
    TxnState.PREPARE_COMMIT: Result.COMMIT,
    TxnState.PREPARE_ABORT: Result.ABORT,
    TxnState.COMPLETE_COMMIT: Result.COMMIT,
    TxnState.COMPLETE_ABORT: Result.ABORT,
}
# No transaction is open or ending: the id may begin a transaction, or expire.
AT_REST = (TxnState.EMPTY, TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT)
IN_BETWEEN = (TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT)
