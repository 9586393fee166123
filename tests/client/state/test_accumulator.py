"""The accumulator: when batches go, in which order they come back, what memory they hold."""

from __future__ import annotations

import random
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.client.state.producing import make_accumulator, reserve

from ottla.client.model import Node
from ottla.client.send.delivery import RecordFuture
from ottla.client.state.metadata import ClusterMetadata, PartitionState, Topic
from ottla.client.state.producer.accumulator import Accumulator
from ottla.client.state.producer.partition_queue import FOREVER, PartitionQueue
from ottla.client.state.producer.producer_batch import ProducerBatch, ProducerIdentity
from ottla.errors import AbortableError, ErrorCode, IllegalStateError
from ottla.model import NO_TOPIC_ID, TopicPartition
from ottla.records.batch import (
    HEADER_BYTES,
    BatchFlag,
    build_batch,
    crc_matches,
    read_header,
)
from ottla.records.compression import Codec
from ottla.records.record import Record
from ottla.wire.types import pieces_of

PARTITIONS = 3


def cluster_of(leaders: list[int], epoch: int = 0) -> ClusterMetadata:
    partitions = tuple(
        PartitionState(number, leader, epoch, (1, 2), (1, 2), (), 0)
        for number, leader in enumerate(leaders)
    )
    nodes = {number: Node(number, "h", 1, None) for number in (1, 2)}
    return ClusterMetadata(
        nodes=MappingProxyType(nodes),
        topics=MappingProxyType({"t": Topic("t", NO_TOPIC_ID, False, partitions)}),
    )


CLUSTER = cluster_of([1, 2, 1])


def append(
    accumulator: Accumulator, partition: int, value: bytes, now_ms: float = 0.0
) -> RecordFuture:
    """As a producer does, where memory is there."""
    queue = accumulator.queue(TopicPartition("t", partition))
    future = accumulator.append(queue, 0, None, value, (), None)
    if future is None:
        reservation = reserve(accumulator, queue, HEADER_BYTES + 30 + len(value))
        assert reservation.granted
        future = accumulator.append_new(queue, 0, None, value, (), None, reservation, now_ms)
    return future


def queues_of(accumulator: Accumulator) -> list[PartitionQueue]:
    return [accumulator.queue(TopicPartition("t", number)) for number in range(PARTITIONS)]


def drain(accumulator: Accumulator, now_ms: float = 0.0) -> list[ProducerBatch]:
    return accumulator.drain(queues_of(accumulator), 5000, now_ms, lambda _: True)


def test_batch_lingers_until_it_is_old_enough() -> None:
    accumulator = make_accumulator(linger_ms=10)
    append(accumulator, 0, b"x", now_ms=100)
    ready = accumulator.ready(CLUSTER, 105)
    assert ready.nodes == {}
    assert ready.next_check_ms == 110
    assert list(accumulator.ready(CLUSTER, 110).nodes) == [1]


@pytest.mark.parametrize("reason", ["full", "second", "flush", "ending", "memory"])
def test_batch_does_not_linger_when_there_is_a_reason(reason: str) -> None:
    accumulator = make_accumulator(linger_ms=10_000, batch_bytes=200)
    append(accumulator, 0, b"x" * (300 if reason == "full" else 80))
    if reason == "second":
        append(accumulator, 0, b"y" * 80)
    elif reason == "flush":
        accumulator.flushing += 1
    elif reason == "ending":
        accumulator.refuse(lambda: IllegalStateError("no"))
    elif reason == "memory":
        reserve(accumulator, queues_of(accumulator)[1], 9_950)
    assert list(accumulator.ready(CLUSTER, 1).nodes) == [1]


def test_batches_of_a_node_go_along_with_the_one_that_is_due() -> None:
    accumulator = make_accumulator(linger_ms=10)
    append(accumulator, 0, b"x", now_ms=0)
    append(accumulator, 2, b"y", now_ms=9)
    append(accumulator, 1, b"z", now_ms=9)
    ready = accumulator.ready(CLUSTER, 10)
    assert {node: [q.key.partition for q in queues] for node, queues in ready.nodes.items()} == {
        1: [0, 2]
    }
    assert ready.next_check_ms == 19


