"""A transactional id brought into a state, and somebody who asks for something under an identity that may be wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tests.broker import txn_requests as ask
from tests.broker.txn_requests import Identity

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode

STRANGER = 987_654_321


class Stage:
    """A transactional id of its own for one situation, on a broker that has a topic."""

    def __init__(self, connection: RawConnection, topic: str, group: str) -> None:
        self.connection = connection
        self.topic = topic
        self.group = group
        self.transactional_id = ask.new_id()
        self.sequence = 0

    # States; each returns who the producer is then.

    def unknown(self) -> Identity:
        return Identity(STRANGER, 5)

    def empty(self) -> Identity:
        """With an epoch that has older ones."""
        for _ in range(3):
            who = ask.become(self.connection, self.transactional_id)
        return who

    def ongoing_v1(self) -> Identity:
        who = self.empty()
        partitions = {self.topic: [0]}
        assert ask.add_partitions(self.connection, self.transactional_id, who, partitions) == [
            ErrorCode.NONE
        ]
        return self._sent(who, ask.PRODUCE_V1)

    def ongoing_v2(self) -> Identity:
        return self._sent(self.empty(), ask.PRODUCE_V2)

    def _sent(self, who: Identity, version: int) -> Identity:
        error = ask.send(
            self.connection, self.transactional_id, who, self.topic, 0, version=version
        )
        assert error is ErrorCode.NONE, error
        self.sequence = 1
        return who

    def ended_v1(self, commits: bool) -> Identity:
        who = self.ongoing_v1()
        error = ask.end_error(
            self.connection, self.transactional_id, who, commits=commits, version=ask.END_V1
        )
        assert error is ErrorCode.NONE, error
        self._await_end(commits)
        return who

    def ended_v2(self, commits: bool) -> Identity:
        who = self.ongoing_v2()
        answer = ask.end(self.connection, self.transactional_id, who, commits=commits)
        assert answer.error_code == ErrorCode.NONE, answer
        self._await_end(commits)
        self.sequence = 0
        return Identity(answer.producer_id, answer.producer_epoch)

    def _await_end(self, commits: bool) -> None:
        state = "CompleteCommit" if commits else "CompleteAbort"
        ask.await_state(self.connection, self.transactional_id, state)

    def fenced(self, who: Identity) -> Identity:
        """Somebody whose transaction was aborted because another instance came."""
        ask.become(self.connection, self.transactional_id)
        return who

    def next_ongoing_v2(self) -> Identity:
        """In the transaction after the first one."""
        who = self.ended_v2(True)
        return self._sent(who, ask.PRODUCE_V2)

    def next_ongoing_v1(self) -> Identity:
        who = self.ended_v1(True)
        partitions = {self.topic: [0]}
        assert ask.add_partitions(self.connection, self.transactional_id, who, partitions) == [
            ErrorCode.NONE
        ]
        error = ask.send(
            self.connection, self.transactional_id, who, self.topic, 1, version=ask.PRODUCE_V1
        )
        assert error is ErrorCode.NONE, error
        self.sequence = 2
        return who


STATES: dict[str, Callable[[Stage], Identity]] = {
    "unknown": Stage.unknown,
    "empty": Stage.empty,
    "ongoing v1": Stage.ongoing_v1,
    "ongoing v2": Stage.ongoing_v2,
    "committed v1": lambda stage: stage.ended_v1(True),
    "committed v2": lambda stage: stage.ended_v2(True),
    "aborted v1": lambda stage: stage.ended_v1(False),
    "aborted v2": lambda stage: stage.ended_v2(False),
    "fenced v1": lambda stage: stage.fenced(stage.ongoing_v1()),
    "fenced v2": lambda stage: stage.fenced(stage.ongoing_v2()),
    "next ongoing v1": Stage.next_ongoing_v1,
    "next ongoing v2": Stage.next_ongoing_v2,
}
RELATIONS: dict[str, Callable[[Identity], Identity]] = {
    "current": lambda who: who,
    "older": Identity.older,
    "newer": Identity.newer,
    "stranger": lambda who: Identity(STRANGER, who.epoch),
}


def _identity(answer: Any, before: Identity) -> str:
    """The error, or who the producer is now compared with before."""
    error = ErrorCode(answer.error_code)
    if error is not ErrorCode.NONE or answer.producer_id == -1:
        return error.name
    if answer.producer_id != before.producer_id:
        return "another id"
    return f"epoch {answer.producer_epoch - before.epoch:+d}"


class Asked(NamedTuple):
    """A request of a kind, at the versions at which answers differ."""

    versions: tuple[int, ...]
    # Whether the request names a producer at all.
    relations: tuple[str, ...]
    act: Callable[[Stage, Identity, Identity, int], str]


def _init(stage: Stage, who: Identity, current: Identity, version: int) -> str:
    answer = ask.init(stage.connection, stage.transactional_id, version=version)
    return _identity(answer, current)


def _init_again(stage: Stage, who: Identity, current: Identity, version: int) -> str:
    answer = ask.init(stage.connection, stage.transactional_id, expected=who, version=version)
    return _identity(answer, current)


def _add(stage: Stage, who: Identity, current: Identity, version: int) -> str:
    (error,) = ask.add_partitions(
        stage.connection, stage.transactional_id, who, {stage.topic: [1]}, version=version
    )
    return error.name


def _verify(stage: Stage, who: Identity, current: Identity, version: int) -> str:
    """What is said of a partition that may be part of the transaction, and of one that is not."""
    inside, outside = ask.add_partitions(
        stage.connection,
        stage.transactional_id,
        who,
        {stage.topic: [0, 1]},
        version=version,
        verify_only=True,
    )
    return inside.name if inside is outside else f"{inside.name}, {outside.name}"


def _add_offsets(stage: Stage, who: Identity, current: Identity, version: int) -> str:
    return ask.add_offsets(
        stage.connection, stage.transactional_id, who, stage.group, version=version
    ).name


def _commit_offsets(stage: Stage, who: Identity, current: Identity, version: int) -> str:
    (error,) = ask.commit_offsets(
        stage.connection,
        stage.transactional_id,
        who,
        stage.group,
        {(stage.topic, 0): 3},
        version=version,
    )
    return error.name


def _commit(stage: Stage, who: Identity, current: Identity, version: int) -> str:
    return _identity(
        ask.end(stage.connection, stage.transactional_id, who, commits=True, version=version),
        current,
    )


def _abort(stage: Stage, who: Identity, current: Identity, version: int) -> str:
    return _identity(
        ask.end(stage.connection, stage.transactional_id, who, commits=False, version=version),
        current,
    )


def _produce(stage: Stage, who: Identity, current: Identity, version: int) -> str:
    """The next batch of the producer as it is now."""
    return ask.send(
        stage.connection,
        stage.transactional_id,
        who,
        stage.topic,
        stage.sequence if who == current else 0,
        version=version,
    ).name


ALL = tuple(RELATIONS)
REQUESTS = {
    "InitProducerId": Asked((1, 5), ("current",), _init),
    "InitProducerId, saying who it was": Asked((3, 5), ALL, _init_again),
    "AddPartitionsToTxn": Asked((1, 3, 5), ALL, _add),
    "AddPartitionsToTxn, verify only": Asked((4, 5), ALL, _verify),
    "AddOffsetsToTxn": Asked((1, 4), ALL, _add_offsets),
    "TxnOffsetCommit": Asked((3, 4, 5), ALL, _commit_offsets),
    "EndTxn, commit": Asked((1, 4, 5), ALL, _commit),
    "EndTxn, abort": Asked((1, 4, 5), ALL, _abort),
    "Produce": Asked((9, 11, 12), ALL, _produce),
}


def answers(
    address: str, topic: str, group: str, request: str, state: str, relation: str
) -> dict[int, str]:
    """What is answered at each version."""
    asked = REQUESTS[request]
    found = {}
    for version in asked.versions:
        with stage_on(address, topic, group) as stage:
            current = STATES[state](stage)
            who = RELATIONS[relation](current)
            found[version] = asked.act(stage, who, current, version)
    return found


@contextmanager
def stage_on(address: str, topic: str, group: str) -> Iterator[Stage]:
    with RawConnection(address) as connection:
        yield Stage(connection, topic, group)
