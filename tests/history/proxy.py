"""A TCP proxy that knows Kafka's frames: it delays and cuts, and delivers requests late, twice and out of order.

A request that is held back is delivered on a connection of its own, long after the client has given up the connection
that it was sent on: to the broker it is a request that was on its way all that time (KAFKA-17754).
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, NamedTuple

from tests.history.events import Recorder
from tests.history.frames import TRANSACTIONAL, Frame
from tests.history.one_transaction import OneTransaction, Pass

from ottla.model import Endpoint

SIZE_BYTES: Final = 4
LATE_ANSWER_SECONDS: Final = 5.0
# How long the broker gets to answer a client that is cut off, before it sees that, too.
LINGER_SECONDS: Final = 0.5
STOP_SECONDS: Final = 10.0
# How much of the longest time a request is held back for a moment.
MOMENT: Final = 0.05


class Fault(Enum):
    """What is done to one request."""

    NONE = "forwarded"
    DELAY = "forwarded later, and all that follow on the connection"
    LOSE = "lost, with the connection"
    LOSE_ANSWER = "forwarded, and the connection is cut before the answer"
    HOLD = "held back, the connection is cut, and it is delivered late"
    DUPLICATE = "forwarded, and delivered once more, late"


@dataclass(frozen=True)
class Weather:
    """How likely each fault is: for requests of transactions, and for the others."""

    transactional: dict[Fault, float]
    other: dict[Fault, float]
    # The requests that count as those of transactions.
    apis: tuple[int, ...] = TRANSACTIONAL
    longest_delay_seconds: float = 0.2
    longest_hold_seconds: float = 6.0


CALM: Final = Weather({}, {})
ROUGH: Final = Weather(
    {
        Fault.DELAY: 0.03,
        Fault.LOSE: 0.004,
        Fault.LOSE_ANSWER: 0.015,
        Fault.HOLD: 0.025,
        Fault.DUPLICATE: 0.04,
    },
    {Fault.DELAY: 0.02, Fault.LOSE: 0.003, Fault.LOSE_ANSWER: 0.003},
)


class Route(NamedTuple):
    """Where clients connect, and where that leads."""

    listen: Endpoint
    broker: Endpoint


class Connection:
    """A client's connection and the one to the broker that belongs to it."""

    def __init__(self, route: Route, client: asyncio.StreamWriter) -> None:
        self.route = route
        self.client = client
        self.broker: asyncio.StreamWriter | None = None

    def cut(self) -> None:
        """Ends both, with a reset: what is on its way is lost."""
        self.client.transport.abort()
        if self.broker is not None:
            self.broker.transport.abort()


