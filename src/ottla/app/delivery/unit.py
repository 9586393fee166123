"""A unit: what one run of a handler wants to send, collected until the handler has succeeded."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final, NamedTuple

from ottla.client.model import Headers
from ottla.errors import IllegalStateError


class OutgoingRecord(NamedTuple):
    """A record to send, encoded already."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None

    @property
    def size_bytes(self) -> int:
        """What counts towards the limit of a unit."""
        return len(self.value or b"") + len(self.key or b"")


class Unit:
    """The records that one run of a handler sends. A failed run drops its unit; a closed unit takes nothing more."""

    __slots__ = (
        "_closed_because",
        "_max_bytes",
        "_max_records",
        "acknowledge",
        "is_letter",
        "outgoing",
        "size_bytes",
    )

    def __init__(self, *, max_records: int, max_bytes: int) -> None:
        self.outgoing: list[OutgoingRecord] = []
        self.size_bytes = 0
        self.is_letter = False
        """Whether it only has hops or dead letters, and nothing of a handler."""
        self.acknowledge: Callable[[], None] | None = None
        """With manual acknowledgement: marks the records of the run as finished; may be called on any thread."""
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._closed_because: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether the handler may still send."""
        return self._closed_because is None

    def collect(self, record: OutgoingRecord) -> None:
        """Take a record; raises if the handler has ended, or if the unit is full."""
        if self._closed_because is not None:
            raise IllegalStateError(
                f"{record.topic}: nothing can be sent any more, {self._closed_because}"
            )
        if len(self.outgoing) >= self._max_records:
            raise IllegalStateError(
                f"a handler may send at most {self._max_records} records in one run"
            )
        if self.size_bytes + record.size_bytes > self._max_bytes:
            raise IllegalStateError(
                f"a handler may send at most {self._max_bytes} bytes in one run"
            )
        self.outgoing.append(record)
        self.size_bytes += record.size_bytes

    def close(self, because: str) -> None:
        """Refuse further records, with this reason in the error."""
        if self._closed_because is None:
            self._closed_because = because


# The unit of the handler that runs in this context; `app.send` collects into it. None outside exactly-once handlers.
CURRENT_UNIT: Final[ContextVar[Unit | None]] = ContextVar("ottla_app_unit", default=None)
