"""Members of consumer groups that follow the protocol by its rules, as the Java client's coordinator classes do."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.sim.clients import TIMEOUT_SECONDS, Client
from tests.sim.world import World

from ottla.errors import ErrorCode
from ottla.wire.compile import decode_stored, encode_stored
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.wire.stored.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)

CONSUMER = "consumer"
NO_GENERATION = -1
STATIC = "static-"  # what instance ids begin with
JOIN_SLACK_SECONDS = 5.0
DAWDLES = 0.03
DAWDLES_SECONDS = 50.0
COMMITS_AFTER_LEAVING = 0.5
Partitions = list[tuple[str, int]]

# Where a static member says which one it is.
STATIC_VERSIONS: dict[type[Any], int] = {
    JoinGroupRequest: 5,
    SyncGroupRequest: 3,
    HeartbeatRequest: 3,
    LeaveGroupRequest: 3,
    OffsetCommitRequest: 7,
}
LOST = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)


@dataclass(frozen=True)
class Setup:
    """How a member is configured."""

    group_id: str
    instance_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[str, ...] = ("range",)


class FatalError(Exception):
    """The consumer would raise this to the application, which ends."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error.name)
        self.error = error


class GroupClient(Client):
    """A client that finds the coordinator of its group, and knows how each version names topics."""

    def __init__(self, world: World, name: str, group_id: str) -> None:
        super().__init__(world, name)
        self.group_id = group_id
        self.coordinator: int | None = None

    @property
    def has_coordinator(self) -> bool:
        return self.coordinator is not None

    async def find_coordinator(self) -> None:
        if self.version_of(FindCoordinatorRequest) < 4:
            request = FindCoordinatorRequest(key=self.group_id)
            found = await self.ask_any(request)
        else:
            request = FindCoordinatorRequest(coordinator_keys=[self.group_id])
            found = (await self.ask_any(request)).coordinators[0]
        if found.error_code == ErrorCode.NONE:
            self.coordinator = found.node_id
        else:
            self.expect(found.error_code, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            await self.back_off()

    async def ask_coordinator(
        self, request: Any, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> Any | None:
        """The answer; without one the coordinator has to be found again."""
        assert self.coordinator is not None
        answer = await self.ask(self.coordinator, request, timeout_seconds)
        if answer is None:
            self.coordinator = None
        return answer

    def expect(self, error_code: int, *expected: ErrorCode) -> None:
        """Whether a client is prepared for the error."""
        error = ErrorCode(error_code)
        self.world.check(error in expected, "{} is told {}", self.name, error.name)

    def topic_id(self, topic: str) -> Any:
        return self.world.nodes.cluster.catalog.topics[topic].topic_id

    def commit_request(self, offsets: Mapping[tuple[str, int], int]) -> OffsetCommitRequest:
        by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in offsets.items():
            by_topic.setdefault(topic, []).append(
                OffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=offset,
                    committed_metadata=self.name,
                )
            )
        return OffsetCommitRequest(
            group_id=self.group_id,
            member_id="",
            topics=[
                OffsetCommitRequestTopic(name=name, topic_id=self.topic_id(name), partitions=found)
                for name, found in by_topic.items()
            ],
        )

    def fetch_request(self, partitions: Sequence[tuple[str, int]]) -> OffsetFetchRequest:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in partitions:
            by_topic.setdefault(topic, []).append(partition)
        if self.version_of(OffsetFetchRequest) < 8:
            return OffsetFetchRequest(
                group_id=self.group_id,
                topics=[
                    OffsetFetchRequestTopic(name=name, partition_indexes=found)
                    for name, found in by_topic.items()
                ],
            )
        topics = [
            OffsetFetchRequestTopics(
                name=name, topic_id=self.topic_id(name), partition_indexes=found
            )
            for name, found in by_topic.items()
        ]
        return OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=self.group_id, topics=topics)]
        )


