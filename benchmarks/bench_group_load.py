"""How long after a restart until the coordinators of 10,000 groups answer again?

Run: python -m benchmarks.bench_group_load
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks.bench_groups import OPTIONS
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
from benchmarks.peers import START_SECONDS, FoundPeers, Peer, peers_with_one_process
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

# One group of every coordinator.
WITNESSES = list(
    {coordinator_partition(group, COORDINATOR_COUNT): group for group in GROUPS}.values()
)

_filled: set[Path] = set()


def find_peers() -> FoundPeers:
    """Brokers of one process, whose coordinators are all asked on one connection."""
    return peers_with_one_process(OPTIONS)


def fill(peer: Peer) -> None:
    """Has every group commit its offsets, once per folder of a broker."""
    if peer.folder in _filled:
        return
    say(f"{len(GROUPS)} groups commit on {peer.name}")
    create_wide_topic(peer.bootstrap_server, TOPIC, PARTITION_COUNT)
    for group in WITNESSES:
        await_coordinator(peer.bootstrap_server, group)
    with ExitStack() as stack:
        # A broker may take the requests of a connection one by one, and wait a moment with each for others to write.
        connections = [
            stack.enter_context(RawConnection(peer.bootstrap_server)) for _ in range(AT_ONCE)
        ]
        for start in range(0, len(GROUPS), AT_ONCE):
            busy = list(zip(connections, GROUPS[start : start + AT_ONCE], strict=False))
            for connection, group in busy:
                connection.socket.sendall(commit_frame(group, TOPIC, OFFSETS))
            for connection, _ in busy:
                check_commit(connection.receive_frame())
    _filled.add(peer.folder)


def restart(answers_wanted: int, peer: Peer, _: float) -> Measurement:
    """From the start of the process until so many coordinators have given the right offsets."""
    fill(peer)
    peer.halt()
    started = peer.launch()
    missing = list(WITNESSES)
    while len(WITNESSES) - len(missing) < answers_wanted:
        if time.perf_counter() - started > START_SECONDS:
            raise RefusedError(f"{peer.name}: {len(missing)} coordinators do not answer")
        try:
            with RawConnection(peer.bootstrap_server) as connection:
                missing = _await_some(connection, missing)
        except OSError:
            time.sleep(POLL_SECONDS)
    duration = time.perf_counter() - started
    cpu = peer.cpu_seconds()
    check_all(peer)
    return Measurement(duration_ms=duration * 1e3, cpu_ms=cpu * 1e3)


def _await_some(connection: RawConnection, groups: list[str]) -> list[str]:
    """Asks until one of the coordinators is ready; those that are not yet."""
    while True:
        found = committed(connection, groups)
        missing = [group for group in groups if found[group] != OFFSETS]
        if len(missing) < len(groups):
            return missing
        time.sleep(POLL_SECONDS)


def check_all(peer: Peer) -> None:
    """Every group has what it committed, once its coordinator is ready."""
    deadline = time.perf_counter() + START_SECONDS
    with RawConnection(peer.bootstrap_server) as connection:
        for start in range(0, len(GROUPS), AT_ONCE):
            missing = GROUPS[start : start + AT_ONCE]
            while missing := _await_some(connection, missing):
                if time.perf_counter() > deadline:
                    raise RefusedError(f"{peer.name} has other offsets for {missing[0]}")


ROWS = [
    Row("restart", "raw", name, DURATION, partial(restart, answers_wanted))
    for name, answers_wanted in (
        ("10,000 groups: the first coordinator answers", 1),
        ("10,000 groups: all 50 coordinators answer", COORDINATOR_COUNT),
    )
]

if __name__ == "__main__":
    run("group-load", ROWS, starts=1, find_peers=find_peers)
