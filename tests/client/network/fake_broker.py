"""A broker that says what a test tells it to say, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ottla.client.aio.network.network import Network
from ottla.config.client import ClientConfig, read_client_config
from ottla.errors import ErrorCode
from ottla.wire.compile import decode_message
from ottla.wire.declare import info_of
from ottla.wire.framing import frame_response, read_request_header
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

REQUESTS: dict[int, type[Any]] = {
    info_of(each).api_key: each
    for each in (
        ApiVersionsRequest,
        MetadataRequest,
        FindCoordinatorRequest,
        HeartbeatRequest,
        SaslHandshakeRequest,
        SaslAuthenticateRequest,
    )
}
# As Kafka, it hangs up at more: the first message of TLS is taken for some.
MAX_REQUEST_BYTES = 100 * 1024 * 1024
Answer = Callable[[Any, int], Any]
"""From a request and its version: a response, bytes as they are, None for no answer; perhaps awaitable."""


class Asked(NamedTuple):
    """A request that came."""

    request: Any
    version: int
    connection: int


class FakeBroker:
    """One node of a cluster that has itself as its only broker, unless `answers` says otherwise."""

    def __init__(self, *, node_id: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self.node_id = node_id
        self.port = 0
        self.asked: list[Asked] = []
        self.connections = 0
        self.versions = {key: tuple(info_of(request).versions) for key, request in REQUESTS.items()}
        self.answers: dict[type[Any], Answer] = {
            ApiVersionsRequest: self._api_versions,
            MetadataRequest: self._metadata,
            FindCoordinatorRequest: self._coordinator,
            HeartbeatRequest: lambda request, version: HeartbeatResponse(error_code=0),
            # As Kafka on a port without SASL.
            SaslHandshakeRequest: lambda request, version: SaslHandshakeResponse(
                error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[]
            ),
        }
        self.greeting: bytes | None = None
        """What is sent at once, in place of everything else."""
        self.brokers: list[MetadataResponseBroker] | None = None
        self.topics: dict[str, int] = {"t": 1}
        self.cluster_id = "fake"
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def asked_for(self, request_class: type[Any]) -> list[Asked]:
        return [each for each in self.asked if isinstance(each.request, request_class)]

    async def start(self) -> None:
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self.port, ssl=self._tls
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """As if killed: nothing listens, and all connections are reset."""
        assert self._server is not None
        self._server.close()
        self.drop_connections()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def drop_connections(self) -> None:
        for writer in self._writers.values():
            writer.transport.abort()

    @property
    def open_connections(self) -> int:
        return len(self._writers)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = self.connections
        self.connections += 1
        self._writers[number] = writer
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if self.greeting is not None:
                writer.write(self.greeting)
                await writer.drain()
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                if size > MAX_REQUEST_BYTES:
                    break
                frame = memoryview(await reader.readexactly(size))
                await self._handle(frame, number, writer)
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        finally:
            del self._writers[number]
            writer.transport.abort()
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()
            self._tasks.discard(task)

    async def _handle(self, frame: memoryview, number: int, writer: asyncio.StreamWriter) -> None:
        api_key, version = (int.from_bytes(frame[at : at + 2], "big") for at in (0, 2))
        correlation_id = int.from_bytes(frame[4:8], "big")
        request_class = REQUESTS[api_key]
        lowest, highest = self.versions.get(api_key, (0, -1))
        if not lowest <= version <= highest:
            assert request_class is ApiVersionsRequest, f"{request_class} version {version}"
            refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[])
            writer.writelines(frame_response(refusal, 0, correlation_id))
            return
        header = read_request_header(frame, version >= info_of(request_class).flexible_since)
        request = decode_message(request_class, version, frame, header.body_position)
        self.asked.append(Asked(request, version, number))
        answer = self.answers[request_class](request, version)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, bytes):
            writer.write(answer)
        elif answer is not None:
            writer.writelines(frame_response(answer, version, correlation_id))

    def _api_versions(self, request: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
        ranges = [
            ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in self.versions.items()
        ]
        return ApiVersionsResponse(error_code=0, api_keys=ranges)

    def _metadata(self, request: MetadataRequest, version: int) -> MetadataResponse:
        own = broker_at(self.node_id, self.port)
        return MetadataResponse(
            brokers=self.brokers or [own],
            cluster_id=self.cluster_id,
            controller_id=self.node_id,
            topics=[self._topic(each.name or "") for each in request.topics or ()],
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        count = self.topics.get(name)
        if count is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return MetadataResponseTopic(error_code=code, name=name, partitions=[])
        partitions = [
            MetadataResponsePartition(
                error_code=0,
                partition_index=index,
                leader_id=self.node_id,
                leader_epoch=0,
                replica_nodes=[self.node_id],
                isr_nodes=[self.node_id],
            )
            for index in range(count)
        ]
        return MetadataResponseTopic(error_code=0, name=name, partitions=partitions)

    def _coordinator(
        self, request: FindCoordinatorRequest, version: int
    ) -> FindCoordinatorResponse:
        if version < 4:
            return FindCoordinatorResponse(
                error_code=0, node_id=self.node_id, host="127.0.0.1", port=self.port
            )
        found = [
            Coordinator(
                key=key, node_id=self.node_id, host="127.0.0.1", port=self.port, error_code=0
            )
            for key in request.coordinator_keys
        ]
        return FindCoordinatorResponse(coordinators=found)


def broker_at(node_id: int, port: int) -> MetadataResponseBroker:
    return MetadataResponseBroker(node_id=node_id, host="127.0.0.1", port=port)


@asynccontextmanager
async def running(*brokers: FakeBroker) -> AsyncIterator[None]:
    """The brokers, started; in the end nothing of the client may be left."""
    before = asyncio.all_tasks()
    for broker in brokers:
        await broker.start()
    try:
        yield
    finally:
        for broker in brokers:
            await broker.stop()
    # asyncio itself is still busy with a connection that came just before the end.
    own = ("FakeBroker", "_accept_connection")
    tasks = asyncio.all_tasks() - before
    left = [task for task in tasks if not any(name in repr(task) for name in own)]
    assert not left, left


@asynccontextmanager
async def network_to(*addresses: str, **options: object) -> AsyncIterator[Network]:
    """A client's network, closed in the end."""
    network = Network(config_for(*addresses, **options))
    try:
        yield network
    finally:
        await network.close()


QUICK: Mapping[str, object] = {
    "reconnect.backoff.ms": 5,
    "reconnect.backoff.max.ms": 20,
    "retry.backoff.ms": 5,
    "retry.backoff.max.ms": 20,
}


def config_for(*addresses: str, **options: object) -> ClientConfig:
    """A configuration with short pauses."""
    given = {
        name.replace("_", "."): str(value) if isinstance(value, Path) else value
        for name, value in options.items()
    }
    return read_client_config(
        ClientConfig, {"bootstrap.servers": ",".join(addresses), **QUICK, **given}, {}
    )


HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


@contextmanager
def refusing_address() -> Iterator[str]:
    """Where nobody listens, and nobody else can begin to."""
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{kept.getsockname()[1]}"


async def until(condition: Callable[[], object]) -> None:
    """Let the loop go on until something has come true; `run` limits the time."""
    while not condition():
        await asyncio.sleep(0.001)
