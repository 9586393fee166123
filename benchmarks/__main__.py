"""All questions about brokers in one run: `make bench`, or python -m benchmarks."""

from __future__ import annotations

from benchmarks.run import run

from benchmarks import bench_fetch, bench_latency, bench_produce, bench_start

if __name__ == "__main__":
    rows = [*bench_produce.ROWS, *bench_fetch.ROWS, *bench_latency.ROWS]
    run("brokers", rows, starts=bench_start.STARTS)
