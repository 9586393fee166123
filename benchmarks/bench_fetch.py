"""How much do brokers give to consumers that read large batches from the start?

Run: python -m benchmarks.bench_fetch
"""

from __future__ import annotations

from benchmarks.comparison import Row, observed
from benchmarks.frames import append_first, batch_of, fetch_frame, fetch_once, produce_frame
from benchmarks.load import Burst, drive
from benchmarks.measure import Load, Measurement
from benchmarks.peers import PARTITIONS_PER_TOPIC, Peer
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
    if peer.pid in _filled:
        return
    for topic in TOPICS:
        peer.create_topic(topic)
        for partition in range(PARTITIONS_PER_TOPIC):
            frame = produce_frame(topic, RECORDS_PER_BATCH, VALUE_BYTES, partition)
            for _ in range(BATCHES_PER_PARTITION):
                append_first(peer.bootstrap_server, frame)
    _filled.add(peer.pid)


_filled: set[int] = set()


def bursts(peer: Peer) -> list[Burst]:
    """A request for every batch, and how long this broker's answer is."""
    found = []
    with RawConnection(peer.bootstrap_server) as connection:
        for topic in TOPICS:
            for partition in range(PARTITIONS_PER_TOPIC):
                for batch in range(BATCHES_PER_PARTITION):
                    offset = batch * RECORDS_PER_BATCH
                    frame = fetch_frame(topic, partition, offset, BATCH_BYTES)
                    answer_bytes = fetch_once(connection, frame, BATCH_BYTES)
                    found.append(Burst(frame, 1, answer_bytes))
    return found


def raw(peer: Peer, seconds: float) -> Measurement:
    """Fetches every batch of every partition in turn."""
    fill(peer)
    all_bursts = bursts(peer)

    def load() -> Load:
        sent = drive(
            peer.bootstrap_server,
            all_bursts,
            seconds=seconds,
            bursts_in_flight=REQUESTS_IN_FLIGHT,
        )
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
