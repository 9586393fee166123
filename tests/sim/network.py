"""The network between simulated clients and nodes: real bytes, real connections, no sockets.

A request is encoded, travels for a while, and is fed to the broker's own `Connection`; what that writes travels back.
As with TCP, what is sent on one connection arrives in order or not at all; across connections anything goes. A request
that arrives twice is what a client's repetition after a timeout looks like to the broker.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from tests.broker.listeners import plaintext_listener
from tests.sim.loop import Owner, VirtualLoop
from tests.sim.trace import Trace
from tests.sim.weather import CALM

from ottla.broker.loop.loop_share import LoopShare
from ottla.broker.network.connection import Connection, Traffic
from ottla.broker.network.receive_buffers import Buffers
from ottla.broker.network.refusal_log import RefusalLog
from ottla.broker.network.unfinished_frames import UnfinishedFrames
from ottla.broker.node import Node
from ottla.broker.requests.apis import SERVED
from ottla.broker.security.sasl_gate import SaslGate
from ottla.model import Endpoint
from ottla.wire.compile import decode_message
from ottla.wire.declare import info_of
from ottla.wire.framing import SIZE_BYTES, frame_request, read_size, response_header_is_flexible

RECEIVE_BUFFER_BYTES = 1 << 16
PORT = 9092
CORRELATION_END = SIZE_BYTES + 4
GHOST_STAYS_SECONDS = 60.0
OVER_SECONDS = 0.5


@dataclass(slots=True, eq=False)
class Exchange:
    """A request and what became of it; None where that has not happened."""

    number: int
    client: str
    owner: Owner  # the node as it was then
    node_id: int
    request: Any
    version: int
    is_ghost: bool
    sent_at: float
    arrived_at: float | None = None
    answered_at: float | None = None
    response: Any = None
    is_abandoned: bool = False  # its connection is gone
    held_until: float = 0.0

    @property
    def is_on_its_way(self) -> bool:
        """Whether it may still have an effect."""
        return self.answered_at is None and not self.is_abandoned and self.owner.is_alive

    @property
    def name(self) -> str:
        return type(self.request).__name__.removesuffix("Request")


class LinkBrokenError(Exception):
    """The connection is gone; what was asked may or may not have happened."""


class Host:
    """A node as its connections see it."""

    def __init__(self, node: Node, owner: Owner, loop: VirtualLoop) -> None:
        self.node = node
        self.owner = owner
        self.apis = SERVED
        self.receive_buffer = memoryview(bytearray(RECEIVE_BUFFER_BYTES))
        self.buffers = Buffers()
        self.traffic = Traffic()
        self.refusals = RefusalLog(self.now)
        # One of its own: what the share has begun ends with the node.
        self.share = LoopShare(node.cluster.clock.monotonic_seconds)
        self.unfinished = UnfinishedFrames(self.max_frame_bytes)
        self.refusals = RefusalLog(loop.time)
        self._loop = loop
        self.ends: dict[_ServerEnd, None] = {}

    @property
    def max_frame_bytes(self) -> int:
        return self.node.options.config.socket_request_max_bytes

    def admit(self, connection: Connection) -> str | None:
        return None

    def hold(self, connection: Connection) -> bool:
        return False

    def forget(self, connection: Connection) -> None:
        """Nothing is kept of connections."""

    def gate_for(self, connection: Connection) -> SaslGate:
        raise AssertionError("there are no logins")

    def login_over(self, connection: Connection) -> None:
        raise AssertionError("there are no logins")

    def now(self) -> float:
        return self._loop.time()

    def note_receive(self) -> float:
        return self._loop.time()


class _ServerEnd(asyncio.Transport):
    """The broker's end of a connection."""

    def __init__(self, network: Network, host: Host, link: Link | None) -> None:
        super().__init__()
        self._network = network
        self.host = host
        self.link = link  # None: nobody reads the answers
        self._unread: deque[bytes] = deque()
        self._unsent = bytearray()
        self._is_reading = True
        self._is_gone = False
        self.exchanges: dict[int, Exchange] = {}
        self._connection = Connection(host, plaintext_listener())
        self._connection.connection_made(self)
        host.ends[self] = None

    # What the network does.

    def receive(self, frame: bytes, exchange: Exchange) -> None:
        if self._is_gone or not self.host.owner.is_alive:
            exchange.is_abandoned = True
            return
        if exchange.held_until > self._network.loop.time():
            self._network.at_node(self, exchange.held_until, self.receive, frame, exchange)
            return
        self.exchanges[exchange.number] = exchange
        self._unread.append(frame)
        if self._is_reading:
            self._feed()

    def _feed(self) -> None:
        while self._unread and self._is_reading and not self._is_gone:
            frame = self._unread.popleft()
            (number,) = read_size(frame, SIZE_BYTES + 4)
            exchange = self.exchanges[number]
            exchange.arrived_at = self._network.loop.time()
            self._network.arrived(exchange)
            position = 0
            while position < len(frame) and not self._is_gone:
                buffer = self._connection.get_buffer(-1)
                size = min(len(buffer), len(frame) - position)
                buffer[:size] = frame[position : position + size]
                self._connection.buffer_updated(size)
                position += size

    def lose(self) -> None:
        """The connection is gone."""
        if not self._is_gone:
            self._is_gone = True
            self.host.ends.pop(self, None)
            for exchange in self.exchanges.values():
                exchange.is_abandoned = True
            if self.host.owner.is_alive:
                self._connection.connection_lost(None)

    # What a Connection calls.

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "sockname":
            return (f"10.0.0.{self.host.node.node_id}", PORT)
        return ("10.1.0.1", 40_000) if name == "peername" else default

    def is_closing(self) -> bool:
        return self._is_gone

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self._network.loop.call_soon(self._feed, context=self.host.owner.context)

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        self._unsent += data
        while len(self._unsent) >= SIZE_BYTES:
            size = SIZE_BYTES + int(read_size(self._unsent)[0])
            if len(self._unsent) < size:
                return
            frame = bytes(self._unsent[:size])
            del self._unsent[:size]
            (number,) = read_size(frame, SIZE_BYTES)
            self._network.answered(self.exchanges.pop(number), frame, self)

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        """The broker ends the connection, which the client notices."""
        if not self._is_gone:
            self._network.loop.call_soon(self.lose)
            self._is_gone = True
            self._network.broken_by_node(self)

    def abort(self) -> None:
        self.close()


