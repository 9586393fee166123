"""A log of many full segments whose batches are holes in sparse files, under real indexes."""

from __future__ import annotations

import os
import random
import statistics
import struct
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from tests.storage.batches import SteppingClock, offsets_of, ref_of

from ottla.config.topic import TopicConfig
from ottla.ports import Buffer
from ottla.storage.local import open_local_store

SEGMENT_BYTES = 1 << 30
BATCH_BYTES = 4096
BATCHES_PER_SEGMENT = SEGMENT_BYTES // BATCH_BYTES
FIRST_MS = 1_700_000_000_000
NEVER = 2**62
READ_AHEAD = 8


@dataclass
class Lookups:
    """Microseconds; the first lookup in a segment opens it."""

    log_gb: float
    index_mb: float
    open_ms: float
    cold_us: float
    warm_us: float
    slowest_warm_us: float
    by_time_us: float

    def __str__(self) -> str:
        return (
            f"a log of {self.log_gb:.0f} GB with {self.index_mb:.0f} MB of indexes: opened in "
            f"{self.open_ms:.0f} ms; median lookup {self.warm_us:.0f} us (the slowest {self.slowest_warm_us:.0f}), "
            f"in a segment that is not open {self.cold_us:.0f} us, by timestamp {self.by_time_us:.0f} us"
        )


def _header(offset: int) -> bytes:
    """A batch of one record; its body is a hole, and nobody looks at its checksum."""
    at_ms = FIRST_MS + offset
    rest = struct.pack(">ibIhiqqqhii", 0, 2, 0, 0, 0, at_ms, at_ms, -1, -1, -1, 1)
    return struct.pack(">qi", offset, BATCH_BYTES - 12) + rest


def _offset_entries() -> bytes:
    """An offset index with an entry for every batch but the first."""
    entries = array("I")
    for number in range(1, BATCHES_PER_SEGMENT):
        entries.append(number)
        entries.append(number * BATCH_BYTES)
    entries.byteswap()
    return entries.tobytes()


def _time_entries(base_offset: int) -> bytes:
    """As the offset index; a batch's timestamp tells its offset."""
    numbers = range(1, BATCHES_PER_SEGMENT)
    pairs = ((FIRST_MS + base_offset + number, number) for number in numbers)
    return struct.pack(">" + "qi" * len(numbers), *chain.from_iterable(pairs))


def make_log(folder: Path, segments: int, offsets: list[int]) -> int:
    """A folder as after a clean stop, with batches at some offsets; answers the size of the indexes."""
    partition = folder / "orders-0"
    partition.mkdir(parents=True)
    offset_entries = _offset_entries()
    index_bytes = 0
    by_segment: dict[int, list[int]] = {}
    for offset in offsets:
        by_segment.setdefault(offset // BATCHES_PER_SEGMENT, []).append(offset)
    for number in range(segments):
        base_offset = number * BATCHES_PER_SEGMENT
        stem = partition / f"{base_offset:020d}"
        fd = os.open(f"{stem}.log", os.O_WRONLY | os.O_CREAT, 0o644)
        os.ftruncate(fd, SEGMENT_BYTES)
        following = base_offset + BATCHES_PER_SEGMENT
        for offset in (base_offset, following - 1, *by_segment.get(number, [])):
            # And some behind it: a read looks at them to see how much of them fits.
            for written in range(offset, min(offset + READ_AHEAD, following)):
                os.pwrite(fd, _header(written), (written - base_offset) * BATCH_BYTES)
        os.close(fd)
        Path(f"{stem}.index").write_bytes(offset_entries)
        times = _time_entries(base_offset)
        Path(f"{stem}.timeindex").write_bytes(times)
        index_bytes += len(offset_entries) + len(times)
    end_offset = segments * BATCHES_PER_SEGMENT
    checkpoint = f"0\n1\norders 0 {end_offset}\n"
    (folder / "recovery-point-offset-checkpoint").write_text(checkpoint)
    (folder / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    return index_bytes


def run_large_log(folder: Path, segments: int, lookups: int) -> Lookups:
    """Looks up random offsets and timestamps, and checks what is found."""
    rng = random.Random(7)
    end_offset = segments * BATCHES_PER_SEGMENT
    offsets = [rng.randrange(end_offset) for _ in range(lookups)]
    index_bytes = make_log(folder, segments, offsets)
    began = time.perf_counter()
    store = open_local_store(folder, clock=SteppingClock())
    log = store.claim(ref_of(), TopicConfig())
    opened = time.perf_counter() - began
    try:
        assert (log.start_offset, log.end_offset) == (0, end_offset)
        cold: list[float] = []
        warm: list[float] = []
        by_time: list[float] = []
        seen: set[int] = set()
        for offset in offsets:
            took_us, data = _timed_read(log.read, offset, 0, NEVER)
            assert offsets_of(data) == [offset]
            is_known = offset // BATCHES_PER_SEGMENT in seen
            (warm if is_known else cold).append(took_us)
            seen.add(offset // BATCHES_PER_SEGMENT)
        for offset in offsets:
            took_us, data = _timed_read(log.batch_at_timestamp, FIRST_MS + offset, 0)
            assert offsets_of(data) == [offset]
            by_time.append(took_us)
    finally:
        store.close()
    return Lookups(
        segments * SEGMENT_BYTES / 2**30,
        index_bytes / 2**20,
        opened * 1000,
        statistics.median(cold),
        statistics.median(warm),
        max(warm),
        statistics.median(by_time),
    )


def _timed_read(read: Callable[..., Buffer | None], *arguments: int) -> tuple[float, Buffer]:
    began = time.perf_counter()
    data = read(*arguments)
    took_us = (time.perf_counter() - began) * 1e6
    assert data is not None
    return took_us, data
