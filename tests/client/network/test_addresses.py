"""From the name of a host to a connection: client.dns.lookup, and work off the loop."""

from __future__ import annotations

import asyncio
import contextvars
import socket
import threading
from typing import Any

import pytest
from tests.client.network.conftest import Run
from tests.client.network.fake_broker import FakeBroker, network_to, running

from ottla.errors import RetriableError
from ottla.event_loop import off_loop

DEAD_IP = "127.0.0.77"


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """What the name server knows."""
    known: dict[str, list[str]] = {}

    def getaddrinfo(host: str, port: int, **options: Any) -> list[Any]:
        if host not in known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port)) for ip in known[host]]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return known


def test_every_address_of_a_host_is_tried(run: Run, names: dict[str, list[str]]) -> None:
    async def main() -> None:
        broker = FakeBroker()
        names["kafka.example"] = [DEAD_IP, "127.0.0.1"]
        async with running(broker), network_to(f"kafka.example:{broker.port}") as network:
            await network.updated(5000)

    run(main())


def test_a_name_that_nobody_knows_is_told(run: Run, names: dict[str, list[str]]) -> None:
    async def main() -> None:
        async with network_to("kafka.example:1") as network:
            with pytest.raises(RetriableError, match=r"the name kafka\.example is not known"):
                await network.any_node()
            # The next attempt asks again.
            names["kafka.example"] = ["127.0.0.1"]
            with pytest.raises(RetriableError, match="refused"):
                await network.any_node()

    run(main())


def test_a_name_server_that_does_not_answer_counts_as_a_failed_attempt(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()

    def getaddrinfo(*where: object, flags: int = 0, **options: object) -> list[Any]:
        if not flags & socket.AI_NUMERICHOST:
            release.wait(20)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)

    async def main() -> None:
        options = {"socket.connection.setup.timeout.ms": 50}
        async with network_to("kafka.example:9092", **options) as network:
            with pytest.raises(RetriableError, match=r"no address of kafka\.example"):
                await network.any_node()

    run(main())
    release.set()


def test_canonical_names_replace_those_of_bootstrap_servers(
    run: Run, names: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def getnameinfo(address: tuple[str, int], flags: int) -> tuple[str, str]:
        asked.append(address[0])
        return f"host-{address[0]}.example", "kafka"

    monkeypatch.setattr(socket, "getnameinfo", getnameinfo)
    names["alias.example"] = [DEAD_IP, "127.0.0.1"]

    async def main() -> None:
        broker = FakeBroker()
        options = {"client.dns.lookup": "resolve_canonical_bootstrap_servers_only"}
        async with running(broker):
            address = f"alias.example:{broker.port}"
            async with network_to(address, **options) as network:
                await network.updated(5000)

    run(main())
    assert asked == [DEAD_IP, "127.0.0.1"]


class TestWorkOffTheLoop:
    def test_results_and_errors_come_back(self, run: Run) -> None:
        variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable")

        async def main() -> None:
            variable.set(7)
            assert await off_loop(variable.get) == 7
            with pytest.raises(KeyError):
                await off_loop(lambda: dict[str, int]()["no"])
            with pytest.raises(RuntimeError, match="StopIteration"):
                await off_loop(lambda: next(iter(())))

        run(main())

    def test_one_who_gives_up_does_not_wait_and_the_thread_ends_nothing(self, run: Run) -> None:
        release, ended = threading.Event(), threading.Event()

        def work() -> None:
            release.wait(20)
            ended.set()

        async def main() -> None:
            waiting = asyncio.create_task(off_loop(work))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

        run(main())
        release.set()
        assert ended.wait(5)