class Proxy:
    """All routes of a run; lives on one event loop."""

    def __init__(self, routes: list[Route], seed: int, recorder: Recorder) -> None:
        self._routes = routes
        self._random = random.Random(seed)
        self._recorder = recorder
        self._servers: list[asyncio.Server] = []
        self._connections: dict[Connection, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._serving: set[asyncio.Task[Any]] = set()
        self._one_transaction = OneTransaction()
        self.weather = CALM
        self.deeds: dict[str, int] = {}

    async def start(self) -> None:
        for route in self._routes:

            async def accept(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter, route: Route = route
            ) -> None:
                await self._serve(route, reader, writer)

            listen = route.listen
            self._servers.append(await asyncio.start_server(accept, listen.host, listen.port))

    async def stop(self) -> None:
        for server in self._servers:
            server.close()
        self.cut_all()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._serving, return_exceptions=True)

    def cut_all(self) -> None:
        """Every connection ends at once."""
        for connection in list(self._connections):
            connection.cut()

    async def heal(self) -> None:
        """Nothing happens any more, once what was held back has arrived."""
        self.weather = replace(CALM)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(
        self, route: Route, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        connection = Connection(route, writer)
        self._connections[connection] = None
        answers: asyncio.Task[None] | None = None
        try:
            upstream, broker = await asyncio.open_connection(route.broker.host, route.broker.port)
            connection.broker = broker
            answers = asyncio.create_task(self._pass_answers(upstream, connection))
            await self._pass_requests(reader, broker, connection)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            del self._connections[connection]
            connection.cut()
            if answers is not None:
                await answers

    async def _pass_answers(self, upstream: asyncio.StreamReader, connection: Connection) -> None:
        with suppress(OSError):
            while data := await upstream.read(1 << 16):
                connection.client.write(data)
                await connection.client.drain()
        connection.cut()

    async def _pass_requests(
        self, reader: asyncio.StreamReader, broker: asyncio.StreamWriter, connection: Connection
    ) -> None:
        while True:
            size = await reader.readexactly(SIZE_BYTES)
            frame = Frame(size + await reader.readexactly(int.from_bytes(size)))
            chance = await self._one_transaction.enter(frame)
            fault = self._choose(frame)
            if fault is not Fault.NONE:
                self._note(fault.name, frame)
            if fault is Fault.LOSE:
                return
            if fault in (Fault.HOLD, Fault.DUPLICATE):
                seconds = self._hold_seconds()
                self._spawn(self._deliver_late(connection.route, frame, seconds, chance))
            if fault is Fault.HOLD:
                return
            if fault is Fault.DELAY:
                await asyncio.sleep(self._random.uniform(0, self.weather.longest_delay_seconds))
                if chance.is_over:
                    return
            broker.write(frame.data)
            await broker.drain()
            if fault is Fault.LOSE_ANSWER:
                connection.client.transport.abort()
                await asyncio.sleep(LINGER_SECONDS)
                return

    def _hold_seconds(self) -> float:
        """As often a moment, in which the next transaction begins, as seconds, in which much happens."""
        longest = self.weather.longest_hold_seconds
        return self._random.uniform(0, longest * self._random.choice((MOMENT, 1.0)))

    def _choose(self, frame: Frame) -> Fault:
        weather = self.weather
        likely = weather.transactional if frame.api_key in weather.apis else weather.other
        number = self._random.random()
        for fault, probability in likely.items():
            number -= probability
            if number < 0:
                return fault
        return Fault.NONE

    async def _deliver_late(self, route: Route, frame: Frame, seconds: float, chance: Pass) -> None:
        await asyncio.sleep(seconds)
        if chance.is_over:
            return
        await self._one_transaction.arrive_late(frame)
        with chance:
            self._note("late", frame, seconds=round(seconds, 3))
            with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
                async with asyncio.timeout(LATE_ANSWER_SECONDS):
                    answer = await _ask(route.broker, frame.data)
                self._note("late answer", frame, answer=answer[:40].hex())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _note(self, deed: str, frame: Frame, **more: object) -> None:
        self.deeds[deed] = self.deeds.get(deed, 0) + 1
        self._recorder.note("proxy", deed=deed, request=str(frame), **more)


async def _ask(broker: Endpoint, data: bytes) -> bytes:
    """Sends a request on a connection of its own; its answer."""
    reader, writer = await asyncio.open_connection(broker.host, broker.port)
    try:
        writer.write(data)
        size = await reader.readexactly(SIZE_BYTES)
        return await reader.readexactly(int.from_bytes(size))
    finally:
        writer.close()


class ProxyThread:
    """A proxy on a thread of its own, for callers that block."""

    def __init__(self, routes: list[Route], seed: int, recorder: Recorder) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._proxy = Proxy(routes, seed, recorder)

    @property
    def deeds(self) -> dict[str, int]:
        """How often it did what."""
        return dict(self._proxy.deeds)

    def start(self) -> None:
        self._thread.start()
        self._do(self._proxy.start())

    def set_weather(self, weather: Weather) -> None:
        self._proxy.weather = weather

    def cut_all(self) -> None:
        self._loop.call_soon_threadsafe(self._proxy.cut_all)

    def heal(self) -> None:
        """Returns when all that was held back has been delivered."""
        self._do(self._proxy.heal())

    def stop(self) -> None:
        self._do(self._proxy.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(STOP_SECONDS * 3)