class Link:
    """A client's end of a connection."""

    def __init__(self, network: Network, client: str, node_id: int, host: Host) -> None:
        self._network = network
        self.client = client
        self.node_id = node_id
        self.is_broken = False
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self.end = _ServerEnd(network, host, self)
        # As TCP: nothing overtakes, and after something was lost nothing arrives.
        self.inbound_at = 0.0
        self.outbound_at = 0.0
        self.is_silent = False
        self.is_between_nodes = False

    async def call(self, request: Any, version: int, timeout_seconds: float) -> Any:
        """The answer; TimeoutError or LinkBrokenError if there is none, and then the link is of no more use."""
        if self.is_broken:
            raise LinkBrokenError(f"no connection to node {self.node_id}")
        return await self.wait(self.send(request, version), timeout_seconds)

    def send(self, request: Any, version: int) -> Exchange:
        """Has a request on its way, whatever becomes of the sender."""
        exchange = self._network.send(self, request, version)
        self._waiting[exchange.number] = self._network.loop.create_future()
        return exchange

    async def wait(self, exchange: Exchange, timeout_seconds: float) -> Any:
        """The answer to what was sent."""
        answer = self._waiting[exchange.number]
        timer = self._network.loop.call_later(timeout_seconds, _expire, answer)
        try:
            return await answer
        except TimeoutError:
            self._network.trace.note("{} gives up waiting for #{}", self.client, exchange.number)
            self.close()
            raise
        finally:
            timer.cancel()
            self._waiting.pop(exchange.number, None)

    def answer(self, exchange: Exchange) -> None:
        waiting = self._waiting.get(exchange.number)
        if waiting is not None and not waiting.done() and not self.is_broken:
            waiting.set_result(exchange.response)

    def fail(self) -> None:
        """The client notices that the connection is gone."""
        self.is_broken = True
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(LinkBrokenError(f"node {self.node_id} is gone"))

    def close(self) -> None:
        """The client ends the connection; the node notices a little later, if the network tells it."""
        if not self.is_broken:
            self.is_broken = True
            self._network.close_at_node(self)


def _expire(answer: asyncio.Future[Any]) -> None:
    if not answer.done():
        answer.set_exception(TimeoutError())