class Member(GroupClient):
    """A consumer of a group, for as long as its process lives."""

    def __init__(self, world: World, name: str, setup: Setup, topics: Sequence[str]) -> None:
        super().__init__(world, name, setup.group_id)
        self.setup = setup
        self.topics = sorted(topics)
        if setup.instance_id is not None:
            self.first_versions = STATIC_VERSIONS
        self.member_id = ""
        self.generation = NO_GENERATION
        self.protocol: str | None = None
        self.assignment: Partitions = []
        self.needs_join = True
        self.is_alive = True
        self.leaves_soon = False
        self.dawdles = False
        self._paused_until = 0.0
        self._metadata_version = self.rng.randint(0, 3)
        self._heartbeat_seconds = setup.session_timeout_ms / 1000 * self.rng.uniform(0.2, 0.35)

    # What happens to it.

    def pause(self, seconds: float) -> None:
        """Stops for a while, wherever it is: a garbage collection, a suspended laptop."""
        self._paused_until = self.world.loop.time() + seconds

    def subscribe(self, topics: Sequence[str]) -> None:
        if sorted(topics) != self.topics:
            self.topics = sorted(topics)
            self.needs_join = True

    # What it does.

    async def run(self) -> None:
        try:
            while self.is_alive:
                if self.coordinator is None:
                    await self.find_coordinator()
                elif self.needs_join:
                    await self._join()
                else:
                    await self._stay()
        except FatalError as error:
            self.is_alive = False
            self.world.trace.note("{} ends: {}", self.name, error.error.name)
            self.close()

    @property
    def has_partitions(self) -> bool:
        return bool(self.assignment) and self.has_coordinator

    async def _ask(self, request: Any, timeout_seconds: float = TIMEOUT_SECONDS) -> Any | None:
        await self._breathe()
        answer = await self.ask_coordinator(request, timeout_seconds)
        await self._breathe()
        return answer

    async def _breathe(self) -> None:
        left = self._paused_until - self.world.loop.time()
        if left > 0:
            await asyncio.sleep(left)

    def _forget(self, error: ErrorCode) -> None:
        """What the coordinator does not know any more is given up; a member id only if it is that."""
        self.generation = NO_GENERATION
        self.needs_join = True
        self.assignment = []
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""

    # Joining.

    async def _join(self) -> None:
        topics = list(self.topics)
        metadata = encode_stored(
            ConsumerProtocolSubscription(topics=topics), self._metadata_version
        )
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self.setup.session_timeout_ms,
            rebalance_timeout_ms=self.setup.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self.setup.instance_id,
            protocol_type=CONSUMER,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name in self.setup.protocols
            ],
        )
        timeout_seconds = self.setup.rebalance_timeout_ms / 1000 + JOIN_SLACK_SECONDS
        # An eager member gives up what it has before it joins (KIP-429 calls it that).
        self.assignment = []
        answer = await self._ask(request, timeout_seconds)
        if answer is None:
            return
        error = ErrorCode(answer.error_code)
        if error is ErrorCode.MEMBER_ID_REQUIRED:
            self.world.check(bool(answer.member_id), "{} is given no member id", self.name)
            self.member_id = answer.member_id
        elif error is ErrorCode.UNKNOWN_MEMBER_ID:
            self._forget(error)
        elif error in LOST:
            self.coordinator = None
        elif error in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REBALANCE_IN_PROGRESS):
            await self.back_off()
        elif error is not ErrorCode.NONE:
            self._fail(error)
        else:
            self.member_id, self.generation = answer.member_id, answer.generation_id
            self.protocol = answer.protocol_name
            assignments = self._assignments(answer)
            if self.dawdles and self.rng.random() < DAWDLES:
                await self._dawdle()
            await self._sync(assignments, topics)

    async def _dawdle(self) -> None:
        """Heartbeats and does not sync, as no good client does: the coordinator has to lose patience (KAFKA-13435)."""
        self.needs_join = False
        end = self.world.loop.time() + DAWDLES_SECONDS
        while self.has_coordinator and not self.needs_join and self.world.loop.time() < end:
            await asyncio.sleep(self._heartbeat_seconds)
            await self._heartbeat()
        self.needs_join = True

    def _fail(self, error: ErrorCode) -> None:
        """Whether the error is one that a member of its kind can get; it ends then."""
        if error is not ErrorCode.FENCED_INSTANCE_ID or self.setup.instance_id is None:
            self.world.check(False, "{} is told {}", self.name, error.name)
        raise FatalError(error)

    def _assignments(self, answer: Any) -> list[SyncGroupRequestAssignment]:
        """What a leader decides; nobody else does, nor does a leader that is told to leave it as it is."""
        if answer.leader != answer.member_id or answer.skip_assignment:
            return []
        wanted = {
            member.member_id: decode_stored(ConsumerProtocolSubscription, member.metadata).topics
            for member in answer.members
        }
        self.world.check(answer.member_id in wanted, "{} leads a group without itself", self.name)
        assigned = assign(wanted, self.world.partition_counts)
        return [
            SyncGroupRequestAssignment(
                member_id=member_id, assignment=encode_assignment(partitions)
            )
            for member_id, partitions in assigned.items()
        ]

    async def _sync(self, assignments: list[SyncGroupRequestAssignment], topics: list[str]) -> None:
        if self.coordinator is None:
            return
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.setup.instance_id,
            protocol_type=CONSUMER,
            protocol_name=self.protocol,
            assignments=assignments,
        )
        timeout_seconds = self.setup.rebalance_timeout_ms / 1000 + JOIN_SLACK_SECONDS
        answer = await self._ask(request, timeout_seconds)
        if answer is None:
            return
        error = ErrorCode(answer.error_code)
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self._forget(error)
        elif error in LOST:
            self.coordinator = None
        elif error is ErrorCode.REBALANCE_IN_PROGRESS:
            pass
        elif error is not ErrorCode.NONE:
            self._fail(error)
        else:
            self.assignment = decode_assignment(answer.assignment)
            # As the Java client does: what was assigned must be what is subscribed to now.
            is_wanted = all(topic in self.topics for topic, _ in self.assignment)
            self.needs_join = topics != self.topics or not is_wanted
            if self.assignment and self.rng.random() < 0.5:
                await self._fetch_offsets()

    # Being in the group.

    async def _stay(self) -> None:
        await asyncio.sleep(self._heartbeat_seconds * self.rng.uniform(0.8, 1.0))
        await self._breathe()
        if self.leaves_soon:
            await self._leave()
            return
        drawn = self.rng.random()
        if self.has_partitions and drawn < 0.4:
            await self._commit()
        elif self.has_partitions and drawn < 0.5:
            await self._fetch_offsets()
        if self.coordinator is not None and not self.needs_join and drawn < 0.9:
            await self._heartbeat()

    async def _heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.setup.instance_id,
        )
        answer = await self._ask(request)
        if answer is None:
            return
        error = ErrorCode(answer.error_code)
        if error is ErrorCode.REBALANCE_IN_PROGRESS:
            self.needs_join = True
        elif error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self._forget(error)
        elif error in LOST:
            self.coordinator = None
        elif error is not ErrorCode.NONE:
            self._fail(error)

    async def _commit(self) -> None:
        count = self.rng.randint(1, len(self.assignment))
        offsets = {
            partition: self.world.next_number()
            for partition in self.rng.sample(self.assignment, count)
        }
        request = self.commit_request(offsets)
        request.generation_id_or_member_epoch = self.generation
        request.member_id = self.member_id
        request.group_instance_id = self.setup.instance_id
        answer = await self._ask(request)
        if answer is None:
            return
        for topic in answer.topics:
            for partition in topic.partitions:
                error = ErrorCode(partition.error_code)
                if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
                    self._forget(error)
                elif error is ErrorCode.REBALANCE_IN_PROGRESS:
                    self.needs_join = True
                elif error in LOST:
                    self.coordinator = None
                elif error not in (ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
                    self._fail(error)

    async def _fetch_offsets(self) -> None:
        answer = await self._ask(self.fetch_request(self.assignment))
        if answer is None:
            return
        error = ErrorCode(answer.groups[0].error_code if answer.groups else answer.error_code)
        if error in LOST:
            self.coordinator = None
        elif error is not ErrorCode.NONE:
            self.expect(error, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    async def _leave(self) -> None:
        """Says goodbye, and does not wait for an answer for long."""
        identity = MemberIdentity(
            member_id=self.member_id, group_instance_id=self.setup.instance_id
        )
        if self.version_of(LeaveGroupRequest) < 3:
            request = LeaveGroupRequest(group_id=self.group_id, member_id=self.member_id)
        else:
            request = LeaveGroupRequest(group_id=self.group_id, members=[identity])
        self.is_alive = False
        await self._ask(request)
        if self.has_partitions and self.rng.random() < COMMITS_AFTER_LEAVING:
            await self._commit()
        self.assignment = []
        self.close()


def assign(wanted: Mapping[str, Sequence[str]], counts: Mapping[str, int]) -> dict[str, Partitions]:
    """Gives every partition of every topic to the members that want it, in turns."""
    assigned: dict[str, Partitions] = {member_id: [] for member_id in wanted}
    turn = 0
    for topic, count in counts.items():
        takers = [member_id for member_id, topics in wanted.items() if topic in topics]
        for partition in range(count if takers else 0):
            assigned[takers[turn % len(takers)]].append((topic, partition))
            turn += 1
    return assigned


def encode_assignment(partitions: Partitions) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            TopicPartition(topic=topic, partitions=found) for topic, found in by_topic.items()
        ]
    )
    return encode_stored(assignment, 0)


def decode_assignment(data: bytes | memoryview) -> Partitions:
    """The partitions of an assignment; a member that the leader did not know gets no bytes at all."""
    if not data:
        return []
    assignment = decode_stored(ConsumerProtocolAssignment, data)
    return [
        (assigned.topic, partition)
        for assigned in assignment.assigned_partitions
        for partition in assigned.partitions
    ]
