"""Records for tests without a broker."""

from __future__ import annotations

from ottla.app.declarations.listener_spec import RawRecord
from ottla.client.model import ConsumerRecord
from ottla.records.record import TimestampType


def raw(offset: int, key: bytes | None = None) -> RawRecord:
    """A record at this offset."""
    return ConsumerRecord(
        topic="orders",
        partition=0,
        offset=offset,
        timestamp_ms=0,
        timestamp_type=TimestampType.CREATE_TIME,
        key=key,
        value=b"%d" % offset,
        headers=(),
        leader_epoch=None,
        serialized_key_size=-1 if key is None else len(key),
        serialized_value_size=1,
    )
