"""A proxy between a producer and a broker that keeps a record of requests and meddles with them as it is told."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.lasting import LASTING
from tests.waiting import in_time

from ottla import Broker
from ottla.broker.requests.apis import SERVED
from ottla.wire.compile import decode_message
from ottla.wire.declare import info_of
from ottla.wire.framing import (
    frame_response,
    read_request_header,
    response_header_is_flexible,
)
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.wire.response_decoders import response_class_of

STOP_SECONDS = 10.0
SEEN_SECONDS = 10.0

Edit = Callable[[Any], Any]


class Request(NamedTuple):
    """A request as the proxy saw it."""

    name: str
    version: int
    message: Any
    client_id: str | None


@dataclass
class Deed:
    """What to do to the next requests of one kind."""

    times: int = 1
    is_lost: bool = False
    answer_is_lost: bool = False
    edit: Edit | None = None
    """Changes the broker's answer."""
    answer: Callable[[Request], Any] | None = None
    """Answers in place of the broker, which does not see the request."""
    hold: threading.Event | None = None
    """The answer waits for it; so do all later ones of the connection."""
    done: int = field(default=0)


class Meddler:
    """Listens on a port of its own; lives on a thread of its own."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._deeds: dict[str, list[Deed]] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._upstream = ("127.0.0.1", 0)
        self.port = 0

    def start(self) -> None:
        self._thread.start()
        self._do(self._listen())

    def forward_to(self, port: int) -> None:
        self._upstream = ("127.0.0.1", port)

    def stop(self) -> None:
        self._do(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STOP_SECONDS)
        self._loop.close()

    def on(self, name: str, **deed: Any) -> Deed:
        """Do something to the next requests of this name."""
        made = Deed(**deed)
        self._deeds.setdefault(name, []).append(made)
        return made

    def calm(self) -> None:
        """Forget all that was asked for and seen."""
        self._deeds.clear()
        self.requests.clear()

    def seen(self, name: str) -> list[Request]:
        return [request for request in self.requests if request.name == name]

    def await_seen(self, name: str) -> None:
        """Wait for a request of this name."""
        deadline = time.monotonic() + SEEN_SECONDS
        while not self.seen(name):
            in_time(deadline, f"no {name} came")
            time.sleep(0.005)

    def cut_all(self) -> None:
        """End every connection; what has come and was not looked at yet is forgotten."""
        self._do(self._cut())

    # On the loop

    def _do(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(STOP_SECONDS)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._cut()

    async def _cut(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()
            self._writers.discard(writer)
            self._tasks.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream = await asyncio.open_connection(*self._upstream)
        expected: asyncio.Queue[tuple[Request, int, Deed | None]] = asyncio.Queue()
        answers = asyncio.create_task(self._pass_answers(upstream_reader, writer, expected))
        try:
            while True:
                frame = await _read_frame(reader)
                request, correlation_id = _read_request(frame)
                self.requests.append(request)
                deed = self._deed_for(request.name)
                if deed is not None and deed.is_lost:
                    return
                if deed is None or deed.answer is None:
                    upstream.write(len(frame).to_bytes(4) + frame)
                if not (isinstance(request.message, ProduceRequest) and request.message.acks == 0):
                    expected.put_nowait((request, correlation_id, deed))
        finally:
            answers.cancel()
            with suppress(asyncio.CancelledError, OSError, asyncio.IncompleteReadError):
                await answers
            upstream.transport.abort()

    async def _pass_answers(
        self,
        upstream: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        expected: asyncio.Queue[tuple[Request, int, Deed | None]],
    ) -> None:
        try:
            while True:
                request, correlation_id, deed = await expected.get()
                if deed is not None and deed.answer is not None:
                    response = deed.answer(request)
                    data = b"".join(frame_response(response, request.version, correlation_id))
                else:
                    frame = await _read_frame(upstream)
                    data = len(frame).to_bytes(4) + frame
                    if deed is not None and deed.edit is not None:
                        response = deed.edit(_read_response(request, frame))
                        data = b"".join(frame_response(response, request.version, correlation_id))
                if deed is not None and deed.hold is not None:
                    await self._loop.run_in_executor(None, deed.hold.wait, STOP_SECONDS)
                if deed is not None and deed.answer_is_lost:
                    return
                writer.write(data)
        finally:
            writer.transport.abort()

    def _deed_for(self, name: str) -> Deed | None:
        for deed in self._deeds.get(name, []):
            if deed.done < deed.times:
                deed.done += 1
                return deed
        return None


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4)))


def _read_request(frame: bytes) -> tuple[Request, int]:
    api_key, version = int.from_bytes(frame[:2]), int.from_bytes(frame[2:4])
    request_class = SERVED[api_key].request
    flexible = version >= info_of(request_class).flexible_since
    header = read_request_header(memoryview(frame), flexible)
    # A broker that lacks the version says so; nobody else has to read it then.
    if request_class is ApiVersionsRequest and version > info_of(request_class).versions.last:
        message = None
    else:
        message = decode_message(request_class, version, memoryview(frame), header.body_position)
    name = request_class.__name__.removesuffix("Request")
    return Request(name, version, message, header.client_id), header.correlation_id


def _read_response(request: Request, frame: bytes) -> Any:
    request_class = type(request.message)
    response_class = response_class_of(request_class)
    info = info_of(response_class)
    flexible = response_header_is_flexible(info.api_key, request.version >= info.flexible_since)
    return decode_message(response_class, request.version, memoryview(frame), 5 if flexible else 4)


def own_port(broker: Broker) -> int:
    """Where the only node listens, although it advertises a proxy."""
    running, _ = broker._running_broker()
    (server,) = running.servers.values()
    return server.endpoint.port


@contextmanager
def meddled_broker(**options: Any) -> Iterator[tuple[Broker, Meddler]]:
    """A broker whose clients all come through a proxy."""
    meddler = Meddler()
    meddler.start()
    try:
        with Broker({**LASTING, **options}, advertise=f"127.0.0.1:{meddler.port}") as broker:
            meddler.forward_to(own_port(broker))
            yield broker, meddler
    finally:
        meddler.stop()


# What tests make brokers say


def produce_error(code: int, **more: Any) -> Callable[[Request], ProduceResponse]:
    """Every partition of the request gets this error."""

    def answer(request: Request) -> ProduceResponse:
        return ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[
                        PartitionProduceResponse(
                            index=each.index, error_code=code, base_offset=-1, **more
                        )
                        for each in topic.partition_data
                    ],
                )
                for topic in request.message.topic_data
            ]
        )

    return answer


def batches_sent(meddler: Meddler) -> list[tuple[str, int, bytes]]:
    """The topic, partition and bytes of each batch that was sent, in order."""
    return [
        (topic.name, each.index, bytes(each.records))
        for request in meddler.seen("Produce")
        for topic in request.message.topic_data
        for each in topic.partition_data
    ]
