"""Which formats a data folder has: kinds of files, their versions, the fields of the catalog."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path

from ottla.records.batch import read_batch, split_batches
from ottla.storage.local.folder import checkpoint_files, layout

INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state")
_INT16 = struct.Struct(">h")
# Files that come and go while a broker works, under the formats of others.
_PASSING = (".deleted", ".tmp", ".cleaned", ".swap")


def formats_of(folder: Path) -> set[str]:
    """One line for each format that is found."""
    found: set[str] = set()
    for path in folder.rglob("*"):
        if path.is_file() and not path.name.endswith(_PASSING):
            found.update(_formats_in(path))
    return found


def _formats_in(path: Path) -> Iterator[str]:
    data = path.read_bytes()
    kind = path.suffix if layout.parse_offset_file_name(path.name) else path.name
    if kind == layout.JOURNAL_FILE:
        for line in data.splitlines():
            yield from _journal_formats(json.loads(line.split(b" ", 1)[1]))
    elif kind == layout.LOG_SUFFIX:
        yield from _batch_formats(data, path.parent.name.rpartition("-")[0])
    elif kind in (layout.SNAPSHOT_SUFFIX, layout.TXN_INDEX_SUFFIX):
        yield f"{kind}, version {_INT16.unpack_from(data)[0]}"
    elif kind.endswith("-checkpoint"):
        yield f"{kind}, version {data.splitlines()[0].decode()}"
    elif kind == layout.PARTITION_METADATA_FILE:
        yield f"{kind}, {data.splitlines()[0].decode()}"
    elif kind.endswith(".properties"):
        properties = checkpoint_files.decode_properties(data)
        yield f"{kind}, version {properties.pop('version')}, with {', '.join(sorted(properties))}"
    else:
        yield kind


def _journal_formats(line: dict[str, object]) -> Iterator[str]:
    assert isinstance(line["changes"], dict)
    for key, value in line["changes"].items():
        fields = sorted(value) if isinstance(value, dict) else type(value).__name__
        yield f"catalog: {key.partition('/')[0]}, with {fields}"


def _batch_formats(data: bytes, topic: str) -> Iterator[str]:
    for position, header in split_batches(data):
        yield f"batches, version {header.magic}"
        if topic in INTERNAL_TOPICS and not header.is_control:
            for record in read_batch(data, position):
                key = _INT16.unpack_from(record.key or b"")[0]
                value = None if record.value is None else _INT16.unpack_from(record.value)[0]
                yield f"{topic}: key {key}, value {value}"
