"""A broker for most tests, connections to it, and names of topics that nobody else uses."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.broker.group_requests import find_coordinator
from tests.broker.processes import ServeProcess
from tests.lasting import LASTING

import ottla
from ottla.client.raw import RawConnection

Starter = Callable[..., ottla.Broker]


@pytest.fixture(scope="session")
def broker() -> Iterator[ottla.Broker]:
    """The broker of tests that need no options of their own."""
    with ottla.Broker(LASTING) as running:
        yield running


@pytest.fixture
def connection(broker: ottla.Broker) -> Iterator[RawConnection]:
    with RawConnection(broker.bootstrap_servers) as connected:
        yield connected


@pytest.fixture
def topic() -> str:
    """A name that no other test uses."""
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def group(connection: RawConnection) -> str:
    """The name of a group that no other test uses, on a broker that coordinates groups."""
    name = f"g-{uuid.uuid4().hex[:12]}"
    find_coordinator(connection, name)
    return name


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starter]:
    """Starts brokers that keep their data in the test's folder, and stops what is left of them."""
    started: list[ottla.Broker] = []

    def begin(**options: Any) -> ottla.Broker:
        options.setdefault("data_dir", tmp_path / "data")
        made = ottla.Broker(**options).start()
        started.append(made)
        return made

    yield begin
    for each in started:
        each.stop()


@pytest.fixture(params=["uvloop", "asyncio"])
def event_loop_kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Makes the brokers of a test run on uvloop, and then on the standard loop."""
    kind = str(request.param)
    if kind == "uvloop":
        pytest.importorskip("uvloop")
    else:
        monkeypatch.setitem(sys.modules, "uvloop", None)
    return kind


@pytest.fixture
def serve_process(tmp_path: Path) -> Iterator[ServeProcess]:
    """`ottla serve` over the test's folder, not started yet."""
    process = ServeProcess(tmp_path)
    yield process
    process.kill()
