"""Producers that keep requests with large batches in flight: plain, idempotent, or in transactions.

They are alike but for who they say they are and for the commits, so that the difference is the broker's.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.frames import TRY_LIMIT, TRY_SECONDS, RefusedError, partitions_by_leader
from benchmarks.transactions import (
    ANSWER_SECONDS,
    BACK_OFF_SECONDS,
    INIT_VERSION,
    NOT_READY,
    NOT_YET,
    VERSION_2,
    Connections,
    Leader,
    ProduceFrame,
    Producer,
)

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

# As much as an idempotent producer may have unanswered.
IN_FLIGHT = 5
COMMIT_SECONDS = float(os.environ.get("BENCH_COMMIT_INTERVAL_MS", "100")) / 1000
NOBODY = -1


class Shape(NamedTuple):
    """What a writer sends: batches for each partition."""

    topic: str
    partition_count: int
    records_per_batch: int
    value_bytes: int


class Lane:
    """What a writer sends to one leader, and how far that is."""

    def __init__(self, leader: Leader) -> None:
        self.connection = leader.connection
        self.partitions = leader.partitions
        self.frame = leader.frame
        self.in_flight = 0
        self.acknowledged = 0  # requests, since the beginning
        self.sent = 0  # requests of this epoch
        self.taken = 0  # of which so many were acknowledged
        self.newest = 0  # how many were sent at least once
        self.is_refused = False


class Writer:
    """Without a producer id: nothing is checked and nothing can be repeated."""

    def __init__(self, bootstrap_server: str, shape: Shape) -> None:
        self.shape = shape
        self.connections = Connections()
        self.lanes = [Lane(leader) for leader in self._leaders(bootstrap_server)]
        self._end = 0.0

    def _leaders(self, bootstrap_server: str) -> list[Leader]:
        shape = self.shape
        partitions = range(shape.partition_count)
        by_leader = partitions_by_leader(bootstrap_server, shape.topic, partitions)
        return [
            Leader(self.connections.to(address), owned, self._frame(owned))
            for address, owned in by_leader.items()
        ]

    def _frame(self, partitions: Sequence[int]) -> ProduceFrame:
        shape = self.shape
        return ProduceFrame(
            shape.topic,
            partitions,
            shape.records_per_batch,
            shape.value_bytes,
            VERSION_2.produce_version,
            None,
        )

    def _stamped(self, lane: Lane, sequence: int) -> bytearray:
        return lane.frame.stamp(NOBODY, NOBODY, NOBODY)

    def begin(self, end: float) -> None:
        """Sends as much as may be unanswered, at least one request, and goes on until the end."""
        self._end = end
        for lane in self.lanes:
            # On a busy machine the end may have come before anything was sent; then no answer would end the wait.
            self._send(lane)
            self.go_on(lane)

    @property
    def acknowledged(self) -> int:
        """Requests, since the beginning."""
        return sum(lane.acknowledged for lane in self.lanes)

    @property
    def batches(self) -> int:
        """Batches that were acknowledged, since the beginning."""
        return sum(lane.acknowledged * len(lane.partitions) for lane in self.lanes)

    def batches_of(self, partition: int) -> int:
        """Those of a partition."""
        (lane,) = (lane for lane in self.lanes if partition in lane.partitions)
        return lane.acknowledged

    @property
    def markers(self) -> int:
        """How many control records this producer has caused in each partition."""
        return 0

    @property
    def is_done(self) -> bool:
        return not self._is_waiting and time.perf_counter() >= self._end

    @property
    def _is_waiting(self) -> bool:
        return any(lane.in_flight for lane in self.lanes)

    def receive(self, connection: RawConnection) -> None:
        """Reads one answer and does what follows from it."""
        (lane,) = (lane for lane in self.lanes if lane.connection is connection)
        error = lane.frame.error(connection.receive_frame())
        lane.in_flight -= 1
        if error is ErrorCode.NONE and not lane.is_refused:
            lane.acknowledged += 1
            lane.taken += 1
        elif error in NOT_YET:
            # Those behind it are out of order then: everything from here on is sent again.
            lane.is_refused = True
        elif not lane.is_refused:
            raise RefusedError(f"a batch was answered {error.name}")
        self.go_on(lane)

    def go_on(self, lane: Lane) -> None:
        if lane.is_refused and lane.in_flight == 0:
            time.sleep(BACK_OFF_SECONDS)
            lane.sent = lane.taken
            lane.is_refused = False
        while not lane.is_refused and lane.in_flight < IN_FLIGHT and self._has_more(lane):
            self._send(lane)

    def _has_more(self, lane: Lane) -> bool:
        # What was sent once has to arrive: one of its partitions may have taken it.
        return lane.sent < lane.newest or time.perf_counter() < self._end

    def _send(self, lane: Lane) -> None:
        sequence = lane.sent * self.shape.records_per_batch
        lane.connection.socket.sendall(self._stamped(lane, sequence))
        lane.sent += 1
        lane.newest = max(lane.newest, lane.sent)
        lane.in_flight += 1

    def close(self) -> None:
        self.connections.close()


class IdempotentWriter(Writer):
    """With a producer id, so that every batch has its sequence."""

    def __init__(self, bootstrap_server: str, shape: Shape) -> None:
        super().__init__(bootstrap_server, shape)
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        for _ in range(TRY_LIMIT):
            answer = self.lanes[0].connection.call(request, InitProducerIdResponse, INIT_VERSION)
            if answer.error_code not in NOT_READY:
                break
            time.sleep(TRY_SECONDS)
        if answer.error_code != ErrorCode.NONE:
            raise RefusedError(f"there is no producer id: error {answer.error_code}")
        self.identity = answer.producer_id, answer.producer_epoch

    def _stamped(self, lane: Lane, sequence: int) -> bytearray:
        return lane.frame.stamp(*self.identity, sequence)


class TransactionalWriter(Writer):
    """In transactions of a tenth of a second: it waits for its answers, commits, and begins the next."""

    def _leaders(self, bootstrap_server: str) -> list[Leader]:
        shape = self.shape
        self.producer = Producer(
            bootstrap_server,
            VERSION_2,
            shape.topic,
            range(shape.partition_count),
            shape.records_per_batch,
            shape.value_bytes,
        )
        self.connections = self.producer.connections
        self._until = 0.0
        self._is_committing = False
        return self.producer.leaders

    def _stamped(self, lane: Lane, sequence: int) -> bytearray:
        return lane.frame.stamp(self.producer.producer_id, self.producer.epoch, sequence)

    def begin(self, end: float) -> None:
        self._until = end
        super().begin(self._next_commit())

    def _next_commit(self) -> float:
        return min(self._until, time.perf_counter() + COMMIT_SECONDS)

    @property
    def markers(self) -> int:
        return self.producer.committed

    @property
    def is_done(self) -> bool:
        is_over = time.perf_counter() >= self._until
        return is_over and not self._is_waiting and not self._is_committing

    def receive(self, connection: RawConnection) -> None:
        if not self._is_committing:
            super().receive(connection)
            return
        self.producer.ended(connection.receive_frame())
        self._is_committing = False
        for lane in self.lanes:
            lane.sent = lane.taken = lane.newest = 0
        if time.perf_counter() < self._until:
            super().begin(self._next_commit())

    def go_on(self, lane: Lane) -> None:
        super().go_on(lane)
        if not self._is_waiting and any(each.taken for each in self.lanes):
            self.producer.coordinator.socket.sendall(self.producer.end_frame())
            self._is_committing = True


def write_for(writers: Sequence[Writer], seconds: float) -> float:
    """Everybody writes for a while; how many seconds until the last answer."""
    poll = select.epoll()
    by_descriptor = {
        connection.socket.fileno(): (writer, connection)
        for writer in writers
        for connection in writer.connections.all()
    }
    busy = set(writers)
    started = time.perf_counter()
    try:
        for descriptor in by_descriptor:
            poll.register(descriptor, select.EPOLLIN)
        for writer in writers:
            writer.begin(started + seconds)
        while busy:
            ready = poll.poll(ANSWER_SECONDS)
            if not ready:
                raise TimeoutError(f"no answer within {ANSWER_SECONDS:.0f} s")
            for descriptor, _ in ready:
                writer, connection = by_descriptor[descriptor]
                writer.receive(connection)
                if writer.is_done:
                    busy.discard(writer)
    finally:
        poll.close()
    return time.perf_counter() - started
