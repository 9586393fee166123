"""Members of a group that cost little: many connections, one selector, one thread.

They speak the classic protocol as clients do (an id first, then JoinGroup, SyncGroup, Heartbeat), with one difference:
a member that has nothing to do heartbeats every few milliseconds (or as often as is said) and not every three seconds,
so that it is the coordinator that is measured and not the interval.
"""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.frames import (
    CLIENT_ID,
    GROUP_KEY,
    TRY_LIMIT,
    TRY_SECONDS,
    RefusedError,
    coordinator,
)

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.compile import decode_message, encode_stored
from ottla.wire.framing import SIZE_BYTES, frame_request, read_size
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ottla.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from ottla.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from ottla.wire.stored.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)

JOIN_VERSION = 9
SYNC_VERSION = 5
HEARTBEAT_VERSION = 4
LEAVE_VERSION = 5
HEADER_BYTES = 5  # of an answer to all of these
PROTOCOL_VERSION = 1

PROTOCOL_TYPE = "consumer"
PROTOCOL = "range"
TOPIC = "read-by-groups"
SESSION_TIMEOUT_MS = 45_000
REBALANCE_TIMEOUT_MS = 60_000
HEARTBEAT_SECONDS = 0.05
STABLE_SECONDS = 60.0
RECEIVE_BYTES = 1 << 18

SUBSCRIPTION = encode_stored(ConsumerProtocolSubscription(topics=[TOPIC]), PROTOCOL_VERSION)
# The answers after which a member joins again, as it is or as somebody new.
JOIN_AGAIN = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)


def await_coordinator(bootstrap_server: str, group_id: str) -> str:
    """The address of the group's coordinator, once it is one; the first group of all creates an internal topic."""
    for _ in range(TRY_LIMIT):
        address = coordinator(bootstrap_server, group_id, GROUP_KEY)
        if address is not None and _is_loaded(address, group_id):
            return address
        time.sleep(TRY_SECONDS)
    raise RefusedError(f"group {group_id} has no coordinator")


def _is_loaded(address: str, group_id: str) -> bool:
    request = HeartbeatRequest(group_id=group_id, generation_id=0, member_id="nobody")
    with RawConnection(address) as connection:
        answer = connection.call(request, HeartbeatResponse, HEARTBEAT_VERSION)
    return bool(answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID)


class Member:
    """One member: what it waits for and, once it has an assignment, in which generation."""

    def __init__(self, coordinator: str, group_id: str) -> None:
        self.connection = RawConnection(coordinator)
        self.group_id = group_id
        self.member_id = ""
        self.generation = -1
        self.assignment: bytes | None = None
        self._expected: tuple[type[Any], int] | None = None
        self._received = bytearray()

    def _send(self, request: Any, version: int, response: type[Any]) -> None:
        self.connection.socket.sendall(frame_request(request, version, 0, CLIENT_ID))
        self._expected = response, version

    def join(self) -> None:
        self.assignment = None
        protocol = JoinGroupRequestProtocol(name=PROTOCOL, metadata=SUBSCRIPTION)
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[protocol],
        )
        self._send(request, JOIN_VERSION, JoinGroupResponse)

    def heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=self.group_id, generation_id=self.generation, member_id=self.member_id
        )
        self._send(request, HEARTBEAT_VERSION, HeartbeatResponse)

    @property
    def is_asking(self) -> bool:
        return self._expected is not None

    def receive(self) -> None:
        """Takes what has arrived and does what follows from it."""
        data = self.connection.socket.recv(RECEIVE_BYTES)
        if not data:
            raise ConnectionResetError("the broker closed the connection")
        self._received += data
        if len(self._received) < SIZE_BYTES:
            return
        end = SIZE_BYTES + read_size(self._received)[0]
        if len(self._received) < end:
            return
        assert self._expected is not None
        response, version = self._expected
        answer = decode_message(
            response, version, bytes(self._received[:end]), SIZE_BYTES + HEADER_BYTES
        )
        del self._received[:end]
        self._expected = None
        self._react(answer)

    def _react(self, answer: Any) -> None:
        if isinstance(answer, JoinGroupResponse) and (
            answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        ):
            self.member_id = answer.member_id
            self.join()
        elif answer.error_code in JOIN_AGAIN:
            self.join()
        elif answer.error_code != ErrorCode.NONE:
            raise RefusedError(f"{type(answer).__name__} with error {answer.error_code}")
        elif isinstance(answer, JoinGroupResponse):
            self.generation = answer.generation_id
            self._sync(answer)
        elif isinstance(answer, SyncGroupResponse):
            self.assignment = bytes(answer.assignment)

    def _sync(self, joined: JoinGroupResponse) -> None:
        """The leader gives every member one partition."""
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=PROTOCOL,
            assignments=[
                SyncGroupRequestAssignment(member_id=each.member_id, assignment=assigned(number))
                for number, each in enumerate(joined.members)
            ],
        )
        self._send(request, SYNC_VERSION, SyncGroupResponse)


