from collections.abc import Sequence

from ottla.records.record import Buffer, Record, Scan

def encode_records(records: Sequence[Record], base_offset: int, base_timestamp: int) -> bytes: ...
def decode_records(
    payload: Buffer,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time_ms: int | None,
) -> list[Record]: ...
def scan_records(payload: Buffer, count: int) -> Scan: ...
