"""What does it cost a broker to count its requests for Prometheus?

Run: python -m benchmarks.bench_metrics
"""

from __future__ import annotations

from benchmarks.peers import FoundPeers, Ottla
from benchmarks.run import run

from benchmarks import bench_fetch, bench_produce


class Measured(Ottla):
    """`ottla serve --metrics`."""

    name = "ottla --metrics"

    def command(self) -> list[str]:
        return [*super().command(), "--metrics", "127.0.0.1:0"]


def find_peers() -> FoundPeers:
    """The same broker twice; what is compared with is the one that counts nothing."""
    return [Measured(), Ottla()], {}


ROWS = [row for row in (*bench_produce.ROWS, *bench_fetch.ROWS) if row.driver == "raw"]

if __name__ == "__main__":
    run("metrics", ROWS, starts=1, find_peers=find_peers)
