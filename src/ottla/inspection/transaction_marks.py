"""What a control record says, and whose record of an aborted transaction is."""

from __future__ import annotations

from typing import NamedTuple

from ottla.client.state.consumer.control_records import MarkedRecord
from ottla.records.control import parse_marker
from ottla.records.errors import CorruptRecordsError
from ottla.records.record import Record


class MarkerText(NamedTuple):
    """What a control record does, as a word; the epoch is that of markers of transactions."""

    outcome: str
    coordinator_epoch: int | None = None


def marks_of(record: MarkedRecord) -> dict[str, object]:
    """The marks of a record as data."""
    marks: dict[str, object] = {}
    if record.is_control:
        outcome, coordinator_epoch = marker_of(record)
        marks = {"control": outcome, "coordinator_epoch": coordinator_epoch}
    else:
        marks = {"aborted": True}
    return {
        **marks,
        "producer_id": record.producer_id,
        "producer_epoch": record.producer_epoch,
    }


def marker_of(record: MarkedRecord) -> MarkerText:
    """What a control record does: commit, abort, or what could not be read."""
    try:
        marker = parse_marker(Record(record.offset, record.timestamp_ms, record.key, record.value))
    except CorruptRecordsError:
        return MarkerText("unreadable")
    if marker is None:
        return MarkerText("unknown")
    return MarkerText(marker.type.name.lower(), marker.coordinator_epoch)