def test_partition_without_a_leader_is_told() -> None:
    accumulator = make_accumulator(linger_ms=0)
    append(accumulator, 0, b"x")
    ready = accumulator.ready(cluster_of([-1, 1, 1]), 5)
    assert ready.nodes == {}
    assert list(ready.topics_without_leader) == ["t"]


def test_drain_takes_one_batch_of_each_partition_up_to_the_limit() -> None:
    accumulator = make_accumulator(batch_bytes=300)
    for _ in range(2):
        for partition in range(PARTITIONS):
            append(accumulator, partition, b"x" * 250)
    queues = queues_of(accumulator)
    first = accumulator.drain(queues, 700, 0, lambda _: True)
    assert [batch.partition for batch in first] == [0, 1]
    ready = accumulator.ready(cluster_of([1, 1, 1]), 0)
    assert [queue.key.partition for queue in ready.nodes[1]] == [2, 0, 1], "the others first"
    large = accumulator.drain(queues[2:], 10, 0, lambda _: True)
    assert [batch.partition for batch in large] == [2], "one goes even if it is too large"


def test_muted_partitions_wait() -> None:
    accumulator = make_accumulator(linger_ms=0, batch_bytes=100)
    for value in (b"a", b"b"):
        append(accumulator, 0, value * 80)
    (first,) = drain(accumulator)
    accumulator.mute(first)
    assert accumulator.ready(CLUSTER, 5).nodes == {}
    assert drain(accumulator) == []
    accumulator.unmute(first)
    assert len(drain(accumulator)) == 1


def test_retried_batches_come_back_in_their_order_after_a_pause() -> None:
    accumulator = make_accumulator(linger_ms=0, batch_bytes=100)
    for value in (b"a", b"b", b"c"):
        append(accumulator, 0, value * 80)
    first, second = drain(accumulator)[0], drain(accumulator)[0]
    accumulator.reenqueue(second, 10, 50)
    accumulator.reenqueue(first, 12, 50)
    queue = queues_of(accumulator)[0]
    assert list(queue.batches)[:2] == [first, second]
    ready = accumulator.ready(CLUSTER, 20)
    assert ready.nodes == {}
    assert ready.next_check_ms == 62
    assert list(accumulator.ready(CLUSTER, 62).nodes) == [1]


def test_new_leader_is_tried_without_a_pause() -> None:
    accumulator = make_accumulator(linger_ms=0)
    append(accumulator, 0, b"x")
    accumulator.ready(CLUSTER, 1)
    (batch,) = drain(accumulator)
    accumulator.reenqueue(batch, 10, 1000)
    assert accumulator.ready(CLUSTER, 11).nodes == {}
    assert list(accumulator.ready(cluster_of([2, 2, 1], epoch=1), 11).nodes) == [2]


def test_expired_batches_are_taken_wherever_they_are() -> None:
    accumulator = make_accumulator(linger_ms=0, batch_bytes=100, delivery_timeout_ms=1000)
    old = append(accumulator, 0, b"a" * 80, now_ms=0)
    drain(accumulator)
    append(accumulator, 0, b"b" * 80, now_ms=100)
    young = append(accumulator, 1, b"c" * 80, now_ms=500)
    assert accumulator.next_expiry_ms == 1000
    assert accumulator.expired(999) == []
    late = accumulator.expired(1200)
    assert len(late) == 2
    assert accumulator.next_expiry_ms == 1500
    for batch in late:
        batch.fail(AbortableError(ErrorCode.REQUEST_TIMED_OUT))
        accumulator.release(batch)
    assert old.done()
    assert not young.done()
    assert accumulator.expired(1500)


def test_unsent_batches_are_dropped_and_sent_ones_kept() -> None:
    accumulator = make_accumulator(batch_bytes=100)
    append(accumulator, 0, b"a" * 80)
    (sent,) = drain(accumulator)
    sent.base_sequence = 0
    accumulator.reenqueue(sent, 0, 0)
    append(accumulator, 0, b"b" * 80)
    append(accumulator, 1, b"c" * 80)
    unsent = accumulator.take_unsent()
    assert [batch.partition for batch in unsent] == [0, 1]
    assert list(queues_of(accumulator)[0].batches) == [sent]


