"""The keys that sign tokens: a JWKS (RFC 7517) of a file or an HTTP endpoint, fetched on a thread and kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from time import monotonic
from typing import Any, Final, NamedTuple
from urllib.error import URLError
from urllib.parse import urlsplit

from ottla.errors import ConfigError
from ottla.events import EventLog

logger = EventLog(__name__)

FETCH_SECONDS: Final = 10.0
MAX_BYTES: Final = 1 << 20
MAX_KEYS: Final = 1000
# A token with an unknown key makes the broker fetch the keys at once, but no more often than this.
MIN_INTERVAL_SECONDS: Final = 10.0

Jwk = Mapping[str, Any]


class KeySource(NamedTuple):
    """Where keys are, and how often they are fetched."""

    url: str
    refresh_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int

    @property
    def is_file(self) -> bool:
        return urlsplit(self.url).scheme == "file"

    def check(self) -> None:
        """Refuses a URL that is neither a file's nor a web server's."""
        if urlsplit(self.url).scheme not in ("file", "http", "https"):
            raise ConfigError(
                f"sasl.oauthbearer.jwks.endpoint.url={self.url}: give a URL that begins with "
                "https://, http:// or file://"
            )


def fetch(url: str) -> list[Jwk]:
    """Reads a JWKS; OSError or ValueError if that is not possible. It blocks."""
    # These take 3 MB, which brokers without tokens do not need.
    import urllib.request
    from http.client import HTTPException

    deadline = monotonic() + FETCH_SECONDS
    text = bytearray()
    try:
        with urllib.request.urlopen(url, timeout=FETCH_SECONDS) as response:
            while len(text) <= MAX_BYTES:
                piece = response.read1(MAX_BYTES)
                if not piece:
                    break
                text += piece
                # The timeout is that of one receive: a server that sends a byte now and then would hold up the start.
                if monotonic() >= deadline:
                    raise TimeoutError(f"it took more than {FETCH_SECONDS:.0f} s")
    except HTTPException as error:
        raise OSError(f"not an HTTP answer: {error!r}") from error
    if len(text) > MAX_BYTES:
        raise ValueError(f"more than {MAX_BYTES} bytes")
    try:
        found = json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    keys = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(keys, list):
        raise ValueError("not a JWKS: there is no list 'keys'")
    return [key for key in keys[:MAX_KEYS] if isinstance(key, dict)]


class TokenKeys:
    """The keys of one source; `run` keeps them fresh."""

    def __init__(self, source: KeySource, executor: Executor) -> None:
        self._source = source
        self._executor = executor
        self.keys: Sequence[Jwk] = ()
        self._asked = asyncio.Event()
        self._fetched_at = float("-inf")

    async def fetch_first(self) -> None:
        """Fetches the keys before the first login. A file has to be there; a server may come later."""
        self._source.check()
        try:
            await self._fetch()
        except (OSError, ValueError) as error:
            if self._source.is_file:
                raise ConfigError(
                    f"sasl.oauthbearer.jwks.endpoint.url={self._source.url} cannot be read: {_reason(error)}"
                ) from error
            self._log_failure(error)

    def ask_again(self) -> None:
        """A token names a key that is not known: it may be new."""
        self._asked.set()

    async def run(self) -> None:
        """Fetches the keys from time to time, and when `ask_again` was called."""
        backoff_seconds = 0.0
        while True:
            interval = backoff_seconds or self._source.refresh_ms / 1000
            try:
                await asyncio.wait_for(self._asked.wait(), interval)
            except TimeoutError:
                pass
            else:
                since = asyncio.get_running_loop().time() - self._fetched_at
                await asyncio.sleep(MIN_INTERVAL_SECONDS - since)
            self._asked.clear()
            try:
                await self._fetch()
                backoff_seconds = 0.0
            except (OSError, ValueError) as error:
                self._log_failure(error)
                backoff_seconds = min(
                    2 * backoff_seconds or self._source.retry_backoff_ms / 1000,
                    self._source.retry_backoff_max_ms / 1000,
                )

    async def _fetch(self) -> None:
        loop = asyncio.get_running_loop()
        self._fetched_at = loop.time()
        self.keys = await loop.run_in_executor(self._executor, fetch, self._source.url)

    def _log_failure(self, error: Exception) -> None:
        logger.warning(
            "token_keys_not_fetched",
            "the keys of %(url)s cannot be read: %(reason)s; tokens are checked with %(keys)d earlier ones",
            url=self._source.url,
            reason=_reason(error),
            keys=len(self.keys),
        )


def _reason(error: Exception) -> str:
    """What the libraries say, without the wrapping."""
    cause = getattr(error, "reason", None)
    if isinstance(error, URLError) and isinstance(cause, OSError):
        return cause.strerror or str(cause)
    if isinstance(error, json.JSONDecodeError):
        return f"it is not JSON ({error})"
    return str(error)
