"""All rows of `make bench` about brokers, by the peers that they are measured with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks.comparison import Row
from benchmarks.peers import available_peers
from benchmarks.run import FindPeers

from benchmarks import (
    bench_commit_latency,
    bench_fetch,
    bench_group_load,
    bench_groups,
    bench_latency,
    bench_offset_commit,
    bench_produce,
    bench_start,
    bench_tls,
    bench_transactional_produce,
    bench_transactions,
    bench_workers,
)


class Group(NamedTuple):
    """Rows whose peers run together, and how often each peer is started."""

    name: str
    rows: Sequence[Row]
    find_peers: FindPeers
    starts: int = 1


BROKERS = "brokers"
GROUPS = (
    Group(
        BROKERS,
        [*bench_produce.ROWS, *bench_fetch.ROWS, *bench_latency.ROWS, *bench_workers.ROWS],
        available_peers,
        bench_start.STARTS,
    ),
    # Groups have peers of their own, without the delay of first rebalances.
    Group("groups", [*bench_groups.ROWS, *bench_offset_commit.ROWS], bench_groups.find_peers),
    # And once more: a restart reads whatever was committed before.
    Group("group-load", bench_group_load.ROWS, bench_groups.find_peers),
    Group(
        "transactions",
        [
            *bench_transactions.ROWS,
            *bench_transactional_produce.ROWS,
            *bench_commit_latency.ROWS,
        ],
        bench_transactions.find_peers,
    ),
    Group("tls", bench_tls.ROWS, bench_tls.find_peers),
)
TLS = "tls"


def rows_with_plain_peers() -> Iterator[Row]:
    """Those that any `ottla serve` can be measured in."""
    for group in GROUPS:
        if group.name != TLS:
            yield from group.rows
