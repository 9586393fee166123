"""Arrow IPC streams and files as JSON: the schema and the first rows."""

from __future__ import annotations

from typing import Any, Final

from ottla.console.records.json_values import json_text

MAX_ROWS: Final = 200
_STREAM: Final = b"\xff\xff\xff\xff"
_FILE: Final = b"ARROW1\x00\x00"


class NotArrowError(Exception):
    """The data cannot be read, with the reason."""


def looks_like_arrow(data: bytes) -> bool:
    """Whether data begins as Arrow does."""
    return data.startswith((_STREAM, _FILE))


def arrow_text(data: bytes) -> str:
    """The schema and the first rows as JSON; NotArrowError says why not."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise NotArrowError(
            "it needs pyarrow, which is not installed: pip install 'ottla[arrow]'"
        ) from error
    try:
        return json_text(_content(pa, data))
    except Exception as error:
        # Of data that is broken, pyarrow raises errors of all kinds.
        raise NotArrowError(f"{type(error).__name__}: {error}") from error


def _content(pa: Any, data: bytes) -> dict[str, Any]:
    is_file = data.startswith(_FILE)
    reader = pa.ipc.open_file(data) if is_file else pa.ipc.open_stream(data)
    batches = map(reader.get_batch, range(reader.num_record_batches)) if is_file else iter(reader)
    rows: list[Any] = []
    row_count = 0
    for batch in batches:
        # Offsets and lengths come from outside: checked before they are followed.
        batch.validate(full=True)
        row_count += batch.num_rows
        if len(rows) < MAX_ROWS:
            rows += batch.slice(0, MAX_ROWS - len(rows)).to_pylist()
    fields = {field.name: str(field.type) for field in reader.schema}
    found = {"schema": fields, "row_count": row_count, "rows": rows}
    if row_count > len(rows):
        found["left_out_row_count"] = row_count - len(rows)
    return found
