"""The state machine of a transactional producer (KIP-98, KIP-360, KIP-588, KIP-890).

Everything that changes the state of transactions is in this file. The program calls from any thread, answers of brokers
come on the loop: each transition holds the accumulator's lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from enum import Enum
from typing import Final

from ottla.client.send.completion import Completion
from ottla.client.state.producer.batch_actions import FATAL
from ottla.errors import (
    AbortableError,
    ErrorCode,
    FatalError,
    IllegalStateError,
    KafkaError,
)

log = logging.getLogger("ottla.client")

Refusal = Callable[[], BaseException]


class ProducerPhase(Enum):
    """The state of a transactional producer; the text completes "the producer ..."."""

    UNINITIALIZED = "has not been initialized: call init_transactions() first"
    INITIALIZING = "is being initialized: init_transactions() has not returned"
    READY = "has no open transaction: call begin_transaction() first"
    IN_TRANSACTION = "has an open transaction: commit or abort it first"
    COMMITTING = "is committing its transaction: commit_transaction() has not returned"
    ABORTING = "is aborting its transaction: abort_transaction() has not returned"
    FAILED = "has a transaction that failed: call abort_transaction()"
    DEAD = "failed for good: close it"


# The states from which a state can be reached.
SOURCES: Final[Mapping[ProducerPhase, frozenset[ProducerPhase]]] = {
    ProducerPhase.UNINITIALIZED: frozenset({ProducerPhase.INITIALIZING}),
    ProducerPhase.INITIALIZING: frozenset(
        {ProducerPhase.UNINITIALIZED, ProducerPhase.COMMITTING, ProducerPhase.ABORTING}
    ),
    ProducerPhase.READY: frozenset(
        {ProducerPhase.INITIALIZING, ProducerPhase.COMMITTING, ProducerPhase.ABORTING}
    ),
    ProducerPhase.IN_TRANSACTION: frozenset({ProducerPhase.READY}),
    ProducerPhase.COMMITTING: frozenset({ProducerPhase.IN_TRANSACTION}),
    ProducerPhase.ABORTING: frozenset({ProducerPhase.IN_TRANSACTION, ProducerPhase.FAILED}),
    ProducerPhase.FAILED: frozenset(
        {
            ProducerPhase.IN_TRANSACTION,
            ProducerPhase.COMMITTING,
            ProducerPhase.ABORTING,
            ProducerPhase.FAILED,
            ProducerPhase.INITIALIZING,
        }
    ),
    ProducerPhase.DEAD: frozenset(ProducerPhase) - {ProducerPhase.DEAD},
}

OPEN: Final = frozenset(
    {
        ProducerPhase.IN_TRANSACTION,
        ProducerPhase.COMMITTING,
        ProducerPhase.ABORTING,
        ProducerPhase.FAILED,
    }
)
"""There is a transaction that has to be ended."""


class CoordinatorErrorAction(Enum):
    """The producer's reaction to an error of a coordinator."""

    RETRY = "repeat the request after a pause"
    FIND = "look up the coordinator, then repeat the request"
    ABORT = "the transaction has to be aborted"
    BUMP = "the transaction has to be aborted, and the next one needs a new epoch"
    DIE = "the producer has failed for good"


_FENCED = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)

COORDINATOR_ERROR_ACTIONS: Final[Mapping[ErrorCode, CoordinatorErrorAction]] = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE: CoordinatorErrorAction.FIND,
    ErrorCode.NOT_COORDINATOR: CoordinatorErrorAction.FIND,
    ErrorCode.REQUEST_TIMED_OUT: CoordinatorErrorAction.FIND,
    ErrorCode.NETWORK_EXCEPTION: CoordinatorErrorAction.FIND,
    ErrorCode.BROKER_NOT_AVAILABLE: CoordinatorErrorAction.FIND,
    ErrorCode.UNKNOWN_PRODUCER_ID: CoordinatorErrorAction.BUMP,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: CoordinatorErrorAction.BUMP,
    ErrorCode.TRANSACTION_ABORTABLE: CoordinatorErrorAction.ABORT,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: CoordinatorErrorAction.ABORT,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: CoordinatorErrorAction.ABORT,
    # In AddPartitionsToTxn: another partition of the request has an error.
    ErrorCode.OPERATION_NOT_ATTEMPTED: CoordinatorErrorAction.ABORT,
    # In TxnOffsetCommit: the consumer whose offsets these are is no member any more (KIP-447).
    ErrorCode.FENCED_INSTANCE_ID: CoordinatorErrorAction.ABORT,
    ErrorCode.UNKNOWN_MEMBER_ID: CoordinatorErrorAction.ABORT,
    ErrorCode.ILLEGAL_GENERATION: CoordinatorErrorAction.ABORT,
    ErrorCode.OFFSET_METADATA_TOO_LARGE: CoordinatorErrorAction.ABORT,
}
"""Others are RETRY if they are retriable, else DIE."""


def action_for_coordinator_error(code: ErrorCode) -> CoordinatorErrorAction:
    """The action for an error code of a coordinator."""
    found = COORDINATOR_ERROR_ACTIONS.get(code)
    if found is None:
        found = CoordinatorErrorAction.RETRY if code.retriable else CoordinatorErrorAction.DIE
    return found


