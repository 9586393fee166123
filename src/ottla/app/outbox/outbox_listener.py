"""A listener whose handler may use `app.transaction(session)`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ottla.app.declarations.handler_results import CORRELATION_ID
from ottla.app.declarations.listener_spec import Delivery, Handler, ListenerSpec, Order, RawRecord
from ottla.app.letters.letter_records import trace_back
from ottla.app.outbox.applied_records import (
    CURRENT_DELIVERY,
    AlreadyAppliedError,
    HandlerDelivery,
    RecordPlace,
)
from ottla.errors import IllegalStateError

if TYPE_CHECKING:
    from ottla.app.delivery.unit import OutgoingRecord, Unit

_ENDED: Final = "app.transaction(session) can be entered only while the handler runs: it has ended"
_EXACTLY_ONCE: Final = (
    "app.transaction(session) and delivery='exactly-once' exclude each other: two commits cannot be one; with "
    "'at-least-once' the effect in the database is there once, and so is what is sent inside the block"
)
_RESULTS: Final = (
    "a handler with app.transaction(session) returns no records: they would not be part of the transaction; send them "
    "inside the block with app.send"
)

TopicIds = Callable[[Sequence[str]], Awaitable[Mapping[str, str]]]
StartPositions = Callable[[Sequence[tuple[str, int]]], Awaitable[Mapping[tuple[str, int], Any]]]


class OutboxHandler:
    """Runs a handler, and knows which records its database transaction applies."""

    def __init__(self, spec: ListenerSpec, topic_ids: TopicIds) -> None:
        self._handler: Handler = spec.handler
        self._spec = spec
        self._topic_ids = topic_ids
        self._has_inbox = needs_inbox(spec)
        self.is_batch = spec.handler.is_batch
        self.runs_in_thread = bool(getattr(spec.handler, "runs_in_thread", False))

    async def __call__(self, records: Sequence[RawRecord], unit: Unit) -> None:
        """Run the handler; again for the rest, if some records of a batch were applied before."""
        originals = [trace_back(record, self._spec.group)[0] for record in records]
        ids = await self._topic_ids([record.topic for record in originals])
        left = list(records)
        places = [
            RecordPlace(each.topic, ids[each.topic], each.partition, each.offset)
            for each in originals
        ]
        while left:
            try:
                await self._run(left, places, unit)
            except AlreadyAppliedError as applied:
                unit.outgoing.clear()
                unit.size_bytes = 0
                pairs = zip(left, places, strict=True)
                kept = [(record, place) for record, place in pairs if place not in applied.places]
                left = [record for record, _ in kept]
                places = [place for _, place in kept]
            else:
                return

    async def _run(
        self, records: Sequence[RawRecord], places: Sequence[RecordPlace], unit: Unit
    ) -> None:
        delivery = HandlerDelivery(self._spec.group, places, unit, has_inbox=self._has_inbox)
        if self._spec.delivery is Delivery.EXACTLY_ONCE:
            delivery.refusal = _EXACTLY_ONCE
        elif getattr(self._handler, "returns_records", False):
            delivery.refusal = _RESULTS
        token = CURRENT_DELIVERY.set(delivery)
        try:
            await self._handler(records, unit)
            if delivery.is_applied and any(map(_is_no_reply, unit.outgoing)):
                raise IllegalStateError(_RESULTS)
        finally:
            delivery.refusal = _ENDED
            CURRENT_DELIVERY.reset(token)


def _is_no_reply(record: OutgoingRecord) -> bool:
    return all(name != CORRELATION_ID for name, _ in record.headers)


def needs_inbox(spec: ListenerSpec) -> bool:
    """Whether an offset for each partition cannot say which records are applied.

    Records are applied out of order with order "key" or "none", and if one can be retried while later ones go on.
    """
    has_retry_topics = spec.retry is not None and not spec.retry.keep_order
    return spec.order is not Order.PARTITION or has_retry_topics


def with_outbox(
    spec: ListenerSpec, topic_ids: TopicIds, database_positions: StartPositions
) -> ListenerSpec:
    """The listener, whose handler may use `app.transaction(session)`, and which starts where the database is."""

    async def start_positions(
        partitions: Sequence[tuple[str, int]],
    ) -> Mapping[tuple[str, int], Any]:
        own = {} if spec.start_positions is None else await spec.start_positions(partitions)
        if needs_inbox(spec):
            return own
        # What the database says about a partition counts more: it knows what was applied.
        return {**own, **await database_positions(partitions)}

    return replace(spec, handler=OutboxHandler(spec, topic_ids), start_positions=start_positions)
