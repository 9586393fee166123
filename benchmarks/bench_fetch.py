"""How much do brokers give to consumers that read large batches from the start?

Run: python -m benchmarks.bench_fetch
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from benchmarks.comparison import Row, observed
from benchmarks.frames import (
    append_first,
    batch_of,
    fetch_frame,
    fetch_once,
    leaders,
    produce_frame,
)
from benchmarks.load import Burst, Target, drive
from benchmarks.measure import Load, Measurement
from benchmarks.peers import Peer
from benchmarks.run import run_alone

from benchmarks import clients
from ottla.client.raw import RawConnection

# The mock cluster keeps five megabytes of a partition, so that much data takes many of them.
TOPICS = [f"fetch-{number}" for number in range(8)]
BATCHES_PER_PARTITION = 5
RECORDS_PER_BATCH = 900
VALUE_BYTES = 1000
# Asking for exactly one batch, because Kafka would fill what is left with a part of the next.
BATCH_BYTES = len(batch_of(RECORDS_PER_BATCH, VALUE_BYTES))
REQUESTS_IN_FLIGHT = 4


def fill(peer: Peer) -> None:
    """Writes what will be read, once per start of a broker."""
    if peer.folder in _filled:
        return
    for topic in TOPICS:
        for partition, leader in enumerate(leaders(peer.bootstrap_server, topic)):
            frame = produce_frame(topic, RECORDS_PER_BATCH, VALUE_BYTES, partition)
            for _ in range(BATCHES_PER_PARTITION):
                append_first(leader, frame)
    _filled.add(peer.folder)


_filled: set[Path] = set()


def targets(peer: Peer) -> list[Target]:
    """For every leader a request for each of its batches, and how long this broker's answer is."""
    found: dict[str, list[Burst]] = {}
    with ExitStack() as stack:
        connections: dict[str, RawConnection] = {}
        for topic in TOPICS:
            for partition, leader in enumerate(leaders(peer.bootstrap_server, topic)):
                if leader not in connections:
                    connections[leader] = stack.enter_context(RawConnection(leader))
                for batch in range(BATCHES_PER_PARTITION):
                    offset = batch * RECORDS_PER_BATCH
                    frame = fetch_frame(topic, partition, offset, BATCH_BYTES)
                    answer_bytes = fetch_once(connections[leader], frame, BATCH_BYTES)
                    found.setdefault(leader, []).append(Burst(frame, 1, answer_bytes))
    return [Target(leader, bursts) for leader, bursts in found.items()]


def raw(peer: Peer, seconds: float) -> Measurement:
    """Fetches every batch of every partition in turn."""
    fill(peer)
    all_targets = targets(peer)

    def load() -> Load:
        sent = drive(all_targets, seconds=seconds, bursts_in_flight=REQUESTS_IN_FLIGHT)
        records = sent.requests * RECORDS_PER_BATCH
        return Load(sent.requests, records, records * VALUE_BYTES, sent.seconds)

    return observed(peer, "MB/s", load)[0]


def librdkafka(peer: Peer, seconds: float) -> Measurement:
    fill(peer)

    def load() -> Load:
        return clients.consume(
            peer.bootstrap_server,
            TOPICS,
            records_per_partition=BATCHES_PER_PARTITION * RECORDS_PER_BATCH,
            value_bytes=VALUE_BYTES,
            seconds=seconds,
        )

    return observed(peer, "records/s", load)[0]


ROWS = [
    Row("fetch", "librdkafka", "1 KB in batches of 900", "records/s", librdkafka),
    Row("fetch", "raw", "a batch of 1 KB x 900 per request", "MB/s", raw),
]

if __name__ == "__main__":
    run_alone("fetch", ROWS)
