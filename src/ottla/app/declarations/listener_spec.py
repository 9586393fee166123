"""A listener as data: what `@app.listener` was given, checked and with its defaults."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol

from ottla.app.delivery.unit import Unit
from ottla.client.model import ConsumerRecord

RawRecord = ConsumerRecord[bytes | None, bytes | None]

DEFAULT_MAX_UNIT_RECORDS: Final = 10_000
DEFAULT_MAX_UNIT_BYTES: Final = 16 * 1024 * 1024
DEFAULT_MAX_WINDOW_RECORDS: Final = 10_000
DEFAULT_MAX_WINDOW_BYTES: Final = 64 * 1024 * 1024


class Order(StrEnum):
    """Which records of a listener may be worked on at the same time."""

    PARTITION = "partition"
    KEY = "key"
    NONE = "none"


class Delivery(StrEnum):
    """What a listener promises about each record."""

    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


class ErrorAction(StrEnum):
    """What becomes of a record whose handler raised."""

    RETRY = "retry"
    DEAD_LETTER = "dead-letter"
    STOP = "stop"
    IGNORE = "ignore"


class AckMode(StrEnum):
    """When finished records are committed."""

    RECORD = "record"
    BATCH = "batch"
    EVERY = "every"
    MANUAL = "manual"


@dataclass(frozen=True)
class Ack:
    """An ack mode; `Ack.every(100, "5s")` commits after 100 records or five seconds."""

    mode: AckMode
    records: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class RetryPlan:
    """The delays before the second, third … attempt, and whether the order of the records is kept meanwhile."""

    delays_seconds: tuple[float, ...]
    keep_order: bool = False

    @property
    def max_attempts(self) -> int:
        """The first attempt and one after each delay."""
        return len(self.delays_seconds) + 1


@dataclass(frozen=True)
class ErrorRule:
    """What to do about exceptions of a class; the first rule that matches counts."""

    error: type[BaseException]
    action: ErrorAction


class Handler(Protocol):
    """A user's function, ready to be called: it decodes records, resolves dependencies, calls, and encodes the results.

    What the function returned has been collected into the unit when the call is over. Sync functions run in threads.
    A record that cannot be decoded raises `UnreadableRecordError`; anything that the function raises comes through as
    it is. `records` has one element, or more for a batch listener.
    """

    is_batch: bool

    async def __call__(self, records: Sequence[RawRecord], unit: Unit) -> None: ...


@dataclass(frozen=True, kw_only=True)
class ListenerSpec:
    """Everything that running a listener needs to know."""

    name: str
    """Unique in its app; the function's name unless given."""
    topics: tuple[str, ...] | re.Pattern[str]
    group: str
    handler: Handler
    order: Order = Order.PARTITION
    workers: int = 1
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    ack: Ack = Ack(AckMode.BATCH)
    retry: RetryPlan | None = None
    has_dead_letters: bool = False
    errors: tuple[ErrorRule, ...] = ()
    accepts: Callable[[RawRecord], bool] | None = None
    """The filter: records that it refuses are finished without a call."""
    handler_timeout_seconds: float | None = None
    max_batch_records: int = 500
    max_batch_wait_seconds: float = 0.0
    idle_after_seconds: float | None = None
    on_idle: Callable[[], Awaitable[None] | None] | None = None
    on_assigned: Callable[[Sequence[tuple[str, int]]], Awaitable[None] | None] | None = None
    on_revoked: Callable[[Sequence[tuple[str, int]]], Awaitable[None] | None] | None = None
    start_positions: (
        Callable[[Sequence[tuple[str, int]]], Awaitable[Mapping[tuple[str, int], Any]]] | None
    ) = None
    """Where to start in newly assigned partitions; those that it leaves out start at the committed offset."""
    starts_paused: bool = False
    max_unit_records: int = DEFAULT_MAX_UNIT_RECORDS
    max_unit_bytes: int = DEFAULT_MAX_UNIT_BYTES
    max_window_records: int = DEFAULT_MAX_WINDOW_RECORDS
    """Of a partition, how many records may be taken from the first unfinished one on; four times as many of all."""
    max_window_bytes: int = DEFAULT_MAX_WINDOW_BYTES
    """Of a partition, how many bytes of unfinished records; four times as many of all partitions together."""
    consumer_options: Mapping[str, object] = field(default_factory=dict)
    """Kafka's consumer options of this listener, with dots, over those of the app."""
