"""What the operating system tells about a process, and what a row measures."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version as installed_version
from math import comb, inf
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
SCHEDULER_CLOCK = 2
MEGABYTE = 1_000_000
# In thousandths.
PERCENTILES = {"p50": 500, "p99": 990, "p99.9": 999}


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads of a process so far.

    It comes from the process's clock (clock_getcpuclockid(3) computes its number so): /proc counts in steps of ten
    milliseconds.
    """
    return time.clock_gettime((~pid << 3) | SCHEDULER_CLOCK)


@dataclass(frozen=True)
class Memory:
    """Resident memory; the anonymous part leaves out mapped files, which the system can take back."""

    resident_mb: float
    anonymous_mb: float


def memory_of(pid: int) -> Memory:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    kilobytes = {
        name: int(value.split()[0])
        for name, _, value in (line.partition(":") for line in lines)
        if name in ("VmRSS", "RssAnon")
    }
    return Memory(kilobytes["VmRSS"] * 1024 / MEGABYTE, kilobytes["RssAnon"] * 1024 / MEGABYTE)


def memory_of_family(pids: Sequence[int]) -> Memory:
    """That of processes of which some are forks of others: what several share counts once."""
    if len(pids) == 1:
        return memory_of(pids[0])
    kilobytes = Counter[str]()
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in ("Pss", "Pss_Anon"):
                kilobytes[name] += int(value.split()[0])
    return Memory(kilobytes["Pss"] * 1024 / MEGABYTE, kilobytes["Pss_Anon"] * 1024 / MEGABYTE)


@dataclass(frozen=True)
class Load:
    """What went through a broker in a number of seconds; bytes are those of the records' values."""

    requests: int
    records: int
    value_bytes: int
    seconds: float
    # Processor time of clients in processes of their own.
    client_cpu_seconds: float = 0.0


@dataclass(frozen=True)
class Measurement:
    """One row, one broker, one round."""

    throughput: float = 0.0
    cpu_us_per_request: float | None = None
    cpu_ms_per_mb: float | None = None
    broker_cores: float | None = None
    generator_cores: float | None = None
    latency_ms: dict[str, float] = field(default_factory=dict)
    duration_ms: float | None = None
    cpu_ms: float | None = None
    # How many requests were answered with "come again".
    put_off: int | None = None


def percentiles_ms(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        name: ordered[min(len(ordered) - 1, len(ordered) * permille // 1000)] * 1000
        for name, permille in PERCENTILES.items()
    }


def machine() -> dict[str, str | int]:
    """Where the numbers come from."""
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "processor": models[0] if models else platform.machine(),
        "cores": os.cpu_count() or 1,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "confluent-kafka": installed_version("confluent-kafka"),
    }


def other_work() -> float:
    """Processes that ran or wanted to in the last minute: ask before the measuring starts."""
    return os.getloadavg()[0]


def commit() -> str:
    """The commit that is measured, or unknown outside of a repository."""
    try:
        return subprocess.run(
            ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def interval_of_median(values: Sequence[float], miss: float = 0.05) -> tuple[float, float]:
    """Where the median of what they are samples of is, but for a probability of `miss`, whatever its distribution.

    Of fewer than six values nobody can say that much: it is everywhere.
    """
    ordered, count = sorted(values), len(values)
    # As many values lie below the true median as coins show heads.
    left, tail = 0, 0.5**count
    while tail <= miss / 2:
        left += 1
        tail += comb(count, left) * 0.5**count
    return (ordered[left - 1], ordered[count - left]) if left else (-inf, inf)
