from collections.abc import Sequence
from typing import TypeVar

from ottla.records.record import Buffer, Record, Scan

H = TypeVar("H", bound=tuple[int, ...])

def encode_records(records: Sequence[Record], base_offset: int, base_timestamp: int) -> bytes: ...
def decode_records(
    payload: Buffer,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time_ms: int | None,
) -> list[Record]: ...
def inspect_batch(header_class: type[H], batch: Buffer) -> tuple[H, bool, Scan | None]: ...
def scan_records(payload: Buffer, count: int) -> Scan: ...
def find_by_time(
    payload: Buffer,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time_ms: int | None,
    wanted_ms: int,
    start_offset: int,
) -> tuple[int, int] | None: ...
def records_end(payload: Buffer, start: int, count: int) -> int: ...
def crc32c(data: Buffer, start: int = 0) -> int: ...
def crc32c_software(data: Buffer, start: int = 0) -> int: ...