def test_memory_is_granted_in_the_order_of_asking() -> None:
    accumulator = make_accumulator(memory_bytes=3000, batch_bytes=1000)
    queue = queues_of(accumulator)[0]
    granted: list[str] = []
    first = reserve(accumulator, queue, 2000)
    assert first.granted
    large = reserve(accumulator, queue, 2500, lambda: granted.append("large"))
    small = reserve(accumulator, queue, 500, lambda: granted.append("small"))
    assert not large.granted
    assert not small.granted, "it must not overtake"
    accumulator.cancel(large)
    assert granted == ["small"]
    accumulator.cancel(first)
    accumulator.cancel(small)
    assert accumulator.memory.available_bytes == 3000


def test_refused_record_costs_nothing() -> None:
    accumulator = make_accumulator()
    queue = queues_of(accumulator)[0]
    reservation = reserve(accumulator, queue, 100)
    with pytest.raises(TypeError):
        accumulator.append_new(queue, 0, None, "text", (), None, reservation, 0)  # type: ignore[arg-type]
    accumulator.cancel(reservation)
    accumulator.cancel(reservation)  # as its caller does, who does not know who else did
    assert accumulator.memory.available_bytes == accumulator.memory.total_bytes
    assert not accumulator.incomplete
    assert not queue.batches
    assert queue.open is None, "others would append to a batch that is no more"
    accumulator.close(lambda: IllegalStateError("closed"))
    reservation = reserve(accumulator, queue, 100)
    with pytest.raises(IllegalStateError, match="closed"):
        accumulator.append_new(queue, 0, None, b"x", (), None, reservation, 0)
    accumulator.cancel(reservation)
    assert accumulator.memory.available_bytes == accumulator.memory.total_bytes
    accumulator.refuse(None)
    with pytest.raises(IllegalStateError, match="closed"):
        accumulator.append(queue, 0, None, b"x", (), None)


def test_split_keeps_place_order_and_futures() -> None:
    accumulator = make_accumulator(batch_bytes=1000, linger_ms=0)
    futures = [append(accumulator, 0, b"%d" % number) for number in range(9)]
    (large,) = drain(accumulator)
    large.encode(Codec.GZIP, None, BatchFlag.NONE)
    later = append(accumulator, 0, b"later")
    parts = accumulator.split(large)
    assert len(parts) >= 2
    assert not any(future.done() for future in futures)
    queue = queues_of(accumulator)[0]
    assert list(queue.batches)[: len(parts)] == parts
    offset = 0
    for part in parts:
        part.succeed(offset, -1)
        accumulator.release(part)
        offset += part.record_count
    assert [future.result(0).offset for future in futures] == list(range(9))
    assert not later.done()


