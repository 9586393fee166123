"""How many offset commits does a broker take per second, and what does one cost it?

Run: python -m benchmarks.bench_offset_commit
"""

from __future__ import annotations

from functools import partial

from benchmarks.bench_groups import find_peers, new_group_id
from benchmarks.comparison import Row, observed
from benchmarks.frames import RefusedError, create_wide_topic, end_offsets
from benchmarks.load import Burst, Target, drive
from benchmarks.measure import Load, Measurement
from benchmarks.members import await_coordinator
from benchmarks.offsets import COORDINATOR_COUNT, OFFSETS_TOPIC, commit_frame, commit_once
from benchmarks.peers import Peer
from benchmarks.run import run

from ottla.client.raw import RawConnection

TOPIC = "committed"
PARTITION_COUNT = 50
# The commits of a measurement are those of this many groups in turn, which have different coordinators.
GROUP_COUNT = 16


def targets(peer: Peer, partition_count: int, commits_per_burst: int) -> list[Target]:
    """Commits of some groups to their coordinators, and how long this broker's answers are."""
    create_wide_topic(peer.bootstrap_server, TOPIC, PARTITION_COUNT)
    found: dict[str, list[Burst]] = {}
    for _ in range(GROUP_COUNT):
        group_id = new_group_id()
        coordinator = await_coordinator(peer.bootstrap_server, group_id)
        frame = commit_frame(group_id, TOPIC, range(1000, 1000 + partition_count))
        with RawConnection(coordinator) as connection:
            answer_bytes = commit_once(connection, frame) * commits_per_burst
        burst = Burst(frame * commits_per_burst, commits_per_burst, answer_bytes)
        found.setdefault(coordinator, []).append(burst)
    return [Target(coordinator, bursts) for coordinator, bursts in found.items()]


def raw(
    partition_count: int,
    commits_per_burst: int,
    bursts_in_flight: int,
    connection_count: int,
    peer: Peer,
    seconds: float,
) -> Measurement:
    """Sends commits and checks that every offset that was acknowledged is in the log."""
    all_targets = targets(peer, partition_count, commits_per_burst)

    def load() -> Load:
        sent = drive(
            all_targets,
            seconds=seconds,
            bursts_in_flight=bursts_in_flight,
            connection_count=connection_count,
        )
        return Load(sent.requests, sent.requests * partition_count, 0, sent.seconds)

    before = written(peer)
    measurement, done = observed(peer, "requests/s", load)
    kept = written(peer) - before
    if kept != done.records:
        raise RefusedError(f"{peer.name} answered {done.records} offsets and has {kept}")
    return measurement


def written(peer: Peer) -> int:
    """How many records were ever written to the partitions of the coordinators."""
    return sum(end_offsets(peer.bootstrap_server, OFFSETS_TOPIC, COORDINATOR_COUNT))


def row(name: str, partitions: int, burst: int, in_flight: int, connections: int) -> Row:
    measure = partial(raw, partitions, burst, in_flight, connections)
    return Row("offset commit", "raw", name, "requests/s", measure)


ROWS = [
    row("1 partition, pipelined", 1, 100, 2, 1),
    row("1 partition, one at a time", 1, 1, 1, 1),
    row("1 partition, one at a time on 64 connections", 1, 1, 1, 64),
    row("1 partition, one at a time on 512 connections", 1, 1, 1, 512),
    row("50 partitions, pipelined", 50, 10, 2, 1),
    row("50 partitions, one at a time on 64 connections", 50, 1, 1, 64),
]

if __name__ == "__main__":
    run("offset-commit", ROWS, starts=1, find_peers=find_peers)
