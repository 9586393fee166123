"""A worker's end of its channel, against an end that the test speaks for."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from ottla.broker.workers import message_channel
from ottla.broker.workers.message_channel import MessageChannel
from ottla.broker.workers.messages import (
    Accepted,
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
    MalformedMessageError,
    MembersChanged,
    Message,
    NotCommitted,
    NotConnected,
    WorkerState,
    decode_message,
    encode_message,
)
from ottla.broker.workers.worker_channel import WorkerChannel
from ottla.model import Endpoint
from ottla.ports import CatalogConflictError, JsonValue, StorageError

MEMBERS = MembersChanged(
    [
        WorkerState(1, {"PLAINTEXT": Endpoint("127.0.0.1", 9093)}, {}, True),
        WorkerState(2, {"SSL": Endpoint("::1", 9094)}, {"SSL": Endpoint("b", 1)}, False),
    ]
)


class Pair:
    """A worker's channel and the supervisor's end of it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self.ends: list[str | None] = []
        self.said: asyncio.Queue[Message] = asyncio.Queue()
        self.worker = WorkerChannel(theirs, self.ends.append)
        self.supervisor = MessageChannel(ours, self._take, self.ends.append)

    def _take(self, message: Message, descriptors: Sequence[int]) -> None:
        assert not descriptors
        self.said.put_nowait(message)

    async def next(self) -> Message:
        return await asyncio.wait_for(self.said.get(), 10)

    async def members_known(self) -> None:
        known = asyncio.Event()
        self.worker.members_changed = known.set
        await asyncio.wait_for(known.wait(), 10)


@asynccontextmanager
async def pair() -> AsyncIterator[Pair]:
    found = Pair()
    try:
        yield found
    finally:
        found.worker.close()
        found.supervisor.close()


def run(test: Callable[[Pair], Awaitable[None]]) -> None:
    async def all_of_it() -> None:
        async with pair() as found:
            await test(found)

    asyncio.run(all_of_it())


