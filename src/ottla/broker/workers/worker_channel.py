"""A worker's end of the channel to its supervisor: the catalog, the other workers, and connections to them."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from ottla.broker.workers.message_channel import MessageChannel
from ottla.broker.workers.messages import (
    AboutToServe,
    Accepted,
    Alive,
    Answered,
    Applied,
    Asked,
    CatalogCopy,
    Changed,
    Commit,
    Committed,
    Conflicted,
    Connect,
    Connected,
    Epochs,
    EpochsOf,
    Failed,
    MembersChanged,
    Message,
    NotCommitted,
    NotConnected,
    Ready,
    Started,
    Stopped,
    WorkerState,
)
from ottla.errors import OttlaError
from ottla.events import EventLog
from ottla.ports import CatalogConflictError, JsonValue, StorageError

logger = EventLog(__name__)

ALIVE_SECONDS: Final = 1.0
# A worker handles no request by a catalog that is older. The supervisor gives every worker more than this to act by a
# change (`catalog_commits.py`).
FRESH_SECONDS: Final = 0.1
# The node id of the supervisor, when it connects to a worker.
SUPERVISOR: Final = 0
_GONE: Final = "the supervisor has gone"

Accept = Callable[[int, socket.socket], None]
Answer = Callable[[JsonValue], Awaitable[JsonValue]]


class WorkerChannel:
    """The channel of one worker; used on the worker's loop."""

    def __init__(self, connection: socket.socket, ended: Callable[[str | None], None]) -> None:
        """`ended` is called once, when the supervisor has gone."""
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count(1)
        self._commits: dict[int, asyncio.Future[int]] = {}
        self._connects: dict[int, asyncio.Future[socket.socket]] = {}
        self._accepts: dict[str, Accept] = {}
        self._answers: dict[str, Answer] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._follower: Callable[[int, Mapping[str, JsonValue]], None] | None = None
        self._unfollowed: list[Changed] = []
        self._tell_ended = ended
        # When the catalog may lack changes that others were told of.
        self._stale_at = 0.0
        self.started: asyncio.Future[tuple[Started, Sequence[int]]] = self._loop.create_future()
        """What to serve, and the file descriptors for it."""
        self.catalog: asyncio.Future[CatalogCopy] = self._loop.create_future()
        """The catalog when the worker was started; `follow_catalog` tells what came after."""
        self.stopping: asyncio.Future[None] = self._loop.create_future()
        """Done when the worker shall stop."""
        self.members: Mapping[int, WorkerState] = {}
        """All workers by their node ids, this one among them."""
        self.epochs: dict[int, JsonValue] = {}
        """What the other workers said of the epochs of their stores, by node id."""
        self.members_changed: Callable[[], None] = _ignore
        self.epochs_changed: Callable[[int], None] = _ignore
        self._channel = MessageChannel(connection, self._take, self._ended)

    def close(self) -> None:
        """End the channel; the supervisor takes that for the end of the worker."""
        self._channel.close()
        self._give_up()

    def stop(self) -> None:
        """The worker shall stop."""
        if not self.stopping.done():
            self.stopping.set_result(None)

    # -- connections between workers

    async def connect(self, node_id: int, kind: str) -> socket.socket:
        """A connected socket to another worker, which does not block.

        The other worker's hook for this kind gets the other end. ConnectionRefusedError, at once, if it is not live.
        """
        member = self.members.get(node_id)
        if member is None or not member.is_live:
            raise ConnectionRefusedError(f"node {node_id} is not running")
        if self._channel.is_over:
            raise ConnectionRefusedError(_GONE)
        number = next(self._numbers)
        future: asyncio.Future[socket.socket] = self._loop.create_future()
        self._connects[number] = future
        self._channel.send(Connect(number, node_id, kind))
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                future.result().close()
            raise
        finally:
            del self._connects[number]

    def on_accept(self, kind: str, accept: Accept) -> None:
        """From now on `accept(node_id, socket)` gets the connections of this kind that others open to this worker.

        The node id is that of the other worker, or SUPERVISOR. Connections of other kinds are closed.
        """
        self._accepts[kind] = accept

    # -- the catalog

    def commit(
        self, changes: Mapping[str, JsonValue], expected_revision: int
    ) -> asyncio.Future[int]:
        """The revision that the changes led to: this worker, and every other live one, acts by it then.

        CatalogConflictError if the catalog is at another revision, StorageError if the changes could not be written.
        """
        future: asyncio.Future[int] = self._loop.create_future()
        if self._channel.is_over:
            future.set_exception(StorageError(_GONE))
            return future
        number = next(self._numbers)
        self._commits[number] = future
        self._channel.send(Commit(number, changes, expected_revision))
        return future

    def follow_catalog(self, follow: Callable[[int, Mapping[str, JsonValue]], None]) -> None:
        """From now on `follow(revision, changes)` gets every change after `catalog`, this worker's own among them.

        The supervisor is told that the worker acts by a revision when `follow` has returned.
        """
        self._follower = follow
        unfollowed, self._unfollowed = self._unfollowed, []
        for each in unfollowed:
            self._follow(follow, each)

    def _follow(
        self, follow: Callable[[int, Mapping[str, JsonValue]], None], changed: Changed
    ) -> None:
        follow(changed.revision, changed.changes)
        self._channel.send(Applied(changed.revision))

    def catch_up(self) -> None:
        """Acts by every change of the catalog that the supervisor has sent, unless that was done a moment ago.

        To be called before the requests of a client are handled. A worker that stood still, as a stopped process does,
        is not waited for: meanwhile a topic may have been deleted and made again, and others were told so.
        """
        now = time.monotonic()
        if now >= self._stale_at:
            self._stale_at = now + FRESH_SECONDS
            self._channel.read_now()

    # -- what the supervisor is told, and asks

    def about_to_serve(self) -> None:
        """Has commits of the catalog wait for this worker from now on.

        By the answer to its own next commit, it acts by all that were made before. It serves after that: a client that
        was told of a change by another worker finds it here.
        """
        self._channel.send(AboutToServe())

    def ready(self) -> None:
        """The worker serves; it says from now on that its loop turns."""
        self._channel.send(Ready())
        self._say_alive()

    def _say_alive(self) -> None:
        if not self._channel.is_over:
            self._channel.send(Alive())
            self._loop.call_later(ALIVE_SECONDS, self._say_alive)

    def failed(self, error: OttlaError | OSError) -> None:
        """The worker cannot serve, and ends."""
        self._channel.send(Failed.of(error))

    def send_epochs(self, epochs: JsonValue) -> None:
        """Tells the other workers of the epochs of this one's store; one that starts later is told the last of them."""
        self._channel.send(Epochs(epochs))

    def on_question(self, kind: str, answer: Answer) -> None:
        """From now on `answer` answers the supervisor's questions of this kind; others are answered with None."""
        self._answers[kind] = answer

    async def _answer(self, asked: Asked) -> None:
        answer = self._answers.get(asked.kind)
        found: JsonValue = None
        try:
            if answer is not None:
                found = await answer(asked.question)
        except Exception as error:
            logger.bug(
                "question_failed", "a question of the supervisor failed: this is a bug", error
            )
        self._channel.send(Answered(asked.number, found))

    # -- what comes

    def _take(self, message: Message, descriptors: Sequence[int]) -> None:
        match message:
            case Started():
                self.started.set_result((message, descriptors))
            case CatalogCopy():
                self.catalog.set_result(message)
            case Changed():
                if self._follower is None:
                    self._unfollowed.append(message)
                else:
                    self._follow(self._follower, message)
            case Committed() | Conflicted() | NotCommitted():
                self._settle_commit(message)
            case MembersChanged():
                self.members = {each.node_id: each for each in message.members}
                self.members_changed()
            case EpochsOf():
                self.epochs[message.node_id] = message.epochs
                self.epochs_changed(message.node_id)
            case Accepted():
                self._accept(message, descriptors)
            case Connected() | NotConnected():
                self._settle_connect(message, descriptors)
            case Asked():
                task = self._loop.create_task(self._answer(message))
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)
            case Stopped():
                self.stop()
            case _:
                raise AssertionError(f"a worker gets no {type(message).__name__}")

    def _settle_commit(self, message: Committed | Conflicted | NotCommitted) -> None:
        future = self._commits.pop(message.number)
        if future.done():
            return  # its caller has gone
        match message:
            case Committed():
                future.set_result(message.revision)
            case Conflicted():
                future.set_exception(
                    CatalogConflictError(f"the catalog is at revision {message.revision}")
                )
            case NotCommitted():
                future.set_exception(StorageError(message.reason))

    def _accept(self, message: Accepted, descriptors: Sequence[int]) -> None:
        (descriptor,) = descriptors
        accept = self._accepts.get(message.kind)
        if accept is None:
            os.close(descriptor)
            return
        accept(message.node_id, _socket_of(descriptor))

    def _settle_connect(
        self, message: Connected | NotConnected, descriptors: Sequence[int]
    ) -> None:
        future = self._connects.get(message.number)
        if future is None or future.done():
            for each in descriptors:
                os.close(each)
        elif isinstance(message, NotConnected):
            future.set_exception(ConnectionRefusedError(message.reason))
        else:
            (descriptor,) = descriptors
            future.set_result(_socket_of(descriptor))

    def _ended(self, reason: str | None) -> None:
        self._give_up()
        self._tell_ended(reason)

    def _give_up(self) -> None:
        for commit in self._commits.values():
            if not commit.done():
                commit.set_exception(StorageError(_GONE))
        for connecting in self._connects.values():
            if not connecting.done():
                connecting.set_exception(ConnectionRefusedError(_GONE))


def _socket_of(descriptor: int) -> socket.socket:
    found = socket.socket(fileno=descriptor)
    found.setblocking(False)
    return found


def _ignore(*_: object) -> None:
    pass
