"""How control records and records of aborted transactions are printed."""

from __future__ import annotations

from ottla.client.state.consumer.control_records import MarkedRecord
from ottla.records.control import parse_marker
from ottla.records.errors import CorruptRecordsError
from ottla.records.record import Record


def marks_of(record: MarkedRecord) -> dict[str, object]:
    """The marks of a record as data."""
    marks: dict[str, object] = {}
    if record.is_control:
        outcome, coordinator_epoch = _marker(record)
        marks = {"control": outcome, "coordinator_epoch": coordinator_epoch}
    else:
        marks = {"aborted": True}
    return {
        **marks,
        "producer_id": record.producer_id,
        "producer_epoch": record.producer_epoch,
    }


def control_line(record: MarkedRecord) -> str:
    """A control record as a line of text."""
    return (
        f"[control {_marker(record)[0]}: partition {record.partition}, offset {record.offset}, "
        f"producer {record.producer_id}, epoch {record.producer_epoch}]"
    )


ABORTED = "[aborted] "


def _marker(record: MarkedRecord) -> tuple[str, int | None]:
    try:
        marker = parse_marker(Record(record.offset, record.timestamp_ms, record.key, record.value))
    except CorruptRecordsError:
        return "unreadable", None
    if marker is None:
        return "unknown", None
    return marker.type.name.lower(), marker.coordinator_epoch