class Operation(Completion):
    """A call that changes the state; if it timed out, the same call waits for the same operation again."""

    __slots__ = ("error", "is_seen", "method", "target")

    def __init__(self, method: str, target: ProducerPhase) -> None:
        super().__init__()
        self.method = method
        self.target = target
        self.error: BaseException | None = None
        self.is_seen = False

    def succeed(self) -> None:
        if not self.is_done:
            self.complete()

    def fail(self, error: BaseException) -> None:
        if not self.is_done:
            self.error = error
            self.complete()


class Transactions:
    """The state of a producer with a transactional id."""

    def __init__(
        self,
        transactional_id: str,
        lock: AbstractContextManager[object],
        refuse: Callable[[Refusal | None], None],
    ) -> None:
        self.transactional_id = transactional_id
        self.state = ProducerPhase.UNINITIALIZED
        self.error: KafkaError | None = None
        """Why the transaction or the producer failed."""
        self.can_bump = True
        """Whether the coordinator gives a new epoch to a producer that asks (InitProducerId v3, KIP-360)."""
        self.is_version_2 = False
        """Whether every transaction gets its own epoch when the last one ends (KIP-890)."""
        self.needs_init = False
        """Whether a new epoch has to be asked for when this transaction has ended."""
        self._lock = lock
        self._refuse = refuse
        self._operation: Operation | None = None
        self._refuse(self._refusal)

    # Calls of the program

    def begin_init(self) -> tuple[Operation, bool]:
        """init_transactions(): the operation, and whether it has to be started."""
        return self._operate("init_transactions", ProducerPhase.INITIALIZING)

    def begin_commit(self) -> tuple[Operation, bool]:
        """commit_transaction()"""
        return self._operate("commit_transaction", ProducerPhase.COMMITTING)

    def begin_abort(self) -> tuple[Operation, bool]:
        """abort_transaction()"""
        return self._operate("abort_transaction", ProducerPhase.ABORTING)

    def begin(self, enter: Callable[[], object]) -> None:
        """begin_transaction(); if it is allowed, `enter` is called before records are accepted."""
        with self._lock:
            self.check_alive()
            self._check_no_operation("begin_transaction")
            self._check_no_error()
            if self.state is not ProducerPhase.READY:
                raise self._out_of_order("begin_transaction")
            enter()
            self._move(ProducerPhase.IN_TRANSACTION, "begin_transaction")

    def check_open(self, method: str) -> None:
        """Raise unless there is an open transaction; `method` is the call that needs one."""
        with self._lock:
            self.check_alive()
            self._check_no_operation(method)
            self._check_no_error()
            if self.state is not ProducerPhase.IN_TRANSACTION:
                raise self._out_of_order(method)

    def _operate(self, method: str, target: ProducerPhase) -> tuple[Operation, bool]:
        with self._lock:
            self.check_alive()
            current = self._operation
            if current is not None:
                if current.is_done and current.is_seen:
                    self._operation = None
                elif current.method == method:
                    return current, False
                else:
                    raise self._unfinished(method, current)
            if not (target is ProducerPhase.ABORTING and self.state is ProducerPhase.FAILED):
                self._check_no_error()
            self._move(target, method)
            self._operation = Operation(method, target)
            return self._operation, True

    def check_alive(self) -> None:
        """Raise if the producer has failed for good: that error comes before all others."""
        if self.state is ProducerPhase.DEAD:
            raise self._error_again()

    def _check_no_operation(self, method: str) -> None:
        current = self._operation
        if current is None:
            return
        if not (current.is_done and current.is_seen):
            raise self._unfinished(method, current)
        self._operation = None

    def _check_no_error(self) -> None:
        if self.error is not None:
            raise self._error_again()

    def _unfinished(self, method: str, current: Operation) -> IllegalStateError:
        return IllegalStateError(
            f"{method}() cannot be called: {current.method}() timed out or still runs, "
            "call it again to see how it ends"
        )

    def _out_of_order(self, method: str) -> IllegalStateError:
        if method == "init_transactions" and self.state in (
            ProducerPhase.READY,
            ProducerPhase.IN_TRANSACTION,
        ):
            return IllegalStateError(
                f"init_transactions() is called once, and was: {self.transactional_id!r} is initialized"
            )
        return IllegalStateError(
            f"{method}() is out of order: the producer {self.transactional_id!r} {self.state.value}"
        )

    # Events

    @property
    def is_ending(self) -> bool:
        return self.state in (ProducerPhase.COMMITTING, ProducerPhase.ABORTING)

    @property
    def drops_unsent(self) -> bool:
        """Whether records that have not been sent are dropped."""
        return self.state in (ProducerPhase.FAILED, ProducerPhase.ABORTING)

    @property
    def has_open(self) -> bool:
        """Whether there is a transaction that has to be ended."""
        return self.state in OPEN

    def initialized(self) -> None:
        """The coordinator has given an id and an epoch."""
        with self._lock:
            self.needs_init = False
            self._move(ProducerPhase.READY, "InitProducerId")

    def not_initialized(self) -> None:
        """The coordinator refused, but may accept later: init_transactions() can be called again."""
        with self._lock:
            self._move(ProducerPhase.UNINITIALIZED, "InitProducerId")

    def ended(self) -> None:
        """The transaction has ended."""
        with self._lock:
            self.error = None
            target = ProducerPhase.INITIALIZING if self.needs_init else ProducerPhase.READY
            self._move(target, "EndTxn")

    def batch_failed(self, error: KafkaError) -> None:
        """A record of the transaction was not written."""
        if error.code in FATAL:
            self.die(error)
        elif self.is_aborting:
            # It is being aborted anyway, but the sequence of the next transaction may have a gap.
            self.needs_init = self.needs_init or (self.can_bump and not self.is_version_2)
        elif self.has_open:
            self.must_abort(error, CoordinatorErrorAction.BUMP)

    def record_refused(self, error: KafkaError) -> None:
        """A record was not accepted: its transaction must not be committed without it.

        A record that one thread sends while another commits is not part of the transaction, and EndTxn may be sent.
        """
        if self.state is not ProducerPhase.COMMITTING:
            self.batch_failed(error)

    @property
    def is_committing(self) -> bool:
        return self.state is ProducerPhase.COMMITTING

    @property
    def is_aborting(self) -> bool:
        return self.state is ProducerPhase.ABORTING

    def batches_lost(self) -> None:
        """Batches were given up, and it is not known whether they were written."""
        message = "Records were sent and never acknowledged, and it is too late to send them again."
        code = ErrorCode.REQUEST_TIMED_OUT
        if self.can_bump:
            error = AbortableError(code, message, self._context())
            if self.has_open and not self.is_aborting:
                self.must_abort(error, CoordinatorErrorAction.BUMP)
            else:
                self.needs_init = True
        else:
            self.die(FatalError(code, message, self._context()))

    def must_abort(self, error: KafkaError, action: CoordinatorErrorAction) -> None:
        """The transaction cannot be committed any more."""
        if action is CoordinatorErrorAction.BUMP:
            if not self.can_bump and error.code in _NEEDS_BUMP:
                self.die(error)
                return
            # In version 2 EndTxn brings a new epoch, except where the transaction cannot be ended.
            is_forgotten = error.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
            if self.can_bump and (is_forgotten or not self.is_version_2):
                self.needs_init = True
        with self._lock:
            if self.state is ProducerPhase.DEAD:
                return
            if self.state is not ProducerPhase.FAILED:
                log.warning("the transaction of %s failed: %s", self.transactional_id, error)
            self.error = self.error or error
            self._move(ProducerPhase.FAILED, "a failure")

    def die(self, error: BaseException) -> None:
        """The producer has failed for good; later errors do not replace the first one."""
        with self._lock:
            if self.state is ProducerPhase.DEAD:
                return
            log.error("the producer %s failed for good: %s", self.transactional_id, error)
            self.error = as_fatal(error)
            self._move(ProducerPhase.DEAD, "a failure")
            operation = self._operation
        if operation is not None:
            operation.fail(self.error)

    # Details

    def _move(self, target: ProducerPhase, method: str) -> None:
        if self.state not in SOURCES[target]:
            raise self._out_of_order(method)
        self.state = target
        self._refuse(None if target is ProducerPhase.IN_TRANSACTION else self._refusal)

    def _refusal(self) -> BaseException:
        """The error of a record that is sent in this state."""
        return self._error_again() if self.error is not None else self._out_of_order("send")

    def _error_again(self) -> BaseException:
        error = self.error
        assert error is not None
        if self.state is ProducerPhase.DEAD:
            return fatal_again(error)
        message = f"The transaction has failed and has to be aborted: {error.message}"
        raised = AbortableError(error.code, message, error.context)
        raised.__cause__ = error
        return raised

    def _context(self) -> dict[str, object]:
        return {"api": "Produce", "transactional_id": self.transactional_id}


_NEEDS_BUMP: Final = frozenset(
    {ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
)


def fatal_again(first: KafkaError) -> FatalError:
    """The error of later calls of a producer that has failed: it names the first error."""
    again = FatalError(first.code, f"The producer has failed: {first.message}", first.context)
    again.__cause__ = first
    return again


def as_fatal(error: BaseException) -> KafkaError:
    """The error as a FatalError."""
    if isinstance(error, FatalError):
        return error
    if isinstance(error, KafkaError):
        # Older coordinators answer INVALID_PRODUCER_EPOCH to a fenced producer (KIP-588).
        code = ErrorCode.PRODUCER_FENCED if error.code in _FENCED else error.code
        message = None if code is not error.code else error.message
        fatal = FatalError(code, message, error.context)
    else:
        fatal = FatalError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
    fatal.__cause__ = error
    return fatal


def as_abortable(error: KafkaError) -> KafkaError:
    """The error as an AbortableError, unless it is a subclass of that."""
    if isinstance(error, AbortableError):
        return error
    abortable = AbortableError(error.code, error.message, error.context)
    abortable.__cause__ = error
    return abortable
