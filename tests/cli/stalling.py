"""A broker that stands still, and an input that decides when."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable

from tests.broker.requests import eventually

from ottla import Broker, Consumer

STALL_SECONDS = 20.0


class Pieces(io.BytesIO):
    """An input that comes in pieces; what is no piece happens between them."""

    def __init__(self, *pieces: bytes | Callable[[], object]) -> None:
        super().__init__()
        self._pieces = [*pieces]

    def read1(self, size: int | None = -1) -> bytes:
        while self._pieces:
            piece = self._pieces.pop(0)
            if isinstance(piece, bytes):
                return piece
            piece()
        return b""


class Stalled:
    """When called, the broker does nothing until it is released, as after SIGSTOP; what was sent is written first."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self._broker = broker
        self._topic = topic
        self._released = threading.Event()

    def __call__(self) -> None:
        with Consumer(bootstrap_servers=self._broker.bootstrap_servers) as consumer:
            partitions = [
                (self._topic, each.partition) for each in consumer.partitions_for(self._topic)
            ]
            assert eventually(lambda: any(consumer.end_offsets(partitions).values()), 20)
        loop = self._broker._running_broker()[1]
        loop.call_soon_threadsafe(self._released.wait, STALL_SECONDS)

    def release(self) -> None:
        self._released.set()
