"""What has a change cost? This checkout against another one of Ottla, in alternation: BENCH_OTHER is its folder.

The other checkout has to be built (its `.venv` need not be used: the interpreter is the same, its sources come first).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from benchmarks.bench_metrics import ROWS as RAW_ROWS
from benchmarks.peers import NO_SETTINGS, FoundPeers, Ottla
from benchmarks.run import run

from benchmarks import bench_offset_commit, bench_transactions


class OtherCheckout(Ottla):
    """`ottla serve` of another checkout."""

    name = "other"

    def __init__(self, folder: Path, settings: Mapping[str, object] = NO_SETTINGS) -> None:
        super().__init__(settings)
        self.checkout = folder
        self.version = str(folder)

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "PYTHONPATH": str(self.checkout / "src")}


# No delay before a first rebalance: it is the coordinator that is measured.
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}


def peers_of(other: Path) -> FoundPeers:
    """This checkout and another one."""
    return [Ottla(SETTINGS), OtherCheckout(other, SETTINGS)], {}


ROWS = [
    *RAW_ROWS,
    *(row for row in (*bench_offset_commit.ROWS, *bench_transactions.ROWS) if row.driver == "raw"),
]

if __name__ == "__main__":
    folder = Path(os.environ.get("BENCH_OTHER", ""))
    if not (folder / "src" / "ottla").is_dir():
        sys.exit("BENCH_OTHER names the folder of another checkout, with its kernels built")
    run("change", ROWS, starts=1, find_peers=partial(peers_of, folder))
