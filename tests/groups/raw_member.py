"""A member of a group in raw messages: cheap, so that there can be many, and strict with the broker."""

from __future__ import annotations

import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence

from tests.groups.history import ASSIGNED, LEFT, LOST, REVOKED, Event, History

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.wire.compile import decode_stored, encode_stored
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from ottla.wire.stored import consumer_protocol
from ottla.wire.stored.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

HEARTBEAT_SECONDS = 0.2
REBALANCE_TIMEOUT_MS = 30_000
SESSION_TIMEOUT_MS = 6_000
# The coordinator is elsewhere, or not there yet: ask again who it is.
LOOK_AGAIN = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}
LOOK_AGAIN_SECONDS = 0.05


# What a member may hear from a new coordinator, which knows only what the old one wrote: not those
# who had not synced yet, and not the generation that was being made.
FORGOTTEN = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION}


class BrokenError(Exception):
    """The broker said what a member that does everything right must never hear."""


class RawMembership(ABC):
    """From the join to the leave, whatever the protocol; what happens to the partitions goes into the history."""

    def __init__(
        self,
        bootstrap_server: str,
        group_id: str,
        topic: str,
        name: str,
        history: History,
        rng: random.Random,
    ) -> None:
        self.bootstrap_server = bootstrap_server
        self.group_id = group_id
        self.topic = topic
        self.name = name
        self.history = history
        self.member_id = ""
        self.generation = -1
        self.owned: list[TopicPartition] = []
        self.heartbeat_seconds = HEARTBEAT_SECONDS * rng.uniform(0.5, 1.5)
        self.connection = self._connect()

    def _connect(self) -> RawConnection:
        """A connection to the coordinator."""
        while True:
            with RawConnection(self.bootstrap_server) as connection:
                request = FindCoordinatorRequest(key=self.group_id)
                answer = connection.call(request, FindCoordinatorResponse, 3)
            if answer.error_code == ErrorCode.NONE:
                return RawConnection(f"{answer.host}:{answer.port}")
            if ErrorCode(answer.error_code) not in LOOK_AGAIN:
                raise BrokenError(f"{self.name} finds no coordinator: {answer.error_code}")
            time.sleep(LOOK_AGAIN_SECONDS)

    def _look_again(self) -> None:
        self.connection.close()
        time.sleep(LOOK_AGAIN_SECONDS)
        self.connection = self._connect()

    @abstractmethod
    def stay(self, leave: threading.Event, until: float) -> None:
        """Takes part until the moment, or until it is told to leave."""

    @abstractmethod
    def leave(self) -> None:
        """Gives up what it has, and tells the coordinator."""

    def _say(self, kind: str, partitions: Sequence[TopicPartition]) -> None:
        self.history.add(
            Event(
                time.monotonic(),
                self.name,
                kind,
                tuple(partitions),
                self.generation,
                self.member_id,
            )
        )

    def _give_up(self, kind: str) -> None:
        if self.owned:
            self._say(kind, self.owned)
            self.owned = []

    def close(self) -> None:
        self.connection.close()


