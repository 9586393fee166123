"""What a handler of dead letters gets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ottla.app.letters.history import History
from ottla.app.letters.letter_records import replay

if TYPE_CHECKING:
    from ottla.app.declarations.listener_spec import RawRecord
    from ottla.app.delivery.unit import OutgoingRecord

T = TypeVar("T")


@dataclass(frozen=True)
class DeadLetter(Generic[T]):
    """A record that its listener gave up: its value, its key, the record of the dead-letter topic, its history."""

    value: T
    key: Any
    record: RawRecord = field(repr=False)
    history: History
    send: Callable[[OutgoingRecord], Awaitable[object]] = field(repr=False, compare=False)

    async def replay(self) -> None:
        """Send the record back to its original topic and partition, as it was there.

        Every group that listens to the topic reads it again.
        """
        await self.send(replay(self.record))
