"""What a group costs grows with its members, and not with their square: function calls are counted, not seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import pytest
from tests.core.group.topics import SomeTopics

from ottla.core.group import records
from ottla.core.group.events import GroupSaved
from ottla.core.group.machine import GroupMachine
from ottla.core.group.requests import (
    GroupConfig,
    HeartbeatRequest,
    Joined,
    JoinRefused,
    JoinRequest,
    Leaver,
    Synced,
    SyncRequest,
)
from ottla.core.turn import Turn

MEMBERS = 250
# Twice the members: twice the calls, and a little for heaps and what does not depend on the members.
MOST_GROWTH = 2.3


def calls_of(work: Callable[[], None]) -> int:
    """The number of function calls, those of C functions included."""
    count = 0

    def note(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


class Members:
    """A group of the classic protocol whose members do everything at once, each turn all of them."""

    def __init__(self, size: int) -> None:
        self.machine = GroupMachine(GroupConfig(initial_rebalance_delay_ms=0), SomeTopics())
        self.size = size
        self.now_ms = 0
        self.ids: list[str] = []
        self.joined: dict[str, Joined] = {}

    def turn(self, decide: Callable[[Turn], object]) -> dict[Any, Any]:
        """The answers by ticket; what was written is encoded as records."""
        self.now_ms += 10
        turn = Turn(self.now_ms, self.now_ms)
        decide(turn)
        self.machine.wake(turn)
        self.machine.next_wake_ms()
        for written in turn.written:
            records.encode(written.event)
            self.written = written.event
        return dict(turn.answers)

    def ask_for_ids(self) -> None:
        answers = self.turn(lambda turn: self._join_all(turn, dict.fromkeys(range(self.size), "")))
        assert all(isinstance(one, JoinRefused) for one in answers.values())
        self.ids = [answers[at].member_id for at in range(self.size)]

    def join(self) -> None:
        answers = self.turn(lambda turn: self._join_all(turn, {one: one for one in self.ids}))
        assert len(answers) == len(self.ids)
        self.joined = answers

    def _join_all(self, turn: Turn, member_ids: Mapping[Any, str]) -> None:
        for ticket, member_id in member_ids.items():
            request = JoinRequest(
                group_id="g",
                member_id=member_id,
                instance_id=None,
                client_id="client",
                client_host="/host",
                session_timeout_ms=45_000,
                rebalance_timeout_ms=60_000,
                protocol_type="consumer",
                protocols={"range": b"", "roundrobin": b""},
                new_member_id="" if member_id else f"m-{ticket}",
                knows_handshake=True,
                knows_skipping=True,
            )
            self.machine.join(turn, request, ticket)

    def sync(self) -> None:
        answers = self.turn(self._sync_all)
        assert all(isinstance(one, Synced) for one in answers.values())
        assert len(answers) == len(self.ids)
        assert isinstance(self.written, GroupSaved)
        assert len(self.written.members) == len(self.ids)

    def _sync_all(self, turn: Turn) -> None:
        for member_id in self.ids:
            joined = self.joined[member_id]
            request = SyncRequest(
                group_id="g",
                generation=joined.generation,
                member_id=member_id,
                instance_id=None,
                protocol_type="consumer",
                protocol=joined.protocol,
                assignments={one.member_id: b"assigned" for one in joined.members},
            )
            self.machine.sync(turn, request, member_id)

    def beat(self) -> None:
        def decide(turn: Turn) -> None:
            for one in self.ids:
                request = HeartbeatRequest("g", self.joined[one].generation, one, None)
                self.machine.heartbeat(turn, request)

        self.turn(decide)

    def leave(self) -> None:
        leavers = tuple(Leaver(one, None) for one in self.ids[::2])
        self.turn(lambda turn: self.machine.leave(turn, "g", leavers))
        del self.ids[::2]


def course(size: int) -> dict[str, int]:
    """The calls of each step of a group of this size."""
    members = Members(size)
    calls = {}
    for name, step in (
        ("ids", members.ask_for_ids),
        ("first join", members.join),
        ("first sync", members.sync),
        ("heartbeats", members.beat),
        ("half of them leave", members.leave),
        ("heartbeats of a rebalance", members.beat),
        ("second join", members.join),
        ("second sync", members.sync),
    ):
        calls[name] = calls_of(step)
    return calls


@pytest.mark.parametrize("size", [MEMBERS, 4 * MEMBERS])
def test_twice_the_members_take_twice_the_work(size: int) -> None:
    small, large = course(size), course(2 * size)
    growth = {name: large[name] / small[name] for name in small}
    assert all(each < MOST_GROWTH for each in growth.values()), growth
