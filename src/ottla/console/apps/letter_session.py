"""Blocking clients of one user for reading and moving letters, on threads of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ottla.client.existing_topics import describe_existing_topics
from ottla.console.clients import Clients
from ottla.console.http.errors import ApiError, bad_request, not_found
from ottla.inspection.dead_letters.errors import (
    LetterError,
    NoGroupError,
    NoHistoryError,
    NoPartitionError,
    NoTargetError,
    UnreadableNoteError,
    UnreadPartitionsError,
)
from ottla.inspection.dead_letters.letters import READER_OPTIONS, LetterReader

if TYPE_CHECKING:
    from ottla.client.admin_model.topics import TopicDescription
    from ottla.client.blocking.admin import Admin
    from ottla.client.blocking.consumer import Consumer

T = TypeVar("T")

# Reading is short; replays have threads of their own.
READERS: Final = 4
MAX_WAITING: Final = 40
WAIT_SECONDS: Final = 10.0
_ADVICE: Final[dict[type[LetterError], str]] = {
    NoGroupError: "send it to its original topic",
    NoHistoryError: "choose letters that have such headers",
    NoPartitionError: "look at the list of letters again",
    NoTargetError: "create it, or send the letters to another topic",
    UnreadPartitionsError: "is its leader running?",
    UnreadableNoteError: "another version may have written it; deleting the topic forgets which letters are done",
}


class LetterSession:
    """Clients that are made when they are needed; used on one thread, and closed by it."""

    def __init__(self, clients: Clients) -> None:
        self.clients: Final = clients
        self._stack = ExitStack()

    @cached_property
    def admin(self) -> Admin:
        return self._stack.enter_context(self.clients.blocking_admin())

    @cached_property
    def consumer(self) -> Consumer[Any, Any]:
        return self._stack.enter_context(self.clients.blocking_consumer(**READER_OPTIONS))

    @cached_property
    def reader(self) -> LetterReader:
        return LetterReader(self.consumer, WAIT_SECONDS)

    def topic(self, name: str) -> TopicDescription:
        """The topic, as the cluster describes it to this user."""
        found = describe_existing_topics(self.admin, [name]).get(name)
        if found is None:
            raise not_found(f"there is no topic {name!r}")
        return found

    def __enter__(self) -> LetterSession:
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()


class LetterReaders:
    """Runs what reads letters; a few at a time."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(READERS, thread_name_prefix="console-letters")
        self._waiting = 0

    async def run(self, clients: Clients, work: Callable[[LetterSession], T]) -> T:
        """What `work` returns; its errors say what the user can do."""
        if self._waiting >= MAX_WAITING:
            raise ApiError(
                HTTPStatus.TOO_MANY_REQUESTS,
                "too many requests read dead letters now",
                "try again in a moment",
                retry_after_seconds=5,
            )
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._pool, _in_session, clients, work
            )
        except LetterError as error:
            raise letter_problem(error) from error
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Start nothing more; what runs ends by its own limits."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def letter_problem(error: LetterError) -> ApiError:
    """The answer to an error of letters."""
    advice = _ADVICE.get(type(error))
    if isinstance(error, UnreadPartitionsError):
        return ApiError(HTTPStatus.GATEWAY_TIMEOUT, str(error), advice)
    return bad_request(str(error), advice)


def _in_session(clients: Clients, work: Callable[[LetterSession], T]) -> T:
    with LetterSession(clients) as session:
        return work(session)
