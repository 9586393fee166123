"""The states of a transactional id, and which may follow which."""

from __future__ import annotations

from enum import IntEnum


class State(IntEnum):
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
    """How a transaction ends."""

    ABORT = 0
    COMMIT = 1


# PREPARE_EPOCH_FENCE is never written: fencing and the abort that follows from it are one decision.
MAY_BECOME = {
    State.EMPTY: (State.EMPTY, State.ONGOING, State.PREPARE_ABORT),
    State.ONGOING: (State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT),
    State.PREPARE_COMMIT: (State.COMPLETE_COMMIT,),
    State.PREPARE_ABORT: (State.COMPLETE_ABORT,),
    State.COMPLETE_COMMIT: (State.EMPTY, State.ONGOING, State.PREPARE_ABORT),
    State.COMPLETE_ABORT: (State.EMPTY, State.ONGOING, State.PREPARE_ABORT),
}
PREPARED = {Result.COMMIT: State.PREPARE_COMMIT, Result.ABORT: State.PREPARE_ABORT}
COMPLETED = {
    State.PREPARE_COMMIT: State.COMPLETE_COMMIT,
    State.PREPARE_ABORT: State.COMPLETE_ABORT,
}
RESULT_OF = {
    State.PREPARE_COMMIT: Result.COMMIT,
    State.PREPARE_ABORT: Result.ABORT,
    State.COMPLETE_COMMIT: Result.COMMIT,
    State.COMPLETE_ABORT: Result.ABORT,
}
# Nothing is open and nothing is on its way: the id can begin anew, or expire.
AT_REST = (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
IN_BETWEEN = (State.PREPARE_COMMIT, State.PREPARE_ABORT)
