"""Listeners and records as the tests of an app's life need them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from ottla.app.declarations.listener_spec import ListenerSpec, RawRecord
from ottla.app.delivery.unit import Unit
from ottla.client.model import ConsumerRecord, Headers
from ottla.records.record import TimestampType


class FunctionHandler:
    """A handler that calls a function with the records."""

    def __init__(
        self,
        function: Callable[[Sequence[RawRecord]], Awaitable[None] | None],
        *,
        is_batch: bool = False,
    ) -> None:
        self.function = function
        self.is_batch = is_batch

    async def __call__(self, records: Sequence[RawRecord], unit: Unit) -> None:
        result = self.function(records)
        if result is not None:
            await result


def do_nothing(records: Sequence[RawRecord]) -> None:
    """Handles everything."""


def spec_of(
    function: Callable[[Sequence[RawRecord]], Awaitable[None] | None] = do_nothing,
    *,
    name: str = "bill",
    is_batch: bool = False,
    handler_timeout_seconds: float | None = None,
) -> ListenerSpec:
    """A listener of the topic orders."""
    return ListenerSpec(
        name=name,
        topics=("orders",),
        group="billing",
        handler=FunctionHandler(function, is_batch=is_batch),
        handler_timeout_seconds=handler_timeout_seconds,
    )


def record_of(
    offset: int = 0,
    value: bytes | None = b"{}",
    key: bytes | None = None,
    headers: Headers = (),
) -> RawRecord:
    """A record of orders-0."""
    return ConsumerRecord(
        topic="orders",
        partition=0,
        offset=offset,
        timestamp_ms=0,
        timestamp_type=TimestampType.CREATE_TIME,
        key=key,
        value=value,
        headers=headers,
        leader_epoch=None,
        serialized_key_size=len(key or b""),
        serialized_value_size=len(value or b""),
    )