def assigned(partition: int) -> bytes:
    """The assignment of one partition."""
    partitions = [TopicPartition(topic=TOPIC, partitions=[partition])]
    return encode_stored(
        ConsumerProtocolAssignment(assigned_partitions=partitions), PROTOCOL_VERSION
    )


class Group:
    """A group of members that are all in this process."""

    def __init__(
        self,
        bootstrap_server: str,
        group_id: str,
        size: int,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
    ) -> None:
        self.coordinator = await_coordinator(bootstrap_server, group_id)
        self.group_id = group_id
        self.heartbeat_seconds = heartbeat_seconds
        self.members: list[Member] = []
        self._by_descriptor: dict[int, Member] = {}
        self._poll = select.epoll()
        for _ in range(size):
            self.connect_one()

    def connect_one(self) -> Member:
        """Somebody who may join."""
        member = Member(self.coordinator, self.group_id)
        descriptor = member.connection.socket.fileno()
        self.members.append(member)
        self._by_descriptor[descriptor] = member
        self._poll.register(descriptor, select.EPOLLIN)
        return member

    def form(self) -> float:
        """Everybody joins at once; seconds until all are in one generation and have their assignments."""
        started = time.perf_counter()
        for member in self.members:
            member.join()
        return self._settle(started)

    def grow(self, newcomer: Member) -> float:
        """Somebody who is connected joins the stable group; seconds until it is stable again."""
        started = time.perf_counter()
        newcomer.join()
        # It has an id and joins with it before the others ask: they would have to ask twice otherwise.
        newcomer.receive()
        return self._settle(started)

    def newcomer(self) -> Callable[[], float]:
        """Connects one more, which joins when this is called."""
        return partial(self.grow, self.connect_one())

    def shrink(self) -> float:
        """The newest member leaves; seconds until the others are a stable group."""
        leaver = self.members.pop()
        self._forget(leaver)
        started = time.perf_counter()
        self._leave([leaver], leaver.connection)
        elapsed = self._settle(started)
        leaver.connection.close()
        return elapsed

    def beat(self, seconds: float) -> int:
        """Lets a stable group send its heartbeats for a while; how many."""
        now = time.perf_counter()
        pace = self.heartbeat_seconds / len(self.members)
        # Members that came at different times beat at different times.
        due = deque((now + pace * number, member) for number, member in enumerate(self.members))
        end, sent = now + seconds, 0
        while (now := time.perf_counter()) < end:
            while due and due[0][0] <= now:
                due.popleft()[1].heartbeat()
                sent += 1
            wait = max(0.0, min(due[0][0] if due else end, end) - time.perf_counter())
            for descriptor, _ in self._poll.poll(wait):
                member = self._by_descriptor[descriptor]
                member.receive()
                if not member.is_asking:
                    due.append((time.perf_counter() + self.heartbeat_seconds, member))
        for member in self.members:
            while member.is_asking:
                member.receive()
        return sent

    def _settle(self, started: float) -> float:
        """Lets everybody act until the group is stable in a generation that it was not in before."""
        before = max(member.generation for member in self.members)
        idle = deque((started, member) for member in self.members if not member.is_asking)
        while not self._is_stable_since(before):
            if time.perf_counter() - started > STABLE_SECONDS:
                raise RefusedError(f"no stable group within {STABLE_SECONDS:.0f} s")
            while idle and idle[0][0] <= time.perf_counter():
                idle.popleft()[1].heartbeat()
            wait = max(0.0, idle[0][0] - time.perf_counter()) if idle else self.heartbeat_seconds
            for descriptor, _ in self._poll.poll(wait):
                member = self._by_descriptor[descriptor]
                member.receive()
                if not member.is_asking:
                    idle.append((time.perf_counter() + self.heartbeat_seconds, member))
        elapsed = time.perf_counter() - started
        for member in self.members:
            while member.is_asking:
                member.receive()
        if len({member.assignment for member in self.members}) != len(self.members):
            raise RefusedError("a partition is assigned twice, or a member has none")
        return elapsed

    def _is_stable_since(self, generation: int) -> bool:
        current = self.members[0].generation
        return current > generation and all(
            member.assignment is not None and member.generation == current
            for member in self.members
        )

    def _leave(self, members: list[Member], connection: RawConnection) -> None:
        request = LeaveGroupRequest(
            group_id=self.group_id,
            members=[MemberIdentity(member_id=member.member_id) for member in members],
        )
        answer = connection.call(request, LeaveGroupResponse, LEAVE_VERSION)
        if answer.error_code != ErrorCode.NONE:
            raise RefusedError(f"LeaveGroup with error {answer.error_code}")

    def _forget(self, member: Member) -> None:
        descriptor = member.connection.socket.fileno()
        self._poll.unregister(descriptor)
        del self._by_descriptor[descriptor]

    def close(self) -> None:
        """Everybody leaves at once, so that no session of theirs ends during a later measurement."""
        joined = [member for member in self.members if member.member_id]
        if joined:
            self._leave(joined, joined[0].connection)
        self._poll.close()
        for member in self.members:
            member.connection.close()
