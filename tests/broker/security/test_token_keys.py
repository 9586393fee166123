"""Where the keys of tokens come from, and what becomes of a source that fails."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from ottla.broker.security import token_keys
from ottla.broker.security.token_keys import KeySource, TokenKeys, fetch
from ottla.errors import ConfigError

KEYS = [{"kty": "oct", "kid": "a", "k": "AAAA"}]


class Issuer:
    """An HTTP server with a JWKS."""

    def __init__(self) -> None:
        self.body = json.dumps({"keys": KEYS}).encode()
        self.status = 200
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(issuer.status)
                self.send_header("Content-Length", str(len(issuer.body)))
                self.end_headers()
                self.wfile.write(issuer.body)

            def log_message(self, format: str, *args: object) -> None:
                """Says nothing."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/jwks"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    made = Issuer()
    yield made
    made.stop()


def source(url: str) -> KeySource:
    return KeySource(url, refresh_ms=3_600_000, retry_backoff_ms=1, retry_backoff_max_ms=2)


def test_keys_are_fetched_by_http(issuer: Issuer) -> None:
    assert fetch(issuer.url) == KEYS


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b'{"keys": 1}',
        b"[" * 100_000,
        b"x" * (token_keys.MAX_BYTES + 1),
    ],
)
def test_what_is_no_jwks_is_refused(issuer: Issuer, body: bytes) -> None:
    issuer.body = body
    with pytest.raises(ValueError, match=r"JWKS|bytes|Expecting|nested"):
        fetch(issuer.url)


def test_what_is_no_key_is_left_out(issuer: Issuer) -> None:
    issuer.body = json.dumps({"keys": [1, None, *KEYS, "x"]}).encode()
    assert fetch(issuer.url) == KEYS


def test_keys_stay_in_use_while_the_issuer_fails_and_are_fetched_again(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "ottla")

    async def run() -> None:
        with ThreadPoolExecutor(1) as executor:
            keys = TokenKeys(source(issuer.url), executor)
            await keys.fetch_first()
            assert list(keys.keys) == KEYS
            issuer.status = 500
            await keys.fetch_first()
            assert list(keys.keys) == KEYS
            issuer.status = 200
            issuer.body = b'{"keys": []}'
            task = asyncio.create_task(keys.run())
            keys._fetched_at = float("-inf")
            keys.ask_again()
            async with asyncio.timeout(10):
                while keys.keys:
                    await asyncio.sleep(0.001)
            task.cancel()

    asyncio.run(run())
    assert "cannot be read" in caplog.text


def test_a_file_has_to_be_there_when_the_broker_starts(tmp_path: Path) -> None:
    async def start(url: str) -> None:
        with ThreadPoolExecutor(1) as executor:
            await TokenKeys(source(url), executor).fetch_first()

    missing = (tmp_path / "missing.json").as_uri()
    with pytest.raises(ConfigError, match=r"sasl.oauthbearer.jwks.endpoint.url=.*cannot be read"):
        asyncio.run(start(missing))
    for url in ("ftp://h/x", "missing.json", "data:text/plain,{}"):
        with pytest.raises(ConfigError, match="begins with"):
            asyncio.run(start(url))
    # A server may come later.
    asyncio.run(start("http://127.0.0.1:9/jwks"))
