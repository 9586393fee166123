"""Records as files: lines of JSON, which `ottla produce --format json` reads, and CSV."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import AsyncGenerator, Iterable
from typing import Final, Literal

from ottla.client.model import ConsumerRecord
from ottla.console.records.rows import RecordRows, marks_of, timestamp_type_of
from ottla.console.records.search import Ended, EndReason, FoundRecords, RecordSearch
from ottla.inspection.json_lines import JsonRecordFormatter

ExportFormat = Literal["jsonl", "csv"]
MEDIA_TYPES: Final[dict[ExportFormat, str]] = {
    "jsonl": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
}
COLUMNS: Final = (
    "partition",
    "offset",
    "timestamp",
    "timestamp_type",
    "key",
    "value",
    "headers",
    "mark",
)
# A cell that begins so is a formula to spreadsheets: an apostrophe makes it text. A negative number is none, but what
# begins with one may be: -1+cmd|' /C calc'!A0
_FORMULA: Final = re.compile(
    r"[=+@\t\r\n\uff1d\uff0b\uff0d\uff20]|-(?!(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\Z)"
)
_REASONS: Final = {
    EndReason.RECORDS: "so many records were scanned",
    EndReason.BYTES: "so many bytes were scanned",
    EndReason.SECONDS: "it took so long",
}


async def export(
    search: RecordSearch, rows: RecordRows, form: ExportFormat
) -> AsyncGenerator[bytes]:
    """The file; one that a bound has ended says so in its last line, which is no record."""
    format_json = JsonRecordFormatter()
    if form == "csv":
        yield _line(COLUMNS)
    async for event in search.run():
        match event:
            case FoundRecords(records) if form == "csv":
                yield b"".join([await _csv_line(record, rows) for record in records])
            case FoundRecords(records):
                yield b"".join(map(format_json, records))
            case Ended(reason, progress) if reason in _REASONS:
                yield _last_line(_REASONS[reason], progress.scanned_count, form)


def _last_line(reason: str, scanned_count: int, form: ExportFormat) -> bytes:
    text = f"INCOMPLETE: the export ended because {reason} ({scanned_count} records were scanned)"
    return _line([text]) if form == "csv" else json.dumps({"incomplete": text}).encode() + b"\n"


async def _csv_line(record: ConsumerRecord, rows: RecordRows) -> bytes:
    mark, control, _ = marks_of(record)
    headers = [
        {"key": name, "value": None if data is None else data.decode("utf-8", "backslashreplace")}
        for name, data in record.headers
    ]
    key, value = await rows.shown_text(record, True), await rows.shown_text(record, False)
    return _line(
        [
            str(record.partition),
            str(record.offset),
            str(record.timestamp_ms),
            timestamp_type_of(record),
            key,
            value,
            json.dumps(headers, ensure_ascii=False) if headers else "",
            "" if mark is None else f"control {control.outcome}" if control else mark,
        ]
    )


def _line(cells: Iterable[str]) -> bytes:
    written = io.StringIO()
    csv.writer(written).writerow(["'" + cell if _FORMULA.match(cell) else cell for cell in cells])
    return written.getvalue().encode("utf-8", "backslashreplace")
