"""A console's process that is not well: what the broker does about it. The processes here are scripts."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import httpx
import pytest
from tests.console.serve.console_broker import is_there, wait_for_end
from tests.waiting import in_time

from ottla import in_process
from ottla.broker.console import console_process, supervisor
from ottla.broker.console.broker_console import BrokerConsole
from ottla.broker.console.console_servers import ConsoleServers
from ottla.broker.console.supervisor import ConsoleSupervisor
from ottla.doors.door import Door
from ottla.errors import ConfigError, OttlaError

SECONDS: Final = 20.0
# What every console does: it takes its settings, and says that it can be opened.
BEGIN: Final = """
import json, os, socket, sys, threading, time
settings = json.load(sys.stdin)
def say(*parts): os.write(1, json.dumps(parts).encode() + b"\\n")
"""
READY: Final = BEGIN + "say('ready', '')\n"
WELL: Final = READY + "while True: say('alive', ''); time.sleep(0.01)\n"


@asynccontextmanager
async def supervised() -> AsyncIterator[ConsoleSupervisor]:
    """A console whose server of the broker answers nothing."""
    host = in_process.serve(lambda accepted: accepted.close())
    servers = ConsoleServers(f"{host}:1", host, None, (), {})
    console = BrokerConsole(Door.read("console", "127.0.0.1:0"))
    found = ConsoleSupervisor(console, lambda: servers, None)
    try:
        yield found
    finally:
        await found.stop()
        in_process.withdraw(host)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("START_SECONDS", "HANG_SECONDS", "STOP_SECONDS"):
        monkeypatch.setattr(console_process, name, 0.5)
    monkeypatch.setattr(console_process, "ALIVE_SECONDS", 0.05)
    monkeypatch.setattr(supervisor, "FIRST_PAUSE_SECONDS", 0.02)


def runs(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    monkeypatch.setattr(console_process, "COMMAND", (sys.executable, "-S", "-c", script))


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("import sys; sys.exit(3)", "the console did not start: it ended with code 3"),
        (
            "import os; os.kill(os.getpid(), 9)",
            "the console did not start: it was ended by SIGKILL",
        ),
        (f"{BEGIN}time.sleep(60)", "the console did not start: it did not answer for 0 seconds"),
        (f"{BEGIN}print('hello', flush=True)", "the console did not start: it said what no"),
        (f"{BEGIN}say('failed', 'no memory')", "no memory"),
        (
            f"{BEGIN}socket.socket(fileno=settings['channel']).send(b'?' * 40); time.sleep(60)",
            "the console did not start: it was killed: a request names no server",
        ),
    ],
)
def test_what_fails_at_the_first_start_is_an_error_of_the_broker(
    monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    runs(monkeypatch, script)

    async def start() -> None:
        async with supervised() as console:
            await console.start()

    with pytest.raises(OttlaError, match=reason):
        asyncio.run(start())


def test_what_is_wrong_with_the_settings_is_an_error_of_options(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs(monkeypatch, f"{BEGIN}say('refused', 'no such file')")

    async def start() -> None:
        async with supervised() as console:
            await console.start()

    with pytest.raises(ConfigError, match="no such file"):
        asyncio.run(start())


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (f"{READY}time.sleep(60)", "it did not answer for 0 seconds"),
        (f"{READY}sys.exit(0)", "it ended with code 0"),
        (f"{READY}os.write(1, b'x' * 200_000); time.sleep(60)", "it said too much"),
        (f"{READY}os.close(1); time.sleep(60)", "it was ended by SIGKILL"),
    ],
)
def test_what_ends_or_hangs_later_is_started_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, script: str, reason: str
) -> None:
    runs(monkeypatch, script)

    async def watch() -> None:
        async with supervised() as console:
            await console.start()
            first = console.pid
            assert first is not None
            runs(monkeypatch, WELL)
            deadline = asyncio.get_running_loop().time() + SECONDS
            while console.pid == first:
                in_time(deadline, "another process")
                await asyncio.sleep(0.01)
            wait_for_end(first, 1)

    with caplog.at_level(logging.INFO):
        asyncio.run(watch())
    (ended,) = [each for each in caplog.records if getattr(each, "event", "") == "console_ended"]
    assert reason in ended.getMessage()


def test_pauses_between_starts_double(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    runs(monkeypatch, f"{READY}sys.exit(0)")

    def pauses() -> list[float]:
        fields = [
            each.args for each in caplog.records if each.__dict__.get("event") == "console_ended"
        ]
        return [each["seconds"] for each in fields if isinstance(each, dict)]

    async def watch() -> None:
        async with supervised() as console:
            await console.start()
            deadline = asyncio.get_running_loop().time() + SECONDS
            while len(pauses()) < 3:
                in_time(deadline, "three ends")
                await asyncio.sleep(0.01)

    with caplog.at_level(logging.INFO):
        asyncio.run(watch())
    assert pauses()[:3] == [0.02, 0.04, 0.08]


def test_a_process_that_ignores_signals_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    runs(monkeypatch, f"import signal\nsignal.signal(15, signal.SIG_IGN)\n{WELL}")

    async def stop() -> int:
        async with supervised() as console:
            await console.start()
            pid = console.pid
            assert pid is not None
            return pid

    assert not is_there(asyncio.run(stop()))


def test_a_console_whose_loop_is_busy_ends_with_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    # The real program, whose console never gives up its loop.
    script = """
import sys
from ottla.cli.console import child
async def busy(settings, out):
    child.os.write(out, child.message(child.READY))
    while True: pass
child._serve = busy
sys.exit(child.main())
"""
    monkeypatch.setattr(console_process, "START_SECONDS", SECONDS)
    monkeypatch.setattr(console_process, "HANG_SECONDS", SECONDS)
    monkeypatch.setattr(console_process, "COMMAND", (sys.executable, "-c", script))

    async def die() -> None:
        async with supervised() as console:
            await console.start()
            pid, channel = console.pid, console._channel
            assert pid is not None
            assert channel is not None
            channel.close()  # as the system does for a process that was killed
            await asyncio.to_thread(wait_for_end, pid, SECONDS)

    asyncio.run(die())


def test_browsers_wait_while_the_console_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    runs(monkeypatch, f"{READY}sys.exit(0)")
    answering = (
        READY
        + """
listening = socket.socket(fileno=settings["listening"])
def serve():
    while True:
        connection, _ = listening.accept()
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\\r\\ncontent-length: 4\\r\\nconnection: close\\r\\n\\r\\nwell")
threading.Thread(target=serve, daemon=True).start()
while True: say("alive", ""); time.sleep(0.01)
"""
    )

    async def ask() -> str:
        async with supervised() as console:
            await console.start()
            runs(monkeypatch, answering)
            async with httpx.AsyncClient(trust_env=False, timeout=SECONDS) as browser:
                return (await browser.get(console.door.url)).text

    assert asyncio.run(ask()) == "well"
