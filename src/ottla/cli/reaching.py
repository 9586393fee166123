"""Whether a broker answers, while records are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.cli.output import say

if TYPE_CHECKING:
    from ottla.client.blocking.consumer import Consumer

# A broker that is restarted, or a partition that moves, is not worth a word.
_PATIENCE_SECONDS: Final = 1.0


class Reach:
    """Says once that the brokers are gone, and once that they are back."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self.is_lost = False

    def look(self) -> None:
        """How it is now."""
        silent_seconds = self._consumer.health().seconds_without_broker
        if silent_seconds is None and self.is_lost:
            self.is_lost = False
            say("ottla: a broker answers again")
        elif silent_seconds is not None and silent_seconds >= _PATIENCE_SECONDS:
            if not self.is_lost:
                say("ottla: no broker answers any more: waiting for one to come back")
            self.is_lost = True
