"""A client of the control API, as small as a test in any language has one."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any, NamedTuple

ANSWER_SECONDS = 60


class Answer(NamedTuple):
    """The status of an answer, and its JSON."""

    status: int
    data: Any


def ask(url: str, method: str, path: str, body: object = None, raw: bytes | None = None) -> Answer:
    """Sends a request with an object or with bytes as its body."""
    data = raw if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{url}{path}", data=data, method=method)
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
            return Answer(answer.status, json.load(answer))
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, json.load(error))
