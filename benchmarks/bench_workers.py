"""What do two workers do that one process does not, with two clients that are processes too?

Run: python -m benchmarks.bench_workers
On a machine of two cores clients and workers share them: the column of the generator says what the clients took.
"""

from __future__ import annotations

from functools import partial

from benchmarks.bench_fetch import RECORDS_PER_BATCH, REQUESTS_IN_FLIGHT, VALUE_BYTES, fill
from benchmarks.bench_fetch import targets as fetch_targets
from benchmarks.bench_produce import new_topic, produce_targets
from benchmarks.comparison import Row, observed
from benchmarks.frames import RefusedError, end_offsets
from benchmarks.load_processes import drive_in_processes
from benchmarks.measure import Load, Measurement
from benchmarks.peers import PARTITIONS_PER_TOPIC, Peer
from benchmarks.run import run_alone

CLIENTS = 2


def produce(
    records_per_request: int,
    value_bytes: int,
    requests_per_burst: int,
    bursts_in_flight: int,
    unit: str,
    peer: Peer,
    seconds: float,
) -> Measurement:
    """Both clients write to all partitions, and the broker has to have all records."""
    topic = new_topic(peer)
    targets = produce_targets(
        peer,
        topic,
        records_per_request=records_per_request,
        value_bytes=value_bytes,
        requests_per_burst=requests_per_burst,
        partition_count=PARTITIONS_PER_TOPIC,
    )

    def load() -> Load:
        sent = drive_in_processes(
            targets, clients=CLIENTS, seconds=seconds, bursts_in_flight=bursts_in_flight
        )
        records = sent.requests * records_per_request
        value_count = records * value_bytes
        return Load(sent.requests, records, value_count, sent.seconds, sent.cpu_seconds)

    before = sum(end_offsets(peer.bootstrap_server, topic, PARTITIONS_PER_TOPIC))
    measurement, done = observed(peer, unit, load)
    kept = sum(end_offsets(peer.bootstrap_server, topic, PARTITIONS_PER_TOPIC)) - before
    if kept != done.records:
        raise RefusedError(f"{peer.name} answered {done.records} records and has {kept}")
    peer.delete_topic(topic)
    return measurement


def fetch(peer: Peer, seconds: float) -> Measurement:
    """Both clients read everything in turn."""
    fill(peer)
    targets = fetch_targets(peer)

    def load() -> Load:
        sent = drive_in_processes(
            targets, clients=CLIENTS, seconds=seconds, bursts_in_flight=REQUESTS_IN_FLIGHT
        )
        records = sent.requests * RECORDS_PER_BATCH
        value_count = records * VALUE_BYTES
        return Load(sent.requests, records, value_count, sent.seconds, sent.cpu_seconds)

    return observed(peer, "MB/s", load)[0]


ROWS = [
    Row(
        "two clients",
        "raw",
        "produce 1 KB x 900",
        "MB/s",
        partial(produce, 900, 1000, 1, 2, "MB/s"),
    ),
    Row(
        "two clients",
        "raw",
        "produce 100 B, one per request, pipelined",
        "requests/s",
        partial(produce, 1, 100, 100, 2, "requests/s"),
    ),
    Row("two clients", "raw", "fetch a batch of 1 KB x 900 per request", "MB/s", fetch),
]

if __name__ == "__main__":
    run_alone("workers", ROWS)