class Network:
    """Everything between clients and nodes."""

    def __init__(self, loop: VirtualLoop, rng: random.Random, trace: Trace) -> None:
        self.loop = loop
        self.rng = rng
        self.trace = trace
        self.weather = CALM
        self.hosts: dict[int, Host] = {}
        self.exchanges: list[Exchange] = []
        # Whether a request, in its version, may come a second time.
        self.may_come_again: Callable[[Any, int], bool] = lambda request, version: True
        # Called with an exchange when its request reaches the node, and when the answer leaves it.
        self.on_arrival: list[Callable[[Exchange], None]] = []
        self.on_answer: list[Callable[[Exchange], None]] = []

    # Nodes.

    def attach(self, node: Node, owner: Owner) -> None:
        self.hosts[node.node_id] = Host(node, owner, self.loop)

    def detach(self, node_id: int) -> None:
        """A node has died: some clients notice at once, others only by waiting."""
        host = self.hosts.pop(node_id)
        for end in list(host.ends):
            end.lose()
            if end.link is not None and self.rng.random() < 0.7:
                self.loop.call_later(self._delay(), end.link.fail)

    # Clients.

    async def connect(self, client: str, node_id: int) -> Link:
        await asyncio.sleep(self._delay())
        return self.connect_at_once(client, node_id)

    def connect_at_once(self, client: str, node_id: int) -> Link:
        host = self.hosts.get(node_id)
        if host is None:
            raise LinkBrokenError(f"node {node_id} is down")
        return Link(self, client, node_id, host)

    def send(self, link: Link, request: Any, version: int) -> Exchange:
        exchange = self._exchange(link.client, link.end.host, link.node_id, request, version)
        frame = frame_request(request, version, exchange.number, link.client)
        self.trace.note(
            "{} -> node {} #{} v{} {}",
            link.client,
            link.node_id,
            exchange.number,
            version,
            request,
        )
        rng, weather = self.rng, self.weather
        worse = weather.between_nodes if link.is_between_nodes else 1.0
        is_doubled = weather.doubled and rng.random() < worse * weather.doubled
        if is_doubled and self.may_come_again(request, version):
            self._send_ghost(exchange)
            if weather.late and rng.random() < weather.late:
                self.trace.note("#{} is late", exchange.number)
                link.is_silent = True
        if weather.broken and rng.random() < weather.broken:
            self.loop.call_later(self._delay(), self._break, link)
        if weather.lost and rng.random() < weather.lost:
            self.trace.note("#{} is lost", exchange.number)
            link.is_silent = True
        if link.is_silent:
            exchange.is_abandoned = True
        else:
            link.inbound_at = max(link.inbound_at, self.loop.time() + self._delay(worse))
            self.at_node(link.end, link.inbound_at, link.end.receive, frame, exchange)
        return exchange

    def _exchange(
        self, client: str, host: Host, node_id: int, request: Any, version: int, ghost: bool = False
    ) -> Exchange:
        exchange = Exchange(
            len(self.exchanges),
            client,
            host.owner,
            node_id,
            request,
            version,
            ghost,
            self.loop.time(),
        )
        self.exchanges.append(exchange)
        return exchange

    def _send_ghost(self, first: Exchange) -> None:
        """Sends a request a second time on a connection that nobody listens to."""
        host = self.hosts.get(first.node_id)
        if host is None or host.owner is not first.owner:
            return
        ghost = self._exchange(
            first.client, host, first.node_id, first.request, first.version, True
        )
        frame = frame_request(first.request, first.version, ghost.number, first.client)
        end = _ServerEnd(self, host, None)
        arrives_at = self.loop.time() + self._delay() + self._slow_delay()
        self.trace.note("#{} will come again as #{}", first.number, ghost.number)
        self.at_node(end, arrives_at, end.receive, frame, ghost)
        gone_at = arrives_at + self.rng.uniform(0, GHOST_STAYS_SECONDS)
        self.at_node(end, gone_at, end.lose)

    def at_node(self, end: _ServerEnd, when: float, what: Callable[..., None], *args: Any) -> None:
        self.loop.call_at(when, what, *args, context=end.host.owner.context)

    def close_at_node(self, link: Link) -> None:
        if not link.is_silent or self.rng.random() < 0.5:
            when = max(link.inbound_at, self.loop.time() + self._delay())
            self.at_node(link.end, when, link.end.lose)

    def _break(self, link: Link) -> None:
        self.trace.note("the connection of {} to node {} breaks", link.client, link.node_id)
        link.fail()
        self.at_node(link.end, self.loop.time() + self._delay(), link.end.lose)

    def broken_by_node(self, end: _ServerEnd) -> None:
        if end.link is not None:
            self.loop.call_later(self._delay(), end.link.fail)

    # What happens to requests.

    def arrived(self, exchange: Exchange) -> None:
        self.trace.note("#{} arrives", exchange.number)
        for look in self.on_arrival:
            look(exchange)

    def answered(self, exchange: Exchange, frame: bytes, end: _ServerEnd) -> None:
        exchange.answered_at = self.loop.time()
        exchange.response = _read_response(type(exchange.request), exchange.version, frame)
        self.trace.note("#{} is answered {}", exchange.number, exchange.response)
        for look in self.on_answer:
            look(exchange)
        link, weather = end.link, self.weather
        if link is None:
            return
        if weather.lost and self.rng.random() < weather.lost:
            self.trace.note("the answer to #{} is lost", exchange.number)
            link.is_silent = True
        if not link.is_silent:
            worse = weather.between_nodes if link.is_between_nodes else 1.0
            link.outbound_at = max(link.outbound_at, self.loop.time() + self._delay(worse))
            self.loop.call_at(link.outbound_at, link.answer, exchange, context=NOBODY.context)

    def unanswered(self, older_than_seconds: float) -> list[Exchange]:
        """Requests that a node has had for a long time, and whose client still listens."""
        now = self.loop.time()
        return [
            exchange
            for exchange in self.exchanges
            if exchange.arrived_at is not None
            and exchange.answered_at is None
            and not exchange.is_abandoned
            and exchange.owner.is_alive
            and now - exchange.arrived_at > older_than_seconds
        ]

    async def until_over(self, request: Any, first: int) -> None:
        """Waits until nothing of a request is on its way; `first` is how many there were before it."""
        while any(
            exchange.request is request and exchange.is_on_its_way
            for exchange in self.exchanges[first:]
        ):
            await asyncio.sleep(OVER_SECONDS)

    def _delay(self, worse: float = 1.0) -> float:
        weather = self.weather
        if weather.slow and self.rng.random() < worse * weather.slow:
            return self._slow_delay()
        return self.rng.uniform(*weather.delay_seconds)

    def _slow_delay(self) -> float:
        return self.rng.uniform(*self.weather.slow_seconds)


