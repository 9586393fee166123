"""The producers that a partition remembers, with what can be said of each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ottla.client.admin_model.transactions import ProducerState

IDLE_MS: Final = 5 * 60_000


class ProducerActivity(StrEnum):
    """When a producer wrote last, seen from now."""

    OPEN = "open"
    """It has a transaction open on the partition."""
    ACTIVE = "active"
    IDLE = "idle"
    """It has not written for IDLE_MS."""
    EXPIRED = "expired"
    """It has not written for so long that the broker is about to forget it."""


@dataclass(frozen=True)
class ProducerRow:
    """A producer of a partition. What is None does not apply, or is not known."""

    producer_id: int
    producer_epoch: int
    last_sequence: int | None
    last_timestamp_ms: int | None
    coordinator_epoch: int | None
    """The epoch of the coordinator that wrote its last marker; None if it never ended a transaction."""
    open_start_offset: int | None
    transactional_id: str | None
    activity: ProducerActivity
    is_hanging: bool


def producer_rows(
    states: Iterable[ProducerState],
    *,
    names: Mapping[int, str],
    hanging_ids: Collection[int],
    now_ms: int,
    expiration_ms: int,
) -> list[ProducerRow]:
    """The rows: open transactions first, then the latest writers."""
    rows = [
        ProducerRow(
            producer_id=each.producer_id,
            producer_epoch=each.producer_epoch,
            last_sequence=None if each.last_sequence < 0 else each.last_sequence,
            last_timestamp_ms=None if each.last_timestamp_ms < 0 else each.last_timestamp_ms,
            coordinator_epoch=each.coordinator_epoch,
            open_start_offset=each.current_transaction_start_offset,
            transactional_id=names.get(each.producer_id),
            activity=_activity(each, now_ms, expiration_ms),
            is_hanging=each.producer_id in hanging_ids
            and each.current_transaction_start_offset is not None,
        )
        for each in states
    ]
    return sorted(rows, key=_order)


def _order(row: ProducerRow) -> tuple[int, int, int]:
    if row.open_start_offset is not None:
        return (0, row.open_start_offset, row.producer_id)
    return (1, -(row.last_timestamp_ms or 0), row.producer_id)


def _activity(state: ProducerState, now_ms: int, expiration_ms: int) -> ProducerActivity:
    if state.current_transaction_start_offset is not None:
        return ProducerActivity.OPEN
    silent_ms = now_ms - state.last_timestamp_ms
    if silent_ms >= expiration_ms:
        return ProducerActivity.EXPIRED
    return ProducerActivity.IDLE if silent_ms >= IDLE_MS else ProducerActivity.ACTIVE


def matches(row: ProducerRow, wanted: str) -> bool:
    """Whether a row has the producer id, or a transactional id with the text in it."""
    if not wanted or wanted == str(row.producer_id):
        return True
    return row.transactional_id is not None and wanted.casefold() in row.transactional_id.casefold()
