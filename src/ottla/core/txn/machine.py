"""The transactional ids of one `__transaction_state` partition as a state machine.

A transaction ends in two phases: PREPARE is durable before anybody is told, then markers go to every partition of it,
then COMPLETE is written. Whoever loads the partition finds PREPARE and goes on from there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from ottla.core.turn import AppliedEvent, ProducerIdentity, Turn
from ottla.core.txn.end_checks import check_end, is_epoch_of
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
    Identity,
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
from ottla.errors import ErrorCode
from ottla.model import TopicPartition


class TransactionMachine:
    """Every decision is a method that is given the turn it is made in.

    `reserve_producer_id` gives a producer id that nobody has had, or None if none can be reserved now.
    """

    def __init__(
        self, config: TransactionConfig, reserve_producer_id: Callable[[], int | None]
    ) -> None:
        self.config = config
        self._reserve_producer_id = reserve_producer_id
        self._saved: dict[str, TransactionSaved] = {}
        # Not in Kafka's records: the epoch before the last bump, which a retry of InitProducerId still names.
        self._last_epochs: dict[str, int] = {}
        # Partitions that have not got their marker yet, of ids that are in Prepare*; dicts for their order.
        self._unmarked: dict[str, dict[TopicPartition, None]] = {}
        # The uptime at which transactions began: by the wall clock, once set back, they would not time out.
        self._began_ms: dict[str, int] = {}
        self._abort_check_due_ms: int | None = None
        self._expiry_due_ms: int | None = None

    # What is durable.

    def apply(self, event: Event, producer_id: int | None = None) -> None:
        """Takes an event of the log into account; there are none in transactions here."""
        match event:
            case TransactionSaved(transactional_id=transactional_id):
                self._saved[transactional_id] = event
            case TransactionDeleted(transactional_id=transactional_id):
                self._saved.pop(transactional_id, None)
                self._began_ms.pop(transactional_id, None)

    def apply_commit_marker(self, producer_id: int) -> None:
        """Nothing that is written here belongs to a transaction."""

    def apply_abort_marker(self, producer_id: int) -> None:
        """As above."""

    def durable_state(self) -> object:
        """What a replay of the log has to give again."""
        return self._saved

    def _write(self, turn: Turn, event: Event) -> None:
        self.apply(event)
        turn.written.append(AppliedEvent(event, None))

    def _become(self, turn: Turn, saved: TransactionSaved, before: TransactionSaved) -> None:
        assert saved.state in MAY_BECOME[before.state], f"{before.state!r} to {saved.state!r}"
        self._write(turn, saved._replace(updated_at_ms=turn.now_ms))

    # Time.

    def start(self, turn: Turn) -> None:
        """Goes on where the log ends: what is prepared gets its markers."""
        for saved in list(self._saved.values()):
            if saved.state in IN_BETWEEN:
                self._send_markers(turn, saved)
            elif saved.state is TxnState.ONGOING:
                self._take_over(turn, saved)
        self._abort_check_due_ms = turn.uptime_ms + self.config.abort_check_interval_ms
        self._expiry_due_ms = turn.uptime_ms + self.config.expiry_check_interval_ms

    def _take_over(self, turn: Turn, saved: TransactionSaved) -> None:
        """Reckons when a transaction began under another coordinator, whose uptime is not known here."""
        age_ms = min(max(turn.now_ms - saved.started_at_ms, 0), saved.timeout_ms + 1)
        self._began_ms[saved.transactional_id] = turn.uptime_ms - age_ms

    def next_wake_ms(self) -> int | None:
        """The uptime at which `wake` has something to do."""
        due = [self._abort_check_due_ms, self._expiry_due_ms]
        return min((due_ms for due_ms in due if due_ms is not None), default=None)

    def wake(self, turn: Turn) -> None:
        if self._abort_check_due_ms is not None and self._abort_check_due_ms <= turn.uptime_ms:
            self.abort_timed_out(turn)
            self._abort_check_due_ms = turn.uptime_ms + self.config.abort_check_interval_ms
        if self._expiry_due_ms is not None and self._expiry_due_ms <= turn.uptime_ms:
            self.expire(turn)
            self._expiry_due_ms = turn.uptime_ms + self.config.expiry_check_interval_ms

    def abort_timed_out(self, turn: Turn) -> None:
        """Ends transactions whose producers take too long.

        A producer of version 1 is fenced. One of version 2 is still the producer of its id: it may not commit any more,
        but when it aborts it is told the epoch to go on with, as if the abort had been its own (KIP-890, KAFKA-20090).
        """
        for saved in list(self._saved.values()):
            if (
                saved.state is TxnState.ONGOING
                and self._began_ms[saved.transactional_id] + saved.timeout_ms < turn.uptime_ms
            ):
                if saved.client_version < VERSION_2 or saved.producer_epoch > LAST_EPOCH:
                    self._fence(turn, saved)
                elif not self._abort_for_producer(turn, saved):
                    continue  # there is no producer id for it now: the next sweep tries again
                turn.note(
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
        """Forgets ids that nobody has used for long."""
        for saved in list(self._saved.values()):
            unused_ms = turn.now_ms - saved.updated_at_ms
            if saved.state in AT_REST and unused_ms >= self.config.id_expiration_ms:
                self._write(turn, TransactionDeleted(saved.transactional_id))
                self._last_epochs.pop(saved.transactional_id, None)

    # Becoming a producer.

    def _rotates(self, saved: TransactionSaved, expected: ProducerIdentity | None) -> bool:
        is_used_up = saved.producer_epoch >= LAST_EPOCH
        return is_used_up and (expected is None or expected.producer_epoch == saved.producer_epoch)

    def init(self, turn: Turn, request: InitRequest) -> Identity:
        """Makes somebody the producer of an id, whoever was it before is out."""
        if not 0 < request.timeout_ms <= self.config.max_timeout_ms:
            return Identity(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        saved = self._saved.get(request.transactional_id)
        if saved is None:
            return self._init_first(turn, request)
        if saved.state in IN_BETWEEN:
            return Identity(ErrorCode.CONCURRENT_TRANSACTIONS)
        if request.expected is not None and not self._may_be(saved, request.expected):
            return Identity(ErrorCode.PRODUCER_FENCED)
        if saved.state is TxnState.ONGOING:
            if request.expected not in (None, (saved.producer_id, saved.producer_epoch)):
                # Kafka lets it end the transaction; it may be a call that was on its way since before it began.
                return Identity(ErrorCode.PRODUCER_FENCED)
            # The predecessor's transaction ends first; the client asks again and gets an epoch of its own then.
            self._fence(turn, saved)
            turn.note(
                "transaction_fenced",
                "transactional id %(transactional_id)s: another producer came, the transaction of "
                "the one before is aborted",
                transactional_id=saved.transactional_id,
                producer_id=saved.producer_id,
                producer_epoch=saved.producer_epoch,
                partitions=len(saved.partitions),
            )
            return Identity(ErrorCode.CONCURRENT_TRANSACTIONS)
        if self._rotates(saved, request.expected):
            return self._rotate(turn, saved, request)
        return self._bump(turn, saved, request)

    def _may_be(self, saved: TransactionSaved, expected: ProducerIdentity) -> bool:
        """Whether a producer that says who it was can be it; a retry may still name the id that was used up."""
        if expected.producer_id == saved.producer_id:
            return True
        return (
            expected.producer_id == saved.previous_producer_id
            and expected.producer_epoch >= LAST_EPOCH
        )

    def _init_first(self, turn: Turn, request: InitRequest) -> Identity:
        producer_id = self._reserve_producer_id()
        if producer_id is None:
            return Identity(ErrorCode.COORDINATOR_NOT_AVAILABLE)
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
        return Identity(ErrorCode.NONE, producer_id, 0)

    def _rotate(self, turn: Turn, saved: TransactionSaved, request: InitRequest) -> Identity:
        """The epochs of the producer id are used up: another id begins at 0."""
        producer_id = self._reserve_producer_id()
        if producer_id is None:
            return Identity(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self._begin_anew(
            turn,
            saved._replace(
                producer_id=producer_id, producer_epoch=0, previous_producer_id=saved.producer_id
            ),
            request,
            saved,
        )
        return Identity(ErrorCode.NONE, producer_id, 0)

    def _bump(self, turn: Turn, saved: TransactionSaved, request: InitRequest) -> Identity:
        epoch = saved.producer_epoch
        expected = request.expected
        if expected is not None and expected.producer_epoch != epoch:
            if expected.producer_epoch != self._last_epochs.get(saved.transactional_id, NO_EPOCH):
                return Identity(ErrorCode.PRODUCER_FENCED)
            # A retry of a call that succeeded: nobody else has come in between, or the last epoch would be forgotten.
            return Identity(ErrorCode.NONE, saved.producer_id, epoch)
        self._begin_anew(turn, saved._replace(producer_epoch=epoch + 1), request, saved)
        return Identity(ErrorCode.NONE, saved.producer_id, epoch + 1)

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

    # What belongs to a transaction.

    def add_partitions(
        self,
        turn: Turn,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Sequence[TopicPartition],
        version: int,
    ) -> ErrorCode:
        """Makes partitions part of the transaction, which begins with the first of them."""
        saved = self._saved.get(transactional_id)
        error = self._refuse(saved, producer)
        if saved is None or not partitions or error is not ErrorCode.NONE:
            return error
        added = dict.fromkeys((*saved.partitions, *partitions))
        if saved.state is TxnState.ONGOING and len(added) == len(saved.partitions):
            return ErrorCode.NONE
        is_first = saved.state is not TxnState.ONGOING
        ongoing = saved._replace(
            state=TxnState.ONGOING,
            partitions=tuple(dict.fromkeys(partitions)) if is_first else tuple(added),
            started_at_ms=turn.now_ms if is_first else saved.started_at_ms,
            client_version=version,
        )
        if is_first:
            self._began_ms[transactional_id] = turn.uptime_ms
        self._become(turn, ongoing, saved)
        return ErrorCode.NONE

    def verify(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Sequence[TopicPartition],
    ) -> list[ErrorCode]:
        """Whether partitions are part of the transaction (KIP-890), so that nothing is written outside of one."""
        saved = self._saved.get(transactional_id)
        error = self._refuse(saved, producer)
        if saved is None or error is not ErrorCode.NONE:
            return [error] * len(partitions)
        inside = saved.partitions if saved.state is TxnState.ONGOING else ()
        return [
            ErrorCode.NONE if partition in inside else ErrorCode.TRANSACTION_ABORTABLE
            for partition in partitions
        ]

    def _refuse(self, saved: TransactionSaved | None, producer: ProducerIdentity) -> ErrorCode:
        if saved is None:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        # Before the others: the producer may already go by the id that it gets when the transaction is complete.
        if saved.state in IN_BETWEEN:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if saved.producer_id != producer.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if not is_epoch_of(saved, producer):
            return ErrorCode.PRODUCER_FENCED
        return ErrorCode.NONE

    # The end of a transaction.

    def end(self, turn: Turn, request: EndRequest) -> Identity:
        """Commits or aborts; with version 2 the producer goes on under the identity that it is answered."""
        saved = self._saved.get(request.transactional_id)
        if saved is None:
            return Identity(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        verdict = check_end(saved, request)
        if verdict is not None:
            if verdict is ErrorCode.NONE:  # a repetition of what was answered already
                return Identity(verdict, *self._identity_after(saved))
            return Identity(verdict)
        prepared = self._prepare(turn, saved, request)
        if prepared is None:
            return Identity(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return Identity(ErrorCode.NONE, *self._identity_after(prepared))

    def _identity_after(self, saved: TransactionSaved) -> ProducerIdentity:
        """Who the producer is when the transaction that ends is complete."""
        if saved.state in IN_BETWEEN and saved.next_producer_id != NO_PRODUCER_ID:
            return ProducerIdentity(saved.next_producer_id, 0)
        return ProducerIdentity(saved.producer_id, saved.producer_epoch)

    def _prepare(
        self, turn: Turn, saved: TransactionSaved, request: EndRequest
    ) -> TransactionSaved | None:
        """Writes how a transaction ends; None if that needs a producer id, and there is none."""
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
        """Every transaction has an epoch of its own; after the last one the producer goes on with another id."""
        next_producer_id: int | None = NO_PRODUCER_ID
        if ending.producer_epoch >= LAST_EPOCH:
            next_producer_id = self._reserve_producer_id()
        if next_producer_id is None:
            return None
        return ending._replace(
            producer_epoch=ending.producer_epoch + 1, next_producer_id=next_producer_id
        )

    def _abort_for_producer(self, turn: Turn, saved: TransactionSaved) -> bool:
        """Aborts a transaction of version 2 whose producer may go on; False if that needs a producer id in vain.

        Only the end of its transaction is told the new epoch. Who says who it was to become the producer again is told
        nothing of it, because it may be a call of before the transaction.
        """
        prepared = self._with_next_epoch(saved._replace(state=TxnState.PREPARE_ABORT))
        if prepared is None:
            return False
        self._last_epochs.pop(saved.transactional_id, None)
        self._become(turn, prepared, saved)
        self._send_markers(turn, prepared)
        return True

    def _fence(self, turn: Turn, saved: TransactionSaved) -> None:
        """Aborts a transaction under an epoch that no producer has: whoever wrote in it can do nothing any more.

        For another instance that wants to be the producer, and when a producer of version 1 takes too long: that one
        cannot be told a new epoch.

        The epoch stays if it is the one above the last already: Kafka once gave that one to producers, and we may
        have taken over its log (KAFKA-20090).

        It is noted as one of version 1, under which the epoch before this one is not taken for a retry of its end: that
        would tell a producer which is out the epoch to go on with.
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
        """Partitions have their markers, or are gone for good; with the last of them the transaction is complete."""
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

    # What can be asked.

    def describe(self, transactional_id: str) -> DescribedTransaction | None:
        saved = self._saved.get(transactional_id)
        return None if saved is None else _described(saved)

    def count_states(self) -> Counter[TxnState]:
        """How many ids are in which state."""
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
