"""`ottla.Broker(console=…)`: users with their passwords and rights, nodes that come and go, and what is refused."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.console.users import OPERATOR, VIEWER, user
from tests.waiting import in_time

import ottla
from ottla.cli.console.registry_access import with_key
from ottla.doors.door import Door
from ottla.errors import ConfigError, IllegalStateError
from ottla.schemas.client.blocking import SchemaRegistryClient
from ottla.schemas.errors import RegistryAccessError
from ottla.testing import Broker

SECONDS = 30


def browser_of(broker: ottla.Broker) -> httpx.Client:
    return httpx.Client(base_url=broker.console_url, trust_env=False, timeout=SECONDS)


def log_in(browser: httpx.Client, form: dict[str, str]) -> Any:
    answer = browser.post("/api/login", json=form)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_users_log_in_with_their_passwords_and_have_the_rights_of_the_cluster() -> None:
    with ottla.Broker(security="scram", console="127.0.0.1:0", console_read_only=True) as broker:
        viewer = user(broker, "vera", *VIEWER)
        operator = user(broker, "olga", *OPERATOR)
        with browser_of(broker) as browser:
            assert browser.get("/api/transactions").status_code == 401
            found = log_in(browser, viewer)
            assert (found["user"], found["role"], found["is_read_only"]) == ("vera", "viewer", True)
            # The console is read-only for all.
            assert log_in(browser, operator)["role"] == "viewer"
            wrong = browser.post("/api/login", json={**viewer, "password": "guess"})
            assert wrong.status_code == 401
            # What is guessed in the console blocks no client of the broker.
            with ottla.Admin(broker.client_options("vera")) as admin:
                admin.describe_cluster()


def test_a_broker_for_tests_has_its_console_again_after_a_restart() -> None:
    with Broker(nodes=2, console="127.0.0.1:0") as broker:
        url = broker.console_url
        broker.kill_node(1)
        broker.start_node(1)
        broker.kill()
        deadline = time.monotonic() + SECONDS
        while True:
            in_time(deadline, "the end of the console")
            try:
                httpx.get(url, trust_env=False)
            except httpx.TransportError:
                break
        broker.restart()
        assert broker.console_url == url
        with browser_of(broker) as browser:
            assert browser.get("/api/session").json()["role"] == "admin"


def test_the_console_has_a_key_for_the_registry_of_its_broker(tmp_path: Path) -> None:
    login = tmp_path / "login.txt"
    login.write_text("alice:open:sesame\n")
    door, key = with_key(Door.read("--registry", "127.0.0.1:0", login=login))
    with (
        ottla.Broker() as broker,
        ottla.SchemaRegistry(bootstrap_servers=broker.bootstrap_servers, listen=door) as registry,
    ):
        access = key.access(registry)
        with SchemaRegistryClient({"schema.registry.url": access.url, **access.options}) as client:
            assert client.get_subjects() == []
        with (
            SchemaRegistryClient({"schema.registry.url": access.url}) as client,
            pytest.raises(RegistryAccessError),
        ):
            client.get_subjects()
    assert "open:sesame" not in repr((door, access))


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"console": "0.0.0.0:0"}, "anybody who reaches it could read and change everything"),
        ({"console": "127.0.0.1:0", "security": "mtls"}, "clients of this broker need one"),
        ({"console_read_only": True}, 'have no effect without console="HOST:PORT"'),
    ],
)
def test_what_is_not_safe_or_has_no_effect_is_refused(
    keywords: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        ottla.Broker(**keywords)


def test_a_package_that_is_missing_is_named_with_what_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "starlette", None)
    with pytest.raises(ConfigError, match=r"\(starlette\): pip install 'ottla\[console\]'"):
        ottla.Broker(console="127.0.0.1:0")


def test_a_broker_without_a_console_says_how_to_have_one() -> None:
    with (
        ottla.Broker() as broker,
        pytest.raises(IllegalStateError, match='make the broker with console="HOST:PORT"'),
    ):
        _ = broker.console_url
