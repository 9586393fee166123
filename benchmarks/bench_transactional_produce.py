"""What do producer ids and transactions cost in throughput, with a commit every 100 ms?

Run: python -m benchmarks.bench_transactional_produce
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from benchmarks.bench_transactions import FIRST_RECORDS, find_peers, new_topic
from benchmarks.comparison import Row, observed
from benchmarks.frames import RefusedError
from benchmarks.measure import Load, Measurement
from benchmarks.peers import Peer
from benchmarks.run import run
from benchmarks.transactions import await_stable
from benchmarks.writers import (
    IdempotentWriter,
    Shape,
    TransactionalWriter,
    Writer,
    write_for,
)

UNIT = "records/s"
PARTITION_COUNT = 4
VALUE_BYTES = 100
# About 16 kB, which is how large the batches of clients are by default.
RECORDS_PER_BATCH = 145
CONCURRENT = 4
WARM_UP_SECONDS = 0.05


def acknowledged(writers: Sequence[Writer]) -> tuple[int, int]:
    """How many requests, and how many batches."""
    requests = sum(writer.acknowledged for writer in writers)
    return requests, sum(writer.batches for writer in writers)


def raw(kind: type[Writer], producer_count: int, peer: Peer, seconds: float) -> Measurement:
    """Writes, and checks that the broker has what it acknowledged, markers included."""
    topic = new_topic(peer, PARTITION_COUNT)
    shape = Shape(topic, PARTITION_COUNT, RECORDS_PER_BATCH, VALUE_BYTES)
    writers = [kind(peer.bootstrap_server, shape) for _ in range(producer_count)]
    write_for(writers, WARM_UP_SECONDS)

    def load() -> Load:
        before = acknowledged(writers)
        elapsed = write_for(writers, seconds)
        requests, batches = (
            now - then for now, then in zip(acknowledged(writers), before, strict=True)
        )
        records = batches * RECORDS_PER_BATCH
        return Load(requests, records, records * VALUE_BYTES, elapsed)

    measurement, _ = observed(peer, UNIT, load)
    for writer in writers:
        writer.close()
    ends = await_stable(peer.bootstrap_server, topic, PARTITION_COUNT)
    markers = sum(writer.markers for writer in writers)
    expected = [
        FIRST_RECORDS
        + markers
        + RECORDS_PER_BATCH * sum(each.batches_of(index) for each in writers)
        for index in range(PARTITION_COUNT)
    ]
    if ends != expected:
        raise RefusedError(f"{peer.name} acknowledged {expected} and ends at {ends}")
    peer.delete_topic(topic)
    return measurement


def raw_rows(producer_count: int) -> list[Row]:
    producers = "1 producer" if producer_count == 1 else f"{producer_count} producers"

    def row(name: str, kind: type[Writer], against: str = "") -> Row:
        measure = partial(raw, kind, producer_count)
        title = f"{name}, {producers}"
        other = f"{against}, {producers}" if against else ""
        return Row("produce", "raw", title, UNIT, measure, other)

    return [
        row("plain", Writer),
        row("idempotent", IdempotentWriter, "plain"),
        row("transactional", TransactionalWriter, "idempotent"),
    ]


ROWS = [*raw_rows(1), *raw_rows(CONCURRENT)]

if __name__ == "__main__":
    run("transactional-produce", ROWS, starts=1, find_peers=find_peers)
