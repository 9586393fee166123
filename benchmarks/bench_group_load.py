"""How long after a restart until the coordinators of 10,000 groups answer again?

Run: python -m benchmarks.bench_group_load
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks.bench_groups import find_peers
from benchmarks.comparison import DURATION, Row, say
from benchmarks.frames import RefusedError, create_wide_topic
from benchmarks.measure import Measurement
from benchmarks.members import await_coordinator
from benchmarks.offsets import (
    COORDINATOR_COUNT,
    check_commit,
    commit_frame,
    committed,
)
from benchmarks.peers import START_SECONDS, Peer
from benchmarks.run import run

from ottla.client.raw import RawConnection
from ottla.model import coordinator_partition

TOPIC = "read-by-many"
PARTITION_COUNT = 10
GROUPS = [f"group-{number}" for number in range(10_000)]
OFFSETS = list(range(1000, 1000 + PARTITION_COUNT))
# How many groups commit at once, and how many are asked for at once.
AT_ONCE = 100
POLL_SECONDS = 0.002

_filled: set[Path] = set()


def witnesses() -> list[str]:
    """One group of every coordinator."""
    by_coordinator = {coordinator_partition(group, COORDINATOR_COUNT): group for group in GROUPS}
    return list(by_coordinator.values())


def fill(peer: Peer) -> None:
    """Has every group commit its offsets, once per folder of a broker."""
    if peer.folder in _filled:
        return
    say(f"{len(GROUPS)} groups commit on {peer.name}")
    create_wide_topic(peer.bootstrap_server, TOPIC, PARTITION_COUNT)
    addresses = {
        coordinator_partition(group, COORDINATOR_COUNT): await_coordinator(
            peer.bootstrap_server, group
        )
        for group in witnesses()
    }
    with ExitStack() as stack:
        # A broker may take the requests of a connection one by one, and wait a moment with each for others to write.
        connections = {
            address: [stack.enter_context(RawConnection(address)) for _ in range(AT_ONCE)]
            for address in set(addresses.values())
        }
        for start in range(0, len(GROUPS), AT_ONCE):
            busy = []
            for number, group in enumerate(GROUPS[start : start + AT_ONCE]):
                address = addresses[coordinator_partition(group, COORDINATOR_COUNT)]
                connection = connections[address][number]
                connection.socket.sendall(commit_frame(group, TOPIC, OFFSETS))
                busy.append(connection)
            for connection in busy:
                check_commit(connection.receive_frame())
    _filled.add(peer.folder)


def restart(answers_wanted: int, peer: Peer, _: float) -> Measurement:
    """From the start of the process until so many coordinators have given the right offsets."""
    fill(peer)
    peer.halt()
    started = peer.launch()
    await_groups(peer, witnesses(), answers_wanted, started)
    duration = time.perf_counter() - started
    cpu = peer.cpu_seconds()
    check_all(peer)
    return Measurement(duration_ms=duration * 1e3, cpu_ms=cpu * 1e3)


def await_groups(peer: Peer, groups: Sequence[str], answers_wanted: int, started: float) -> None:
    """Waits until so many of the groups have the offsets that they committed."""
    missing = list(groups)
    while len(groups) - len(missing) < answers_wanted:
        if time.perf_counter() - started > START_SECONDS:
            raise RefusedError(f"{peer.name}: {len(missing)} groups have other offsets or none")
        try:
            found = committed(peer.bootstrap_server, missing)
        except OSError:
            found = {}
        still = [group for group in missing if found.get(group) != OFFSETS]
        if len(still) == len(missing):
            time.sleep(POLL_SECONDS)
        missing = still


def check_all(peer: Peer) -> None:
    """Every group has what it committed, once its coordinator is ready."""
    for start in range(0, len(GROUPS), AT_ONCE):
        groups = GROUPS[start : start + AT_ONCE]
        await_groups(peer, groups, len(groups), time.perf_counter())


ROWS = [
    Row("restart", "raw", name, DURATION, partial(restart, answers_wanted))
    for name, answers_wanted in (
        ("10,000 groups: the first coordinator answers", 1),
        ("10,000 groups: all 50 coordinators answer", COORDINATOR_COUNT),
    )
]

if __name__ == "__main__":
    run("group-load", ROWS, starts=1, find_peers=find_peers)
