"""Records as a listener reads them."""

from __future__ import annotations

from ottla.app.declarations.listener_spec import RawRecord
from ottla.app.delivery.unit import OutgoingRecord
from ottla.client.model import ConsumerRecord, Headers
from ottla.records.record import TimestampType


def raw_record(
    topic: str = "orders",
    partition: int = 2,
    offset: int = 41,
    *,
    key: bytes | None = b"t4",
    value: bytes | None = b"espresso",
    headers: Headers = (("trace", b"1"), ("trace", None)),
    timestamp_ms: int = 1_700_000_000_000,
) -> RawRecord:
    """A record at a place."""
    return ConsumerRecord(
        topic=topic,
        partition=partition,
        offset=offset,
        timestamp_ms=timestamp_ms,
        timestamp_type=TimestampType.CREATE_TIME,
        key=key,
        value=value,
        headers=headers,
        leader_epoch=0,
        serialized_key_size=-1 if key is None else len(key),
        serialized_value_size=-1 if value is None else len(value),
    )


def as_read(sent: OutgoingRecord, offset: int = 0) -> RawRecord:
    """The record that a consumer gets after this one was sent."""
    return raw_record(
        sent.topic,
        sent.partition or 0,
        offset,
        key=sent.key,
        value=sent.value,
        headers=sent.headers,
        timestamp_ms=1_800_000_000_000,
    )
