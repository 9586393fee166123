"""The benchmark of starts with much in the folder finds all of it again; here it is little."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from benchmarks.comparison import Row
from benchmarks.frames import RefusedError
from benchmarks.peers import Ottla, Peer

from benchmarks import bench_group_load, bench_scale

LITTLE = {"PARTITIONS": 3, "GIGABYTES": 0.04, "LARGE_PARTITIONS": 2, "PARTITIONS_PER_TOPIC": 2}


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Peer]:
    for name, value in LITTLE.items():
        monkeypatch.setattr(bench_scale, name, value)
    monkeypatch.setattr(bench_group_load, "GROUPS", [f"g-{number}" for number in range(5)])
    broker = Ottla()
    broker.start()
    yield broker
    broker.stop()


def test_everything_is_there_after_a_start(peer: Peer) -> None:
    row: Row = bench_scale.ROWS[-1]
    measurement = row.run(peer, 0.0)
    assert measurement.duration_ms is not None
    assert measurement.duration_ms > 0
    assert bench_scale.batches_per_large_partition() == 22


def test_records_that_are_missing_are_noticed(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    bench_scale.fill(peer)
    monkeypatch.setattr(bench_scale, "GIGABYTES", 0.08)
    monkeypatch.setattr(bench_scale, "START_SECONDS", 0.0)
    with pytest.raises(RefusedError, match="does not answer for all"):
        bench_scale.all_partitions(peer, 0.0)
