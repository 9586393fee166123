"""Arrow IPC streams and files as JSON: the schema and the first rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ottla.console.records.arrow_bounds import check_messages, check_rows
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
    # A file holds a stream behind its first bytes. Its footer, which may point anywhere, is not needed.
    stream = data[len(_FILE) :] if data.startswith(_FILE) else data
    check_messages(_messages(pa, stream))
    reader = pa.ipc.open_stream(stream)
    rows: list[Any] = []
    row_count = 0
    for batch in reader:
        # Offsets and lengths come from outside: checked before they are followed.
        batch.validate(full=True)
        row_count += batch.num_rows
        if len(rows) < MAX_ROWS:
            some = batch.slice(0, MAX_ROWS - len(rows))
            check_rows(pa, some)
            rows += some.to_pylist()
    fields = {field.name: str(field.type) for field in reader.schema}
    found = {"schema": fields, "row_count": row_count, "rows": rows}
    if row_count > len(rows):
        found["left_out_row_count"] = row_count - len(rows)
    return found


def _messages(pa: Any, stream: bytes) -> Iterator[Any]:
    reader = pa.ipc.MessageReader.open_stream(stream)
    while True:
        try:
            yield reader.read_next_message()
        except StopIteration:
            return
