"""Retries and acknowledgements as users write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ottla.app.declarations.argument_checks import is_count
from ottla.app.declarations.listener_spec import Ack, AckMode, RetryPlan
from ottla.durations import Duration, seconds_of
from ottla.errors import ConfigError


@dataclass(frozen=True, init=False)
class Retry:
    """The delays before the second, third … attempt: `Retry("1s", "10s", "5m", keep_order=True)`."""

    delays: tuple[Duration, ...]
    keep_order: bool

    def __init__(self, *delays: Duration, keep_order: bool = False) -> None:
        if not delays:
            raise ConfigError('Retry() has no delays: write Retry("1s", "10s")')
        for delay in delays:
            seconds_of(delay)
        self.__dict__.update(delays=delays, keep_order=keep_order)

    @classmethod
    def exponential(
        cls,
        times: int,
        *,
        first: Duration = "1s",
        factor: float = 2.0,
        longest: Duration = "5m",
        keep_order: bool = False,
    ) -> Retry:
        """So many retries, each after a longer delay."""
        if not is_count(times):
            raise ConfigError(
                f"Retry.exponential({times!r}): give the number of retries, from 1 on"
            )
        first_seconds, limit = seconds_of(first), seconds_of(longest)
        delays = [min(limit, first_seconds * factor**number) for number in range(times)]
        return cls(*delays, keep_order=keep_order)

    def plan(self) -> RetryPlan:
        """The same, in seconds."""
        return RetryPlan(tuple(map(seconds_of, self.delays)), self.keep_order)


def every(records: int | None = None, interval: Duration | None = None) -> Ack:
    """Commit after so many records or after an interval, whichever comes first: `ack=every(100, "5s")`."""
    if records is None and interval is None:
        raise ConfigError('every() needs a number of records or an interval: every(100, "5s")')
    if records is not None and not is_count(records):
        raise ConfigError(f"every({records!r}): the number of records is 1 or more")
    seconds = None if interval is None else seconds_of(interval)
    return Ack(AckMode.EVERY, records=records, seconds=seconds)


def read_ack(ack: Any) -> Ack:
    """An ack mode by name, or as it is."""
    if isinstance(ack, Ack):
        return ack
    try:
        mode = AckMode(ack)
    except ValueError:
        raise ConfigError(
            f'ack={ack!r}: write "record", "batch", "manual" or every(100, "5s")'
        ) from None
    if mode is AckMode.EVERY:
        raise ConfigError('ack="every" needs numbers: write ack=every(100, "5s")')
    return Ack(mode)
