"""What `ottla perf` measures with: latencies, a limit on the pace, values to send."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

from ottla.cli.commands.perf import RECORD_BYTES
from ottla.cli.commands.syntax import Arguments
from ottla.cli.errors import CommandError, UsageError

MEGABYTE: Final = 1024 * 1024
INTERVAL_SECONDS: Final = 5.0
_PER_MS: Final = 10  # latencies are counted by tenths of a millisecond
_SEED: Final = 0
_LETTERS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_POOL_BYTES: Final = 1 << 20
_POOL_MAX: Final = 2000
_CHUNK_BYTES: Final = 64 * 1024
_CHUNK_MAX: Final = 500
_CHUNKS_PER_SECOND: Final = 200


class Latencies:
    """How long things took; of all of them, not of a sample."""

    def __init__(self) -> None:
        self.count = 0
        self.total_ms = 0.0
        self.max_ms = 0.0
        self._counts: dict[int, int] = {}

    def add(self, latency_ms: float, count: int = 1) -> None:
        """Takes note of things that took so long, each of them."""
        self.count += count
        self.total_ms += latency_ms * count
        self.max_ms = max(self.max_ms, latency_ms)
        slot = int(latency_ms * _PER_MS)
        self._counts[slot] = self._counts.get(slot, 0) + count

    def include(self, other: Latencies) -> None:
        """Takes note of everything that another one has."""
        self.count += other.count
        self.total_ms += other.total_ms
        self.max_ms = max(self.max_ms, other.max_ms)
        for slot, count in other._counts.items():
            self._counts[slot] = self._counts.get(slot, 0) + count

    @property
    def average_ms(self) -> float:
        return self.total_ms / self.count if self.count else 0.0

    def percentile(self, share: float) -> float:
        """The latency at a place in the sorted list of them, as Kafka's tools choose it."""
        left = int(share * self.count)
        for slot, count in sorted(self._counts.items()):
            left -= count
            if left < 0:
                return slot / _PER_MS
        return 0.0

    def data(self) -> dict[str, float]:
        """For programs, in milliseconds."""
        shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99_9": 0.999}
        found = {name: self.percentile(share) for name, share in shares.items()}
        return {"average": round(self.average_ms, 4), "max": round(self.max_ms, 4), **found}


class SendRate:
    """Keeps what is sent below a number of records in a second."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._began = time.perf_counter()
        self._count = 0

    def keep(self, count: int) -> None:
        """Waits until so many more may have been sent."""
        if self._per_second <= 0:
            return
        self._count += count
        ahead = self._count / self._per_second - (time.perf_counter() - self._began)
        if ahead > 0:
            time.sleep(ahead)


class Tally:
    """What was acknowledged: in all, and in the interval that is told at the moment."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.latencies = Latencies()
        self.byte_count = 0
        self.failed_count = 0
        self.first_error: Exception | None = None
        self.began = time.perf_counter()
        self._interval = Latencies()
        self._interval_bytes = 0
        self._interval_began = self.began

    def note(self, latency_ms: float, count: int, byte_count: int) -> None:
        """Records were acknowledged; on any thread."""
        with self._lock:
            self.latencies.add(latency_ms, count)
            self.byte_count += byte_count
            self._interval.add(latency_ms, count)
            self._interval_bytes += byte_count

    def note_failure(self, count: int, error: Exception) -> None:
        """Records were not written; on any thread."""
        with self._lock:
            self.failed_count += count
            self.first_error = self.first_error or error

    def next_interval(self) -> tuple[Latencies, int, float] | None:
        """Latencies, bytes and seconds of an interval that is over, if one is."""
        now = time.perf_counter()
        if now - self._interval_began < INTERVAL_SECONDS:
            return None
        with self._lock:
            found = self._interval, self._interval_bytes, now - self._interval_began
            self._interval, self._interval_bytes, self._interval_began = Latencies(), 0, now
        return found


def rates(count: int, byte_count: int, elapsed_seconds: float) -> tuple[float, float]:
    """Things and megabytes per second."""
    elapsed = max(elapsed_seconds, 1e-6)
    return count / elapsed, byte_count / elapsed / MEGABYTE


def topic_of(arguments: Arguments) -> str:
    """The one topic that was named."""
    names = [*arguments.topics, *([] if arguments.topic is None else [arguments.topic])]
    if len(names) != 1:
        raise UsageError("which topic?" if not names else "more than one topic", "name one topic")
    return str(names[0])


class Payloads:
    """Values to send, in chunks that are small enough for their records to have one time of sending."""

    def __init__(self, arguments: Arguments) -> None:
        self._random = random.Random(_SEED)
        self._is_monotonic = arguments.payload_monotonic
        delimiter = arguments.payload_delimiter
        if arguments.payload_file is not None:
            self._pool = _from_file(arguments.payload_file, delimiter or b"\n")
        elif delimiter is not None:
            raise UsageError("--payload-delimiter needs --payload-file", "leave it out")
        else:
            self._pool = _made_up(self._random, arguments.record_size or RECORD_BYTES)
        largest = max(map(len, self._pool))
        self._chunk = max(1, min(_CHUNK_MAX, _CHUNK_BYTES // max(largest, 1)))
        if arguments.throughput > 0:
            self._chunk = max(1, min(self._chunk, int(arguments.throughput / _CHUNKS_PER_SECOND)))

    def chunks(self, count: int) -> Iterator[list[bytes]]:
        """So many values."""
        for start in range(0, count, self._chunk):
            size = min(self._chunk, count - start)
            if self._is_monotonic:
                yield [b"%d" % number for number in range(start, start + size)]
            else:
                yield self._random.choices(self._pool, k=size)


def _made_up(chance: random.Random, size_bytes: int) -> list[bytes]:
    """Random letters, as Kafka's tool sends; from a pool, since making them would be what is measured."""
    count = max(1, min(_POOL_MAX, _POOL_BYTES // size_bytes))
    return [bytes(chance.choices(_LETTERS, k=size_bytes)) for _ in range(count)]


def _from_file(path: str, delimiter: bytes) -> list[bytes]:
    with open(path, "rb") as file:
        content = file.read()
    # As in Kafka, what is empty at the end is no value.
    values = content.split(delimiter)
    while values and not values[-1]:
        values.pop()
    if not values:
        raise CommandError(f"{path} is empty", "values to send should be in it")
    return values


def metrics_lines(metrics: dict[str, float]) -> list[str]:
    """Metrics for people."""
    width = max(map(len, metrics), default=0)
    return [f"{name.ljust(width)} : {value:.3f}" for name, value in sorted(metrics.items())]


def finite(metrics: dict[str, float]) -> dict[str, Any]:
    """Metrics for programs: JSON has no NaN."""
    return {name: value if abs(value) < float("inf") else None for name, value in metrics.items()}
