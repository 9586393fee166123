"""Going on when an engine is done."""

from __future__ import annotations

import asyncio

import pytest

from ottla.ports import StorageError
from ottla.ports.futures import after


def test_what_is_done_is_followed_at_once() -> None:
    calls: list[str] = []
    assert after(None, lambda: calls.append("followed")) is None
    assert calls == ["followed"]


def test_what_follows_may_take_its_time_as_well() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        first: asyncio.Future[None] = loop.create_future()
        second: asyncio.Future[None] = loop.create_future()
        result = after(first, lambda: second)
        assert result is not None
        first.set_result(None)
        await asyncio.sleep(0)
        assert not result.done()
        second.set_result(None)
        await result

    asyncio.run(scenario())


@pytest.mark.parametrize("failing", ["first", "call", "second"])
def test_what_fails_first_is_the_outcome(failing: str) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        first: asyncio.Future[None] = loop.create_future()
        second: asyncio.Future[None] = loop.create_future()

        def follow() -> asyncio.Future[None]:
            assert failing != "first"
            if failing == "call":
                raise StorageError("call")
            return second

        result = after(first, follow)
        assert result is not None
        if failing == "first":
            first.set_exception(StorageError("first"))
        else:
            first.set_result(None)
        if failing == "second":
            second.set_exception(StorageError("second"))
        with pytest.raises(StorageError, match=failing):
            await result

    asyncio.run(scenario())


def test_a_cancelled_change_cancels_what_would_follow() -> None:
    async def scenario() -> None:
        first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        result = after(first, lambda: pytest.fail("it was cancelled"))
        assert result is not None
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await result

    asyncio.run(scenario())
