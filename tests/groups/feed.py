"""Records for a group to process: sent steadily, each with a value of its own."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from tests.groups.history import RECORD, History
from tests.waiting import in_time

from ottla.model import TopicPartition

INTERVAL_SECONDS = 0.005
FLUSH_SECONDS = 30.0
DRAIN_SECONDS = 30.0
FLOW_RECORDS = 8


class Feed:
    """Sends to each partition in turn until it is told to stop; remembers what was acknowledged."""

    def __init__(self, bootstrap_servers: str, partitions: Iterable[TopicPartition]) -> None:
        self.partitions = list(partitions)
        self.produced: dict[TopicPartition, dict[int, str]] = defaultdict(dict)
        self.failures: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 20,
                "topic.metadata.refresh.interval.ms": 500,
                "reconnect.backoff.max.ms": 500,
                "log_level": 2,
            }
        )
        self._stop = threading.Event()
        self._sent = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._stop.wait(INTERVAL_SECONDS):
            topic, partition = self.partitions[self._sent % len(self.partitions)]
            value = f"record-{self._sent}".encode()
            self._sent += 1
            try:
                self._producer.produce(
                    topic, value, partition=partition, on_delivery=self._delivered
                )
            except KafkaException as failure:
                # The producer has not heard of a new partition yet; the next turn will do.
                if failure.args[0].code() != KafkaError._UNKNOWN_PARTITION:
                    self.failures.append(str(failure))
            self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(error.str())
        else:
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            assert topic is not None
            assert partition is not None
            assert offset is not None
            value = (message.value() or b"").decode()
            self.produced[TopicPartition(topic, partition)][offset] = value

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Sends to these as well from now on."""
        self.partitions = [*self.partitions, *partitions]

    def stop(self) -> None:
        """Sends no more; everything that was sent is acknowledged then."""
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(FLUSH_SECONDS) == 0, "the producer could not deliver"
        assert self.failures == []

    def drain(self, history: History) -> None:
        """Stops, and waits until all of it was processed."""
        self.stop()
        left = {
            (partition, offset) for partition, values in self.produced.items() for offset in values
        }
        checked = 0

        def is_drained() -> bool:
            nonlocal checked
            events = history.events
            for event in events[checked:]:
                if event.kind == RECORD:
                    left.discard((event.partitions[0], event.offset))
            checked = len(events)
            return not left

        history.wait("everything processed", is_drained, DRAIN_SECONDS)

    def flow(self) -> None:
        """Waits until some more records are in each partition."""
        deadline = time.monotonic() + FLUSH_SECONDS
        before = {partition: len(self.produced[partition]) for partition in self.partitions}
        while any(
            len(self.produced[partition]) - count < FLOW_RECORDS
            for partition, count in before.items()
        ):
            in_time(deadline, f"records do not flow: {self.failures}")
            time.sleep(INTERVAL_SECONDS)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
