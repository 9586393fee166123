"""The answering end of links: nodes are served whatever clients do, and no request takes effect after a later one."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.broker.peer_links.scripted_peer import (
    LONG_SECONDS,
    VERSION,
    answer_to,
    frame_of,
    number_in,
    numbered,
)

from ottla.broker.coordination.peers import UnreachableError
from ottla.broker.network.server import Server
from ottla.broker.node import Node
from ottla.broker.peer_links.peer_link import LinkLimits, PeerLink
from ottla.broker.requests.apis import SERVED
from ottla.broker.requests.request import RequestContext
from ottla.broker.runtime import BrokerSettings, start_broker
from ottla.config.broker import BrokerConfig
from ottla.wire.declare import info_of
from ottla.wire.framing import frame_request
from ottla.wire.messages.write_txn_markers import WriteTxnMarkersRequest

KEY = info_of(WriteTxnMarkersRequest).api_key
SENDER, NODE = 2, 1


class Handled:
    """Stands in for the handler of markers, and notes the order in which requests take effect."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.begun: list[int] = []
        self.ended: list[int] = []
        # Requests that are answered later, in a coroutine that holds up those behind it; and by a future.
        self.slow: dict[int, asyncio.Event] = {}
        self.late: dict[int, asyncio.Future[Any]] = {}
        self.is_node: set[bool] = set()

    def handle(self, node: Node, request: WriteTxnMarkersRequest, context: RequestContext) -> Any:
        number = number_in(request)
        self.is_node.add(context.caller.is_node)
        # A connection that waits for a coroutine handles nothing else.
        assert self.begun == self.ended
        self.numbers.append(number)
        if number in self.slow:
            return self._answer_slowly(number)
        return self.late.get(number, answer_to(number))

    async def _answer_slowly(self, number: int) -> Any:
        self.begun.append(number)
        try:
            await self.slow[number].wait()
        finally:
            # As a request that is cancelled in the middle of a step.
            try:
                for _ in range(10):
                    await asyncio.sleep(0)
            finally:
                self.ended.append(number)
        return answer_to(number)


