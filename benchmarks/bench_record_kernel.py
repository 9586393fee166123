"""How many million records per second does the record kernel encode, decode and scan?

Run: python benchmarks/bench_record_kernel.py [RECORDS] > result.json
"""

import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

from ottla.records.record import Record

REPEATS = 15


def best_of(repeats: int, action: Callable[[], object]) -> float:
    """The shortest time in seconds that the action took."""
    best = float("inf")
    for _ in range(repeats):
        started = time.perf_counter()
        action()
        best = min(best, time.perf_counter() - started)
    return best


def measure(kernel: Any, records: list[Record]) -> dict[str, float]:
    """Million records per second of one kernel."""
    base = records[0]
    payload = kernel.encode_records(records, base.offset, base.timestamp)
    actions: dict[str, Callable[[], object]] = {
        "encode": lambda: kernel.encode_records(records, base.offset, base.timestamp),
        "decode": lambda: kernel.decode_records(
            payload, len(records), base.offset, base.timestamp, None
        ),
        "scan": lambda: kernel.scan_records(payload, len(records)),
    }
    return {
        name: round(len(records) / best_of(REPEATS, action) / 1e6, 2)
        for name, action in actions.items()
    }


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
    shapes = {
        "key 8 B, value 100 B": [
            Record(offset, 1_700_000_000_000 + offset // 100, b"%08d" % offset, b"v" * 100)
            for offset in range(count)
        ],
        "no key, value 100 B, two headers": [
            Record(offset, 1_700_000_000_000, None, b"v" * 100, (("trace", b"x" * 16), ("n", None)))
            for offset in range(count)
        ],
    }
    kernels = {}
    for name, module in (("compiled", "_kernel"), ("pure", "_kernel_py")):
        try:
            kernels[name] = import_module(f"ottla.records.{module}")
        except ImportError:
            print(f"the {name} kernel is not built", file=sys.stderr)
    result = {
        "question": "million records per second, one core",
        "records": count,
        "machine": f"{platform.machine()} {platform.system()} Python {platform.python_version()}",
        "commit": commit(),
        "results": {
            shape: {name: measure(kernel, records) for name, kernel in kernels.items()}
            for shape, records in shapes.items()
        },
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
