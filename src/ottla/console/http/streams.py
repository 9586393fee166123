"""How many streams and downloads are open at a time: each holds a connection, and perhaps a client of the cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final

from ottla.console.access.identity import ANONYMOUS
from ottla.console.access.sessions import MAX_STREAMS_OF_SESSION
from ottla.console.access.visit import Visit
from ottla.console.http.errors import ApiError

MAX_STREAMS: Final = 200
# Of a user in all sessions, and of an address where nobody logs in: no one takes the places of all.
MAX_STREAMS_OF_USER: Final = 60


class OpenStreams:
    """Counts them by session, by user and in all."""

    def __init__(self) -> None:
        self._count = 0
        self._of_user: Counter[tuple[str, str]] = Counter()

    def check(self, visit: Visit) -> None:
        """Raises ApiError where one more would be too many."""
        session = visit.session
        if session is not None and session.stream_count >= MAX_STREAMS_OF_SESSION:
            raise _too_many("you have too many windows with live data: close some")
        if self._of_user[_user_of(visit)] >= MAX_STREAMS_OF_USER:
            raise _too_many("you have too many windows with live data, in all browsers: close some")
        if self._count >= MAX_STREAMS:
            raise _too_many("too many browsers have windows with live data")

    @contextmanager
    def place(self, visit: Visit) -> Iterator[None]:
        """Counts one as long as it is open."""
        user = _user_of(visit)
        self._count += 1
        self._of_user[user] += 1
        session = visit.session
        if session is not None:
            session.stream_count += 1
        try:
            yield
        finally:
            self._count -= 1
            self._of_user[user] -= 1
            if not self._of_user[user]:
                del self._of_user[user]
            if session is not None:
                session.stream_count -= 1


def _user_of(visit: Visit) -> tuple[str, str]:
    name = visit.identity.name
    return name, visit.address if name == ANONYMOUS else ""


def _too_many(message: str) -> ApiError:
    return ApiError(HTTPStatus.TOO_MANY_REQUESTS, message, retry_after_seconds=10)
