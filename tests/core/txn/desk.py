"""A transaction machine with everything around it: a clock, a log that it can be replayed from, and producer ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ottla.core.outcomes import Refused, error_of
from ottla.core.turn import ProducerIdentity, Turn
from ottla.core.txn import records
from ottla.core.txn.events import VERSION_2, Event, TransactionSaved
from ottla.core.txn.machine import TransactionMachine
from ottla.core.txn.requests import (
    EndRequest,
    InitRequest,
    SendMarkers,
    TransactionConfig,
)
from ottla.core.txn.states import Result, TxnState
from ottla.errors import ErrorCode
from ottla.model import TopicPartition

T = TypeVar("T")

NOW_MS = 1_700_000_000_000
TIMEOUT_MS = 60_000
ID = "pipeline"
A, B, OFFSETS = (
    TopicPartition("a", 0),
    TopicPartition("b", 1),
    TopicPartition("__consumer_offsets", 7),
)
CONFIG = TransactionConfig()
COMMIT, ABORT = Result.COMMIT, Result.ABORT


class Desk:
    """Decides, writes and remembers; markers are not delivered until a test says so."""

    def __init__(self, config: TransactionConfig = CONFIG) -> None:
        self.config = config
        self.next_producer_id = 1000
        self.has_producer_ids = True
        self.machine = TransactionMachine(config, self.fresh_id)
        self.now_ms = NOW_MS
        self.uptime_ms = 0
        self.log: list[tuple[bytes, bytes | None]] = []
        self.sent: list[SendMarkers] = []
        self.decide(self.machine.start)

    def decide(self, decision: Callable[[Turn], T]) -> T:
        turn = Turn(self.now_ms, self.uptime_ms)
        result = decision(turn)
        self.log += [records.encode(written.event) for written in turn.written]
        for effect in turn.effects:
            assert isinstance(effect, SendMarkers)
            self.sent.append(effect)
        return result

    def fresh_id(self) -> int | None:
        if not self.has_producer_ids:
            return None
        self.next_producer_id += 1
        return self.next_producer_id

    def plant(self, event: Event) -> None:
        """Has something in the log that a coordinator before this one wrote."""
        self.log.append(records.encode(event))
        self.restart()

    def restart(self) -> None:
        """Another coordinator replays the log; what was on its way is lost."""
        self.machine = TransactionMachine(self.config, self.fresh_id)
        self.sent = []
        for key, value in self.log:
            event = records.decode(key, value)
            assert event is not None
            self.machine.apply(event)
        self.decide(self.machine.start)

    def pass_time(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        self.uptime_ms += passed_ms

    # Requests.

    def init(
        self, expected: ProducerIdentity | None = None, timeout_ms: int = TIMEOUT_MS, name: str = ID
    ) -> ProducerIdentity | Refused:
        request = InitRequest(name, timeout_ms, expected)
        return self.decide(lambda turn: self.machine.init(turn, request))

    def add(
        self,
        who: ProducerIdentity,
        *partitions: TopicPartition,
        version: int = VERSION_2,
        name: str = ID,
    ) -> ErrorCode:
        return error_of(
            self.decide(
                lambda turn: self.machine.add_partitions(turn, name, who, partitions, version)
            )
        )

    def verify(
        self, who: ProducerIdentity, *partitions: TopicPartition, name: str = ID
    ) -> list[ErrorCode]:
        return [error_of(refused) for refused in self.machine.verify(name, who, partitions)]

    def end(
        self, who: ProducerIdentity, result: Result, version: int = VERSION_2, name: str = ID
    ) -> ProducerIdentity | Refused:
        request = EndRequest(name, who, result, version)
        return self.decide(lambda turn: self.machine.end(turn, request))

    def mark(self, wanted: SendMarkers, partitions: Sequence[TopicPartition] | None = None) -> None:
        """The partitions say that they have their markers."""
        marked = wanted.partitions if partitions is None else partitions
        self.decide(
            lambda turn: self.machine.marked(turn, wanted.transactional_id, wanted.producer, marked)
        )

    def mark_all(self) -> None:
        while self.sent:
            self.mark(self.sent.pop(0))

    # What became of it.

    @property
    def saved(self) -> TransactionSaved:
        found = self.machine._saved[ID]
        assert isinstance(found, TransactionSaved)
        return found

    def is_in(self, state: TxnState) -> bool:
        return self.saved.state is state

    @property
    def state(self) -> TxnState:
        return self.saved.state

    @property
    def who(self) -> ProducerIdentity:
        return ProducerIdentity(self.saved.producer_id, self.saved.producer_epoch)

    def snapshot(self) -> object:
        return dict(self.machine._saved)


def became(outcome: ProducerIdentity | Refused) -> ProducerIdentity:
    assert isinstance(outcome, ProducerIdentity), outcome
    return outcome


def error_in(outcome: ProducerIdentity | Refused) -> ErrorCode:
    return outcome.error if isinstance(outcome, Refused) else ErrorCode.NONE


def ongoing(desk: Desk, *partitions: TopicPartition, version: int = VERSION_2) -> ProducerIdentity:
    """A producer in a transaction, as clients of that version are."""
    who = became(desk.init())
    assert desk.add(who, *(partitions or (A,)), version=version) is ErrorCode.NONE
    return who


def committed(desk: Desk, version: int = VERSION_2) -> ProducerIdentity:
    """Who the producer is after its transaction."""
    who = became(desk.end(ongoing(desk, version=version), COMMIT, version))
    desk.mark_all()
    return who


def at_epoch(
    desk: Desk, epoch: int, state: TxnState = TxnState.EMPTY, **fields: object
) -> ProducerIdentity:
    """A producer that has used so many epochs."""
    event = TransactionSaved(
        ID, 500, epoch, TIMEOUT_MS, state, (), desk.now_ms, -1, client_version=VERSION_2
    )
    desk.plant(event._replace(**fields))  # type: ignore[arg-type]
    return ProducerIdentity(500, epoch)
