"""Records as consumers read them, and a unit to collect into."""

from __future__ import annotations

from ottla.app.declarations.listener_spec import RawRecord
from ottla.app.delivery.unit import Unit
from ottla.client.model import Headers
from ottla.records.record import TimestampType


def raw_record(
    value: bytes | None = b"tea",
    key: bytes | None = None,
    *,
    headers: Headers = (),
    offset: int = 7,
) -> RawRecord:
    """A record of orders-3."""
    return RawRecord(
        topic="orders",
        partition=3,
        offset=offset,
        timestamp_ms=1_700_000_000_000,
        timestamp_type=TimestampType.CREATE_TIME,
        key=key,
        value=value,
        headers=headers,
        leader_epoch=None,
        serialized_key_size=-1,
        serialized_value_size=-1,
    )


def new_unit() -> Unit:
    """An empty unit with room."""
    return Unit(max_records=100, max_bytes=100_000)
