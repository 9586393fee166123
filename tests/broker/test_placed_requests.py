"""Plain requests that are their own places in the order of responses: as later answers, without futures."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from tests.broker.test_late_answers import Client, LateHost

from ottla.broker.handlers.heartbeat import PlacedHeartbeat
from ottla.broker.metrics.request_counts import observed
from ottla.broker.node import Node
from ottla.broker.requests.api import Api, serve
from ottla.broker.security.caller import Caller
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.plain_groups import read_plain_heartbeat

# The errors that tell answers apart.
ERRORS = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
)


class PlacedHost(LateHost):
    """Serves Heartbeat, and answers plain ones when the test wants it."""

    def __init__(self) -> None:
        super().__init__()
        self.places: list[PlacedHeartbeat] = []
        api = serve(
            HeartbeatRequest, HeartbeatResponse, self.handle, handle_plain=self.handle_plain
        )
        self.apis: Mapping[int, Api[Any, Any]] = {12: api}

    def handle_plain(
        self, node: Node, caller: Caller, received: memoryview, start: int, end: int
    ) -> PlacedHeartbeat | None:
        found = read_plain_heartbeat(received, start, end)
        if found is None:
            return None
        self.places.append(PlacedHeartbeat(*found[:3]))
        return self.places[-1]


class CountedHost(PlacedHost):
    def __init__(self) -> None:
        super().__init__()
        self.apis, (self.counts,) = observed(self.apis)


class PlacedClient(Client):
    make_host = PlacedHost

    @property
    def places(self) -> list[PlacedHeartbeat]:
        assert isinstance(self.host, PlacedHost)
        return self.host.places

    def answer(self, *numbers: int) -> None:
        """Answers requests as a coordinator does: all of them, then the connection sends."""
        receivers = {self.places[number].answer(Refused(ERRORS[number])) for number in numbers}
        for receiver in receivers:
            assert receiver is self.connection
            receiver.send_responses()

    def errors(self) -> list[list[ErrorCode]]:
        return [[ErrorCode(code) for code in codes] for codes in self.written()]


class CountedClient(PlacedClient):
    make_host = CountedHost


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_responses_that_come_together_leave_in_one_write_in_order(order: tuple[int, ...]) -> None:
    async def scenario() -> list[list[ErrorCode]]:
        client = PlacedClient(3)
        client.answer(*order)
        return client.errors()

    assert asyncio.run(scenario()) == [list(ERRORS)]


def test_a_response_waits_for_those_before_it() -> None:
    async def scenario() -> list[list[ErrorCode]]:
        client = PlacedClient(3)
        client.answer(2)
        assert client.errors() == []
        client.answer(0)
        assert client.errors() == [[ERRORS[0]]]
        client.answer(1)
        return client.errors()

    assert asyncio.run(scenario()) == [[ERRORS[0]], [ERRORS[1], ERRORS[2]]]


def test_a_single_response_is_sent_at_once_and_counted() -> None:
    async def scenario() -> None:
        client = PlacedClient(1)
        client.answer(0)
        assert client.errors() == [[ERRORS[0]]]
        assert client.host.traffic.sent_bytes == len(client.transport.writes[0])
        assert client.connection.is_idle

    asyncio.run(scenario())


def test_a_response_waits_while_the_client_does_not_read() -> None:
    async def scenario() -> None:
        client = PlacedClient(1)
        client.connection.pause_writing()
        client.answer(0)
        assert client.errors() == []
        client.connection.resume_writing()
        assert client.errors() == [[ERRORS[0]]]

    asyncio.run(scenario())


def test_nothing_is_sent_to_a_client_that_has_gone() -> None:
    async def scenario() -> None:
        client = PlacedClient(2)
        client.connection.connection_lost(None)
        assert [place.answer(None) for place in client.places] == [None, None]
        assert client.errors() == []

    asyncio.run(scenario())


@pytest.mark.parametrize("request_count", [1, 2])
def test_a_response_that_cannot_be_written_costs_its_connection_only(
    request_count: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: PlacedHeartbeat) -> bytearray:
        raise ValueError("it is no response")

    async def scenario() -> None:
        client = PlacedClient(request_count)
        monkeypatch.setattr(PlacedHeartbeat, "frame", fail)
        client.answer(*range(request_count))
        assert client.errors() == []
        assert client.transport.closing

    asyncio.run(scenario())
    assert "a bug" in caplog.text


def test_metrics_count_answers_their_errors_and_requests_given_up() -> None:
    async def scenario() -> None:
        client = CountedClient(3)
        assert isinstance(client.host, CountedHost)
        counts = client.host.counts
        assert counts.waiting == 3
        client.answer(0, 1)
        assert (counts.waiting, counts.seconds.count, counts.failed) == (1, 2, 0)
        assert counts.errors == {ERRORS[0]: 1, ERRORS[1]: 1}
        client.connection.connection_lost(None)
        assert (counts.waiting, counts.seconds.count, counts.failed) == (0, 2, 1)
        assert client.places[2].answer(None) is None
        assert counts.received == 3

    asyncio.run(scenario())
