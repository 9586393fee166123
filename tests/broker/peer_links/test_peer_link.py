"""The asking end of a link: every request is answered, or is known to have failed, whatever the peer does."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.broker.peer_links.scripted_peer import (
    LONG_SECONDS,
    VERSION,
    ScriptedPeer,
    frame_of,
    number_in,
    numbered,
)

from ottla.broker.coordination.peers import UnreachableError
from ottla.broker.peer_links.network_peers import NetworkPeers
from ottla.broker.peer_links.peer_link import LinkLimits, PeerLink

OWN, OTHER = 1, 2
Scenario = Callable[[PeerLink, ScriptedPeer], Awaitable[None]]
NO_PAUSE = LinkLimits(first_pause_seconds=0.0, last_pause_seconds=0.0)


def play(scenario: Scenario, limits: LinkLimits = NO_PAUSE) -> None:
    async def main() -> None:
        peer = ScriptedPeer()
        link = PeerLink(OWN, OTHER, peer.connect, limits)
        try:
            async with asyncio.timeout(LONG_SECONDS):
                await scenario(link, peer)
        finally:
            link.close()
            peer.close()

    asyncio.run(main())


def ask(link: PeerLink, number: int) -> asyncio.Future[Any]:
    """Sends a request that the link takes."""
    answer = link.call(numbered(number), VERSION)
    assert isinstance(answer, asyncio.Future), str(answer)
    return answer


async def failure(answer: asyncio.Future[Any] | UnreachableError) -> str:
    outcome = await answer if isinstance(answer, asyncio.Future) else answer
    assert isinstance(outcome, UnreachableError)
    return str(outcome)


def test_answers_may_come_in_any_order() -> None:
    async def scenario(link: PeerLink, peer: ScriptedPeer) -> None:
        answers = [ask(link, number) for number in range(5)]
        seen = [await peer.read() for _ in range(5)]
        assert [number for _, number in seen] == [0, 1, 2, 3, 4]
        for correlation_id, number in reversed(seen):
            await peer.answer(correlation_id, number)
        assert [number_in(await each) for each in answers] == [0, 1, 2, 3, 4]
        assert len(peer.sockets) == 1

    play(scenario)


@pytest.mark.parametrize("error", [UnicodeError("no host name"), ValueError("no certificate")])
def test_whatever_fails_an_attempt_the_next_request_makes_another(error: Exception) -> None:
    async def scenario(_: PeerLink, peer: ScriptedPeer) -> None:
        failures = [error]

        def tls_of(_node_id: int) -> None:
            if failures:
                raise failures.pop()

        link = PeerLink(OWN, OTHER, peer.connect, NO_PAUSE, tls_of)
        assert str(error) in await failure(ask(link, 0))
        answer = ask(link, 1)
        await peer.connected(2)
        assert await peer.answer_next() == 1
        assert number_in(await answer) == 1
        link.close()

    play(scenario)


def test_requests_of_one_turn_are_written_together() -> None:
    async def scenario(link: PeerLink, peer: ScriptedPeer) -> None:
        first = ask(link, 0)
        await peer.answer_next()
        await first
        for number in range(1, 51):
            ask(link, number)
        loop = asyncio.get_running_loop()
        received = await loop.sock_recv(peer.latest, 1 << 20)
        (size,) = struct.unpack_from(">i", received)
        assert len(received) == 50 * (4 + size)
        with pytest.raises(BlockingIOError):
            peer.latest.recv(1)

    play(scenario)


@given(st.lists(st.integers(1, 40), max_size=30), st.permutations(range(6)))
def test_answers_may_come_in_pieces(cuts: list[int], order: list[int]) -> None:
    async def scenario(link: PeerLink, peer: ScriptedPeer) -> None:
        answers = [ask(link, number) for number in range(6)]
        seen = [await peer.read() for _ in range(6)]
        stream = b"".join(frame_of(*seen[at]) for at in order)
        for size in cuts:
            await peer.send(stream[:size])
            stream = stream[size:]
            await asyncio.sleep(0)
        await peer.send(stream)
        assert [number_in(await each) for each in answers] == list(range(6))

    play(scenario)


def test_an_answer_may_be_larger_than_the_room_for_it() -> None:
    async def scenario(link: PeerLink, peer: ScriptedPeer) -> None:
        answer = ask(link, 1)
        correlation_id, number = await peer.read()
        frame = frame_of(correlation_id, number)
        # Tagged fields in the header, which a later version may have.
        many = b"\x00" * 300_000
        tagged = b"\x01\x05" + bytes([0xE0, 0xA7, 0x12]) + many
        body = frame[4:8] + tagged + frame[9:]
        sending = asyncio.create_task(peer.send(len(body).to_bytes(4, "big") + body))
        assert number_in(await answer) == 1
        await sending
        again = ask(link, 2)
        await peer.answer_next()
        assert number_in(await again) == 2
        assert len(peer.sockets) == 1

    play(scenario)


def test_a_cut_fails_what_is_in_flight_and_the_next_request_connects_again() -> None:
    async def scenario(link: PeerLink, peer: ScriptedPeer) -> None:
        answers = [ask(link, number) for number in range(3)]
        await peer.answer_next()
        correlation_id, number = await peer.read()
        await peer.send(frame_of(correlation_id, number)[:-1])
        peer.cut()
        assert number_in(await answers[0]) == 0
        for each in answers[1:]:
            assert "node 2 is not reached" in await failure(each)
        again = ask(link, 3)
        await peer.connected(2)
        assert await peer.answer_next() == 3
        assert number_in(await again) == 3

    play(scenario)


def test_a_request_that_is_not_answered_in_time_fails_alone_while_others_are_answered() -> None:
    async def scenario(link: PeerLink, peer: ScriptedPeer) -> None:
        lost = ask(link, 0)
        correlation_id, _ = await peer.read()
        while not lost.done():
            other = ask(link, 1)
            await peer.answer_next()
            assert number_in(await other) == 1
        assert "has not answered within 0.1 s" in await failure(lost)
        # It comes after all: nobody waits for it any more, and the link goes on.
        await peer.answer(correlation_id, 0)
        other = ask(link, 2)
        await peer.answer_next()
        assert number_in(await other) == 2
        assert len(peer.sockets) == 1

    play(scenario, LinkLimits(answer_seconds=0.1))


def test_a_connection_that_is_silent_for_the_time_of_an_answer_is_given_up() -> None:
    async def scenario(link: PeerLink, peer: ScriptedPeer) -> None:
        answers = [ask(link, number) for number in range(3)]
        for each in answers:
            assert "no answer within 0.05 s" in await failure(each)
        again = ask(link, 3)
        await peer.connected(2)
        await peer.answer_next()
        assert number_in(await again) == 3
        # What was sent over the first connection was dropped at this end.
        with pytest.raises(BrokenPipeError):
            peer.sockets[0].send(b"x")

    play(scenario, LinkLimits(0.05, 0.0, 0.0))


def test_requests_wait_for_a_connection_no_longer_than_for_an_answer() -> None:
    async def scenario(_link: PeerLink, _peer: ScriptedPeer) -> None:
        async def connect(_node_id: int) -> socket.socket:
            await asyncio.Event().wait()
            raise AssertionError

        link = PeerLink(OWN, OTHER, connect, LinkLimits(answer_seconds=0.05))
        assert "node 2" in await failure(ask(link, 0))
        link.close()

    play(scenario)


def test_there_is_a_limit_on_requests_in_flight() -> None:
    async def scenario(link: PeerLink, peer: ScriptedPeer) -> None:
        answers = [ask(link, number) for number in range(4)]
        refused = link.call(numbered(4), VERSION)
        assert isinstance(refused, UnreachableError)
        assert "owes 4 answers" in str(refused)
        await peer.answer_next()
        await answers[0]
        ask(link, 5)

    play(scenario, LinkLimits(most_in_flight=4))


def test_there_is_a_limit_on_what_the_peer_does_not_take() -> None:
    async def scenario(link: PeerLink, _peer: ScriptedPeer) -> None:
        large = numbered(0, topics=2000)
        sent = 0
        while not isinstance(refused := link.call(large, VERSION), UnreachableError):
            sent += 1
            await asyncio.sleep(0)
        assert "bytes of requests" in str(refused)
        assert 10 < sent < 200

    play(scenario, LinkLimits(most_unsent_bytes=1 << 20))


def test_requests_go_on_when_the_peer_takes_them_again() -> None:
    async def scenario(link: PeerLink, peer: ScriptedPeer) -> None:
        answers = []
        for number in range(60):
            answer = link.call(numbered(number, topics=500), VERSION)
            assert isinstance(answer, asyncio.Future)
            answers.append(answer)
            await asyncio.sleep(0)
        for number in range(60):
            assert await peer.answer_next() == number
        assert [number_in(await each) for each in answers] == list(range(60))

    play(scenario)


def test_attempts_to_connect_are_further_and_further_apart() -> None:
    async def scenario(link: PeerLink, peer: ScriptedPeer) -> None:
        peer.refusals = 3
        # The first two follow each other: a connection that has served may be replaced at once.
        for _ in range(2):
            assert "it is not running" in await failure(ask(link, 0))
        assert "is not connected" in await failure(link.call(numbered(0), VERSION))
        assert peer.refusals == 1
        link.try_again()
        assert "it is not running" in await failure(ask(link, 0))
        assert peer.refusals == 0
        answer = ask(link, 1)
        await peer.answer_next()
        assert number_in(await answer) == 1

    play(scenario, LinkLimits(first_pause_seconds=60.0, last_pause_seconds=60.0))


@pytest.mark.parametrize(
    "garbage",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x03abc",
        frame_of(77, 1),
        frame_of(0, 1)[:3] + b"\x06" + frame_of(0, 1)[4:10],
    ],
    ids=["another protocol", "a negative size", "too short", "an unknown request", "half a body"],
)
def test_what_is_no_answer_ends_the_connection(garbage: bytes) -> None:
    async def scenario(link: PeerLink, peer: ScriptedPeer) -> None:
        answer = ask(link, 0)
        await peer.read()
        await peer.send(garbage)
        await failure(answer)
        again = ask(link, 1)
        await peer.connected(2)
        await peer.answer_next()
        assert number_in(await again) == 1

    play(scenario)


def test_a_link_that_is_closed_asks_nothing_more() -> None:
    async def scenario(link: PeerLink, peer: ScriptedPeer) -> None:
        waiting = ask(link, 0)
        await peer.read()
        link.close()
        assert "is not asked any more" in await failure(waiting)
        assert "is not asked any more" in await failure(link.call(numbered(1), VERSION))
        assert await asyncio.get_running_loop().sock_recv(peer.latest, 1) == b""

    play(scenario)


def test_a_link_can_be_closed_while_it_connects() -> None:
    async def scenario(link: PeerLink, _peer: ScriptedPeer) -> None:
        waiting = ask(link, 0)
        link.close()
        assert "is not asked any more" in await failure(waiting)

    play(scenario)


def test_a_caller_may_lose_interest() -> None:
    async def scenario(link: PeerLink, peer: ScriptedPeer) -> None:
        given_up, waiting = ask(link, 0), ask(link, 1)
        given_up.cancel()
        assert [await peer.answer_next(), await peer.answer_next()] == [0, 1]
        assert number_in(await waiting) == 1
        last = ask(link, 2)
        last.cancel()
        peer.cut()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    play(scenario)


def test_a_peer_that_hangs_holds_up_no_other() -> None:
    async def main() -> None:
        hung, well = ScriptedPeer(), ScriptedPeer()

        async def connect(node_id: int) -> socket.socket:
            return await {2: hung, 3: well}[node_id].connect(node_id)

        class Own:
            def call(self, sender_id: int, node_id: int, request: Any, version: int) -> Any:
                assert (sender_id, node_id, version) == (1, 1, VERSION)
                return "called"

        peers = NetworkPeers(1, Own(), connect)
        silent = [peers.call(1, 2, numbered(number, topics=3000), VERSION) for number in range(500)]
        assert any(isinstance(each, UnreachableError) for each in silent)
        answer = peers.call(1, 3, numbered(7), VERSION)
        await well.answer_next()
        assert number_in(await answer) == 7
        # A request to the node itself is a call.
        assert peers.call(1, 1, numbered(8), VERSION) == "called"
        peers.close()
        assert isinstance(peers.call(1, 4, numbered(9), VERSION), UnreachableError)
        for each in (hung, well):
            each.close()

    asyncio.run(main())
