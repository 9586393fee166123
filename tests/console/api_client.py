"""The JSON API of a console, asked in a line each."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import httpx
from tests.console.openapi.documented_answers import check_answer
from tests.waiting import in_time

T = TypeVar("T")

SOON_SECONDS = 30.0


class ApiClient:
    """Like a browser that looks at the console: it has the token of its session, and listens to what happens.

    Every good answer has to be as the OpenAPI document says.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.Client(base_url=url, trust_env=False, timeout=30)
        self._http.headers["x-csrf-token"] = self.get("/api/session").get("token") or ""

    def get(self, path: str, **query: Any) -> Any:
        """The answer, which has to be a good one."""
        answer = self._http.get(path, params=query)
        assert answer.status_code == 200, (answer.status_code, answer.text)
        check_answer("GET", path, answer.json())
        return answer.json()

    def post(self, path: str, **body: Any) -> Any:
        """The answer to a change, which has to be a good one."""
        answer = self._http.post(path, json=body)
        assert answer.status_code == 200, (answer.status_code, answer.text)
        check_answer("POST", path, answer.json())
        return answer.json()

    def refused(self, method: str, path: str, **given: Any) -> tuple[int, str]:
        """The status and the text of an answer that is no good one; `given` is the query of GET, else the body."""
        query, body = (given, None) if method == "GET" else (None, given)
        answer = self._http.request(method, path, params=query, json=body)
        assert answer.status_code >= 400, answer.text
        found = answer.json()
        return answer.status_code, f"{found['error']} ({found['advice']})"

    def soon(self, path: str, check: Callable[[Any], T | None], **query: Any) -> T:
        """What `check` finds in the answer, as soon as it finds anything."""
        deadline = time.monotonic() + SOON_SECONDS
        while True:
            answer = self.get(path, **query)
            found = check(answer)
            if found:
                return found
            in_time(deadline, f"{path} {query}: {answer}")
            time.sleep(0.1)

    def close(self) -> None:
        self._http.close()


@contextmanager
def looking(url: str) -> Iterator[ApiClient]:
    """A client whose live stream is open, so that the console polls often."""
    client = ApiClient(url)
    is_over = threading.Event()

    def listen() -> None:
        with (
            httpx.Client(base_url=url, trust_env=False, timeout=60) as http,
            http.stream("GET", "/api/live") as answer,
        ):
            for _ in answer.iter_lines():
                if is_over.is_set():
                    return

    # It ends with the stream, which ends with the console.
    thread = threading.Thread(target=listen, daemon=True, name="live stream")
    thread.start()
    try:
        yield client
    finally:
        is_over.set()
        client.close()
