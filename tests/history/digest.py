"""A history sorted by what it is about: transactions, what was read, and what there was at the end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from tests.history.events import READ_COMMITTED, Event


class Place(NamedTuple):
    """A partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Outcome(Enum):
    """What is known of a transaction; a commit without an answer is neither."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass
class Transaction:
    """One transaction as its producer saw it."""

    worker: str
    number: int
    transactional_id: str
    sent: dict[str, Place] = field(default_factory=dict)
    acknowledged: dict[str, int] = field(default_factory=dict)
    offsets: dict[tuple[str, Place], int] = field(default_factory=dict)
    wants_commit: bool = False
    committed_at: float | None = None
    is_aborted: bool = False

    def __str__(self) -> str:
        return f"transaction {self.number} of {self.worker}"

    @property
    def outcome(self) -> Outcome:
        """Without a call of commit it must not be committed, whatever became of its producer."""
        if self.committed_at is not None:
            return Outcome.COMMITTED
        if self.is_aborted or not self.wants_commit:
            return Outcome.ABORTED
        return Outcome.UNKNOWN


class Seek(NamedTuple):
    place: Place
    offset: int


class Polled(NamedTuple):
    place: Place
    offset: int
    value: str


@dataclass
class Reader:
    """What one consumer did, in its order."""

    name: str
    isolation: str = READ_COMMITTED
    steps: list[Seek | Polled] = field(default_factory=list)


class Position(NamedTuple):
    """A committed offset as somebody was told it."""

    worker: str
    group: str
    place: Place
    offset: int
    began: float


class Copying(NamedTuple):
    group: str
    source: str
    target: str


@dataclass
class Digest:
    """Everything that the checks look at."""

    transactions: dict[tuple[str, int], Transaction] = field(default_factory=dict)
    owner: dict[str, Transaction] = field(default_factory=dict)
    sent_twice: list[str] = field(default_factory=list)
    readers: dict[str, Reader] = field(default_factory=dict)
    positions: list[Position] = field(default_factory=list)
    copying: list[Copying] = field(default_factory=list)
    # By isolation level: what a reader from the beginning sees at the end.
    final: dict[str, dict[Place, list[tuple[int, str]]]] = field(default_factory=dict)
    end_offsets: dict[Place, tuple[int, int]] = field(default_factory=dict)
    committed: dict[tuple[str, Place], int] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)

    def finally_visible(self) -> dict[str, tuple[Place, int]]:
        """Where each value is that a read_committed reader sees at the end."""
        return {
            value: (place, offset)
            for place, records in self.final.get(READ_COMMITTED, {}).items()
            for offset, value in records
        }


def digest(history: Iterable[Event]) -> Digest:
    """Sorts a history."""
    found = Digest()
    for event in history:
        what = event["what"]
        if "txn" in event:
            _note_transaction(found, what, event)
        elif what in ("seek", "poll"):
            _note_reading(found, what, event)
        elif what == "position":
            found.positions += [
                Position(
                    event["worker"], event["group"], Place(topic, partition), offset, event["began"]
                )
                for topic, partition, offset in event["offsets"]
            ]
        elif what == "copying":
            found.copying.append(Copying(event["group"], event["source"], event["target"]))
        elif what.startswith("final_"):
            _note_final(found, what, event)
    return found


def _note_transaction(found: Digest, what: str, event: Event) -> None:
    key = (event["worker"], event["txn"])
    if what == "begin":
        found.transactions[key] = Transaction(*key, event["id"])
        return
    transaction = found.transactions[key]
    match what:
        case "send":
            if event["value"] in found.owner:
                found.sent_twice.append(event["value"])
            transaction.sent[event["value"]] = Place(event["topic"], event["partition"])
            found.owner[event["value"]] = transaction
        case "ack":
            transaction.acknowledged[event["value"]] = event["offset"]
        case "offsets":
            for topic, partition, offset in event["offsets"]:
                transaction.offsets[event["group"], Place(topic, partition)] = offset
        case "commit":
            transaction.wants_commit = True
        case "committed":
            transaction.committed_at = event["at"]
        case "aborted":
            transaction.is_aborted = True


def _note_reading(found: Digest, what: str, event: Event) -> None:
    reader = found.readers.setdefault(event["worker"], Reader(event["worker"]))
    if what == "seek":
        place = Place(event["topic"], event["partition"])
        reader.steps.append(Seek(place, event["offset"]))
        return
    reader.isolation = event["isolation"]
    reader.steps += [
        Polled(Place(topic, partition), offset, value)
        for topic, partition, offset, value in event["records"]
    ]


def _note_final(found: Digest, what: str, event: Event) -> None:
    match what:
        case "final_records":
            place = Place(event["topic"], event["partition"])
            records = [(offset, value) for offset, value in event["records"]]
            found.final.setdefault(event["isolation"], {})[place] = records
        case "final_offsets":
            place = Place(event["topic"], event["partition"])
            found.end_offsets[place] = (event["high_watermark"], event["last_stable_offset"])
        case "final_committed":
            for topic, partition, offset in event["offsets"]:
                found.committed[event["group"], Place(topic, partition)] = offset
        case "final_transactions":
            found.states.update(event["states"])