class RawMember(RawMembership):
    """With the classic protocol; the versions are the member's own choice."""

    def __init__(
        self,
        bootstrap_server: str,
        group_id: str,
        topic: str,
        partition_count: int,
        name: str,
        history: History,
        rng: random.Random,
    ) -> None:
        super().__init__(bootstrap_server, group_id, topic, name, history, rng)
        self.partition_count = partition_count
        # Whether the coordinator changed since the last assignment.
        self.has_moved = False
        # Up to 3 the group takes a member without the handshake of KIP-394.
        self.join_version = rng.randint(1, 9)

    def _look_again(self) -> None:
        self.has_moved = True
        super()._look_again()

    def _complain(self, doing: str, error: ErrorCode) -> None:
        """Raises what must not be; a member that a new coordinator does not know begins again."""
        if not (self.has_moved and error in FORGOTTEN):
            raise BrokenError(f"{self.name} {doing} in {self.generation}, hears {error.name}")
        self._give_up(LOST)
        if error == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""

    def stay(self, leave: threading.Event, until: float) -> None:
        while time.monotonic() < until and not leave.is_set():
            if not self.owned:
                self._join()
            leave.wait(self.heartbeat_seconds)
            self._heartbeat()

    def _join(self) -> None:
        """Until it has an assignment."""
        while not self.owned:
            subscription = encode_stored(ConsumerProtocolSubscription(topics=[self.topic]), 0)
            request = JoinGroupRequest(
                group_id=self.group_id,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
                member_id=self.member_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
            )
            answer = self.connection.call(request, JoinGroupResponse, self.join_version)
            match ErrorCode(answer.error_code):
                case ErrorCode.NONE:
                    self.member_id, self.generation = answer.member_id, answer.generation_id
                    self._sync(answer)
                case ErrorCode.MEMBER_ID_REQUIRED if not self.member_id and self.join_version > 3:
                    self.member_id = answer.member_id
                case error if error in LOOK_AGAIN:
                    self._look_again()
                case error:
                    self._complain("joins", error)

    def _sync(self, joined: JoinGroupResponse) -> None:
        assignments = []
        if joined.leader == self.member_id:
            assignments = self._share_out([member.member_id for member in joined.members])
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )
        # The versions of the two go together: 5 checks the protocol that 7 tells.
        answer = self.connection.call(
            request, SyncGroupResponse, min(5, max(0, self.join_version - 2))
        )
        match ErrorCode(answer.error_code):
            case ErrorCode.NONE:
                self.owned = self._decoded(answer.assignment)
                if not self.owned:
                    raise BrokenError(f"{self.name} got nothing in {self.generation}")
                self.has_moved = False
                self._say(ASSIGNED, self.owned)
            case ErrorCode.REBALANCE_IN_PROGRESS:
                pass
            case error if error in LOOK_AGAIN:
                self._look_again()
            case error:
                self._complain("syncs", error)

    def _share_out(self, member_ids: Sequence[str]) -> list[SyncGroupRequestAssignment]:
        shares = []
        for index, member_id in enumerate(sorted(member_ids)):
            numbers = list(range(index, self.partition_count, len(member_ids)))
            partition = consumer_protocol.TopicPartition(topic=self.topic, partitions=numbers)
            data = encode_stored(ConsumerProtocolAssignment(assigned_partitions=[partition]), 0)
            shares.append(SyncGroupRequestAssignment(member_id=member_id, assignment=data))
        return shares

    def _decoded(self, assignment: bytes) -> list[TopicPartition]:
        if not assignment:
            return []
        found = decode_stored(ConsumerProtocolAssignment, assignment)
        return [
            TopicPartition(one.topic, number)
            for one in found.assigned_partitions
            for number in one.partitions
        ]

    def _heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=self.group_id, generation_id=self.generation, member_id=self.member_id
        )
        answer = self.connection.call(request, HeartbeatResponse, min(4, self.join_version))
        match ErrorCode(answer.error_code):
            case ErrorCode.NONE:
                pass
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self._give_up(REVOKED)
            case error if error in LOOK_AGAIN:
                self._look_again()
            case error:
                self._complain("beats", error)

    def leave(self) -> None:
        self._give_up(REVOKED)
        version = min(5, self.join_version)
        members = [MemberIdentity(member_id=self.member_id)] if version >= 3 else []
        request = LeaveGroupRequest(
            group_id=self.group_id, member_id=self.member_id, members=members
        )
        while True:
            answer = self.connection.call(request, LeaveGroupResponse, version)
            if ErrorCode(answer.error_code) not in LOOK_AGAIN:
                break
            self._look_again()
        codes = [answer.error_code, *(member.error_code for member in answer.members)]
        for error in filter(None, codes):
            self._complain("leaves", ErrorCode(error))
        self._say(LEFT, ())
