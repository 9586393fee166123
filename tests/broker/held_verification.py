"""A cluster whose nodes wait for the transaction coordinator's word until a test gives it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from tests.broker.requests import eventually, on_loop

import ottla
from ottla.broker.coordination.peers import Peers
from ottla.broker.runtime import RunningBroker
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest


class HeldVerification:
    """Stands between the nodes; what they ask about transactions is answered when it is released."""

    def __init__(self, broker: ottla.Broker) -> None:
        self._broker = broker
        self._held: list[tuple[asyncio.Future[Any], Any]] = []
        self._real: Peers = on_loop(broker, self._take_the_place)

    def _take_the_place(self, running: RunningBroker) -> Peers:
        real, running.cluster.peers = running.cluster.peers, self
        return real

    def call(self, sender_id: int, node_id: int, request: Any, version: int) -> Any:
        answer = self._real.call(sender_id, node_id, request, version)
        if not isinstance(request, AddPartitionsToTxnRequest):
            return answer
        later: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._held.append((later, answer))
        return later

    def await_one(self) -> None:
        assert eventually(lambda: len(self._held) > 0)

    def release(self) -> None:
        on_loop(self._broker, lambda _: self._release())

    def _release(self) -> None:
        held, self._held = self._held, []
        for later, answer in held:
            if isinstance(answer, asyncio.Future):
                answer.add_done_callback(partial(_follow, later))
            else:
                later.set_result(answer)

    def end(self) -> None:
        self.release()
        on_loop(self._broker, self._give_back)

    def _give_back(self, running: RunningBroker) -> None:
        running.cluster.peers = self._real


def _follow(later: asyncio.Future[Any], done: asyncio.Future[Any]) -> None:
    later.set_result(done.result())


@contextmanager
def held_verification(broker: ottla.Broker) -> Iterator[HeldVerification]:
    held = HeldVerification(broker)
    try:
        yield held
    finally:
        held.end()
