"""One response of several answers."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.broker.requests.gather_responses import respond_to_all


def test_answers_that_are_all_there_make_the_response_at_once() -> None:
    assert respond_to_all([1, 2], lambda parts: parts) == [1, 2]
    assert respond_to_all([], lambda parts: parts) == []


def test_the_response_waits_for_the_last_answer_and_keeps_their_order() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        first: asyncio.Future[Any] = loop.create_future()
        last: asyncio.Future[Any] = loop.create_future()
        calls: list[list[Any]] = []

        def respond(parts: list[Any]) -> list[Any]:
            calls.append(parts)
            return parts

        response = respond_to_all([first, "at once", last], respond)
        assert isinstance(response, asyncio.Future)
        last.set_result("last")
        await asyncio.sleep(0)
        assert not response.done()
        first.set_result("first")
        assert await response == ["first", "at once", "last"]
        assert calls == [["first", "at once", "last"]]

    asyncio.run(scenario())


def test_an_answer_that_is_done_already_is_waited_for_as_well() -> None:
    async def scenario() -> None:
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        done.set_result(1)
        response = respond_to_all([done], lambda parts: parts)
        assert isinstance(response, asyncio.Future)
        assert await response == [1]

    asyncio.run(scenario())


def test_a_client_that_went_away_needs_no_response() -> None:
    async def scenario() -> None:
        part: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        response = respond_to_all([part], lambda parts: parts)
        assert isinstance(response, asyncio.Future)
        response.cancel()
        part.set_result(1)
        await asyncio.sleep(0)
        assert response.cancelled()

    asyncio.run(scenario())
