"""Requests of those who want more than they may have: what they say of themselves, and what they keep open."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from starlette.datastructures import Headers
from tests.console.running_console import log_in, running_console
from tests.console.users import VIEWER, user

import ottla
from ottla.console.access import access
from ottla.console.access.identity import ANONYMOUS, Identity
from ottla.console.access.request_checks import RequestChecks
from ottla.console.access.roles import Role
from ottla.console.access.visit import Visit
from ottla.console.clients import NoClients
from ottla.console.http import answers
from ottla.console.http.errors import ApiError
from ottla.console.http.streams import MAX_STREAMS, MAX_STREAMS_OF_USER, OpenStreams
from ottla.doors.door import Door

TOKEN = "a-token-of-thirty-two-characters"
SECONDS = 20


def lines(*given: tuple[str, str]) -> Headers:
    return Headers(raw=[(name.encode(), value.encode()) for name, value in given])


def test_only_the_line_that_the_nearest_proxy_added_counts() -> None:
    checks = RequestChecks(Door.read("--listen", "127.0.0.1:0"), (), trusts_proxy=True)
    # HAProxy adds a line of its own behind that of the client.
    spoofed = lines(("x-forwarded-for", "10.0.0.1"), ("x-forwarded-for", "192.0.2.7"))
    assert checks.address_of(spoofed, "127.0.0.1") == "192.0.2.7"
    rebound = lines(
        ("host", "evil.example"),
        ("x-forwarded-host", "localhost"),
        ("x-forwarded-host", "evil.example"),
    )
    assert checks.host_problem(rebound) is not None


def test_a_request_for_two_hosts_is_refused() -> None:
    checks = RequestChecks(Door.read("--listen", "127.0.0.1:0"), (), trusts_proxy=False)
    assert checks.host_problem(lines(("host", "localhost"))) is None
    assert checks.host_problem(lines(("host", "localhost"), ("host", "evil.example"))) is not None


def visit_of(name: str, address: str = "192.0.2.1") -> Visit:
    return Visit(address, Identity(name, Role.VIEWER, NoClients()))


def test_no_user_takes_the_places_of_all_streams() -> None:
    streams = OpenStreams()
    assert 3 * MAX_STREAMS_OF_USER < MAX_STREAMS
    with ExitStack() as opened:
        for name, address in (("anna", ""), (ANONYMOUS, "192.0.2.1"), (ANONYMOUS, "192.0.2.2")):
            for _ in range(MAX_STREAMS_OF_USER):
                streams.check(visit_of(name, address))
                opened.enter_context(streams.place(visit_of(name, address)))
            with pytest.raises(ApiError, match="you have too many"):
                streams.check(visit_of(name, address))
        streams.check(visit_of("bert"))
    streams.check(visit_of("anna"))


def test_streams_of_a_token_end_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "CHECK_SECONDS", 0.05)
    file = tmp_path / "tokens"
    file.write_text(f"viewer {TOKEN} tool\nviewer {TOKEN}2 other\n")

    async def ask(servers: str) -> None:
        async with (
            running_console(servers, token_file=file) as console,
            console.browser(headers={"authorization": f"Bearer {TOKEN}"}) as browser,
            asyncio.timeout(SECONDS),
            browser.stream("GET", "/api/live") as answer,
        ):
            assert answer.status_code == 200
            event = ""
            async for line in answer.aiter_lines():
                if line.startswith("event: snapshot"):
                    file.write_text(f"viewer {TOKEN}2 other\n# gone\n")
                if line.startswith("event: "):
                    event = line
                if event == "event: session_ended" and line.startswith("data: "):
                    assert "not valid any more" in json.loads(line.removeprefix("data: "))["reason"]
                    return
            raise AssertionError("the stream ended without a reason")

    with ottla.Broker() as broker:
        asyncio.run(ask(broker.bootstrap_servers))


def test_logins_that_have_failed_take_no_place_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "MAX_LOGINS", 1)
    file = tmp_path / "tokens"
    file.write_text(f"viewer {TOKEN} tool\n")

    async def ask(broker: ottla.Broker) -> None:
        form = user(broker, "anna", *VIEWER)
        options = broker.client_options()
        async with (
            running_console(options, login_options=options, token_file=file) as console,
            console.browser() as guesser,
            console.browser() as browser,
        ):
            for _ in range(3):
                console.console.access.limits.failed("127.0.0.1", None)
            wrong = {"user": "nobody", "password": "wrong"}
            limits, noted = console.console.access.limits, asyncio.Event()
            note_failure = limits.failed

            def note(address: str, name: str | None) -> float:
                noted.set()
                return note_failure(address, name)

            monkeypatch.setattr(limits, "failed", note)
            guess = asyncio.create_task(guesser.post("/api/login", json=wrong))
            async with asyncio.timeout(SECONDS):
                await noted.wait()
            # The guess waits for its answer.
            token = {"authorization": f"Bearer {TOKEN}"}
            assert (await browser.get("/api/overview", headers=token)).status_code == 200
            assert (await log_in(browser, **form))["user"] == "anna"
            assert not guess.done()
            guess.cancel()
            await asyncio.gather(guess, return_exceptions=True)

    with ottla.Broker(security="scram") as broker:
        asyncio.run(ask(broker))


def test_numbers_of_any_length_are_bad_requests() -> None:
    async def ask(servers: str) -> None:
        async with running_console(servers) as console, console.browser() as browser:
            number = "9" * 5_000
            for path in (
                f"/api/topics/t/records/0/{number}",
                f"/api/topics/t/records/{number}/0",
                f"/api/topics/t/records/search?cursor=0:{number[:4000]}",
            ):
                answer: httpx.Response = await browser.get(path)
                assert 400 <= answer.status_code < 500, (path[:60], answer.text)

    with ottla.Broker() as broker:
        asyncio.run(ask(broker.bootstrap_servers))
