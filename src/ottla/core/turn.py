"""A turn: one step of a coordinator's state machine, with its time, its events, its answers and its effects."""

from __future__ import annotations

from typing import Any, NamedTuple

# A waiting request of the runtime; a machine keeps it and hands it back with the answer.
Ticket = Any


class ProducerIdentity(NamedTuple):
    """A producer id and its epoch."""

    producer_id: int
    producer_epoch: int


class AppliedEvent(NamedTuple):
    """An event that was applied and has to be appended; with a producer, in its transaction."""

    event: Any
    producer: ProducerIdentity | None


class LogMessage(NamedTuple):
    """A message for the broker's log: the name of its event, a text, and the fields that the text names."""

    event: str
    text: str
    fields: dict[str, Any]


class Turn:
    """The decisions of one step share it.

    `now_ms` is the wall clock, for stored times. `uptime_ms` never goes back, for deadlines.
    """

    __slots__ = ("answers", "effects", "log_messages", "now_ms", "together", "uptime_ms", "written")

    def __init__(self, now_ms: int, uptime_ms: int) -> None:
        self.now_ms = now_ms
        self.uptime_ms = uptime_ms
        self.written: list[AppliedEvent] = []
        # The first and the end positions of events that go into one batch.
        self.together: list[tuple[int, int]] = []
        self.answers: list[tuple[Ticket, Any]] = []
        self.effects: list[Any] = []
        self.log_messages: list[LogMessage] = []

    @property
    def is_without_effect(self) -> bool:
        """Whether nothing was written, answered, logged or asked for."""
        return not (self.written or self.answers or self.effects or self.log_messages)

    def answer(self, ticket: Ticket, result: Any) -> None:
        """Answers a request, when everything written so far is durable."""
        self.answers.append((ticket, result))

    def keep_together(self, start: int) -> None:
        """Has the events from a position on written in one batch: a replay finds all of them or none."""
        end = len(self.written)
        if end - start > 1:
            self.together.append((start, end))

    def log(self, event: str, text: str, /, **fields: Any) -> None:
        """Writes a message into the broker's log; the text names fields as `%(group)s`."""
        self.log_messages.append(LogMessage(event, text, fields))

    def then(self, effect: Any) -> None:
        """Has the runtime perform an effect, when everything written so far is durable."""
        self.effects.append(effect)
