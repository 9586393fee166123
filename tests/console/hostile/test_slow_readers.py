"""Clients that ask for much and read nothing."""

from __future__ import annotations

import asyncio
import socket
from urllib.parse import urlsplit

import pytest
from tests.console.running_console import ConsoleUnderTest, running_console
from tests.waiting import in_time

import ottla
from ottla.admin import NewTopic
from ottla.doors import asgi_server

SECONDS = 20


def open_streams(console: ConsoleUnderTest) -> int:
    return console.console.streams._count


async def connected(url: str, path: str) -> socket.socket:
    """A connection that has sent a request, and is never read."""
    address = urlsplit(url)
    assert address.hostname is not None
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(connection, (address.hostname, address.port))
    await loop.sock_sendall(
        connection, f"GET {path} HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n".encode()
    )
    return connection


def test_a_download_that_nobody_reads_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi_server, "STALLED_SECONDS", 0.3)

    async def ask(servers: str) -> None:
        async with running_console(servers) as console:
            connection = await connected(console.url, "/api/topics/large/records/export")
            try:
                deadline = asyncio.get_running_loop().time() + SECONDS
                while not open_streams(console):
                    in_time(deadline, "the download has begun")
                    await asyncio.sleep(0.01)
                while open_streams(console):
                    in_time(deadline, "the download was given up")
                    await asyncio.sleep(0.01)
            finally:
                connection.close()

    with ottla.Broker() as broker, ottla.Admin(broker.client_options()) as admin:
        admin.create_topics([NewTopic("large", 1)])
        with ottla.Producer(broker.client_options()) as producer:
            for each in [producer.send("large", b"x" * 500_000) for _ in range(60)]:
                each.result(SECONDS)
        asyncio.run(ask(broker.bootstrap_servers))
