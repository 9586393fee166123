"""How fast is the local engine alone: appends and reads of one log, without a broker around it?

Run: python benchmarks/bench_local_log.py [--seconds 1.0] [--folder DIR]
Prints JSON; `raw_pwrite` is the same bytes written by the bare system call, for comparison.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shutil
import struct
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable

from ottla.config.topic import TopicConfig
from ottla.ports import Extent, PartitionLog, PartitionRef
from ottla.records.batch import build_batch
from ottla.records.record import Record
from ottla.storage.local import LocalStore, open_local_store

BATCH_BYTES = (100, 1_000, 100_000, 1_000_000)
SEGMENT_BYTES = 1 << 28
BATCHES_KEPT = 100_000


class WallClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_seconds(self) -> float:
        return time.monotonic()


def batch_of(size_bytes: int) -> bytes:
    """A batch of about this size with one record."""
    value = b"x" * max(0, size_bytes - 75)
    record = Record(offset=0, timestamp=1_700_000_000_000, key=None, value=value, headers=())
    return build_batch([record])


def claim(store: LocalStore, name: str, config: TopicConfig) -> PartitionLog:
    return store.claim(PartitionRef(name, 0, uuid.uuid4()), config)


def timed(seconds: float, step: Callable[[], int]) -> tuple[float, int, int]:
    """Repeats a step that answers bytes; seconds, steps and bytes."""
    steps = total_bytes = 0
    start = time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        for _ in range(20):
            total_bytes += step()
        steps += 20
    return elapsed, steps, total_bytes


def rates(elapsed: float, steps: int, total_bytes: int) -> dict[str, float]:
    return {
        "us_per_call": round(elapsed / steps * 1e6, 2),
        "mb_per_s": round(total_bytes / elapsed / 1e6, 1),
    }


def measure_append(log: PartitionLog, data: bytes, seconds: float) -> dict[str, float]:
    buffer = bytearray(data)

    def step() -> int:
        offset = log.end_offset
        extent = Extent(offset, offset, 1_700_000_000_000, len(buffer))
        struct.pack_into(">q", buffer, 0, offset)
        log.append(buffer, [extent], offset)
        if not offset % BATCHES_KEPT:
            log.trim(offset)
        return len(buffer)

    return rates(*timed(seconds, step))


def measure_raw(path: str, data: bytes, seconds: float) -> dict[str, float]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    position = 0

    def step() -> int:
        nonlocal position
        if position > SEGMENT_BYTES:
            os.ftruncate(fd, 0)
            position = 0
        position += os.pwrite(fd, data, position)
        return len(data)

    try:
        return rates(*timed(seconds, step))
    finally:
        os.close(fd)


def measure_reads(log: PartitionLog, max_bytes: int, seconds: float) -> dict[str, float]:
    """Sequential reads that touch one byte of every page, as a send would."""
    offset = log.start_offset

    def step() -> int:
        nonlocal offset
        data = log.read(offset, max_bytes, log.end_offset)
        if not len(data):
            offset = log.start_offset
            return 0
        sum(data[::4096])
        offset += max(1, len(data) // batch_bytes)
        return len(data)

    first = log.read(offset, 0, log.end_offset)
    batch_bytes = len(first)
    return rates(*timed(seconds, step))


async def measure_synced(log: PartitionLog, data: bytes, seconds: float) -> dict[str, float]:
    """Sixteen appenders that each wait for the sync of their batch."""
    done = 0
    stop = time.perf_counter() + seconds

    async def appender() -> None:
        nonlocal done
        while time.perf_counter() < stop:
            offset = log.end_offset
            future = log.append(data, [Extent(offset, offset, 0, len(data))], offset)
            assert future is not None
            await future
            done += 1

    start = time.perf_counter()
    await asyncio.gather(*[appender() for _ in range(16)])
    return {"appends_per_s": round(done / (time.perf_counter() - start), 1)}


def commit() -> str:
    asked = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], check=False, capture_output=True, text=True
    )
    return asked.stdout.strip() or "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument(
        "--folder", default=None, help="where to write; a temporary folder if not given"
    )
    arguments = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="ottla-bench-", dir=arguments.folder)
    seconds = arguments.seconds
    config = TopicConfig(segment_bytes=SEGMENT_BYTES, file_delete_delay_ms=0)
    result: dict[str, object] = {
        "benchmark": "local_log",
        "machine": f"{platform.machine()} {os.cpu_count()} cores, Python {platform.python_version()}",
        "commit": commit(),
    }
    try:
        store = open_local_store(os.path.join(folder, "data"), clock=WallClock())
        for size_bytes in BATCH_BYTES:
            data = batch_of(size_bytes)
            log = claim(store, f"size-{size_bytes}", config)
            part: dict[str, object] = {"batch_bytes": len(data)}
            part["append"] = measure_append(log, data, seconds)
            part["raw_pwrite"] = measure_raw(os.path.join(folder, "raw"), data, seconds)
            part["read_1mb"] = measure_reads(log, 1 << 20, seconds)
            part["read_one"] = measure_reads(log, 0, seconds)
            result[f"batches_of_{size_bytes}"] = part
            store.tick(2**62)
        synced = claim(store, "synced", TopicConfig(flush_messages=1))
        result["synced_1kb"] = asyncio.run(measure_synced(synced, batch_of(1000), seconds))
        store.close()
    finally:
        shutil.rmtree(folder)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
