"""The web applications of examples/web, through real HTTP."""

from __future__ import annotations

import importlib.util
import json
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest
import uvicorn
from prometheus_client.parser import text_string_to_metric_families
from tests.waiting import in_time

from ottla.testing import Broker

EXAMPLES = Path(__file__).parents[2] / "examples" / "web"


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    with Broker(group_initial_rebalance_delay_ms=0) as running:
        monkeypatch.setenv("BOOTSTRAP_SERVERS", running.bootstrap_servers)
        yield running


@contextmanager
def imported(name: str) -> Iterator[ModuleType]:
    """The module of an example, imported anew."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules[name]


class SilentHandler(WSGIRequestHandler):
    """Logs nothing."""

    def log_message(self, format: str, *arguments: Any) -> None: ...


@contextmanager
def served_by_wsgiref(web: Any) -> Iterator[str]:
    with make_server("127.0.0.1", 0, web, handler_class=SilentHandler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def served_by_uvicorn(web: Any) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(web, log_config=None, lifespan="on", ws="none"))
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def ask(url: str, body: object = None) -> tuple[int, bytes]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def check_orders_are_billed(base: str) -> None:
    for number in (1, 2, 3):
        status, body = ask(f"{base}/orders", {"number": number, "amount": 10.0 * number})
        assert status == 202, body
        assert json.loads(body)["offset"] >= 0
    deadline = time.monotonic() + 20
    while len(found := json.loads(ask(f"{base}/invoices")[1])) < 3:
        in_time(deadline, found)
        time.sleep(0.02)
    assert sorted((each["order"], each["total"]) for each in found) == [
        (1, 12.0),
        (2, 24.0),
        (3, 36.0),
    ]


def test_fastapi_sends_listens_and_tells_its_health(broker: Broker) -> None:
    with imported("fastapi_shop") as module, served_by_uvicorn(module.web) as base:
        check_orders_are_billed(base)
        deadline = time.monotonic() + 20
        while (ready := ask(f"{base}/kafka/readyz"))[0] != 200:
            in_time(deadline, ready)
            time.sleep(0.05)
        assert json.loads(ask(f"{base}/kafka/healthz")[1])["status"] == "ok"
        families = {
            each.name: each
            for each in text_string_to_metric_families(ask(f"{base}/kafka/metrics")[1].decode())
        }
        done = [
            sample.value
            for sample in families["ottla_app_records"].samples
            if sample.labels["listener"] == "bill"
        ]
        assert done == [3]
    assert not module.shop.is_running, "the lifespan has drained it"


@pytest.mark.parametrize("name", ["flask_shop", "django_shop"])
def test_wsgi_applications_send_from_their_threads(broker: Broker, name: str) -> None:
    with imported(name) as module:
        with module.shop.blocking, served_by_wsgiref(module.web) as base:
            check_orders_are_billed(base)
        assert not module.shop.is_running