# What a node sends outlives the node: it is on its way.
NOBODY = Owner("nobody")


def _response_class(request: type[Any]) -> type[Any]:
    name = request.__name__.removesuffix("Request") + "Response"
    found: type[Any] = getattr(sys.modules[request.__module__], name)
    return found


# mypy does not see that a class is hashable.
response_class = cast(Callable[[type[Any]], type[Any]], cache(_response_class))


def _read_response(request: type[Any], version: int, frame: bytes) -> Any:
    info = info_of(request)
    flexible = response_header_is_flexible(info.api_key, version >= info.flexible_since)
    return decode_message(response_class(request), version, frame, CORRELATION_END + flexible)


class Caller:
    """A client: a name, the versions it speaks, and a connection to each node that it has talked to."""

    def __init__(self, network: Network, name: str, rng: random.Random) -> None:
        self.network = network
        self.name = name
        self._rng = rng
        self._versions: dict[type[Any], int] = {}
        self._links: dict[int, Link] = {}
        self.first_versions: dict[type[Any], int] = {}

    def version_of(self, request: type[Any]) -> int:
        """The version that this client speaks, from the one on that has the fields it needs."""
        version = self._versions.get(request)
        if version is None:
            api = SERVED[info_of(request).api_key]
            first = max(api.first_version, self.first_versions.get(request, 0))
            version = self._versions[request] = self._rng.randint(first, api.last_version)
        return version

    async def call(self, node_id: int, request: Any, timeout_seconds: float) -> Any:
        """The answer, or TimeoutError or LinkBrokenError."""
        link = self._links.get(node_id)
        if link is None or link.is_broken:
            link = self._links[node_id] = await self.network.connect(self.name, node_id)
        return await link.call(request, self.version_of(type(request)), timeout_seconds)

    def close(self) -> None:
        """Ends the connections as a process does that ends."""
        for link in self._links.values():
            link.close()
        self._links.clear()

    def vanish(self) -> None:
        """Is gone as a machine whose power is cut: no node is told."""
        for link in self._links.values():
            link.is_silent = link.is_broken = True
        self._links.clear()


def endpoint_of(node_id: int) -> Endpoint:
    return Endpoint(f"10.0.0.{node_id}", PORT)
