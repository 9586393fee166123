"""Links between machines: each end proves that it is the broker that the store knows."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from tests.broker.peer_links.scripted_peer import VERSION, answer_to, number_in, numbered

from ottla.broker.coordination.peers import UnreachableError
from ottla.broker.network.server import Server
from ottla.broker.node import Node
from ottla.broker.peer_links.peer_certificates import (
    OwnCertificate,
    context_for_peer,
    make_certificate,
)
from ottla.broker.peer_links.peer_link import LinkLimits, PeerLink
from ottla.broker.peer_links.peer_listener import PeerAddress, PeerConnector, PeerListener
from ottla.broker.requests.apis import SERVED
from ottla.broker.requests.request import RequestContext
from ottla.broker.runtime import BrokerSettings, start_broker
from ottla.config.broker import BrokerConfig
from ottla.event_loop import new_event_loop
from ottla.model import Endpoint
from ottla.wire.declare import info_of
from ottla.wire.messages.write_txn_markers import WriteTxnMarkersRequest

KEY = info_of(WriteTxnMarkersRequest).api_key
OWN, OTHER = 1, 2
CERTIFICATES = {node: make_certificate(f"broker-{node}") for node in (1, 2, 3)}
LIMITS = LinkLimits(answer_seconds=2.0, first_pause_seconds=0.0, last_pause_seconds=0.0)


class Markers:
    """Stands in for the handler of markers."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def handle(self, node: Node, request: WriteTxnMarkersRequest, context: RequestContext) -> Any:
        assert context.caller.is_node
        self.numbers.append(number_in(request))
        return answer_to(number_in(request))


class Scene:
    """A broker that listens for others."""

    def __init__(self, server: Server, listener: PeerListener, endpoint: Endpoint) -> None:
        self.server = server
        self.listener = listener
        self.endpoint = endpoint
        self.markers = Markers()
        api = SERVED[KEY]._replace(handle=self.markers.handle)
        server.apis_between_nodes = {**SERVED, KEY: api}

    @staticmethod
    async def ask(link: PeerLink, number: int) -> Any:
        """The answer to a request, or why there is none."""
        answer = link.call(numbered(number), VERSION)
        return await answer if isinstance(answer, asyncio.Future) else answer

    def link(self, own: OwnCertificate, expected: str | None = None) -> PeerLink:
        """A link of node 2 that shows a certificate and expects another."""
        expected = CERTIFICATES[OWN].certificate if expected is None else expected
        connector = PeerConnector(own, lambda node_id: PeerAddress(self.endpoint, expected))
        return PeerLink(OTHER, OWN, connector.connect, LIMITS, connector.tls_of)


def play(scenario: Callable[[Scene], Awaitable[None]]) -> None:
    async def main() -> None:
        config = BrokerConfig(listeners=("PLAINTEXT://127.0.0.1:0",), node_id=OWN)
        broker = await start_broker(BrokerSettings(config))
        listener = PeerListener(CERTIFICATES[OWN])
        endpoint = await listener.bind(Endpoint("127.0.0.1", 0))
        listener.trust({OTHER: CERTIFICATES[OTHER].certificate})
        scene = Scene(broker.server, listener, endpoint)
        listener.serve(broker.server.links, {})
        try:
            async with asyncio.timeout(20):
                await scenario(scene)
        finally:
            listener.close()
            await broker.stop()

    # Both loops have a TLS of their own.
    for factory in (asyncio.new_event_loop, new_event_loop):
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(main())


def test_brokers_that_know_each_other_are_linked() -> None:
    async def scenario(scene: Scene) -> None:
        link = scene.link(CERTIFICATES[OTHER])
        asked = (scene.ask(link, number) for number in range(50))
        assert await asyncio.gather(*asked) == [answer_to(number) for number in range(50)]
        assert scene.markers.numbers == list(range(50))
        link.close()

    play(scenario)


def test_a_broker_whose_certificate_is_not_known_is_refused() -> None:
    async def scenario(scene: Scene) -> None:
        link = scene.link(CERTIFICATES[3])
        answer = await scene.ask(link, 1)
        assert isinstance(answer, UnreachableError)
        assert scene.markers.numbers == []
        # It is known a moment later, when the store has told of it.
        scene.listener.trust({OTHER: CERTIFICATES[3].certificate})
        assert await scene.ask(link, 2) == answer_to(2)
        link.close()

    play(scenario)


def test_a_broker_is_not_asked_if_another_one_answers_at_its_address() -> None:
    async def scenario(scene: Scene) -> None:
        link = scene.link(CERTIFICATES[OTHER], expected=CERTIFICATES[3].certificate)
        answer = await scene.ask(link, 1)
        assert isinstance(answer, UnreachableError)
        assert "certificate" in str(answer).lower()
        assert scene.markers.numbers == []
        link.close()

    play(scenario)


def test_plain_bytes_and_silence_are_no_link() -> None:
    async def scenario(scene: Scene) -> None:
        silent = socket.create_connection(scene.endpoint)
        reader, writer = await asyncio.open_connection(*scene.endpoint)
        writer.write(b"\x00\x00\x00\x04abcd")
        with suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        link = scene.link(CERTIFICATES[OTHER])
        assert await scene.ask(link, 1) == answer_to(1)
        link.close()
        silent.close()

    play(scenario)


def test_a_connection_that_was_made_before_the_last_one_brings_nothing() -> None:
    """Its handshake took longer than that of its successor; what it brings was given up and sent again."""

    async def scenario(scene: Scene) -> None:
        gate = asyncio.Event()
        authenticate = scene.listener._authenticate

        async def late(accepted: socket.socket, address: object, number: int, links: Any) -> None:
            if number == first:
                await gate.wait()
            await authenticate(accepted, address, number, links)

        context = context_for_peer(CERTIFICATES[OTHER], CERTIFICATES[OWN].certificate)
        probe = scene.link(CERTIFICATES[OTHER])
        assert await scene.ask(probe, 1) == answer_to(1)
        probe.close()
        first = max(scene.server.links._last_numbers.values()) + 1
        scene.listener._authenticate = late  # type: ignore[method-assign]
        opening = asyncio.get_running_loop().create_task(
            asyncio.open_connection(*scene.endpoint, ssl=context, server_hostname="")
        )
        await asyncio.sleep(0.1)
        link = scene.link(CERTIFICATES[OTHER])
        assert await scene.ask(link, 2) == answer_to(2)
        gate.set()
        reader, writer = await opening
        with suppress(ConnectionError, ssl.SSLError):
            assert await reader.read() == b""
        assert await scene.ask(link, 3) == answer_to(3)
        writer.close()
        link.close()

    play(scenario)
