"""Answers that come later than their requests leave in order, and together where they can."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import pytest
from tests.broker.listeners import node_without_quotas, plaintext_listener

from ottla.broker.coordination.coordinator import Request, unchanged
from ottla.broker.loop.loop_share import LoopShare
from ottla.broker.network.connection import Connection, Host, Traffic
from ottla.broker.network.receive_buffers import Buffers
from ottla.broker.network.refusal_log import RefusalLog
from ottla.broker.network.response_queue import MAX_UNANSWERED
from ottla.broker.network.unfinished_frames import UnfinishedFrames
from ottla.broker.requests.api import Api, serve
from ottla.broker.requests.request import CloseConnectionError, RequestContext
from ottla.broker.security.sasl_gate import SaslGate
from ottla.wire.compile import decode_message
from ottla.wire.framing import SIZE_BYTES, frame_request, read_size
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

VERSION = 3
HEADER_BYTES = 4


class WrittenTransport(asyncio.Transport):
    """Keeps every write by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.closing = False

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class LateHost:
    """Serves one API, whose answers are given when the test wants it."""

    def __init__(self) -> None:
        self.node: Any = node_without_quotas()
        self.receive_buffer = memoryview(bytearray(1 << 16))
        self.buffers = Buffers()
        self.max_frame_bytes = 1 << 20
        self.traffic = Traffic()
        self.refusals = RefusalLog(self.now)
        self.share = LoopShare(time.monotonic)
        self.unfinished = UnfinishedFrames(self.max_frame_bytes)
        self.answers: list[asyncio.Future[Any]] = []
        api = serve(HeartbeatRequest, HeartbeatResponse, self.handle)
        self.apis: Mapping[int, Api[Any, Any]] = {12: api}

    def handle(self, node: Any, request: Any, context: RequestContext) -> asyncio.Future[Any]:
        self.answers.append(asyncio.get_running_loop().create_future())
        return self.answers[-1]

    def admit(self, connection: Connection) -> None: ...

    def hold(self, connection: Connection) -> bool:
        return False

    def forget(self, connection: Connection) -> None: ...

    def gate_for(self, connection: Connection) -> SaslGate:
        raise AssertionError("the listener has no SASL")

    def login_over(self, connection: Connection) -> None: ...

    def now(self) -> float:
        return 0.0

    def note_receive(self) -> float:
        return 0.0


class Client:
    """A client that has sent some requests at once."""

    make_host: Callable[[], LateHost] = LateHost

    def __init__(self, request_count: int) -> None:
        self.host = self.make_host()
        self.transport = WrittenTransport()
        self.connection = Connection(cast(Host, self.host), plaintext_listener())
        self.connection.connection_made(self.transport)
        request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        frames = b"".join(frame_request(request, VERSION, n, None) for n in range(request_count))
        self.connection.get_buffer(-1)[: len(frames)] = frames
        self.connection.buffer_updated(len(frames))

    def answer(self, *numbers: int) -> None:
        """Answers requests; the error code says which."""
        for number in numbers:
            self.host.answers[number].set_result(HeartbeatResponse(error_code=number))

    def written(self) -> list[list[int]]:
        """The requests that each write answers."""
        return [list(answers_in(data)) for data in self.transport.writes]


def answers_in(data: bytes) -> Iterator[int]:
    while data:
        end = SIZE_BYTES + read_size(data)[0]
        answer = decode_message(HeartbeatResponse, VERSION, data, SIZE_BYTES + HEADER_BYTES)
        yield answer.error_code
        data = data[end:]


async def settle() -> None:
    """Lets every callback run that is due, and those that follow from them."""
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 2, 0)])
def test_answers_that_are_ready_together_leave_in_one_write(order: tuple[int, ...]) -> None:
    async def scenario() -> list[list[int]]:
        client = Client(4)
        client.answer(*order)
        await settle()
        return client.written()

    assert asyncio.run(scenario()) == [[0, 1, 2, 3]]


def test_an_answer_does_not_wait_for_one_that_is_not_ready() -> None:
    async def scenario() -> list[list[int]]:
        client = Client(3)
        client.answer(0)
        await settle()
        client.answer(2)
        await settle()
        client.answer(1)
        await settle()
        return client.written()

    assert asyncio.run(scenario()) == [[0], [1, 2]]


