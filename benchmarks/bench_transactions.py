"""How many transactions does a broker commit per second, and what does one cost it?

Run: python -m benchmarks.bench_transactions
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import count

from benchmarks.comparison import Row, observed
from benchmarks.frames import (
    RefusedError,
    append_first,
    create_wide_topic,
    leaders,
    produce_frame,
)
from benchmarks.measure import Load, Measurement
from benchmarks.peers import NO_SETTINGS, FoundPeers, Peer, peers_with_options
from benchmarks.run import run
from benchmarks.transactions import (
    VERSION_1,
    VERSION_2,
    Producer,
    Protocol,
    await_stable,
    commit_for,
)

from benchmarks import clients

UNIT = "transactions/s"
CONCURRENT = 8
FIRST_RECORDS = 1

_topic_numbers = count()


def find_peers() -> FoundPeers:
    """The mock cluster writes no markers and speaks no transaction version 2."""
    return peers_with_options(NO_SETTINGS)


def new_topic(peer: Peer, partition_count: int) -> str:
    """A topic whose leaders know of it, because each has a first record."""
    topic = f"transactions-{next(_topic_numbers)}"
    create_wide_topic(peer.bootstrap_server, topic, partition_count)
    for partition, leader in enumerate(leaders(peer.bootstrap_server, topic)):
        append_first(leader, produce_frame(topic, FIRST_RECORDS, 100, partition))
    return topic


def raw(
    protocol: Protocol, partition_count: int, producer_count: int, peer: Peer, seconds: float
) -> Measurement:
    """Commits and checks that every transaction that was acknowledged has left its records and its markers."""
    topic = new_topic(peer, partition_count)
    partitions = range(partition_count)
    producers = [
        Producer(peer.bootstrap_server, protocol, topic, partitions) for _ in range(producer_count)
    ]
    for producer in producers:
        producer.run(producer.transaction())
        producer.put_off = 0

    def load() -> Load:
        before = sum(producer.committed for producer in producers)
        elapsed = commit_for(producers, seconds)
        committed = sum(producer.committed for producer in producers) - before
        return Load(committed, committed * partition_count, 0, elapsed)

    measurement, _ = observed(peer, UNIT, load)
    for producer in producers:
        producer.close()
    committed = sum(producer.committed for producer in producers)
    ends = await_stable(peer.bootstrap_server, topic, partition_count)
    if ends != [FIRST_RECORDS + 2 * committed] * partition_count:
        raise RefusedError(f"{peer.name} answered {committed} commits and ends at {ends}")
    peer.delete_topic(topic)
    return replace(measurement, put_off=sum(producer.put_off for producer in producers))


def librdkafka(partition_count: int, peer: Peer, seconds: float) -> Measurement:
    """As applications do it: librdkafka speaks transaction version 1 and waits when it is told to come back."""
    topic = new_topic(peer, partition_count)

    def load() -> Load:
        return clients.commit(
            peer.bootstrap_server, topic, partition_count=partition_count, seconds=seconds
        )

    measurement, _ = observed(peer, UNIT, load)
    peer.delete_topic(topic)
    return measurement


def raw_row(protocol: Protocol, partition_count: int, producer_count: int) -> Row:
    partitions = "1 partition" if partition_count == 1 else f"{partition_count} partitions"
    producers = "1 producer" if producer_count == 1 else f"{producer_count} producers"
    measure = partial(raw, protocol, partition_count, producer_count)
    return Row("transactions", "raw", f"{protocol.name}, {partitions}, {producers}", UNIT, measure)


ROWS = [
    *(
        raw_row(protocol, partition_count, producer_count)
        for protocol in (VERSION_2, VERSION_1)
        for partition_count in (1, 10)
        for producer_count in (1, CONCURRENT)
    ),
    *(
        Row("transactions", "librdkafka", f"{partitions}, 1 producer", UNIT, partial(librdkafka, n))
        for n, partitions in ((1, "1 partition"), (10, "10 partitions"))
    ),
]

if __name__ == "__main__":
    run("transactions", ROWS, starts=1, find_peers=find_peers)
