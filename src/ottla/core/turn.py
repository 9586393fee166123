"""One step of a state machine that lives over a log: when it happens, what it writes, whom it answers."""

from __future__ import annotations

from typing import Any, NamedTuple

# Whatever the runtime recognises a waiting request by; a machine only keeps it and hands it back.
Ticket = Any


class ProducerIdentity(NamedTuple):
    """In whose transaction an event is written."""

    producer_id: int
    producer_epoch: int


class AppliedEvent(NamedTuple):
    """An event that was applied and has to be appended."""

    event: Any
    producer: ProducerIdentity | None


class Note(NamedTuple):
    """What is worth a line in the broker's log: an event's name, a sentence, and the fields that it names."""

    event: str
    text: str
    fields: dict[str, Any]


class Turn:
    """What the decisions of one step have in common.

    `now_ms` is wall-clock time, for what is stored. `uptime_ms` only ever grows, for deadlines.
    """

    __slots__ = ("answers", "effects", "notes", "now_ms", "uptime_ms", "written")

    def __init__(self, now_ms: int, uptime_ms: int) -> None:
        self.now_ms = now_ms
        self.uptime_ms = uptime_ms
        self.written: list[AppliedEvent] = []
        self.answers: list[tuple[Ticket, Any]] = []
        self.effects: list[Any] = []
        self.notes: list[Note] = []

    def answer(self, ticket: Ticket, result: Any) -> None:
        """Gives a request its result, once everything written so far is durable."""
        self.answers.append((ticket, result))

    def note(self, event: str, text: str, /, **fields: Any) -> None:
        """Tells whoever reads the broker's log; the sentence names fields as `%(group)s`."""
        self.notes.append(Note(event, text, fields))

    def then(self, effect: Any) -> None:
        """Has the runtime do something, once everything written so far is durable."""
        self.effects.append(effect)
