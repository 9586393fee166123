"""The registry and the console of `ottla serve --workers`: clients of all workers that need none of their listeners."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.broker.workers.serving_workers import (
    WAIT_SECONDS,
    ServingWorkers,
    serving_workers,
    wait_until_gone,
)
from tests.waiting import in_time

START_SECONDS = 60.0


def ask(url: str, body: object = None) -> tuple[int, Any]:
    """The status and the answer; 0 if nobody answers."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except OSError as error:
        return 0, error


def becomes(condition: Callable[[], bool], broker: ServingWorkers) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not condition():
        in_time(deadline, broker.log)
        time.sleep(0.1)


def url_of(broker: ServingWorkers, event: str) -> str:
    becomes(lambda: bool(broker.told(event)), broker)
    found = re.search(r"http://[\d.:]+", broker.told(event)[-1]["message"])
    assert found is not None
    return found[0]


def is_registered(subject: str, schema: object) -> bool:
    """Whether the registry takes a schema; one that has just lost its broker may not."""
    return ask(subject, schema)[0] == 200


@pytest.mark.long
def test_a_registry_goes_on_whichever_worker_is_killed(tmp_path: Path) -> None:
    with serving_workers(tmp_path, 2, "--registry", "127.0.0.1:0") as broker:
        url = url_of(broker, "registry_started")
        for node_id in (1, 2):
            subject = f"{url}/subjects/s{node_id}/versions"
            schema = {"schema": json.dumps({"type": "fixed", "name": f"F{node_id}", "size": 1})}
            becomes(partial(is_registered, subject, schema), broker)
            broker.kill_worker(node_id)
            broker.wait_for("worker_started", count=2, node=node_id)
        becomes(lambda: ask(f"{url}/subjects") == (200, ["s1", "s2"]), broker)
        assert broker.stop() == 0


@pytest.mark.long
def test_a_console_shows_every_worker_and_ends_with_the_supervisor(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    with serving_workers(tmp_path, 2, "--console", "127.0.0.1:0") as broker:
        url = url_of(broker, "console_started")

        def shown() -> set[int]:
            return {row["id"] for row in ask(f"{url}/api/brokers")[1]["rows"]}

        becomes(lambda: shown() == {1, 2}, broker)
        addresses = {
            row["id"]: f"{row['host']}:{row['port']}"
            for row in ask(f"{url}/api/brokers")[1]["rows"]
        }
        assert addresses == broker.addresses()
        becomes(lambda: ask(f"{url}/api/broker/internals")[1]["version"] is not None, broker)
        cleaning = ask(f"{url}/api/broker/cleaning")[1]
        assert [each["node_id"] for each in cleaning["nodes"]] == [1, 2]
        broker.kill_worker(1)
        broker.wait_for("worker_started", count=2, node=1)
        becomes(lambda: ask(f"{url}/api/brokers")[0] == 200 and shown() == {1, 2}, broker)
        assert not broker.told("console_ended")
        children = broker.children()
        assert len(children) == 3  # two workers and the console
        broker.kill()
        wait_until_gone(*children)


@pytest.mark.long
def test_users_log_in_to_a_console_of_workers_with_their_passwords(tmp_path: Path) -> None:
    """Through connections that log in at whichever worker, as at any listener."""
    pytest.importorskip("uvicorn")
    listener = ("--listen", "SASL_PLAINTEXT://127.0.0.1:0", "--user", "ada:a-long-password")
    with serving_workers(tmp_path, 2, *listener, "--console", "127.0.0.1:0") as broker:
        url = url_of(broker, "console_started")
        assert ask(f"{url}/api/brokers")[0] == 401
        wrong = {"user": "ada", "password": "a-wrong-password"}
        assert ask(f"{url}/api/login", wrong)[0] == 401
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        form = json.dumps({"user": "ada", "password": "a-long-password"}).encode()
        headers = {"Content-Type": "application/json"}
        login = urllib.request.Request(f"{url}/api/login", form, headers)
        with opener.open(login, timeout=WAIT_SECONDS) as response:
            assert json.loads(response.read())["user"] == "ada"
        with opener.open(f"{url}/api/brokers", timeout=WAIT_SECONDS) as response:
            assert {row["id"] for row in json.loads(response.read())["rows"]} == {1, 2}
        assert broker.stop() == 0
