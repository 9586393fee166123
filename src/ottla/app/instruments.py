"""Where metrics and traces attach: an app calls these hooks; the default ones do nothing and cost nothing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from ottla.app.declarations.listener_spec import ListenerSpec, RawRecord
from ottla.client.model import Headers


class Instruments(Protocol):
    """Observers of an app. Implementations must not raise and must not block."""

    def handling(
        self, spec: ListenerSpec, records: Sequence[RawRecord], attempt: int
    ) -> AbstractContextManager[None]:
        """Around one run of a handler; an exception that passes through is the handler's."""

    def finished(self, spec: ListenerSpec, outcome: str, records: int) -> None:
        """So many records ended: "done", "filtered", "retry", "dead-letter", "ignored", "stopped"."""

    def committed(self, spec: ListenerSpec, records: int, seconds: float) -> None:
        """A commit of finished records succeeded, after this time."""

    def outgoing_headers(self, topic: str, headers: Headers) -> Headers:
        """The headers to send, with the trace context added."""


class NoInstruments:
    """Observes nothing."""

    def handling(
        self, spec: ListenerSpec, records: Sequence[RawRecord], attempt: int
    ) -> AbstractContextManager[None]:
        """Nothing around a run."""
        return nullcontext()

    def finished(self, spec: ListenerSpec, outcome: str, records: int) -> None:
        """Counts nothing."""

    def committed(self, spec: ListenerSpec, records: int, seconds: float) -> None:
        """Counts nothing."""

    def outgoing_headers(self, topic: str, headers: Headers) -> Headers:
        """The same headers."""
        return headers
