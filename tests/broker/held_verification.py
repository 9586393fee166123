"""A cluster whose nodes wait for each other's answers about transactions until a test gives them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

from tests.broker.requests import eventually, on_loop

import ottla
from ottla.broker.coordination.peers import Peers
from ottla.broker.runtime import RunningBroker
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.wire.messages.write_txn_markers import WriteTxnMarkersRequest


class HeldAnswers:
    """Stands between the nodes; what they ask with requests of one class is answered when it is released."""

    def __init__(self, broker: ottla.Broker, kind: type[Any]) -> None:
        self._broker = broker
        self._kind = kind
        self._held: list[tuple[asyncio.Future[Any], Any]] = []
        self._real: Peers = on_loop(broker, self._take_the_place)

    def _take_the_place(self, running: RunningBroker) -> Peers:
        real, running.cluster.peers = running.cluster.peers, self
        return real

    def call(self, sender_id: int, node_id: int, request: Any, version: int) -> Any:
        answer = self._real.call(sender_id, node_id, request, version)
        if not isinstance(request, self._kind):
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
def _held(broker: ottla.Broker, kind: type[Any]) -> Iterator[HeldAnswers]:
    held = HeldAnswers(broker, kind)
    try:
        yield held
    finally:
        held.end()


def held_verification(broker: ottla.Broker) -> AbstractContextManager[HeldAnswers]:
    """Leaders wait for the coordinator's word."""
    return _held(broker, AddPartitionsToTxnRequest)


def held_markers(broker: ottla.Broker) -> AbstractContextManager[HeldAnswers]:
    """Coordinators do not hear that markers are written."""
    return _held(broker, WriteTxnMarkersRequest)
