"""How long does a broker with 10,000 partitions, 10,000 groups and 20 GB take to start, and how much memory?

Run: python -m benchmarks.bench_scale
BENCH_PARTITIONS, BENCH_GB and BENCH_ROUNDS say how many and how much; it needs that much room in the folder of
temporary files, twice with workers. Only ours are measured: it is no part of `make bench`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.bench_group_load import await_groups, check_all, witnesses
from benchmarks.bench_group_load import fill as fill_groups
from benchmarks.comparison import DURATION, Row, say
from benchmarks.frames import (
    TRY_SECONDS,
    RefusedError,
    append_first,
    append_once,
    create_wide_topic,
    end_offsets,
    leaders,
    produce_frame,
)
from benchmarks.measure import Measurement
from benchmarks.peers import START_SECONDS, FoundPeers, Ottla, OttlaWorkers, Peer, found_peers
from benchmarks.run import run

from ottla.client.raw import RawConnection

PARTITIONS = int(os.environ.get("BENCH_PARTITIONS", "10000"))
GIGABYTES = float(os.environ.get("BENCH_GB", "20"))
PARTITIONS_PER_TOPIC = 100
RECORDS_PER_BATCH, VALUE_BYTES = 900, 1000
GIGABYTE = 1_000_000_000
# The topic with most of the bytes, in as many partitions; all others have one record in each.
LARGE_TOPIC, LARGE_PARTITIONS = "large", 20
# Any of them: its leader has to be there.
FIRST_TOPIC = "scale-0"

_filled: set[Path] = set()


def find_peers() -> FoundPeers:
    return found_peers(Ottla, OttlaWorkers)


def topics() -> dict[str, int]:
    """The topics, and how many partitions each has."""
    count = max(1, PARTITIONS // PARTITIONS_PER_TOPIC)
    return {f"scale-{number}": min(PARTITIONS, PARTITIONS_PER_TOPIC) for number in range(count)}


def batches_per_large_partition() -> int:
    return int(GIGABYTES * GIGABYTE / LARGE_PARTITIONS / RECORDS_PER_BATCH / VALUE_BYTES)


def fill(peer: Peer) -> None:
    """Everything that the starts find, written once per folder of a broker."""
    if peer.folder in _filled:
        return
    say(f"{PARTITIONS} partitions are created on {peer.name}")
    for topic, partitions in topics().items():
        create_wide_topic(peer.bootstrap_server, topic, partitions)
        for partition, leader in enumerate(leaders(peer.bootstrap_server, topic)):
            append_first(leader, produce_frame(topic, 1, 100, partition))
    fill_groups(peer)
    say(f"{GIGABYTES:g} GB are written on {peer.name}")
    create_wide_topic(peer.bootstrap_server, LARGE_TOPIC, LARGE_PARTITIONS)
    for partition, leader in enumerate(leaders(peer.bootstrap_server, LARGE_TOPIC)):
        frame = produce_frame(LARGE_TOPIC, RECORDS_PER_BATCH, VALUE_BYTES, partition)
        append_first(leader, frame)
        with RawConnection(leader) as connection:
            for _ in range(batches_per_large_partition() - 1):
                append_once(connection, frame)
    _filled.add(peer.folder)


def restart(await_state: Callable[[Peer, float], None], peer: Peer, _: float) -> Measurement:
    """From the start of the process until it does what is waited for."""
    fill(peer)
    peer.halt()
    started = peer.launch()
    await_state(peer, started)
    duration = time.perf_counter() - started
    return Measurement(duration_ms=duration * 1e3, cpu_ms=peer.cpu_seconds() * 1e3)


def first_record(peer: Peer, started: float) -> None:
    """A record is acknowledged."""
    while True:
        try:
            leader = leaders(peer.bootstrap_server, FIRST_TOPIC)[0]
            append_first(leader, produce_frame(FIRST_TOPIC, 1, 100))
        except OSError:
            _try_again(peer, started)
        else:
            return


def all_partitions(peer: Peer, started: float) -> None:
    """Every partition says where it ends."""
    large = batches_per_large_partition() * RECORDS_PER_BATCH
    for topic, partitions in {LARGE_TOPIC: LARGE_PARTITIONS, **topics()}.items():
        least = large if topic == LARGE_TOPIC else 1
        while min(end_offsets(peer.bootstrap_server, topic, partitions)) < least:
            _try_again(peer, started)


def all_groups(peer: Peer, started: float) -> None:
    """A group of every coordinator has its offsets."""
    groups = witnesses()
    await_groups(peer, groups, len(groups), started)


def _try_again(peer: Peer, started: float) -> None:
    if time.perf_counter() - started > START_SECONDS:
        raise RefusedError(f"{peer.name} does not answer for all that it has")
    time.sleep(TRY_SECONDS)


def everything(peer: Peer, seconds: float) -> Measurement:
    """All partitions and all coordinators; afterwards every group is looked at."""

    def await_both(peer: Peer, started: float) -> None:
        all_partitions(peer, started)
        all_groups(peer, started)

    measurement = restart(await_both, peer, seconds)
    check_all(peer)
    return measurement


ROWS = [
    Row(
        "start with much",
        "raw",
        "the first record is acknowledged",
        DURATION,
        partial(restart, first_record),
    ),
    Row(
        "start with much",
        "raw",
        "all partitions say their ends",
        DURATION,
        partial(restart, all_partitions),
    ),
    Row("start with much", "raw", "all partitions and all coordinators", DURATION, everything),
]

if __name__ == "__main__":
    run("scale", ROWS, starts=1, find_peers=find_peers)
