"""When connections rest, when they are closed, and what is left then."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from tests.client.network.conftest import Run
from tests.client.network.fake_broker import (
    HEARTBEAT,
    FakeBroker,
    network_to,
    refusing_address,
    running,
    until,
)

from ottla.errors import RetriableError
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic


class TestThrottling:
    """KIP-219: the client keeps quiet for as long as the broker wants."""

    def test_a_throttled_connection_is_not_used(self, run: Run) -> None:
        async def main() -> None:
            broker = FakeBroker()
            pauses = iter([150, 20])
            broker.answers[HeartbeatRequest] = lambda request, version: HeartbeatResponse(
                error_code=0, throttle_time_ms=next(pauses, 0)
            )
            loop = asyncio.get_running_loop()
            async with running(broker), network_to(broker.address) as network:
                await network.updated(5000)
                connection = await network.connection(0)
                # The second answer's shorter pause does not shorten the first one's.
                await asyncio.gather(connection.send(HEARTBEAT, 4), connection.send(HEARTBEAT, 4))
                start = loop.time()
                assert network.connection_now(0) is None
                await network.call(0, HEARTBEAT)
                assert loop.time() - start > 0.1
                assert network.connection_now(0) is connection

        run(main())


class TestIdleConnections:
    def test_an_idle_connection_is_closed_and_made_again_when_needed(self, run: Run) -> None:
        async def main() -> None:
            broker = FakeBroker()
            async with (
                running(broker),
                network_to(broker.address, connections_max_idle_ms=50) as network,
            ):
                await network.updated(5000)
                await until(lambda: broker.open_connections == 0)
                await network.call(0, HEARTBEAT)
                assert broker.connections == 2

        run(main())

    def test_a_connection_that_waits_for_an_answer_is_not_idle(self, run: Run) -> None:
        async def main() -> None:
            broker = FakeBroker()

            async def slow(request: Any, version: int) -> HeartbeatResponse:
                await asyncio.sleep(0.15)
                return HeartbeatResponse(error_code=0)

            broker.answers[HeartbeatRequest] = slow
            async with (
                running(broker),
                network_to(broker.address, connections_max_idle_ms=30) as network,
            ):
                await network.updated(5000)
                await network.call(0, HEARTBEAT)

        run(main())

    def test_without_a_limit_there_is_no_timer(self, run: Run) -> None:
        async def main() -> None:
            broker = FakeBroker()
            async with (
                running(broker),
                network_to(broker.address, connections_max_idle_ms=-1) as network,
            ):
                await network.updated(5000)
                assert network._peers._idle_timer is None

        run(main())

    def test_tcp_watches_connections_too(self, run: Run) -> None:
        async def main() -> None:
            broker = FakeBroker()
            async with running(broker), network_to(broker.address) as network:
                await network.updated(5000)
                opened = (await network.connection(0)).tcp_socket
                assert opened.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                assert opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

        run(main())


class TestClosing:
    def test_closing_tells_those_who_wait(self, run: Run) -> None:
        async def main() -> None:
            broker = FakeBroker()
            broker.answers[HeartbeatRequest] = lambda request, version: None
            async with running(broker), network_to(broker.address) as network:
                await network.updated(5000)
                call = asyncio.create_task(network.call(0, HEARTBEAT))
                await until(lambda: broker.asked_for(HeartbeatRequest))
                connection = await network.connection(0)
                await network.close()
                assert connection.gone.done()
                with pytest.raises(RetriableError, match="client was closed"):
                    await call
                with pytest.raises(RetriableError, match="closed"):
                    await network.connection(0)

        run(main())

    def test_closing_while_connecting_is_an_error_and_no_cancellation(self, run: Run) -> None:
        async def main() -> None:
            broker = FakeBroker()
            broker.answers[ApiVersionsRequest] = lambda request, version: None
            async with running(broker), network_to(broker.address) as network:
                calls = [asyncio.create_task(network.any_node()) for _ in range(3)]
                waiting = asyncio.create_task(network.updated(5000))
                await until(lambda: broker.asked_for(ApiVersionsRequest))
                await network.close()
                assert not [task for task in asyncio.all_tasks() if "Peer." in repr(task)]
                for task in (*calls, waiting):
                    with pytest.raises(RetriableError, match="closed"):
                        await task
                await until(lambda: broker.open_connections == 0)

        run(main())

    def test_closing_at_once_leaves_nothing_behind(self, run: Run) -> None:
        async def main() -> None:
            broker = FakeBroker()
            with refusing_address() as dead:
                async with running(broker):
                    for _ in range(10):
                        async with network_to(broker.address, dead):
                            pass

        run(main())

    def test_what_was_sent_without_waiting_still_leaves(self, run: Run) -> None:
        """Produce with acks=0: nobody waits for an answer, and close must not drop the bytes."""

        async def main() -> None:
            broker = FakeBroker()
            topics = [MetadataRequestTopic(name="x" * 30_000) for _ in range(100)]
            async with running(broker), network_to(broker.address) as network:
                await network.updated(5000)
                broker.answers[MetadataRequest] = lambda request, version: None
                connection = await network.connection(0)
                before = len(broker.asked)
                for _ in range(10):
                    connection.send_unanswered(MetadataRequest(topics=topics), 9)
                assert connection.unsent_bytes > 1_000_000
                await network.close()
                await until(lambda: len(broker.asked) == before + 10)

        run(main())
