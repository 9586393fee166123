"""`ottla serve --console`: the console is a process of its own, which does the broker no harm and ends with it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.broker.processes import ServeProcess
from tests.console.serve.console_broker import (
    CONSOLE_AT,
    ConsoleBroker,
    stop_process,
    wait_for_end,
)

import ottla
from ottla.broker.security.development_certificates import make_ca, make_server
from ottla.cli.main import main

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
TOKEN = "a-token-of-thirty-two-characters"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ConsoleBroker]:
    found = ConsoleBroker(tmp_path)
    yield found
    found.kill()


def test_a_killed_console_is_started_again_on_its_port_and_the_broker_goes_on(
    broker: ConsoleBroker,
) -> None:
    broker.start_with_console()
    assert broker.get("/api/session").json()["has_internals"]
    assert broker.log.count(CONSOLE_AT + broker.url) == 1
    killed = broker.console_pid()
    with ottla.Producer(bootstrap_servers=broker.address) as producer:
        producer.send("orders", b"before").result(30)
        os.kill(killed, signal.SIGKILL)
        producer.send("orders", b"after").result(30)
    # A browser that asks meanwhile waits, as the broker keeps the port.
    assert broker.get("/api/session").status_code == 200
    assert broker.next_console_pid(killed) != killed
    assert "the console has ended, and is started again in 1 s" in broker.log
    assert "SIGKILL" in broker.log
    assert broker.stop() == 0


def test_a_stop_is_quick_and_ends_the_console_with_its_streams(broker: ConsoleBroker) -> None:
    broker.start_with_console()
    console = broker.console_pid()
    with (
        httpx.Client(base_url=broker.url, trust_env=False, timeout=30) as browser,
        browser.stream("GET", "/api/live") as live,
    ):
        assert live.status_code == 200
        began = time.monotonic()
        assert broker.stop() == 0
        assert time.monotonic() - began < 6
        live.read()  # it ends in order
    wait_for_end(console, 0.1)
    assert "console_failed" not in broker.log
    assert not re.search(r"WARNING|ERROR|Traceback", broker.log), broker.log


def test_a_console_ends_when_the_broker_is_killed_and_frees_its_port(
    broker: ConsoleBroker,
) -> None:
    broker.start_with_console()
    console = broker.console_pid()
    broker.kill()
    wait_for_end(console, 2)
    broker.start_with_console(console=broker.url.removeprefix("http://"))
    assert broker.get("/").status_code == 200
    assert broker.stop() == 0


def test_a_console_that_hangs_does_not_keep_the_broker(broker: ConsoleBroker) -> None:
    broker.start_with_console()
    console = broker.console_pid()
    stop_process(console)
    with ottla.Admin(bootstrap_servers=broker.address) as admin:
        admin.list_topics()
    began = time.monotonic()
    assert broker.stop() == 0
    assert time.monotonic() - began < 8
    wait_for_end(console, 0.1)


def test_ctrl_c_in_a_terminal_reaches_the_broker_alone(broker: ConsoleBroker) -> None:
    broker.start_with_console("--log-format", "json")
    console = broker.console_pid()
    assert os.getpgid(console) != os.getpgid(broker.pid)
    os.kill(console, signal.SIGTERM)  # an operator ends the console: it comes back
    broker.next_console_pid(console)
    broker.signal(signal.SIGINT)
    assert broker.wait() == 0
    events = [json.loads(line) for line in broker.log.splitlines()]
    ended = next(each for each in events if each["event"] == "console_ended")
    assert (ended["level"], ended["reason"]) == ("warning", "it ended with code 0")


def test_tls_a_token_and_the_registry_behind_its_login(
    broker: ConsoleBroker, tmp_path: Path
) -> None:
    make_ca(tmp_path, days=2)
    certificate = make_server(tmp_path, ["127.0.0.1", "localhost"], days=2).path
    tokens, login = tmp_path / "tokens.txt", tmp_path / "login.txt"
    tokens.write_text(f"viewer {TOKEN} grafana\n")
    login.write_text("alice:open:sesame\n")
    broker.start_with_console(
        *("--console-login", str(tokens), "--certificate", str(certificate)),
        *("--registry", "https://127.0.0.1:0", "--registry-login", str(login)),
        console="https://127.0.0.1:0",
    )
    assert broker.url.startswith("https://")
    trust = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    assert broker.get("/api/session", verify=trust).json()["logins"] == ["token"]
    assert broker.get("/api/transactions", verify=trust).status_code == 401
    bearer = {"authorization": f"Bearer {TOKEN}"}
    answer = broker.get("/api/session", verify=trust, headers=bearer).json()
    assert (answer["user"], answer["role"], answer["has_registry"]) == ("grafana", "viewer", True)
    assert broker.stop() == 0


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ["--console", "0.0.0.0:0"],
            "--console 0.0.0.0:0: anybody who reaches it could read and change everything: give it a login "
            "(--console-login FILE, or a listener with SASL), or listen on 127.0.0.1, or say --console-open if that "
            "is meant",
        ),
        (
            ["--console", "127.0.0.1:0", "--set", f"authorizer.class.name={AUTHORIZER}"],
            "--console 127.0.0.1:0: it would have no login, but clients of this broker need one: give it tokens "
            "(--console-login FILE), or a listener where users have passwords, or say --console-open if that is meant",
        ),
        (["--console-read-only"], "--console-read-only has no effect without --console HOST:PORT"),
        (
            ["--console", "127.0.0.1:0", "--console-login", "/nowhere/tokens"],
            "/nowhere/tokens cannot be read: No such file or directory",
        ),
    ],
)
def test_what_would_not_be_safe_or_has_no_effect_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], line: str
) -> None:
    assert main(["serve", "--listen", "127.0.0.1:0", "--ephemeral", *arguments]) == 2
    assert capsys.readouterr().err == f"ottla: {line}\n"


def test_a_port_that_is_taken_is_told_before_there_is_a_folder(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        process = ServeProcess(tmp_path)
        listen = ["--listen", "127.0.0.1:0", "--data", str(process.data)]
        code, log = process.run_to_end(*listen, "--console", address)
    assert code == 1
    assert log == (
        f"ottla: cannot listen on {address}: Address already in use: is a broker running there already? "
        "--console HOST:PORT chooses another port, 0 a free one\n"
    )
    assert not process.data.exists()