class Life:
    """Random appends, sends, retries, splits, failures and the passing of time."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.accumulator = make_accumulator(
            batch_bytes=300, memory_bytes=20_000, linger_ms=5, delivery_timeout_ms=500
        )
        self.futures: list[list[RecordFuture]] = [[] for _ in range(PARTITIONS)]
        self.in_flight: list[ProducerBatch] = []
        self.offsets = [0] * PARTITIONS
        self.now_ms = 0.0

    def step(self) -> None:
        self.now_ms += self.random.random() * 5
        choice = self.random.random()
        if choice < 0.5:
            self._append()
        elif choice < 0.7:
            self._send()
        elif choice < 0.95:
            self._answer()
        else:
            self._end(self.accumulator.expired(self.now_ms))

    def _append(self) -> None:
        if self.accumulator.memory.available_bytes < 2000:
            return
        partition = self.random.randrange(PARTITIONS)
        value = b"v" * self.random.choice([0, 10, 100, 700])
        self.futures[partition].append(append(self.accumulator, partition, value, self.now_ms))

    def _send(self) -> None:
        ready = self.accumulator.ready(CLUSTER, self.now_ms)
        for queues in ready.nodes.values():
            batches = self.accumulator.drain(queues, 1000, self.now_ms, lambda _: True)
            assert sum(batch.estimated_bytes for batch in batches) <= 1000 or len(batches) == 1
            # As with max.in.flight=1: the order is kept over retries.
            for batch in batches:
                self.accumulator.mute(batch)
                batch.encode(Codec.NONE, None, BatchFlag.NONE)
            self.in_flight += batches

    def _answer(self) -> None:
        if not self.in_flight:
            return
        batch = self.in_flight.pop(self.random.randrange(len(self.in_flight)))
        self.accumulator.unmute(batch)
        if batch.is_done:
            return
        choice = self.random.random()
        if choice < 0.6:
            batch.succeed(self.offsets[batch.partition], -1)
            self.offsets[batch.partition] += batch.record_count
            self.accumulator.release(batch)
        elif choice < 0.8:
            self.accumulator.reenqueue(batch, self.now_ms, 5)
        elif choice < 0.9 and batch.record_count > 1:
            self.accumulator.split(batch)
        else:
            self._end([batch])

    def _end(self, batches: list[ProducerBatch]) -> None:
        for batch in batches:
            batch.fail(AbortableError(ErrorCode.INVALID_RECORD))
            self.accumulator.release(batch)

    def check(self) -> None:
        reserved = sum(batch.reserved_bytes for batch in self.accumulator.incomplete)
        memory = self.accumulator.memory
        assert memory.available_bytes + reserved == memory.total_bytes
        closed = [
            batch.size_bytes
            for queue in queues_of(self.accumulator)
            for batch in queue.batches
            if batch is not queue.open
        ]
        assert self.accumulator.full_bytes == sum(closed)
        for queue in queues_of(self.accumulator):
            orders = [batch.order for batch in queue.batches]
            assert orders == sorted(orders)

    def finish(self) -> None:
        """Everything ends within the delivery timeout, if nothing else ends it."""
        self.now_ms += 501
        self._end(self.accumulator.expired(self.now_ms))
        assert not self.accumulator.incomplete
        assert not any(queue.batches for queue in queues_of(self.accumulator))
        assert self.accumulator.next_expiry_ms == FOREVER
        assert self.accumulator.memory.available_bytes == self.accumulator.memory.total_bytes
        for futures in self.futures:
            assert all(future.done() for future in futures)
            offsets = [f.result(0).offset for f in futures if f.exception(0) is None]
            assert offsets == sorted(set(offsets)), "in order, each once"


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_whatever_happens_order_and_memory_are_kept(seed: int) -> None:
    life = Life(seed)
    for _ in range(200):
        life.step()
        life.check()
    life.finish()


def test_ready_made_batch_gets_its_numbers_when_it_is_sent() -> None:
    accumulator = make_accumulator(linger_ms=1000)
    before = append(accumulator, 0, b"before")
    queue = queues_of(accumulator)[0]
    encoded = build_batch([Record(0, 5, None, b"a"), Record(1, 6, None, b"b")])
    reservation = reserve(accumulator, queue, len(encoded))
    future = accumulator.append_encoded(queue, encoded, reservation, 0)
    after = append(accumulator, 0, b"after")
    assert [batch.record_count or 1 for batch in queue.batches] == [1, 2, 1]
    drain(accumulator)
    (batch,) = drain(accumulator)
    batch.set_sequence(ProducerIdentity(7, 1), 40)
    for _ in range(2):
        sent = b"".join(pieces_of(batch.encode(Codec.NONE, None, BatchFlag.NONE)))
        header = read_header(sent, 0)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 40)
        assert crc_matches(sent, 0, header)
    parts = accumulator.split(batch)
    assert [part.base_sequence for part in parts] == [40, 41]
    parts[0].succeed(100, -1)
    assert future.result(0)[2:4] == (100, 5)
    assert not before.done()
    assert not after.done()


def test_a_batch_whose_first_record_was_refused_takes_no_others() -> None:
    accumulator = make_accumulator()
    queue = accumulator.queue(TopicPartition("t", 0))
    reservation = reserve(accumulator, queue, HEADER_BYTES + 30)
    with pytest.raises(ValueError, match="too far"):
        accumulator.append_new(queue, 2**63, None, b"x", (), None, reservation, 0.0)
    accumulator.cancel(reservation)
    assert queue.open is None
    assert accumulator.memory.available_bytes == accumulator.memory.total_bytes
    append(accumulator, 0, b"next")
    assert len(queue.batches) == 1
    assert list(accumulator.incomplete) == list(queue.batches)
