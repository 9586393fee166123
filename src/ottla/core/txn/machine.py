"""The transactional ids of one `__transaction_state` partition as a state machine.

A transaction ends in two phases: PREPARE is durable before the producer is answered, then markers go to all partitions
of the transaction, then COMPLETE is written. A coordinator that loads the partition goes on from PREPARE.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from ottla.core.outcomes import Refused
from ottla.core.turn import AppliedEvent, ProducerIdentity, Ticket, Turn
from ottla.core.txn.end_checks import EndedBefore, decide_end, is_epoch_of
from ottla.core.txn.events import (
    LAST_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    VERSION_1,
    VERSION_2,
    Event,
    TransactionDeleted,
    TransactionSaved,
)
from ottla.core.txn.requests import (
    DescribedTransaction,
    EndRequest,
    InitRequest,
    SendMarkers,
    TransactionConfig,
)
from ottla.core.txn.states import (
    AT_REST,
    COMPLETED,
    IN_BETWEEN,
    MAY_BECOME,
    PREPARED,
    RESULT_OF,
    TxnState,
)
from ottla.core.txn.waiting_requests import WaitingRequest, WaitingRequests
from ottla.errors import ErrorCode
from ottla.model import TopicPartition


class TransactionMachine:
    """Every decision is a method that gets the turn in which it is made.

    `reserve_producer_id` returns a producer id that was never used, or None if none can be reserved now.
    """

    def __init__(
        self, config: TransactionConfig, reserve_producer_id: Callable[[], int | None]
    ) -> None:
        self.config = config
        self._reserve_producer_id = reserve_producer_id
        self._saved: dict[str, TransactionSaved] = {}
        # The epoch before the last bump, which a retry of InitProducerId still has. Kafka's records do not have it.
        self._last_epochs: dict[str, int] = {}
        # Partitions without their marker, by transactional id in Prepare*; dicts for their order.
        self._unmarked: dict[str, dict[TopicPartition, None]] = {}
        # The uptime at which transactions began: with a wall clock that is set back they would not time out.
        self._began_ms: dict[str, int] = {}
        self._abort_check_due_ms: int | None = None
        self._expiry_due_ms: int | None = None
        self._waiting = WaitingRequests()

    # What is durable.

    def apply(self, event: Event, producer_id: int | None = None) -> None:
        """Changes the durable state by an event of the log; no event here belongs to a transaction."""
        match event:
            case TransactionSaved(transactional_id=transactional_id):
                self._saved[transactional_id] = event
            case TransactionDeleted(transactional_id=transactional_id):
                self._saved.pop(transactional_id, None)
                self._began_ms.pop(transactional_id, None)

    def apply_commit_marker(self, producer_id: int) -> None:
        """Nothing in this log belongs to a transaction."""

    def apply_abort_marker(self, producer_id: int) -> None:
        """As above."""

    def durable_state(self) -> object:
        """The state that a replay of the log has to restore."""
        return self._saved

    def _write(self, turn: Turn, event: Event) -> None:
        self.apply(event)
        turn.written.append(AppliedEvent(event, None))

    def _become(self, turn: Turn, saved: TransactionSaved, before: TransactionSaved) -> None:
        assert saved.state in MAY_BECOME[before.state], f"{before.state!r} to {saved.state!r}"
        self._write(turn, saved._replace(updated_at_ms=turn.now_ms))

    # Time.

    def start(self, turn: Turn) -> None:
        """Goes on where the log ends: sends the markers of prepared transactions."""
        for saved in list(self._saved.values()):
            if saved.state in IN_BETWEEN:
                self._send_markers(turn, saved)
            elif saved.state is TxnState.ONGOING:
                self._take_over(turn, saved)
        self._abort_check_due_ms = turn.uptime_ms + self.config.abort_check_interval_ms
        self._expiry_due_ms = turn.uptime_ms + self.config.expiry_check_interval_ms

    def _take_over(self, turn: Turn, saved: TransactionSaved) -> None:
        """Estimates when a transaction began under another coordinator, whose uptime is unknown here."""
        age_ms = min(max(turn.now_ms - saved.started_at_ms, 0), saved.timeout_ms + 1)
        self._began_ms[saved.transactional_id] = turn.uptime_ms - age_ms

    def next_wake_ms(self) -> int | None:
        """The uptime at which `wake` is due."""
        if self._abort_check_due_ms is None or self._expiry_due_ms is None:
            return None  # not started yet
        due_ms = min(self._abort_check_due_ms, self._expiry_due_ms)
        waits_until_ms = self._waiting.next_due_ms()
        return due_ms if waits_until_ms is None else min(due_ms, waits_until_ms)

    def wake(self, turn: Turn) -> None:
        self._waiting.answer_due(turn)
        if self._abort_check_due_ms is not None and self._abort_check_due_ms <= turn.uptime_ms:
            self.abort_timed_out(turn)
            self._abort_check_due_ms = turn.uptime_ms + self.config.abort_check_interval_ms
        if self._expiry_due_ms is not None and self._expiry_due_ms <= turn.uptime_ms:
            self.expire(turn)
            self._expiry_due_ms = turn.uptime_ms + self.config.expiry_check_interval_ms

    def abort_timed_out(self, turn: Turn) -> None:
        """Aborts transactions that have timed out.

        A producer of version 1 is fenced. One of version 2 stays the producer of its id: it cannot commit any more, but
        when it aborts it gets its next epoch, as if the abort had been its own (KIP-890, KAFKA-20090).
        """
        for saved in list(self._saved.values()):
            if (
                saved.state is TxnState.ONGOING
                and self._began_ms[saved.transactional_id] + saved.timeout_ms < turn.uptime_ms
            ):
                if saved.client_version < VERSION_2 or saved.producer_epoch > LAST_EPOCH:
                    self._fence(turn, saved)
                elif not self._abort_for_producer(turn, saved):
                    continue  # no producer id can be reserved now: the next check tries again
                turn.log(
                    "transaction_timed_out",
                    "transactional id %(transactional_id)s: its transaction took longer than "
                    "%(timeout_ms)d ms and is aborted",
                    transactional_id=saved.transactional_id,
                    producer_id=saved.producer_id,
                    producer_epoch=saved.producer_epoch,
                    timeout_ms=saved.timeout_ms,
                    partitions=len(saved.partitions),
                )

    def expire(self, turn: Turn) -> None:
        """Deletes transactional ids that were not used for `transactional.id.expiration.ms`."""
        for saved in list(self._saved.values()):
            unused_ms = turn.now_ms - saved.updated_at_ms
            if saved.state in AT_REST and unused_ms >= self.config.id_expiration_ms:
                self._write(turn, TransactionDeleted(saved.transactional_id))
                self._last_epochs.pop(saved.transactional_id, None)

    # Requests that come while a transaction ends.

    def is_ending(self, transactional_id: str) -> bool:
        """Whether the last transaction of an id does not have all its markers yet."""
        return transactional_id in self._unmarked

    def waits_for_end(
        self, turn: Turn, ticket: Ticket, transactional_id: str, decide: Callable[[Turn], Any]
    ) -> bool:
        """Keeps a request whose transactional id ends a transaction; False if it has to be decided now.

        It is decided when the transaction is complete, before any request that comes after that; or after
        `LONGEST_WAIT_MS`, and is refused then. So its answer is one that it would have got if it had come later, and no
        request outlasts the end that it waits for.
        """
        if transactional_id not in self._unmarked:
            return False
        request = WaitingRequest(ticket, decide)
        return self._waiting.add(transactional_id, request, turn.uptime_ms)

    # InitProducerId.

    def _rotates(self, saved: TransactionSaved, expected: ProducerIdentity | None) -> bool:
        is_used_up = saved.producer_epoch >= LAST_EPOCH
        return is_used_up and (expected is None or expected.producer_epoch == saved.producer_epoch)

    def init(self, turn: Turn, request: InitRequest) -> ProducerIdentity | Refused:
        """Makes the client the producer of an id; the producer before it is fenced."""
        if not 0 < request.timeout_ms <= self.config.max_timeout_ms:
            return Refused(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        saved = self._saved.get(request.transactional_id)
        if saved is None:
            return self._init_first(turn, request)
        if saved.state in IN_BETWEEN:
            return Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
        if request.expected is not None and not self._may_be(saved, request.expected):
            return Refused(ErrorCode.PRODUCER_FENCED)
        if saved.state is TxnState.ONGOING:
            if request.expected not in (None, (saved.producer_id, saved.producer_epoch)):
                # Kafka lets it end the transaction; but the request may have been sent before the transaction began.
                return Refused(ErrorCode.PRODUCER_FENCED)
            # The predecessor's transaction ends first; then the client asks again and gets its epoch.
            self._fence(turn, saved)
            turn.log(
                "transaction_fenced",
                "transactional id %(transactional_id)s: another producer came, the transaction of "
                "the one before is aborted",
                transactional_id=saved.transactional_id,
                producer_id=saved.producer_id,
                producer_epoch=saved.producer_epoch,
                partitions=len(saved.partitions),
            )
            return Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
        if self._rotates(saved, request.expected):
            return self._rotate(turn, saved, request)
        return self._bump(turn, saved, request)

    def _may_be(self, saved: TransactionSaved, expected: ProducerIdentity) -> bool:
        """Whether the identity that a client expects can be its own; a retry may have the used-up producer id."""
        if expected.producer_id == saved.producer_id:
            return True
        return (
            expected.producer_id == saved.previous_producer_id
            and expected.producer_epoch >= LAST_EPOCH
        )

    def _init_first(self, turn: Turn, request: InitRequest) -> ProducerIdentity | Refused:
        producer_id = self._reserve_producer_id()
        if producer_id is None:
            return Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        saved = TransactionSaved(
            request.transactional_id,
            producer_id,
            0,
            request.timeout_ms,
            TxnState.EMPTY,
            (),
            turn.now_ms,
            NO_TIMESTAMP,
        )
        self._write(turn, saved)
        self._last_epochs.pop(request.transactional_id, None)
        return ProducerIdentity(producer_id, 0)

    def _rotate(
        self, turn: Turn, saved: TransactionSaved, request: InitRequest
    ) -> ProducerIdentity | Refused:
        """The epochs of the producer id are used up: another id begins at 0."""
        producer_id = self._reserve_producer_id()
        if producer_id is None:
            return Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self._begin_anew(
            turn,
            saved._replace(
                producer_id=producer_id, producer_epoch=0, previous_producer_id=saved.producer_id
            ),
            request,
            saved,
        )
        return ProducerIdentity(producer_id, 0)

    def _bump(
        self, turn: Turn, saved: TransactionSaved, request: InitRequest
    ) -> ProducerIdentity | Refused:
        epoch = saved.producer_epoch
        expected = request.expected
        if expected is not None and expected.producer_epoch != epoch:
            if expected.producer_epoch != self._last_epochs.get(saved.transactional_id, NO_EPOCH):
                return Refused(ErrorCode.PRODUCER_FENCED)
            # A retry of a request that succeeded: another producer in between would have cleared the last epoch.
            return ProducerIdentity(saved.producer_id, epoch)
        self._begin_anew(turn, saved._replace(producer_epoch=epoch + 1), request, saved)
        return ProducerIdentity(saved.producer_id, epoch + 1)

    def _begin_anew(
        self, turn: Turn, renewed: TransactionSaved, request: InitRequest, before: TransactionSaved
    ) -> None:
        empty = renewed._replace(
            state=TxnState.EMPTY,
            partitions=(),
            started_at_ms=NO_TIMESTAMP,
            timeout_ms=request.timeout_ms,
            next_producer_id=NO_PRODUCER_ID,
        )
        self._become(turn, empty, before)
        if request.expected is None:
            self._last_epochs.pop(before.transactional_id, None)
        else:
            self._last_epochs[before.transactional_id] = before.producer_epoch

    # AddPartitionsToTxn.

    def add_partitions(
        self,
        turn: Turn,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Sequence[TopicPartition],
        version: int,
    ) -> Refused | None:
        """Adds partitions to the transaction, which begins with the first of them."""
        saved = self._find(transactional_id, producer)
        if isinstance(saved, Refused):
            return saved
        if not partitions:
            return None
        is_first = saved.state is not TxnState.ONGOING
        added = dict.fromkeys(partitions if is_first else (*saved.partitions, *partitions))
        if not is_first and len(added) == len(saved.partitions):
            return None
        ongoing = saved._replace(
            state=TxnState.ONGOING,
            partitions=tuple(added),
            started_at_ms=turn.now_ms if is_first else saved.started_at_ms,
            client_version=version,
        )
        if is_first:
            self._began_ms[transactional_id] = turn.uptime_ms
        self._become(turn, ongoing, saved)
        return None

    def verify(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Sequence[TopicPartition],
    ) -> list[Refused | None]:
        """Checks for each partition that it is part of the transaction (KIP-890)."""
        saved = self._find(transactional_id, producer)
        if isinstance(saved, Refused):
            return [saved] * len(partitions)
        inside = set(saved.partitions) if saved.state is TxnState.ONGOING else ()
        outside = Refused(ErrorCode.TRANSACTION_ABORTABLE)
        return [None if partition in inside else outside for partition in partitions]

    def _find(
        self, transactional_id: str, producer: ProducerIdentity
    ) -> TransactionSaved | Refused:
        """The transactional id, if this is its producer and no transaction of it is ending."""
        saved = self._saved.get(transactional_id)
        if saved is None:
            return Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        # Checked first: the producer may already have the id that follows this transaction.
        if saved.state in IN_BETWEEN:
            return Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
        if saved.producer_id != producer.producer_id:
            return Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if not is_epoch_of(saved, producer):
            return Refused(ErrorCode.PRODUCER_FENCED)
        return saved

    # EndTxn.

    def end(self, turn: Turn, request: EndRequest) -> ProducerIdentity | Refused:
        """Commits or aborts; with version 2 the producer goes on with the identity that is returned."""
        saved = self._saved.get(request.transactional_id)
        if saved is None:
            return Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        decision = decide_end(saved, request)
        if isinstance(decision, Refused):
            return decision
        if isinstance(decision, EndedBefore):
            return self._identity_after(saved)
        prepared = self._prepare(turn, saved, request)
        if prepared is None:
            return Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return self._identity_after(prepared)

    def _identity_after(self, saved: TransactionSaved) -> ProducerIdentity:
        """The identity of the producer when the transaction that ends is complete."""
        if saved.state in IN_BETWEEN and saved.next_producer_id != NO_PRODUCER_ID:
            return ProducerIdentity(saved.next_producer_id, 0)
        return ProducerIdentity(saved.producer_id, saved.producer_epoch)

    def _prepare(
        self, turn: Turn, saved: TransactionSaved, request: EndRequest
    ) -> TransactionSaved | None:
        """Writes PREPARE; None if that needs a producer id and none can be reserved."""
        has_begun = saved.state is TxnState.ONGOING
        prepared = saved._replace(
            state=PREPARED[request.result],
            partitions=saved.partitions if has_begun else (),
            started_at_ms=saved.started_at_ms if has_begun else turn.now_ms,
            client_version=request.version,
        )
        if request.version >= VERSION_2:
            renewed = self._with_next_epoch(prepared)
            if renewed is None:
                return None
            prepared = renewed
            self._last_epochs[saved.transactional_id] = saved.producer_epoch
        self._become(turn, prepared, saved)
        self._send_markers(turn, prepared)
        return prepared

    def _with_next_epoch(self, ending: TransactionSaved) -> TransactionSaved | None:
        """Each transaction has its own epoch; after the last epoch the producer gets another id."""
        next_producer_id: int | None = NO_PRODUCER_ID
        if ending.producer_epoch >= LAST_EPOCH:
            next_producer_id = self._reserve_producer_id()
        if next_producer_id is None:
            return None
        return ending._replace(
            producer_epoch=ending.producer_epoch + 1, next_producer_id=next_producer_id
        )

    def _abort_for_producer(self, turn: Turn, saved: TransactionSaved) -> bool:
        """Aborts a transaction of version 2 whose producer may go on; False if it needs a producer id and gets none.

        Only an EndTxn gets the new epoch. An InitProducerId with the old identity does not, because it may have been
        sent before the transaction.
        """
        prepared = self._with_next_epoch(saved._replace(state=TxnState.PREPARE_ABORT))
        if prepared is None:
            return False
        self._last_epochs.pop(saved.transactional_id, None)
        self._become(turn, prepared, saved)
        self._send_markers(turn, prepared)
        return True

    def _fence(self, turn: Turn, saved: TransactionSaved) -> None:
        """Aborts a transaction under an epoch that no producer has, which fences its producer.

        For another instance that becomes the producer, and for a transaction of version 1 that has timed out, whose
        producer has no way to learn a new epoch.

        The epoch stays if it is the one above the last already: Kafka once gave that one to producers, and Ottla may
        have taken over its log (KAFKA-20090).

        It is written as a transaction of version 1, so that the epoch before is not taken for a retry of its end, which
        would tell the fenced producer its next epoch.
        """
        fenced = saved._replace(
            state=TxnState.PREPARE_ABORT,
            producer_epoch=min(saved.producer_epoch, LAST_EPOCH) + 1,
            next_producer_id=NO_PRODUCER_ID,
            client_version=VERSION_1,
        )
        self._last_epochs.pop(saved.transactional_id, None)
        self._become(turn, fenced, saved)
        self._send_markers(turn, fenced)

    def _send_markers(self, turn: Turn, prepared: TransactionSaved) -> None:
        if not prepared.partitions:
            self._complete(turn, prepared)
            return
        self._unmarked[prepared.transactional_id] = dict.fromkeys(prepared.partitions)
        turn.then(
            SendMarkers(
                prepared.transactional_id,
                ProducerIdentity(prepared.producer_id, prepared.producer_epoch),
                RESULT_OF[prepared.state],
                prepared.partitions,
                max(prepared.client_version, VERSION_1),
            )
        )

    def marked(
        self,
        turn: Turn,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Sequence[TopicPartition],
    ) -> None:
        """Partitions have their markers, or are deleted; with the last of them the transaction is complete."""
        saved = self._saved.get(transactional_id)
        if saved is None or (saved.producer_id, saved.producer_epoch) != producer:
            return
        unmarked = self._unmarked.get(transactional_id)
        if unmarked is None:
            return
        for partition in partitions:
            unmarked.pop(partition, None)
        if not unmarked:
            self._complete(turn, saved)

    def _complete(self, turn: Turn, prepared: TransactionSaved) -> None:
        self._unmarked.pop(prepared.transactional_id, None)
        complete = prepared._replace(state=COMPLETED[prepared.state], partitions=())
        if prepared.next_producer_id != NO_PRODUCER_ID:
            complete = complete._replace(
                producer_id=prepared.next_producer_id,
                producer_epoch=0,
                previous_producer_id=prepared.producer_id,
                next_producer_id=NO_PRODUCER_ID,
            )
        self._become(turn, complete, prepared)
        self._waiting.answer(turn, prepared.transactional_id)

    # Queries.

    def describe(self, transactional_id: str) -> DescribedTransaction | None:
        saved = self._saved.get(transactional_id)
        return None if saved is None else _described(saved)

    def count_states(self) -> Counter[TxnState]:
        """The number of transactional ids in each state."""
        return Counter(saved.state for saved in self._saved.values())

    def list_transactions(self) -> list[DescribedTransaction]:
        return [_described(saved) for saved in self._saved.values()]


def _described(saved: TransactionSaved) -> DescribedTransaction:
    return DescribedTransaction(
        saved.transactional_id,
        saved.producer_id,
        saved.producer_epoch,
        saved.state,
        saved.timeout_ms,
        saved.started_at_ms,
        saved.partitions,
    )
