"""What a stranger's producer has had acknowledged, and what a stranger's consumer reads."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

from confluent_kafka import Consumer, Producer


class SteadyProducer:
    """An idempotent producer that sends numbered records until it is stopped."""

    def __init__(self, servers: str, topic: str) -> None:
        self.acknowledged: list[bytes] = []
        self.failed: list[Any] = []
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "linger.ms": 2,
                "message.timeout.ms": 90_000,
            }
        )
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def __enter__(self) -> SteadyProducer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _send(self) -> None:
        number = 0
        while not self._is_over.is_set():
            for _ in range(10):
                value = str(number).encode()
                self._producer.produce(
                    self._topic, value, key=str(number % 50), on_delivery=self._delivered
                )
                number += 1
            self._producer.poll(0)
            time.sleep(0.01)
        self._producer.flush(90)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged.append(message.value())
        else:
            self.failed.append(error)


def read_all(
    servers: str, topic: str, group: str, expected: int, seconds: float = 60
) -> Counter[bytes]:
    """The committed values of a topic, once there are as many as expected, and a moment longer."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    found: Counter[bytes] = Counter()
    deadline = time.monotonic() + seconds
    try:
        while found.total() < expected and time.monotonic() < deadline:
            found.update(_values(consumer.consume(500, 0.2)))
        found.update(_values(consumer.consume(500, 1.0)))
    finally:
        consumer.close()
    return found


def _values(messages: list[Any]) -> list[bytes]:
    return [each.value() for each in messages if not each.error()]
