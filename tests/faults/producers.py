"""Idempotent producers that live through the death of their broker, and remember what they were promised."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import confluent_kafka
from tests.faults.raw_calls import (
    PRODUCE_VERSION,
    answer_of,
    batch_of,
    new_producer_id,
    produce_request,
)

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.produce import ProduceResponse

IN_FLIGHT = 5
BATCH_RECORDS = 20
PADDING = b"." * 150
MAX_QUEUED = 3000

Place = tuple[str, int]


@dataclass
class Promises:
    """What one producer sent to one partition, in order, and the offsets it was told."""

    sent: list[bytes] = field(default_factory=list)
    offsets: dict[bytes, int] = field(default_factory=dict)


class Batch(NamedTuple):
    place: Place
    first_sequence: int
    values: list[bytes]


class RawProducer(threading.Thread):
    """Five requests in flight on one connection; whatever has no answer is sent again, in order."""

    def __init__(self, name: str, address: str, places: list[Place]) -> None:
        super().__init__(name=name, daemon=True)
        self.promises = {place: Promises() for place in places}
        self.resent = 0
        self.failure: BaseException | None = None
        self._address = address
        self._places = places
        self._turn = 0
        self._unanswered: deque[Batch] = deque()
        self._ending = threading.Event()
        with RawConnection(address) as connection:
            self._producer_id = new_producer_id(connection)

    def send_no_more(self) -> None:
        self._ending.set()

    def finish(self) -> None:
        """Waits until everything that was sent is acknowledged."""
        self.send_no_more()
        self.join(30)
        assert not self.is_alive(), f"{self.name} got no answers"
        if self.failure is not None:
            raise self.failure

    def run(self) -> None:
        try:
            while not (self._ending.is_set() and not self._unanswered):
                try:
                    with RawConnection(self._address, timeout_seconds=20) as connection:
                        self._pump(connection)
                except (ConnectionError, TimeoutError):
                    time.sleep(0.01)
        except BaseException as error:
            self.failure = error

    def _pump(self, connection: RawConnection) -> None:
        for batch in self._unanswered:
            self.resent += 1
            self._send(connection, batch)
        while True:
            while len(self._unanswered) < IN_FLIGHT and not self._ending.is_set():
                batch = self._next_batch()
                self._unanswered.append(batch)
                self._send(connection, batch)
            if not self._unanswered:
                return
            self._take(connection.receive(ProduceResponse, PRODUCE_VERSION))
            time.sleep(0.001)

    def _next_batch(self) -> Batch:
        place = self._places[self._turn % len(self._places)]
        self._turn += 1
        sent = self.promises[place].sent
        first = len(sent)
        values = [
            b"%s %d %s" % (self.name.encode(), number, PADDING)
            for number in range(first, first + BATCH_RECORDS)
        ]
        sent += values
        return Batch(place, first, values)

    def _send(self, connection: RawConnection, batch: Batch) -> None:
        topic, partition = batch.place
        data = batch_of(batch.values, self._producer_id, batch.first_sequence)
        connection.send(produce_request(topic, partition, data), PRODUCE_VERSION)

    def _take(self, response: ProduceResponse) -> None:
        batch = self._unanswered[0]
        error, base_offset = answer_of(response)
        assert error is ErrorCode.NONE, f"{batch.place} {batch.first_sequence}: {error.name}"
        self._unanswered.popleft()
        offsets = self.promises[batch.place].offsets
        for index, value in enumerate(batch.values):
            offsets[value] = base_offset + index


class LibrdkafkaProducer(threading.Thread):
    """One confluent-kafka producer over all kills."""

    def __init__(self, name: str, address: str, places: list[Place]) -> None:
        super().__init__(name=name, daemon=True)
        self.promises = {place: Promises() for place in places}
        self.errors: list[str] = []
        self._places = places
        self._ending = threading.Event()
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "linger.ms": 2,
                "batch.num.messages": 50,
                "message.timeout.ms": 60_000,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 100,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "log_level": 0,
            },
            error_cb=self._error,
        )

    def _error(self, error: Any) -> None:
        if error.fatal():
            self.errors.append(str(error))

    def send_no_more(self) -> None:
        self._ending.set()

    def finish(self) -> None:
        """Waits until everything that was sent is acknowledged."""
        self.send_no_more()
        self.join(30)
        left = self._producer.flush(30)
        assert left == 0, f"{left} records have no delivery report"
        assert not self.errors, self.errors

    def run(self) -> None:
        turn = 0
        while not self._ending.is_set() and not self.errors:
            place = self._places[turn % len(self._places)]
            turn += 1
            promises = self.promises[place]
            value = b"%s %d %s" % (self.name.encode(), len(promises.sent), PADDING)
            topic, partition = place
            if len(self._producer) >= MAX_QUEUED:
                self._producer.poll(0.01)
                continue
            self._producer.produce(topic, value, partition=partition, on_delivery=self._delivered)
            promises.sent.append(value)
            if turn % 20 == 0:
                self._producer.poll(0)
                time.sleep(0.002)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.errors.append(str(error))
            return
        place = (message.topic(), message.partition())
        self.promises[place].offsets[message.value()] = message.offset()
