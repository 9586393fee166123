"""Producers that keep requests with large batches in flight: plain, idempotent, or in transactions.

They are alike but for who they say they are and for the commits, so that the difference is the broker's.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.frames import TRY_LIMIT, TRY_SECONDS, RefusedError
from benchmarks.transactions import (
    ANSWER_SECONDS,
    BACK_OFF_SECONDS,
    INIT_VERSION,
    NOT_READY,
    NOT_YET,
    VERSION_2,
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
    """What a request has in it: a batch for each partition."""

    topic: str
    partition_count: int
    records_per_batch: int
    value_bytes: int

    @property
    def records_per_request(self) -> int:
        return self.partition_count * self.records_per_batch


class Writer:
    """Without a producer id: nothing is checked and nothing can be repeated."""

    def __init__(self, bootstrap_server: str, shape: Shape) -> None:
        self.shape = shape
        self.connection = self._connect(bootstrap_server)
        self.frame = self._frame()
        self.in_flight = 0
        self.acknowledged = 0  # requests, since the beginning
        self._sent = 0  # requests of this epoch
        self._taken = 0  # of which so many were acknowledged
        self._newest = 0  # how many were sent at least once
        self._is_refused = False
        self._end = 0.0

    def _connect(self, bootstrap_server: str) -> RawConnection:
        return RawConnection(bootstrap_server)

    def _frame(self) -> ProduceFrame:
        shape = self.shape
        return ProduceFrame(
            shape.topic,
            range(shape.partition_count),
            shape.records_per_batch,
            shape.value_bytes,
            VERSION_2.produce_version,
            None,
        )

    def _stamped(self, sequence: int) -> bytearray:
        return self.frame.stamp(NOBODY, NOBODY, NOBODY)

    def begin(self, end: float) -> None:
        """Sends as much as may be unanswered, and goes on until the end."""
        self._end = end
        self.go_on()

    @property
    def markers(self) -> int:
        """How many control records this producer has caused in each partition."""
        return 0

    @property
    def is_done(self) -> bool:
        return self.in_flight == 0 and time.perf_counter() >= self._end

    def receive(self) -> None:
        """Reads one answer and does what follows from it."""
        error = self.frame.error(self.connection.receive_frame())
        self.in_flight -= 1
        if error is ErrorCode.NONE and not self._is_refused:
            self.acknowledged += 1
            self._taken += 1
        elif error in NOT_YET:
            # Those behind it are out of order then: everything from here on is sent again.
            self._is_refused = True
        elif not self._is_refused:
            raise RefusedError(f"a batch was answered {error.name}")
        self.go_on()

    def go_on(self) -> None:
        if self._is_refused and self.in_flight == 0:
            time.sleep(BACK_OFF_SECONDS)
            self._sent = self._taken
            self._is_refused = False
        while not self._is_refused and self.in_flight < IN_FLIGHT and self._has_more:
            self._send()

    @property
    def _has_more(self) -> bool:
        # What was sent once has to arrive: one of its partitions may have taken it.
        return self._sent < self._newest or time.perf_counter() < self._end

    def _send(self) -> None:
        sequence = self._sent * self.shape.records_per_batch
        self.connection.socket.sendall(self._stamped(sequence))
        self._sent += 1
        self._newest = max(self._newest, self._sent)
        self.in_flight += 1

    def close(self) -> None:
        self.connection.close()


class IdempotentWriter(Writer):
    """With a producer id, so that every batch has its sequence."""

    def _connect(self, bootstrap_server: str) -> RawConnection:
        connection = super()._connect(bootstrap_server)
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        for _ in range(TRY_LIMIT):
            answer = connection.call(request, InitProducerIdResponse, INIT_VERSION)
            if answer.error_code not in NOT_READY:
                break
            time.sleep(TRY_SECONDS)
        if answer.error_code != ErrorCode.NONE:
            raise RefusedError(f"there is no producer id: error {answer.error_code}")
        self.identity = answer.producer_id, answer.producer_epoch
        return connection

    def _stamped(self, sequence: int) -> bytearray:
        return self.frame.stamp(*self.identity, sequence)


class TransactionalWriter(Writer):
    """In transactions of a tenth of a second: it waits for its answers, commits, and begins the next."""

    def _connect(self, bootstrap_server: str) -> RawConnection:
        shape = self.shape
        self.producer = Producer(
            bootstrap_server,
            VERSION_2,
            shape.topic,
            range(shape.partition_count),
            shape.records_per_batch,
            shape.value_bytes,
        )
        self._until = 0.0
        self._is_committing = False
        return self.producer.connection

    def _frame(self) -> ProduceFrame:
        return self.producer.frame

    def _stamped(self, sequence: int) -> bytearray:
        return self.frame.stamp(self.producer.producer_id, self.producer.epoch, sequence)

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
        return is_over and self.in_flight == 0 and not self._is_committing

    @property
    def _has_more(self) -> bool:
        # On a busy machine a tenth of a second may be over before anything is sent.
        is_empty = self._sent == 0 and time.perf_counter() < self._until
        return is_empty or super()._has_more

    def receive(self) -> None:
        if not self._is_committing:
            super().receive()
            return
        self.producer.ended(self.connection.receive_frame())
        self._is_committing = False
        self._sent = self._taken = self._newest = 0
        if time.perf_counter() < self._until:
            self._end = self._next_commit()
            self.go_on()

    def go_on(self) -> None:
        super().go_on()
        if self.in_flight == 0 and self._taken > 0:
            self.connection.socket.sendall(self.producer.end_frame())
            self._is_committing = True


def write_for(writers: Sequence[Writer], seconds: float) -> float:
    """Everybody writes for a while; how many seconds until the last answer."""
    poll = select.epoll()
    by_descriptor = {writer.connection.socket.fileno(): writer for writer in writers}
    started = time.perf_counter()
    try:
        for descriptor, writer in by_descriptor.items():
            poll.register(descriptor, select.EPOLLIN)
            writer.begin(started + seconds)
        while by_descriptor:
            ready = poll.poll(ANSWER_SECONDS)
            if not ready:
                raise TimeoutError(f"no answer within {ANSWER_SECONDS:.0f} s")
            for descriptor, _ in ready:
                writer = by_descriptor[descriptor]
                writer.receive()
                if writer.is_done:
                    poll.unregister(descriptor)
                    del by_descriptor[descriptor]
    finally:
        poll.close()
    return time.perf_counter() - started
