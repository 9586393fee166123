"""How long after a producer commits does a read_committed consumer have the records, and the producer its answer?

Run: python -m benchmarks.bench_commit_latency
"""

from __future__ import annotations

import select
import time
from functools import partial

from benchmarks.bench_transactions import FIRST_RECORDS, find_peers, new_topic
from benchmarks.comparison import Row
from benchmarks.frames import (
    CLIENT_ID,
    FETCH_VERSION,
    FLEXIBLE_HEADER_BYTES,
    RefusedError,
    leaders,
)
from benchmarks.measure import Measurement, percentiles_ms
from benchmarks.peers import Peer
from benchmarks.run import run
from benchmarks.transactions import (
    ANSWER_SECONDS,
    READ_COMMITTED,
    VERSION_1,
    VERSION_2,
    Producer,
    Protocol,
)

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.compile import decode_message
from ottla.wire.framing import frame_request
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

FETCH_BYTES = 1 << 20
# So long that the records and not the clock end the wait.
MAX_WAIT_MS = 20_000
# A record and its marker.
OFFSETS_PER_TRANSACTION = 2


class Reader:
    """A consumer that waits for what is committed, one fetch after the other."""

    def __init__(self, leader: str, topic: str, offset: int) -> None:
        self.connection = RawConnection(leader)
        self.topic = topic
        self.offset = offset

    def ask(self) -> None:
        """Sends a fetch that is answered when there is something to read."""
        wanted = FetchPartition(
            partition=0, fetch_offset=self.offset, partition_max_bytes=FETCH_BYTES
        )
        request = FetchRequest(
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=READ_COMMITTED,
            topics=[FetchTopic(topic=self.topic, partitions=[wanted])],
        )
        self.connection.socket.sendall(frame_request(request, FETCH_VERSION, 1, CLIENT_ID))

    def check(self, answer: bytes) -> None:
        """The transaction has to be in the answer, whole."""
        response = decode_message(FetchResponse, FETCH_VERSION, answer, FLEXIBLE_HEADER_BYTES)
        partition = response.responses[0].partitions[0]
        if partition.error_code != ErrorCode.NONE or not partition.records:
            raise RefusedError(f"nothing was read: error {partition.error_code}")
        self.offset += OFFSETS_PER_TRANSACTION
        if partition.last_stable_offset != self.offset:
            raise RefusedError(f"{partition.last_stable_offset} is stable, not {self.offset}")


def commit_once(producer: Producer, reader: Reader) -> tuple[float, float]:
    """Seconds from the call of commit until the producer has its answer, and until the reader has the record."""
    reader.ask()
    producer.run(producer.write())
    waiting = [producer.coordinator.socket, reader.connection.socket]
    answered = visible = 0.0
    started = time.perf_counter()
    producer.coordinator.socket.sendall(producer.end_frame())
    while waiting:
        ready, _, _ = select.select(waiting, [], [], ANSWER_SECONDS)
        now = time.perf_counter()
        if not ready:
            raise TimeoutError(f"no answer within {ANSWER_SECONDS:.0f} s")
        if reader.connection.socket in ready:
            visible = now - started
            reader.check(reader.connection.receive_frame())
        if producer.coordinator.socket in ready:
            answered = now - started
            producer.ended(producer.coordinator.receive_frame())
        waiting = [each for each in waiting if each not in ready]
    return answered, visible


def measure(protocol: Protocol, place: int, peer: Peer, seconds: float) -> Measurement:
    """The latencies of one of the two, of as many transactions as fit."""
    topic = new_topic(peer, 1)
    producer = Producer(peer.bootstrap_server, protocol, topic, [0])
    reader = Reader(leaders(peer.bootstrap_server, topic)[0], topic, FIRST_RECORDS)
    latencies: list[float] = []
    end = time.perf_counter() + seconds
    while not latencies or time.perf_counter() < end:
        latencies.append(commit_once(producer, reader)[place])
    producer.close()
    reader.connection.close()
    peer.delete_topic(topic)
    return Measurement(latency_ms=percentiles_ms(latencies), put_off=producer.put_off)


def rows_of(protocol: Protocol) -> list[Row]:
    return [
        Row("commit", "raw", f"{protocol.name}, {name}", "", partial(measure, protocol, place))
        for place, name in ((0, "until the producer is answered"), (1, "until a reader has it"))
    ]


ROWS = [row for protocol in (VERSION_2, VERSION_1) for row in rows_of(protocol)]

if __name__ == "__main__":
    run("commit-latency", ROWS, starts=1, find_peers=find_peers)
