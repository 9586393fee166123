"""The measures of `ottla perf`: latencies, a limit of the rate, values to send."""

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
    """The latencies of all operations, not of a sample."""

    def __init__(self) -> None:
        self.count = 0
        self.total_ms = 0.0
        self.max_ms = 0.0
        self._counts: dict[int, int] = {}

    def add(self, latency_ms: float, count: int = 1) -> None:
        """Add `count` operations with this latency."""
        self.count += count
        self.total_ms += latency_ms * count
        self.max_ms = max(self.max_ms, latency_ms)
        slot = int(latency_ms * _PER_MS)
        self._counts[slot] = self._counts.get(slot, 0) + count

    def include(self, other: Latencies) -> None:
        """Add all latencies of another object."""
        self.count += other.count
        self.total_ms += other.total_ms
        self.max_ms = max(self.max_ms, other.max_ms)
        for slot, count in other._counts.items():
            self._counts[slot] = self._counts.get(slot, 0) + count

    @property
    def average_ms(self) -> float:
        return self.total_ms / self.count if self.count else 0.0

    def percentile(self, share: float) -> float:
        """The latency at a position in the sorted list, as Kafka's tools choose it."""
        left = int(share * self.count)
        for slot, count in sorted(self._counts.items()):
            left -= count
            if left < 0:
                return slot / _PER_MS
        return 0.0

    def data(self) -> dict[str, float]:
        """The figures in milliseconds, as data."""
        shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99_9": 0.999}
        found = {name: self.percentile(share) for name, share in shares.items()}
        return {"average": round(self.average_ms, 4), "max": round(self.max_ms, 4), **found}


class SendRate:
    """Limits the number of records per second."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._began = time.perf_counter()
        self._count = 0

    def keep(self, count: int) -> None:
        """Wait until this many more records may be sent."""
        if self._per_second <= 0:
            return
        self._count += count
        ahead = self._count / self._per_second - (time.perf_counter() - self._began)
        if ahead > 0:
            time.sleep(ahead)


class Tally:
    """Counts acknowledged records: in total, and in the current interval."""

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
        """Records were acknowledged; called on any thread."""
        with self._lock:
            self.latencies.add(latency_ms, count)
            self.byte_count += byte_count
            self._interval.add(latency_ms, count)
            self._interval_bytes += byte_count

    def note_failure(self, count: int, error: Exception) -> None:
        """Records were not written; called on any thread."""
        with self._lock:
            self.failed_count += count
            self.first_error = self.first_error or error

    def next_interval(self) -> tuple[Latencies, int, float] | None:
        """Latencies, bytes and seconds of the interval, if it is over."""
        now = time.perf_counter()
        if now - self._interval_began < INTERVAL_SECONDS:
            return None
        with self._lock:
            found = self._interval, self._interval_bytes, now - self._interval_began
            self._interval, self._interval_bytes, self._interval_began = Latencies(), 0, now
        return found


def interval_line(tally: Tally, done: str, unit: str, latency: str) -> str | None:
    """The line about the interval, if it is over: how many were `done`, `unit` per second, and the latency."""
    interval = tally.next_interval()
    if interval is None:
        return None
    latencies, byte_count, elapsed_seconds = interval
    per_second, megabytes = rates(latencies.count, byte_count, elapsed_seconds)
    return (
        f"{latencies.count} {done}, {per_second:.1f} {unit}/sec ({megabytes:.2f} MB/sec), "
        f"{latencies.average_ms:.1f} ms avg {latency}, {latencies.max_ms:.1f} ms max {latency}."
    )


def rates(count: int, byte_count: int, elapsed_seconds: float) -> tuple[float, float]:
    """Items and megabytes per second."""
    elapsed = max(elapsed_seconds, 1e-6)
    return count / elapsed, byte_count / elapsed / MEGABYTE


def topic_of(arguments: Arguments) -> str:
    """The only topic that was given."""
    names = [*arguments.topics, *([] if arguments.topic is None else [arguments.topic])]
    if len(names) != 1:
        raise UsageError(
            "no topic is given" if not names else "more than one topic", "name one topic"
        )
    return str(names[0])


class Payloads:
    """Values to send, in chunks whose records can share one time of sending."""

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
        """This many values."""
        for start in range(0, count, self._chunk):
            size = min(self._chunk, count - start)
            if self._is_monotonic:
                yield [b"%d" % number for number in range(start, start + size)]
            else:
                yield self._random.choices(self._pool, k=size)


def _made_up(chance: random.Random, size_bytes: int) -> list[bytes]:
    """Random letters, as Kafka's tool sends; from a pool, so that making them is not measured."""
    count = max(1, min(_POOL_MAX, _POOL_BYTES // size_bytes))
    return [bytes(chance.choices(_LETTERS, k=size_bytes)) for _ in range(count)]


def _from_file(path: str, delimiter: bytes) -> list[bytes]:
    with open(path, "rb") as file:
        content = file.read()
    # As in Kafka, an empty last line is not a value.
    values = content.split(delimiter)
    while values and not values[-1]:
        values.pop()
    if not values:
        raise CommandError(f"{path} is empty", "values to send should be in it")
    return values


def metrics_lines(metrics: dict[str, float]) -> list[str]:
    """Metrics as lines of text."""
    width = max(map(len, metrics), default=0)
    return [f"{name.ljust(width)} : {value:.3f}" for name, value in sorted(metrics.items())]


def finite(metrics: dict[str, float]) -> dict[str, Any]:
    """Metrics as data: JSON has no NaN."""
    return {name: value if abs(value) < float("inf") else None for name, value in metrics.items()}
