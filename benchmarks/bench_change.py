"""What has a change cost? This checkout against another one of Ottla, in alternation: BENCH_OTHER is its folder.

The other checkout has to be built (its `.venv` need not be used: the interpreter is the same, its sources come first).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from benchmarks.bench_metrics import ROWS as RAW_ROWS
from benchmarks.peers import Ottla, Peer
from benchmarks.run import run

from benchmarks import bench_offset_commit, bench_transactions


class OtherCheckout(Ottla):
    """`ottla serve` of another checkout."""

    name = "other"
    version = os.environ.get("BENCH_OTHER", "")

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "PYTHONPATH": str(Path(self.version) / "src")}


def find_peers() -> tuple[list[Peer], dict[str, str]]:
    """No delay before a first rebalance: it is the coordinator that is measured."""
    settings = {"group.initial.rebalance.delay.ms": "0"}
    return [Ottla(settings), OtherCheckout(settings)], {}


ROWS = [
    *RAW_ROWS,
    *(
        row
        for row in (*bench_offset_commit.ROWS, *bench_transactions.ROWS)
        if row.driver == "raw" and "512" not in row.name
    ),
]

if __name__ == "__main__":
    if not (Path(OtherCheckout.version) / "src" / "ottla").is_dir():
        sys.exit("BENCH_OTHER names the folder of another checkout, with its kernels built")
    run("change", ROWS, starts=1, find_peers=find_peers)
