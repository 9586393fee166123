"""The HTTP application over a real broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

import ottla
from ottla.console.running import RunningConsole
from ottla.console.settings import ConsoleSettings
from ottla.doors.door import Door


@asynccontextmanager
async def running(servers: str, *, is_read_only: bool = False) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a console."""
    door = Door.read("console", "127.0.0.1:0")
    settings = ConsoleSettings({"bootstrap.servers": servers}, door, is_read_only=is_read_only)
    console = RunningConsole(settings)
    await console.start()
    try:
        async with httpx.AsyncClient(base_url=console.url, trust_env=False) as client:
            yield client
    finally:
        await console.stop()


def test_the_session_says_who_uses_the_console() -> None:
    async def ask(servers: str) -> None:
        async with running(servers) as client:
            found = (await client.get("/api/session")).json()
            assert (found["user"], found["role"]) == ("anonymous", "admin")

    with ottla.Broker() as broker:
        asyncio.run(ask(broker.bootstrap_servers))


def test_bad_requests_say_what_is_wrong() -> None:
    async def ask() -> None:
        async with running("127.0.0.1:1") as client:
            missing = await client.get("/api/nothing")
            assert missing.status_code == 404
            assert "there is no GET /api/nothing" in missing.json()["error"]
            unknown = await client.get("/api/session", params={"x": "1"})
            assert unknown.status_code == 400
            assert (await client.post("/api/session")).status_code == 405

    asyncio.run(ask())


def test_every_answer_has_the_headers_of_security() -> None:
    async def ask() -> None:
        async with running("127.0.0.1:1") as client:
            for path in ("/", "/api/session", "/api/nothing", "/topics/a.b"):
                answer = await client.get(path, headers={"accept": "text/html"})
                assert (
                    "default-src 'none'; script-src 'self'"
                    in answer.headers["content-security-policy"]
                ), path
                assert answer.headers["x-content-type-options"] == "nosniff", path

    asyncio.run(ask())


def test_the_page_is_at_the_root_for_whoever_asks() -> None:
    """Checks of health accept anything; elsewhere only browsers get the page, as what they lack is an error."""

    async def ask() -> None:
        async with running("127.0.0.1:1") as client:
            root = await client.get("/")
            assert (root.status_code, root.headers["content-type"]) == (
                200,
                "text/html; charset=utf-8",
            )
            assert (await client.get("/app/nothing.js")).status_code == 404

    asyncio.run(ask())


def test_the_live_stream_begins_with_the_state_of_the_cluster() -> None:
    async def ask(servers: str) -> None:
        async with (
            running(servers) as client,
            asyncio.timeout(20),
            client.stream("GET", "/api/live") as answer,
        ):
            async for line in answer.aiter_lines():
                if "connected" in line:
                    break

    with ottla.Broker() as broker:
        asyncio.run(ask(broker.bootstrap_servers))
