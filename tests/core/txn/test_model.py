"""Producers with the same id, whose requests are lost, repeated, delayed and delivered to restarted coordinators.

The model knows nothing of how the machine decides. It keeps who is the producer, by what was answered, and how each
transaction ended; from these follow what a request may change and what it may be told.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.core.txn.desk import NOW_MS, A, B, Desk

from ottla.core.outcomes import Refused
from ottla.core.turn import ProducerIdentity
from ottla.core.txn import records
from ottla.core.txn.events import TransactionSaved
from ottla.core.txn.requests import SendMarkers
from ottla.core.txn.states import Result, TxnState
from ottla.errors import ErrorCode
from ottla.model import TopicPartition

ID = "pipeline"
# The rules' table once more, by the numbers of the records.
FOLLOWERS = {
    None: {0},
    0: {0, 1, 3},
    1: {1, 2, 3},
    2: {4},
    3: {5},
    4: {0, 1, 3},
    5: {0, 1, 3},
}
PREPARED = {2: Result.COMMIT, 3: Result.ABORT}
RETRIED = {ErrorCode.CONCURRENT_TRANSACTIONS}


class Call(NamedTuple):
    """A request on its way; `transaction` is the one that an end is meant for."""

    client: int
    kind: Literal["init", "add", "end"]
    who: ProducerIdentity | None
    partition: TopicPartition | None = None
    result: Result | None = None
    transaction: int = -1


@dataclass
class Client:
    """What an instance of the producer believes."""

    version: int
    who: ProducerIdentity | None = None
    in_transaction: bool = False
    waits_for: Call | None = None
    is_out: bool = False


class Producers(RuleBasedStateMachine):
    first_epoch = -1

    def __init__(self) -> None:
        super().__init__()
        self.desk = Desk()
        if self.first_epoch >= 0:
            self.desk.plant(
                TransactionSaved(ID, 500, self.first_epoch, 60_000, TxnState.EMPTY, (), NOW_MS, -1)
            )
        self.clients: list[Client] = []
        self.flight: list[Call] = []
        self.markers: list[SendMarkers] = []
        # By what was answered: who may change something, and how transactions ended.
        self.live: ProducerIdentity | None = ProducerIdentity(500, self.first_epoch)
        self.transaction = 0
        self.version = 0  # of the one who is in it
        self.ends: dict[int, Result] = {}
        self.seen = len(self.desk.log)
        self.state: int | None = 0 if self.first_epoch >= 0 else None
        self.identity = ProducerIdentity(500, self.first_epoch)
        self.used_ids = {500}

    # What is written, whoever caused it.

    def read_log(self) -> None:
        """Everything that was written follows from what was before."""
        for key, value in self.desk.log[self.seen :]:
            event = records.decode(key, value)
            assert isinstance(event, TransactionSaved)
            number = int(event.state)
            assert number in FOLLOWERS[self.state], (self.state, number)
            identity = ProducerIdentity(event.producer_id, event.producer_epoch)
            if identity.producer_id != self.identity.producer_id:
                assert identity.producer_id not in self.used_ids
                assert identity.producer_epoch == 0
                self.used_ids.add(identity.producer_id)
            else:
                assert identity.producer_epoch >= self.identity.producer_epoch
            assert identity.producer_epoch <= 32767
            if number == 1 and self.state != 1:
                self.transaction += 1
            if number in PREPARED and self.state == 1:
                assert self.transaction not in self.ends
                self.ends[self.transaction] = PREPARED[number]
            self.state, self.identity = number, identity
        self.seen = len(self.desk.log)
        self.markers += self.desk.sent
        self.desk.sent = []

    # Instances.

    @precondition(lambda self: len(self.clients) < 4)
    @rule(version=st.sampled_from([1, 2, 2]))
    def new_instance(self, version: int) -> None:
        self.clients.append(Client(version))
        self.send(Call(len(self.clients) - 1, "init", None))

    def send(self, call: Call) -> None:
        self.clients[call.client].waits_for = call
        self.flight.append(call)

    @precondition(lambda self: self.clients)
    @rule(
        pick=st.integers(0, 3),
        wish=st.sampled_from(["add", "add", "commit", "commit", "abort", "init"]),
        partition=st.sampled_from([A, B]),
    )
    def act(self, pick: int, wish: str, partition: TopicPartition) -> None:
        """An instance does the next thing; one that waits in vain asks again."""
        number = pick % len(self.clients)
        client = self.clients[number]
        if client.is_out:
            return
        if client.waits_for is not None:
            if client.waits_for not in self.flight:
                self.flight.append(client.waits_for)
            return
        assert client.who is not None
        if wish == "add":
            self.forget_ends_of_version_1(client, number)
            self.send(Call(number, "add", client.who, partition))
        elif wish == "init" and not client.in_transaction:
            self.send(Call(number, "init", client.who))
        elif client.in_transaction and wish in ("commit", "abort"):
            result = Result.COMMIT if wish == "commit" else Result.ABORT
            self.send(Call(number, "end", client.who, None, result, self.transaction))

    def forget_ends_of_version_1(self, client: Client, number: int) -> None:
        """Without an epoch per transaction a late end cannot be told from the next one: hence version 2."""
        if client.version == 1:
            self.flight = [
                call for call in self.flight if call.client != number or call.kind != "end"
            ]

    # The network.

    @precondition(lambda self: self.flight)
    @rule(pick=st.integers(0, 7), stays=st.booleans(), answer_arrives=st.booleans())
    def deliver(self, pick: int, stays: bool, answer_arrives: bool) -> None:
        call = self.flight[pick % len(self.flight)]
        if not stays:
            self.flight.remove(call)
        client = self.clients[call.client]
        before = self.desk.snapshot()
        may_change = call.who == self.live or (call.kind == "init" and call.who is None)
        answer, became = self.decide(call, client.version)
        if not may_change:
            assert self.desk.snapshot() == before, f"{call} changed something"
        if self.desk.snapshot() != before:
            self.note(call, answer, became)
        # At most one identity is live, and whoever is told that it is somebody is told that one.
        assert became is None or became == self.live
        self.read_log()
        if answer is ErrorCode.NONE and call.kind == "end" and call.transaction in self.ends:
            # Whoever hears that it is done hears what was done.
            assert self.ends[call.transaction] is call.result
        if answer_arrives and client.waits_for == call:
            self.hear(client, call, answer, became)

    def decide(self, call: Call, version: int) -> tuple[ErrorCode, ProducerIdentity | None]:
        if call.kind == "add":
            assert call.who is not None
            assert call.partition is not None
            return self.desk.add(call.who, call.partition, version=version, name=ID), None
        if call.kind == "init":
            answer = self.desk.init(call.who)
        else:
            assert call.who is not None
            assert call.result is not None
            answer = self.desk.end(call.who, call.result, version)
        if isinstance(answer, Refused):
            return answer.error, None
        assert answer.producer_id != -1
        return ErrorCode.NONE, answer

    def note(self, call: Call, answer: ErrorCode, became: ProducerIdentity | None) -> None:
        """Something changed: who is the producer now?"""
        if call.kind == "add":
            assert answer is ErrorCode.NONE
            self.version = self.clients[call.client].version
        elif became is None:
            assert (call.kind, answer) == ("init", ErrorCode.CONCURRENT_TRANSACTIONS)
            self.live = None  # it was fenced, and nobody has its place yet
        else:
            self.live = became

    def hear(
        self, client: Client, call: Call, answer: ErrorCode, became: ProducerIdentity | None
    ) -> None:
        if answer in RETRIED:
            return
        client.waits_for = None
        if answer is not ErrorCode.NONE:
            client.is_out = True
            return
        if became is not None:
            client.who = became
        client.in_transaction = call.kind == "add"

    @precondition(lambda self: self.markers)
    @rule(pick=st.integers(0, 5), some=st.sampled_from([(A,), (B,), (A, B)]), stays=st.booleans())
    def partitions_answer(self, pick: int, some: tuple[TopicPartition, ...], stays: bool) -> None:
        wanted = self.markers[pick % len(self.markers)]
        self.desk.mark(wanted, some)
        self.read_log()
        if not stays and set(some) >= set(wanted.partitions):
            self.markers.remove(wanted)

    # The coordinator.

    @rule()
    def restart(self) -> None:
        before = self.desk.snapshot()
        self.markers = []
        self.desk.restart()
        assert self.desk.snapshot() == before
        self.read_log()

    @rule()
    def time_out(self) -> None:
        was = self.state
        self.desk.pass_time(70_001)
        self.desk.decide(self.desk.machine.wake)
        self.read_log()
        if was == 1:
            assert self.state == 3
            # With version 1 it is fenced. With version 2 it is the producer still: its abort is told the epoch.
            self.live = self._who_goes_on() if self.version == 2 else None

    def _who_goes_on(self) -> ProducerIdentity:
        if self.identity.producer_epoch < 32767:
            return self.identity
        return ProducerIdentity(self.desk.next_producer_id, 0)

    @invariant()
    def the_producer_is_the_one_that_was_told(self) -> None:
        saved = self.desk.machine._saved.get(ID)
        if saved is None or self.live is None:
            return
        if saved.next_producer_id != -1:
            assert self.live == (saved.next_producer_id, 0)
        else:
            assert self.live == (saved.producer_id, saved.producer_epoch)

    def teardown(self) -> None:
        """Whatever is prepared becomes complete when its partitions have answered."""
        self.desk.restart()
        self.desk.mark_all()
        self.desk.sent = []
        self.read_log()
        assert self.state not in PREPARED


class ProducersWithFewEpochs(Producers):
    """As above, with epochs that soon run out."""

    first_epoch = 32763


TestProducers: Any = Producers.TestCase
TestProducers.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
TestProducersWithFewEpochs: Any = ProducersWithFewEpochs.TestCase
TestProducersWithFewEpochs.settings = settings(
    max_examples=60, stateful_step_count=50, deadline=None
)
