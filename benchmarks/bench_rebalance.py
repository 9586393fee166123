"""How long until a group of 10 to 1,000 members is stable again, in both protocols, and what does a heartbeat cost?

Run: python -m benchmarks.bench_rebalance [words of the rows that are wanted, such as classic]
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from benchmarks.bench_groups import new_group_id
from benchmarks.comparison import DURATION, Row, observed, timed
from benchmarks.consumer_members import ConsumerGroup
from benchmarks.frames import create_wide_topic
from benchmarks.measure import Load, Measurement
from benchmarks.members import Group
from benchmarks.peers import FoundPeers, Peer, peers_with_options
from benchmarks.run import run

SIZES = (10, 100, 500, 1000)
# All members of a group together send so many heartbeats per second, and none of them more often than this: the
# coordinator is measured, neither the interval nor how many heartbeats a processor can send.
HEARTBEATS_PER_SECOND = 1000
SHORTEST_INTERVAL_MS = 50
# A steady group is watched for so long at least: the kernel tells processor time in steps of ten milliseconds.
STEADY_SECONDS = 4.0

Scenario = Callable[[], float]
# One of the two protocols: a group of so many connected members.
NewGroup = Callable[[Peer, int], Group | ConsumerGroup]


# The least time between two target assignments of a group; this is the default of both brokers.
ASSIGNMENT_INTERVAL_MS = int(os.environ.get("BENCH_ASSIGNMENT_INTERVAL_MS", "1000"))
MARGIN_MS = 100


def find_peers() -> FoundPeers:
    """Without the delay of a first classic rebalance, whose default is 3000."""
    return peers_with_options(
        {
            "group.initial.rebalance.delay.ms": os.environ.get("BENCH_REBALANCE_DELAY_MS", "0"),
            "group.consumer.assignment.interval.ms": ASSIGNMENT_INTERVAL_MS,
            "group.consumer.min.heartbeat.interval.ms": SHORTEST_INTERVAL_MS,
        }
    )


def interval_ms(size: int) -> int:
    return max(SHORTEST_INTERVAL_MS, size * 1000 // HEARTBEATS_PER_SECOND)


def rest(group: Group | ConsumerGroup, size: int) -> None:
    """A stable group beats until the next change is a change by itself."""
    milliseconds = interval_ms(size)
    if isinstance(group, ConsumerGroup):
        milliseconds = max(milliseconds, ASSIGNMENT_INTERVAL_MS + MARGIN_MS)
    group.beat(milliseconds / 1000)


def classic(peer: Peer, size: int) -> Group:
    return Group(peer.bootstrap_server, new_group_id(), size, interval_ms(size) / 1000)


def consumer(peer: Peer, size: int) -> ConsumerGroup:
    """A partition for every member, and one for a member that comes later."""
    topic, partition_count = f"read-by-{size}", size + 1
    create_wide_topic(peer.bootstrap_server, topic, partition_count)
    return ConsumerGroup(
        peer.bootstrap_server,
        new_group_id(),
        topic,
        partition_count=partition_count,
        size=size,
        interval_ms=interval_ms(size),
    )


def all_at_once(new_group: NewGroup, size: int, peer: Peer, seconds: float) -> Measurement:
    """Connections are made before the clock starts."""

    @contextmanager
    def scenario() -> Iterator[Scenario]:
        group = new_group(peer, size)
        yield group.form
        group.close()

    return timed(peer, seconds, scenario)


def one_more(new_group: NewGroup, size: int, peer: Peer, seconds: float) -> Measurement:
    group = new_group(peer, size)
    group.form()

    @contextmanager
    def scenario() -> Iterator[Scenario]:
        rest(group, size)
        yield group.newcomer()
        group.shrink()

    measurement = timed(peer, seconds, scenario)
    group.close()
    return measurement


def one_leaves(new_group: NewGroup, size: int, peer: Peer, seconds: float) -> Measurement:
    group = new_group(peer, size)
    group.form()

    @contextmanager
    def scenario() -> Iterator[Scenario]:
        rest(group, size)
        group.newcomer()()
        rest(group, size)
        yield group.shrink

    measurement = timed(peer, seconds, scenario)
    group.close()
    return measurement


def steady(new_group: NewGroup, size: int, peer: Peer, seconds: float) -> Measurement:
    """Nothing changes: the processor time of a heartbeat."""
    group = new_group(peer, size)
    group.form()
    group.beat(interval_ms(size) / 1000)
    for_seconds = max(seconds, STEADY_SECONDS)

    def load() -> Load:
        started = time.perf_counter()
        count = group.beat(for_seconds)
        return Load(count, count, 0, time.perf_counter() - started)

    measurement, _ = observed(peer, "requests/s", load)
    group.close()
    return measurement


def rows_of(size: int) -> list[Row]:
    rows = []
    for protocol, new_group in (("classic", classic), ("consumer", consumer)):
        timed_rows = (
            (f"{protocol}: {size} members join at once", all_at_once),
            (f"{protocol}: one joins a group of {size}", one_more),
            (f"{protocol}: one leaves a group of {size + 1}", one_leaves),
        )
        rows += [
            Row("rebalance", "raw", name, DURATION, partial(run_row, new_group, size))
            for name, run_row in timed_rows
        ]
        name = f"{protocol}: {size} members, a beat every {interval_ms(size)} ms"
        rows.append(Row("heartbeats", "raw", name, "requests/s", partial(steady, new_group, size)))
    return rows


ROWS = [row for size in SIZES for row in rows_of(size)]

if __name__ == "__main__":
    words = sys.argv[1:]
    wanted = [row for row in ROWS if all(word in row.title for word in words)]
    run("-".join(["rebalance", *words]), wanted, starts=1, find_peers=find_peers)
