"""The transactional ids of one `__transaction_state` partition as a state machine.

A transaction ends in two phases: PREPARE is durable before anybody is told, then markers go to every partition of it,
then COMPLETE is written. Whoever loads the partition finds PREPARE and goes on from there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ottla.core.turn import Producer, Turn, Written
from ottla.core.txn.events import (
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
    Result,
    State,
)
from ottla.errors import ErrorCode
from ottla.model import TopicPartition

# The highest epoch that a producer gets; the one above is for fencing it.
LAST_EPOCH = 32766


class TransactionMachine:
    """Every decision is a method that is given the turn it is made in.

    Producer ids are reserved outside: `wants_producer_id` and `wants_next_producer_id` say whether one is needed.
    """

    def __init__(self, config: TransactionConfig) -> None:
        self.config = config
        self._saved: dict[str, TransactionSaved] = {}
        # Not in Kafka's records: the epoch before the last bump, which a retry of InitProducerId still names.
        self._last_epochs: dict[str, int] = {}
        # Partitions that have not got their marker yet, of ids that are in Prepare*; dicts for their order.
        self._unmarked: dict[str, dict[TopicPartition, None]] = {}
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

    def apply_commit_marker(self, producer_id: int) -> None:
        """Nothing that is written here belongs to a transaction."""

    def apply_abort_marker(self, producer_id: int) -> None:
        """As above."""

    def durable_state(self) -> object:
        """What a replay of the log has to give again."""
        return self._saved

    def _write(self, turn: Turn, event: Event) -> None:
        self.apply(event)
        turn.written.append(Written(event, None))

    def _become(self, turn: Turn, saved: TransactionSaved, before: TransactionSaved) -> None:
        assert saved.state in MAY_BECOME[before.state], f"{before.state!r} to {saved.state!r}"
        self._write(turn, saved._replace(updated_at_ms=turn.now_ms))

    # Time.

    def start(self, turn: Turn) -> None:
        """Goes on where the log ends: what is prepared gets its markers."""
        for saved in list(self._saved.values()):
            if saved.state in IN_BETWEEN:
                self._send_markers(turn, saved)
        self._abort_check_due_ms = turn.uptime_ms + self.config.abort_check_interval_ms
        self._expiry_due_ms = turn.uptime_ms + self.config.expiry_check_interval_ms

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
        """Ends transactions whose producers take too long, and fences them."""
        for saved in list(self._saved.values()):
            if (
                saved.state is State.ONGOING
                and saved.started_at_ms + saved.timeout_ms < turn.now_ms
            ):
                self._fence(turn, saved)
                turn.note(
                    "transaction_timed_out",
                    "transactional id %(transactional_id)s: its transaction took longer than "
                    "%(timeout_ms)d ms and is aborted, its producer fenced",
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

    def wants_producer_id(self, request: InitRequest) -> bool:
        """Whether `init` would give the producer a new id."""
        saved = self._saved.get(request.transactional_id)
        return saved is None or self._rotates(saved, request.expected)

    def _rotates(self, saved: TransactionSaved, expected: Producer | None) -> bool:
        is_used_up = saved.producer_epoch >= LAST_EPOCH
        return is_used_up and (expected is None or expected.producer_epoch == saved.producer_epoch)

    def init(self, turn: Turn, request: InitRequest, fresh_producer_id: int) -> Identity:
        """Makes somebody the producer of an id, whoever was it before is out."""
        if not 0 < request.timeout_ms <= self.config.max_timeout_ms:
            return Identity(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        saved = self._saved.get(request.transactional_id)
        if saved is None:
            return self._init_first(turn, request, fresh_producer_id)
        if saved.state in IN_BETWEEN:
            return Identity(ErrorCode.CONCURRENT_TRANSACTIONS)
        if request.expected is not None and not self._may_be(saved, request.expected):
            return Identity(ErrorCode.PRODUCER_FENCED)
        if saved.state is State.ONGOING:
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
            return self._rotate(turn, saved, request, fresh_producer_id)
        return self._bump(turn, saved, request)

    def _may_be(self, saved: TransactionSaved, expected: Producer) -> bool:
        """Whether a producer that says who it was can be it; a retry may still name the id that was used up."""
        if expected.producer_id == saved.producer_id:
            return True
        return (
            expected.producer_id == saved.previous_producer_id
            and expected.producer_epoch >= LAST_EPOCH
        )

    def _init_first(self, turn: Turn, request: InitRequest, producer_id: int) -> Identity:
        saved = TransactionSaved(
            request.transactional_id,
            producer_id,
            0,
            request.timeout_ms,
            State.EMPTY,
            (),
            turn.now_ms,
            NO_TIMESTAMP,
        )
        self._write(turn, saved)
        self._last_epochs.pop(request.transactional_id, None)
        return Identity(ErrorCode.NONE, producer_id, 0)

    def _rotate(
        self, turn: Turn, saved: TransactionSaved, request: InitRequest, producer_id: int
    ) -> Identity:
        """The epochs of the producer id are used up: another id begins at 0."""
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
            state=State.EMPTY,
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
        producer: Producer,
        partitions: Sequence[TopicPartition],
        version: int,
    ) -> ErrorCode:
        """Makes partitions part of the transaction, which begins with the first of them."""
        saved = self._saved.get(transactional_id)
        error = self._refuse(saved, producer)
        if saved is None or not partitions or error is not ErrorCode.NONE:
            return error
        added = dict.fromkeys((*saved.partitions, *partitions))
        if saved.state is State.ONGOING and len(added) == len(saved.partitions):
            return ErrorCode.NONE
        is_first = saved.state is not State.ONGOING
        ongoing = saved._replace(
            state=State.ONGOING,
            partitions=tuple(dict.fromkeys(partitions)) if is_first else tuple(added),
            started_at_ms=turn.now_ms if is_first else saved.started_at_ms,
            client_version=version,
        )
        self._become(turn, ongoing, saved)
        return ErrorCode.NONE

    def verify(
        self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition]
    ) -> list[ErrorCode]:
        """Whether partitions are part of the transaction (KIP-890), so that nothing is written outside of one."""
        saved = self._saved.get(transactional_id)
        error = self._refuse(saved, producer)
        if saved is None or error is not ErrorCode.NONE:
            return [error] * len(partitions)
        inside = saved.partitions if saved.state is State.ONGOING else ()
        return [
            ErrorCode.NONE if partition in inside else ErrorCode.TRANSACTION_ABORTABLE
            for partition in partitions
        ]

    def _refuse(self, saved: TransactionSaved | None, producer: Producer) -> ErrorCode:
        if saved is None:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        # Before the others: the producer may already go by the id that it gets when the transaction is complete.
        if saved.state in IN_BETWEEN:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if saved.producer_id != producer.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if not _is_epoch_of(saved, producer):
            return ErrorCode.PRODUCER_FENCED
        return ErrorCode.NONE

    # The end of a transaction.

    def wants_next_producer_id(self, request: EndRequest) -> bool:
        """Whether `end` would use up the last epoch of the producer id."""
        saved = self._saved.get(request.transactional_id)
        return (
            saved is not None
            and request.version >= VERSION_2
            and saved.state not in IN_BETWEEN
            and saved.producer_epoch >= LAST_EPOCH
        )

    def end(self, turn: Turn, request: EndRequest, fresh_producer_id: int) -> Identity:
        """Commits or aborts; with version 2 the producer goes on under the identity that it is answered."""
        saved = self._saved.get(request.transactional_id)
        if saved is None:
            return Identity(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if saved.client_version >= VERSION_2:
            verdict = self._check_end(saved, request)
        else:
            verdict = self._check_end_of_version_1(saved, request)
        if verdict is not None:
            if verdict is ErrorCode.NONE:  # a repetition of what was answered already
                return Identity(verdict, *self._identity_after(saved))
            return Identity(verdict)
        prepared = self._prepare(turn, saved, request, fresh_producer_id)
        return Identity(ErrorCode.NONE, *self._identity_after(prepared))

    def _identity_after(self, saved: TransactionSaved) -> Producer:
        """Who the producer is when the transaction that ends is complete."""
        if saved.state in IN_BETWEEN and saved.next_producer_id != NO_PRODUCER_ID:
            return Producer(saved.next_producer_id, 0)
        return Producer(saved.producer_id, saved.producer_epoch)

    def _check_end(self, saved: TransactionSaved, request: EndRequest) -> ErrorCode | None:
        """What to answer at once, None to end the transaction.

        The epoch tells the end of this transaction from a repetition of the last one's (KIP-890): a delayed EndTxn must
        not end a transaction that began after it.
        """
        if saved.state in RESULT_OF and self._is_retry(saved, request.producer):
            return self._check_repeated(saved, request)
        if saved.state in IN_BETWEEN:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if request.producer.producer_id != saved.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if not _is_epoch_of(saved, request.producer):
            return ErrorCode.PRODUCER_FENCED
        return self._check_begun(saved, request)

    def _is_retry(self, saved: TransactionSaved, producer: Producer) -> bool:
        """Whether this is who the producer was before the end of its last transaction changed that."""
        if producer == (saved.producer_id, saved.producer_epoch - 1):
            return True
        used_up = (saved.previous_producer_id, LAST_EPOCH)
        return saved.state in AT_REST and saved.producer_epoch == 0 and producer == used_up

    def _check_repeated(self, saved: TransactionSaved, request: EndRequest) -> ErrorCode:
        if RESULT_OF[saved.state] is not request.result:
            return ErrorCode.INVALID_TXN_STATE
        in_between = saved.state in IN_BETWEEN
        return ErrorCode.CONCURRENT_TRANSACTIONS if in_between else ErrorCode.NONE

    def _check_begun(self, saved: TransactionSaved, request: EndRequest) -> ErrorCode | None:
        """A client may abort what has not begun, because it cannot know: its first append may have failed."""
        if saved.state is State.ONGOING:
            return None
        aborts = request.result is Result.ABORT and request.version >= VERSION_2
        return None if aborts else ErrorCode.INVALID_TXN_STATE

    def _check_end_of_version_1(
        self, saved: TransactionSaved, request: EndRequest
    ) -> ErrorCode | None:
        if request.producer.producer_id != saved.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if not _is_epoch_of(saved, request.producer):
            return ErrorCode.PRODUCER_FENCED
        if saved.state in RESULT_OF:
            repeated = self._check_repeated(saved, request)
            if repeated is not ErrorCode.INVALID_TXN_STATE or saved.state in IN_BETWEEN:
                return repeated
        return self._check_begun(saved, request)

    def _prepare(
        self, turn: Turn, saved: TransactionSaved, request: EndRequest, fresh_producer_id: int
    ) -> TransactionSaved:
        has_begun = saved.state is State.ONGOING
        prepared = saved._replace(
            state=PREPARED[request.result],
            partitions=saved.partitions if has_begun else (),
            started_at_ms=saved.started_at_ms if has_begun else turn.now_ms,
            client_version=request.version,
        )
        if request.version >= VERSION_2:
            is_last = saved.producer_epoch >= LAST_EPOCH
            prepared = prepared._replace(
                producer_epoch=saved.producer_epoch + 1,
                next_producer_id=fresh_producer_id if is_last else NO_PRODUCER_ID,
            )
            self._last_epochs[saved.transactional_id] = saved.producer_epoch
        self._become(turn, prepared, saved)
        self._send_markers(turn, prepared)
        return prepared

    def _fence(self, turn: Turn, saved: TransactionSaved) -> None:
        """Aborts a transaction under an epoch that no producer has: whoever wrote in it can do nothing any more.

        It is noted as one of version 1, under which the epoch before this one is not taken for a retry of its end: that
        would tell a producer which is out the epoch to go on with.
        """
        fenced = saved._replace(
            state=State.PREPARE_ABORT,
            producer_epoch=saved.producer_epoch + 1,
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
                Producer(prepared.producer_id, prepared.producer_epoch),
                RESULT_OF[prepared.state],
                prepared.partitions,
                max(prepared.client_version, VERSION_1),
            )
        )

    def marked(
        self,
        turn: Turn,
        transactional_id: str,
        producer: Producer,
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

    def count_states(self) -> Counter[State]:
        """How many ids are in which state."""
        return Counter(saved.state for saved in self._saved.values())

    def list_transactions(self) -> list[DescribedTransaction]:
        return [_described(saved) for saved in self._saved.values()]


def _is_epoch_of(saved: TransactionSaved, producer: Producer) -> bool:
    """Whether a producer has the epoch of its id; the one above the last is nobody's, since nothing could fence it."""
    return producer.producer_epoch == saved.producer_epoch <= LAST_EPOCH


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