def test_what_was_answered_before_an_error_still_leaves() -> None:
    async def scenario() -> tuple[list[list[int]], bool]:
        client = Client(3)
        client.answer(0)
        client.host.answers[1].set_exception(CloseConnectionError("the end"))
        client.answer(2)
        await settle()
        return client.written(), client.transport.closing

    assert asyncio.run(scenario()) == ([[0]], True)


def test_answers_wait_while_the_client_does_not_read() -> None:
    async def scenario() -> tuple[list[list[int]], list[list[int]]]:
        client = Client(3)
        client.connection.pause_writing()
        client.answer(0, 1, 2)
        await settle()
        before = client.written()
        client.connection.resume_writing()
        await settle()
        return before, client.written()

    assert asyncio.run(scenario()) == ([], [[0, 1, 2]])


# Responses that a coordinator hands over.


class CoordinatedHost(LateHost):
    """Its API is answered as a coordinator does."""

    def __init__(self) -> None:
        super().__init__()
        # No frame waits because the machine is busy.
        self.share = LoopShare(lambda: 0.0)

    def handle(self, node: Any, request: Any, context: RequestContext) -> asyncio.Future[Any]:
        asked = Request(loop=asyncio.get_running_loop())
        asked.respond = unchanged
        self.answers.append(asked)
        return asked


class CoordinatedClient(Client):
    """Its requests are decided by one coordinator."""

    make_host = CoordinatedHost

    def answer(self, *numbers: int) -> None:
        """Answers requests in one turn of the coordinator."""
        for number in numbers:
            self._answer(number, HeartbeatResponse(error_code=number))
        self.connection.send_responses()

    def _answer(self, number: int, response: HeartbeatResponse) -> None:
        asked = self.host.answers[number]
        assert isinstance(asked, Request)
        assert asked.answer(response) is self.connection

    def fail(self, answered: int, number: int) -> None:
        """Answers a request, and fails with the next, in one turn of the coordinator."""
        self._answer(answered, HeartbeatResponse(error_code=answered))
        asked = self.host.answers[number]
        assert isinstance(asked, Request)

        def respond(result: Any) -> Any:
            raise CloseConnectionError("the end")

        asked.respond = respond
        assert asked.answer(None) is self.connection
        self.connection.send_responses()


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 2, 0)])
def test_responses_of_a_turn_leave_in_one_write_at_once(order: tuple[int, ...]) -> None:
    async def scenario() -> list[list[int]]:
        client = CoordinatedClient(4)
        client.answer(*order)
        return client.written()

    assert asyncio.run(scenario()) == [[0, 1, 2, 3]]


def test_a_response_of_a_turn_waits_for_one_before_it() -> None:
    async def scenario() -> list[list[int]]:
        client = CoordinatedClient(3)
        client.answer(0, 2)
        await settle()
        client.answer(1)
        return client.written()

    assert asyncio.run(scenario()) == [[0], [1, 2]]


def test_a_turn_with_a_response_that_fails_sends_those_before_it() -> None:
    async def scenario() -> tuple[list[list[int]], bool]:
        client = CoordinatedClient(3)
        client.fail(0, 1)
        await settle()
        assert client.host.answers[2].cancelled()
        return client.written(), client.transport.closing

    assert asyncio.run(scenario()) == ([[0]], True)


def test_responses_of_a_turn_wait_while_the_client_does_not_read() -> None:
    async def scenario() -> tuple[list[list[int]], list[list[int]]]:
        client = CoordinatedClient(3)
        client.connection.pause_writing()
        client.answer(0, 1, 2)
        await settle()
        before = client.written()
        client.connection.resume_writing()
        return before, client.written()

    assert asyncio.run(scenario()) == ([], [[0, 1, 2]])


def test_requests_that_were_held_back_go_on_after_the_turn_that_answers() -> None:
    async def scenario() -> None:
        client = CoordinatedClient(MAX_UNANSWERED + 1)
        answers = client.host.answers
        assert len(answers) == MAX_UNANSWERED
        client.answer(*range(MAX_UNANSWERED))
        # The coordinator may be in the middle of its turn.
        assert len(answers) == MAX_UNANSWERED
        await settle()
        assert len(answers) == MAX_UNANSWERED + 1

    asyncio.run(scenario())
