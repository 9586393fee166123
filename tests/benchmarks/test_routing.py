"""Loads go where clients send them: to the leaders of partitions and to coordinators, on whatever node these are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from benchmarks.comparison import Row
from benchmarks.frames import leaders
from benchmarks.peers import Peer
from tests.benchmarks.test_groups import SECONDS, Embedded

import ottla
from benchmarks import (
    bench_commit_latency,
    bench_fetch,
    bench_groups,
    bench_latency,
    bench_offset_commit,
    bench_produce,
    bench_transactional_produce,
    bench_transactions,
    bench_workers,
)

ROWS = [
    *(row for row in bench_produce.ROWS if "connections" in row.name),
    *(row for row in bench_fetch.ROWS if row.driver == "raw"),
    *bench_latency.ROWS,
    *(row for row in bench_offset_commit.ROWS if "64" in row.name),
    *bench_groups.rows_of(3),
    *(row for row in bench_transactions.ROWS if "8 producers" in row.name),
    *(row for row in bench_transactional_produce.ROWS if "4 producers" in row.name),
    *bench_commit_latency.ROWS,
    *(row for row in bench_workers.ROWS if "MB/s" in row.unit),
]


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    with ottla.Broker(nodes=3, num_partitions=4) as broker:
        yield Embedded(broker)


def test_the_partitions_of_a_topic_have_leaders_on_several_nodes(peer: Peer) -> None:
    assert len(set(leaders(peer.bootstrap_server, "spread"))) > 1


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.driver}-{row.title}")
def test_rows_measure_what_several_nodes_do(peer: Peer, row: Row) -> None:
    measured = row.run(peer, SECONDS)
    assert measured.throughput or measured.latency_ms.get("p50") or measured.duration_ms
