"""How long until a group is stable: when everybody joins at once, when one more joins, when one leaves?

Run: python -m benchmarks.bench_groups
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count

from benchmarks.comparison import DURATION, Row, timed
from benchmarks.measure import Measurement
from benchmarks.members import HEARTBEAT_SECONDS, Group
from benchmarks.peers import FoundPeers, Peer, peers_with_options
from benchmarks.run import run

from benchmarks import clients

SIZES = (10, 100, 500, 1000)
CLIENT_COUNT = 10
# The idle members of a group together: the coordinator is to be measured, and not how many heartbeats it can answer.
HEARTBEATS_PER_SECOND = 10_000

_group_numbers = count()


# Without the delay of a first rebalance it is the coordinator that is measured; Kafka's default is 3000.
OPTIONS = {"group.initial.rebalance.delay.ms": os.environ.get("BENCH_REBALANCE_DELAY_MS", "0")}


def find_peers() -> FoundPeers:
    return peers_with_options(OPTIONS)


def new_group_id() -> str:
    return f"group-{next(_group_numbers)}"


def new_group(size: int, peer: Peer) -> Group:
    """So many members, connected and not joined."""
    heartbeat_seconds = max(HEARTBEAT_SECONDS, size / HEARTBEATS_PER_SECOND)
    return Group(peer.bootstrap_server, new_group_id(), size, heartbeat_seconds)


def all_at_once(size: int, peer: Peer, seconds: float) -> Measurement:
    """Connections are made before the clock starts."""

    @contextmanager
    def scenario() -> Iterator[Callable[[], float]]:
        group = new_group(size, peer)
        yield group.form
        group.close()

    return timed(peer, seconds, scenario)


def one_more(size: int, peer: Peer, seconds: float) -> Measurement:
    group = new_group(size, peer)
    group.form()

    @contextmanager
    def scenario() -> Iterator[Callable[[], float]]:
        yield partial(group.grow, group.connect_one())
        group.shrink()

    measurement = timed(peer, seconds, scenario)
    group.close()
    return measurement


def one_leaves(size: int, peer: Peer, seconds: float) -> Measurement:
    group = new_group(size, peer)
    group.form()

    @contextmanager
    def scenario() -> Iterator[Callable[[], float]]:
        group.grow(group.connect_one())
        yield group.shrink

    measurement = timed(peer, seconds, scenario)
    group.close()
    return measurement


def librdkafka(peer: Peer, seconds: float) -> Measurement:
    """Consumers as applications use them: here their own timers are most of it."""
    topic = "read-by-clients"
    peer.create_topic(topic)

    @contextmanager
    def scenario() -> Iterator[Callable[[], float]]:
        group = clients.Consumers(peer.bootstrap_server, new_group_id(), topic, CLIENT_COUNT)
        yield group.form
        group.close()

    return timed(peer, seconds, scenario)


def rows_of(size: int) -> list[Row]:
    return [
        Row("group", "raw", name, DURATION, partial(run_row, size))
        for name, run_row in (
            (f"{size} members join at once", all_at_once),
            (f"one joins a group of {size}", one_more),
            (f"one leaves a group of {size + 1}", one_leaves),
        )
    ]


ROWS = [
    *(row for size in SIZES for row in rows_of(size)),
    Row("group", "librdkafka", f"{CLIENT_COUNT} consumers start", DURATION, librdkafka),
]

if __name__ == "__main__":
    run("groups", ROWS, starts=1, find_peers=find_peers)
