"""How many million rows per second become record batches, and how many records Arrow columns?

Batches are complete, checksums included. The peers go the way over Python objects: columns to lists,
lists to records, records to batches with a record kernel, and back.

Run: python benchmarks/bench_arrow_kernel.py [ROWS] > result.json
"""

import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pyarrow as pa

from ottla.records import arrow, arrow_decoder, arrow_encoder
from ottla.records.batch import build_around, crc_matches, payload, split_batches
from ottla.records.record import Record

REPEATS = 15
PARTITION_COUNT = 10
NOW_MS = 1_700_000_000_000
TOPIC = "orders"


def best_of(action: Callable[[], object]) -> float:
    """The shortest time in seconds that the action took."""
    best = float("inf")
    spent = 0.0
    for _ in range(REPEATS):
        started = time.perf_counter()
        action()
        took = time.perf_counter() - started
        best = min(best, took)
        spent += took
        if spent > 10:
            break
    return best


def encode_columns(kernel: Any, rows: pa.RecordBatch, partition_count: int) -> list[Any]:
    """Arrow to batches."""
    vars(arrow_encoder)["SectionsEncoder"] = kernel.SectionsEncoder
    encoder = arrow.ColumnsEncoder(lambda _: partition_count, topic=TOPIC)
    return [*encoder.append(rows, NOW_MS), *encoder.finish()]


def decode_columns(kernel: Any, buf: bytes) -> Any:
    """Batches to Arrow."""
    vars(arrow_decoder)["ColumnsBuilder"] = kernel.ColumnsBuilder
    return arrow.decode_batches(buf, TOPIC, 0)


def encode_objects(kernel: Any, rows: pa.RecordBatch) -> bytes:
    """Arrow to one batch, with an object for everything."""
    columns = rows.to_pydict()
    keys = columns.get("key", [None] * rows.num_rows)
    headers = [
        tuple((header["key"], header["value"]) for header in one or ())
        for one in columns.get("headers", [None] * rows.num_rows)
    ]
    fields = enumerate(zip(keys, columns["value"], headers, strict=True))
    records = [Record(offset, NOW_MS, *each) for offset, each in fields]
    section = kernel.encode_records(records, 0, NOW_MS)
    return build_around(section, len(records), NOW_MS, NOW_MS)


def decode_objects(kernel: Any, buf: bytes) -> pa.RecordBatch:
    """Batches to Arrow, with an object for everything."""
    records = []
    for position, header in split_batches(buf):
        assert crc_matches(buf, position, header)
        section = payload(buf, position, header, len(buf))
        records += kernel.decode_records(
            section, header.record_count, header.base_offset, header.base_timestamp, None
        )
    arrays = [
        [record.key for record in records],
        [record.value for record in records],
        [TOPIC] * len(records),
        [0] * len(records),
        [record.offset for record in records],
        [record.timestamp * 1000 for record in records],
        [0] * len(records),
        [[{"key": k, "value": v} for k, v in each.headers] or None for each in records],
    ]
    columns = [
        pa.array(values, field.type) for values, field in zip(arrays, arrow.SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=arrow.SCHEMA)


def measure(rows: pa.RecordBatch) -> dict[str, dict[str, float]]:
    """Million rows per second by way and direction."""

    count: int = rows.num_rows

    def rate(action: Callable[[], object]) -> float:
        return round(count / best_of(action) / 1e6, 2)

    results = {}
    for name in ("", "_py"):
        arrow_kernel: Any = import_module(f"ottla.records._arrow_kernel{name}")
        record_kernel: Any = import_module(f"ottla.records._kernel{name}")
        kind = "pure" if name else "compiled"
        buf = b"".join(batch.data for batch in encode_columns(arrow_kernel, rows, 1))
        results[f"columns, {kind}"] = {
            "encode": rate(lambda kernel=arrow_kernel: encode_columns(kernel, rows, 1)),  # type: ignore[misc]
            f"encode for {PARTITION_COUNT} partitions": rate(
                lambda kernel=arrow_kernel: encode_columns(kernel, rows, PARTITION_COUNT)  # type: ignore[misc]
            ),
            "decode": rate(lambda kernel=arrow_kernel, buf=buf: decode_columns(kernel, buf)),  # type: ignore[misc]
        }
        results[f"objects, {kind}"] = {
            "encode": rate(lambda kernel=record_kernel: encode_objects(kernel, rows)),  # type: ignore[misc]
            "decode": rate(lambda kernel=record_kernel, buf=buf: decode_objects(kernel, buf)),  # type: ignore[misc]
        }
    return results


def commit() -> str:
    """The commit that was measured, or unknown outside of a repository."""
    try:
        return subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    headers = [{"key": "trace", "value": b"x" * 16}, {"key": "n", "value": None}]
    value = pa.array([b"v" * 100] * count)
    shapes = {
        "key 8 B, value 100 B": pa.record_batch(
            {"key": pa.array([b"%08d" % number for number in range(count)]), "value": value}
        ),
        "no key, value 100 B, two headers": pa.record_batch(
            {
                "value": value,
                "headers": pa.array([headers] * count, arrow.SCHEMA.field("headers").type),
            }
        ),
    }
    result = {
        "question": "million rows per second, one core",
        "rows": count,
        "machine": f"{platform.machine()} {platform.system()} Python {platform.python_version()}",
        "pyarrow": pa.__version__,
        "commit": commit(),
        "results": {shape: measure(rows) for shape, rows in shapes.items()},
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