@pytest.mark.parametrize(
    "garbage", [b"", b"{}", b"[]", b'["Ready",0,{"x":1}]', b'["No",0,{}]', b"\xff"]
)
def test_what_is_no_message_is_refused(garbage: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        decode_message(garbage)


def test_members_survive_the_round_trip() -> None:
    assert decode_message(encode_message(MEMBERS)) == (MEMBERS, 0)


def test_a_connection_joins_two_workers() -> None:
    async def test(both: Pair) -> None:
        both.supervisor.send(MEMBERS)
        accepted: asyncio.Future[tuple[int, socket.socket]] = (
            asyncio.get_running_loop().create_future()
        )
        both.worker.on_accept("peers", lambda node, each: accepted.set_result((node, each)))
        await both.members_known()
        connecting = asyncio.create_task(both.worker.connect(1, "peers"))
        asked = await both.next()
        assert asked == Connect(1, 1, "peers")
        ours, theirs = socket.socketpair()
        both.supervisor.send(Accepted(2, "peers"), [theirs.fileno()])
        both.supervisor.send(Connected(1), [ours.fileno()])
        ours.close()
        theirs.close()
        connected = await connecting
        node_id, at_other = await accepted
        assert node_id == 2
        with connected, at_other:
            assert not connected.get_inheritable()
            connected.send(b"x")
            assert await asyncio.get_running_loop().sock_recv(at_other, 10) == b"x"

    run(test)


def test_a_worker_that_is_not_live_is_refused_at_once() -> None:
    async def test(both: Pair) -> None:
        both.supervisor.send(MEMBERS)
        await both.members_known()
        with pytest.raises(ConnectionRefusedError, match="node 2 is not running"):
            await both.worker.connect(2, "peers")
        connecting = asyncio.create_task(both.worker.connect(1, "peers"))
        await both.next()
        both.supervisor.send(NotConnected(1, "it has just ended"))
        with pytest.raises(ConnectionRefusedError, match="it has just ended"):
            await connecting

    run(test)


def test_a_connection_of_an_unknown_kind_is_closed() -> None:
    async def test(both: Pair) -> None:
        ours, theirs = socket.socketpair()
        both.supervisor.send(Accepted(2, "unknown"), [theirs.fileno()])
        theirs.close()
        ours.setblocking(False)
        with ours:
            async with asyncio.timeout(10):
                assert await asyncio.get_running_loop().sock_recv(ours, 1) == b""

    run(test)


def test_a_change_is_followed_before_the_commit_is_answered() -> None:
    async def test(both: Pair) -> None:
        seen: list[int] = []
        both.supervisor.send(CatalogCopy(6, {"a": 1}))
        both.supervisor.send(Changed(7, {"a": 2}))
        assert (await both.worker.catalog).entries == {"a": 1}
        # What came before somebody follows is not lost.
        both.worker.follow_catalog(lambda revision, changes: seen.append(revision))
        assert await both.next() == Applied(7)
        committing = both.worker.commit({"b": 1}, 7)
        assert await both.next() == Commit(1, {"b": 1}, 7)
        both.supervisor.send(Changed(8, {"b": 1}))
        both.supervisor.send(Committed(1, 8))
        assert await committing == 8
        assert seen == [7, 8]
        assert await both.next() == Applied(8)

    run(test)


def test_a_worker_catches_up_before_it_handles_requests() -> None:
    async def test(both: Pair) -> None:
        seen: list[int] = []
        both.worker.follow_catalog(lambda revision, changes: seen.append(revision))
        for revision in range(1, 4):
            both.supervisor.send(Changed(revision, {"a": "x" * 50_000}))
        # Without a turn of the loop: the requests that are next in this turn are handled by what was sent before.
        both.worker.catch_up()
        assert seen == [1, 2, 3]

    run(test)


def test_a_change_that_cannot_be_followed_ends_the_worker() -> None:
    """It would serve by a catalog that others have left behind, and would be told the same change again and again."""

    async def test(both: Pair) -> None:
        seen: list[int] = []

        def follow(revision: int, changes: object) -> None:
            seen.append(revision)
            raise RuntimeError("a bug")

        both.worker.follow_catalog(follow)
        both.supervisor.send(Changed(7, {"a": 2}))
        both.supervisor.send(Changed(8, {"a": 3}))
        async with asyncio.timeout(10):
            while len(both.ends) < 2:
                await asyncio.sleep(0)
        assert sorted(map(str, both.ends)) == [
            "None",
            "what it said could not be acted on: RuntimeError('a bug')",
        ]
        assert seen == [7]

    run(test)


def test_descriptors_that_cannot_be_copied_leave_nothing_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(both: Pair) -> None:
        read, write = os.pipe()
        copies: list[int] = []

        def dup(descriptor: int, copy: Callable[[int], int] = os.dup) -> int:
            if copies:
                raise OSError(errno.EMFILE, "Too many open files")
            copies.append(copy(descriptor))
            return copies[-1]

        monkeypatch.setattr(os, "dup", dup)
        with pytest.raises(OSError, match="Too many open files"):
            both.supervisor.send(Accepted(1, "peers"), [write, write])
        monkeypatch.undo()
        os.close(write)
        os.set_blocking(read, False)
        assert os.read(read, 1) == b""  # nobody has the other end
        os.close(read)
        # The channel is as it was.
        both.supervisor.send(MEMBERS)
        await both.members_known()

    run(test)


def test_a_commit_is_refused_with_its_reason() -> None:
    async def test(both: Pair) -> None:
        conflicting, failing = both.worker.commit({}, 1), both.worker.commit({}, 1)
        both.supervisor.send(Conflicted(1, 5))
        both.supervisor.send(NotCommitted(2, "the disk is full"))
        with pytest.raises(CatalogConflictError):
            await conflicting
        with pytest.raises(StorageError, match="the disk is full"):
            await failing

    run(test)


def test_everything_that_waits_ends_with_the_supervisor() -> None:
    async def test(both: Pair) -> None:
        both.supervisor.send(MEMBERS)
        await both.members_known()
        committing = both.worker.commit({}, 1)
        connecting = asyncio.create_task(both.worker.connect(1, "peers"))
        await both.next()
        await both.next()
        both.supervisor.close()
        with pytest.raises(StorageError):
            await committing
        with pytest.raises(ConnectionRefusedError):
            await connecting
        assert both.ends == [None]
        with pytest.raises(ConnectionRefusedError):
            await both.worker.connect(1, "peers")
        with pytest.raises(StorageError):
            await both.worker.commit({}, 1)

    run(test)


def test_questions_are_answered() -> None:
    async def test(both: Pair) -> None:
        async def answer(question: JsonValue) -> JsonValue:
            return [question, "answered"]

        both.worker.on_question("metrics", answer)
        both.supervisor.send(Asked(1, "metrics", "what"))
        both.supervisor.send(Asked(2, "weather", "what"))
        answers = [await both.next(), await both.next()]
        assert Answered(2, None) in answers
        assert Answered(1, ["what", "answered"]) in answers

    run(test)


def test_a_large_message_arrives_with_its_descriptors() -> None:
    async def test(both: Pair) -> None:
        entries: dict[str, JsonValue] = {f"topic/{number}": "x" * 100 for number in range(50_000)}
        both.supervisor.send(CatalogCopy(1, entries))
        read, write = os.pipe()
        both.supervisor.send(Accepted(1, "peers"), [write])
        os.close(write)
        copy = await asyncio.wait_for(both.worker.catalog, 10)
        assert copy.entries == entries
        # Closed there, as nothing takes it: nobody has the pipe's end.
        with os.fdopen(read, "rb") as reader:
            assert await asyncio.to_thread(reader.read) == b""

    run(test)


def test_an_end_that_is_not_read_ends_the_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_channel, "MAX_UNSENT_BYTES", 1 << 20)

    async def test() -> None:
        ours, theirs = socket.socketpair()
        ends: list[str | None] = []
        channel = MessageChannel(ours, lambda message, descriptors: None, ends.append)
        with theirs:
            for _ in range(100):
                channel.send(CatalogCopy(1, {"x": "y" * (1 << 16)}))
        assert ends == ["it does not read what it is told"]

    asyncio.run(test())
