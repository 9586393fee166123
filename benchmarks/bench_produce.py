"""How much do brokers take from producers, and what does a request cost them?

Run: python -m benchmarks.bench_produce
"""

from __future__ import annotations

from functools import partial
from itertools import count

from benchmarks.clients import Style
from benchmarks.comparison import Row, observed
from benchmarks.frames import (
    RefusedError,
    append_first,
    end_offsets,
    leaders,
    produce_frame,
)
from benchmarks.load import Burst, Target, drive
from benchmarks.measure import Load, Measurement
from benchmarks.peers import PARTITIONS_PER_TOPIC, Peer
from benchmarks.run import run_alone

from benchmarks import clients

_topic_numbers = count()


def new_topic(peer: Peer) -> str:
    topic = f"produce-{next(_topic_numbers)}"
    peer.create_topic(topic)
    return topic


def produce_targets(
    peer: Peer,
    topic: str,
    *,
    records_per_request: int,
    value_bytes: int,
    requests_per_burst: int,
    partition_count: int,
) -> list[Target]:
    """For each of the first partitions its leader, and a burst of the same request; one record has been appended."""
    targets = []
    for partition, leader in enumerate(leaders(peer.bootstrap_server, topic)[:partition_count]):
        frame = produce_frame(topic, records_per_request, value_bytes, partition)
        answer_bytes = append_first(leader, frame) * requests_per_burst
        burst = Burst(frame * requests_per_burst, requests_per_burst, answer_bytes)
        targets.append(Target(leader, [burst]))
    return targets


def raw(
    records_per_request: int,
    value_bytes: int,
    requests_per_burst: int,
    bursts_in_flight: int,
    connection_count: int,
    unit: str,
    peer: Peer,
    seconds: float,
) -> Measurement:
    """Sends the same batch again and again and checks that the broker has all of them.

    One connection writes to one partition, several to all partitions of the topic.
    """
    topic = new_topic(peer)
    partition_count = min(connection_count, PARTITIONS_PER_TOPIC)
    targets = produce_targets(
        peer,
        topic,
        records_per_request=records_per_request,
        value_bytes=value_bytes,
        requests_per_burst=requests_per_burst,
        partition_count=partition_count,
    )

    def load() -> Load:
        sent = drive(
            targets,
            seconds=seconds,
            bursts_in_flight=bursts_in_flight,
            connection_count=connection_count,
        )
        records = sent.requests * records_per_request
        return Load(sent.requests, records, records * value_bytes, sent.seconds)

    before = sum(end_offsets(peer.bootstrap_server, topic, partition_count))
    measurement, done = observed(peer, unit, load)
    kept = sum(end_offsets(peer.bootstrap_server, topic, partition_count)) - before
    if kept != done.records:
        raise RefusedError(f"{peer.name} answered {done.records} records and has {kept}")
    peer.delete_topic(topic)
    return measurement


def librdkafka(
    value_bytes: int, style: Style, unit: str, peer: Peer, seconds: float
) -> Measurement:
    topic = new_topic(peer)

    def load() -> Load:
        return clients.produce(
            peer.bootstrap_server,
            topic,
            value_bytes=value_bytes,
            seconds=seconds,
            style=style,
        )

    measurement, _ = observed(peer, unit, load)
    peer.delete_topic(topic)
    return measurement


def raw_row(
    name: str,
    unit: str,
    *,
    records: int,
    value_bytes: int,
    burst: int,
    in_flight: int,
    connections: int = 1,
) -> Row:
    run = partial(raw, records, value_bytes, burst, in_flight, connections, unit)
    return Row("produce", "raw", name, unit, run)


def client_row(name: str, unit: str, value_bytes: int, style: Style) -> Row:
    return Row("produce", "librdkafka", name, unit, partial(librdkafka, value_bytes, style, unit))


ROWS = [
    client_row("100 B batched", "records/s", 100, clients.BATCHED),
    client_row("1 KB batched", "records/s", 1000, clients.BATCHED),
    client_row("100 B, one per request, pipelined", "requests/s", 100, clients.ONE_PER_REQUEST),
    client_row("100 B, one per request, one at a time", "requests/s", 100, clients.ONE_AT_A_TIME),
    raw_row("100 B x 1000", "records/s", records=1000, value_bytes=100, burst=10, in_flight=2),
    raw_row("1 KB x 900", "MB/s", records=900, value_bytes=1000, burst=1, in_flight=4),
    raw_row(
        "100 B, one per request, pipelined",
        "requests/s",
        **{"records": 1, "value_bytes": 100, "burst": 500, "in_flight": 2},
    ),
    raw_row(
        "100 B, one per request, pipelined on 8 connections to 4 partitions",
        "requests/s",
        **{"records": 1, "value_bytes": 100, "burst": 100, "in_flight": 2, "connections": 8},
    ),
    raw_row(
        "100 B, one per request, one at a time",
        "requests/s",
        **{"records": 1, "value_bytes": 100, "burst": 1, "in_flight": 1},
    ),
]

if __name__ == "__main__":
    run_alone("produce", ROWS)