def play(scenario: Callable[[Server, Handled], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        config = BrokerConfig(listeners=("PLAINTEXT://127.0.0.1:0",), node_id=NODE, **options)
        broker = await start_broker(BrokerSettings(config))
        handled = Handled()
        server = broker.server
        server.apis_between_nodes = {KEY: SERVED[KEY]._replace(handle=handled.handle)}
        try:
            async with asyncio.timeout(LONG_SECONDS):
                await scenario(server, handled)
        finally:
            await broker.stop()

    asyncio.run(main())


def connect(server: Server) -> socket.socket:
    """The asking end of a link that the server accepts."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    server.links.accept(SENDER, theirs)
    return ours


def request_frame(number: int) -> bytes:
    return frame_request(numbered(number), VERSION, number, "node-2")


async def receive(ours: socket.socket, count: int) -> bytes:
    """The frames of so many responses."""
    data = b""
    while len(data) < count * len(frame_of(0, 0)):
        more = await asyncio.get_running_loop().sock_recv(ours, 1 << 16)
        if not more:
            raise ConnectionResetError
        data += more
    return data


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0)


def test_a_link_is_a_nodes() -> None:
    async def scenario(server: Server, handled: Handled) -> None:
        ours = connect(server)
        ours.send(request_frame(1) + request_frame(2))
        assert await receive(ours, 2) == frame_of(1, 1) + frame_of(2, 2)
        assert handled.is_node == {True}
        assert server.connections_by_listener()["PEERS"] == 1
        ours.close()

    play(scenario)


def test_answers_leave_when_they_are_ready() -> None:
    async def scenario(server: Server, handled: Handled) -> None:
        loop = asyncio.get_running_loop()
        handled.late = {1: loop.create_future(), 2: loop.create_future()}
        ours = connect(server)
        ours.send(b"".join(map(request_frame, [1, 2, 3])))
        assert await receive(ours, 1) == frame_of(3, 3)
        handled.late[2].set_result(answer_to(2))
        assert await receive(ours, 1) == frame_of(2, 2)
        handled.late[1].set_result(answer_to(1))
        assert await receive(ours, 1) == frame_of(1, 1)
        ours.close()

    play(scenario)


def test_a_new_link_of_a_node_ends_the_old_one_and_all_that_it_has_not_handled() -> None:
    async def scenario(server: Server, handled: Handled) -> None:
        handled.slow[1] = asyncio.Event()
        old = connect(server)
        old.send(b"".join(map(request_frame, [1, 2, 3])))
        await until(lambda: bool(handled.numbers))
        new = connect(server)
        old.send(request_frame(4))
        new.send(request_frame(5))
        assert await receive(new, 1) == frame_of(5, 5)
        handled.slow[1].set()
        with pytest.raises(ConnectionResetError):
            await receive(old, 1)
        assert handled.numbers == [1, 5]
        new.close()
        old.close()

    play(scenario)


def test_of_links_that_come_together_the_last_one_is_served() -> None:
    async def scenario(server: Server, handled: Handled) -> None:
        links = [connect(server) for _ in range(5)]
        for number, each in enumerate(links):
            each.send(request_frame(number))
        assert await receive(links[-1], 1) == frame_of(4, 4)
        assert handled.numbers == [4]
        for each in links[:-1]:
            with pytest.raises(ConnectionResetError):
                await receive(each, 1)
        for each in links:
            each.close()

    play(scenario)


def test_clients_that_take_all_connections_do_not_keep_nodes_from_each_other() -> None:
    async def scenario(server: Server, handled: Handled) -> None:
        _, writer = await asyncio.open_connection(*server.endpoint)
        await until(lambda: server.connection_count == 1)
        ours = connect(server)
        ours.send(request_frame(1))
        assert await receive(ours, 1) == frame_of(1, 1)
        ours.close()
        writer.close()

    play(scenario, max_connections=1)


def test_a_server_that_stops_accepts_no_link() -> None:
    async def scenario(server: Server, handled: Handled) -> None:
        late: list[socket.socket] = []
        ours = connect(server)
        ours.send(request_frame(1))
        await receive(ours, 1)
        await server.stop()
        late.append(connect(server))
        for each in (ours, *late):
            with pytest.raises(ConnectionResetError):
                await receive(each, 1)
            each.close()
        assert handled.numbers == [1]

    play(scenario)


class TroubledPath:
    """Connects a link to a server through a forwarder that holds bytes up and cuts connections anywhere."""

    def __init__(self, server: Server, rng: random.Random) -> None:
        self._server = server
        self._rng = rng
        self._tasks: list[asyncio.Task[None]] = []
        self._open: list[socket.socket] = []
        self.cuts = 0

    async def connect(self, _node_id: int) -> socket.socket:
        ours, outer = socket.socketpair()
        for each in (ours, outer):
            each.setblocking(False)
        inner = connect(self._server)
        ends = random.Random(self._rng.random()).randrange(50, 3000)
        self._open += (outer, inner)
        loop = asyncio.get_running_loop()
        for source, sink in ((outer, inner), (inner, outer)):
            self._tasks.append(loop.create_task(self._forward(source, sink, ends)))
        return ours

    async def _forward(self, source: socket.socket, sink: socket.socket, ends: int) -> None:
        loop = asyncio.get_running_loop()
        passed = 0
        try:
            while passed < ends:
                data = await loop.sock_recv(source, self._rng.randrange(1, 200))
                if not data:
                    break
                for _ in range(self._rng.choice([0, 0, 0, 1, 5, 20])):
                    await asyncio.sleep(0)
                data = data[: ends - passed]
                await loop.sock_sendall(sink, data)
                passed += len(data)
        except OSError:
            pass
        if passed >= ends:
            self.cuts += 1
            # One end may learn much later than the other that the connection is over.
            first, second = self._rng.sample([source, sink], 2)
            first.shutdown(socket.SHUT_RDWR)
            for _ in range(self._rng.choice([0, 50])):
                await asyncio.sleep(0)
            second.shutdown(socket.SHUT_RDWR)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for each in self._open:
            each.close()


@given(st.integers(0, 2**32))
def test_requests_take_effect_in_their_order_over_whatever_connections(seed: int) -> None:
    """And what was answered has taken effect; of what was not, nothing is known."""
    rng = random.Random(seed)

    async def scenario(server: Server, handled: Handled) -> None:
        path = TroubledPath(server, rng)
        link = PeerLink(SENDER, NODE, path.connect, LinkLimits(LONG_SECONDS, 0.0, 0.0))
        answers: dict[int, asyncio.Future[Any]] = {}
        for number in range(150):
            if rng.random() < 0.1:
                handled.slow[number] = asyncio.Event()
                asyncio.get_running_loop().call_later(0.001, handled.slow[number].set)
            answer = link.call(numbered(number), VERSION)
            if isinstance(answer, asyncio.Future):
                answers[number] = answer
            for _ in range(rng.choice([0, 0, 1, 3])):
                await asyncio.sleep(0)
        confirmed = []
        for number, answer in answers.items():
            outcome = await answer
            if not isinstance(outcome, UnreachableError):
                assert number_in(outcome) == number
                confirmed.append(number)
        link.close()
        await path.close()
        assert handled.numbers == sorted(set(handled.numbers))
        assert set(confirmed) <= set(handled.numbers)
        assert confirmed or path.cuts

    play(scenario)
