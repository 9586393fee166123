"""A service on confluent-kafka: it screens payments, and says which are too large."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

LIMIT_CENTS = 100_000


class Screening:
    """Reads `payments`; what is too large goes to `alerts`, what is no payment to `payments.dead`."""

    def __init__(self, servers: str, settings: Mapping[str, object] | None = None) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "screening",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "client.id": "screening",
                **(settings or {}),
            }
        )
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "client.id": "screening",
            }
        )
        self._is_stopped = threading.Event()
        self.seen: list[str] = []

    def run(self) -> None:
        self._consumer.subscribe(["payments"])
        try:
            while not self._is_stopped.is_set():
                message = self._consumer.poll(0.1)
                if message is not None and self._is_payment(message):
                    self._screen(message)
        finally:
            self._consumer.close()

    def stop(self) -> None:
        self._is_stopped.set()

    def _is_payment(self, message: Message) -> bool:
        error = message.error()
        if error is None:
            return True
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return False  # payments will come
        raise KafkaException(error)

    def _screen(self, message: Message) -> None:
        try:
            payment = json.loads(message.value() or b"")
            is_too_large = payment["cents"] > LIMIT_CENTS
            self.seen.append(payment["id"])
        except (ValueError, KeyError, TypeError):
            self._producer.produce("payments.dead", message.value(), message.key())
        else:
            if is_too_large:
                alert = json.dumps({"payment": payment["id"]})
                self._producer.produce("alerts", alert.encode(), message.key())
        self._producer.flush()
        self._consumer.commit(message=message, asynchronous=False)


if __name__ == "__main__":
    Screening(sys.argv[1]).run()
