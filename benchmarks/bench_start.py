"""How long does a broker take from its start to the first acknowledged record, and how much memory?

Run: python -m benchmarks.bench_start
"""

from __future__ import annotations

from benchmarks.run import run

STARTS = 3

if __name__ == "__main__":
    run("start", [], starts=STARTS)
