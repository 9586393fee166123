"""Members of consumer groups that follow the protocol by its rules, as the Java client's coordinator classes do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.sim.clients import TIMEOUT_SECONDS
from tests.sim.group_clients import GroupClient
from tests.sim.world import World

from ottla.core.assignors.model import (
    Assignment,
    PartitionInfo,
    RebalanceProtocol,
    Subscription,
)
from ottla.core.assignors.protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.core.assignors.registry import ASSIGNORS
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.offset_commit import OffsetCommitRequest
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

CONSUMER = "consumer"
NO_GENERATION = -1
STATIC = "static-"  # what instance ids begin with
JOIN_SLACK_SECONDS = 5.0
DAWDLES = 0.03
DAWDLES_SECONDS = 50.0
COMMITS_AFTER_LEAVING = 0.5
USURPS = 0.03

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
    protocols: tuple[str, ...]  # names of assignors, the best liked first


class FatalError(Exception):
    """The consumer would raise this to the application, which ends."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error.name)
        self.error = error


class Member(GroupClient):
    """A consumer of a group, for as long as its process lives."""

    # Errors of a commit after which there is nothing to do.
    harmless: tuple[ErrorCode, ...] = (ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def __init__(self, world: World, name: str, setup: Setup, topics: Sequence[str]) -> None:
        super().__init__(world, name, setup.group_id)
        self.setup = setup
        self.topics = sorted(topics)
        if setup.instance_id is not None:
            self.first_versions = STATIC_VERSIONS
        self.member_id = ""
        self.generation = NO_GENERATION
        self.protocol: str | None = None
        self.assignment: list[TopicPartition] = []
        self._assignors = {name: ASSIGNORS[name]() for name in setup.protocols}
        # As the Java client: cooperative only if all its assignors are (KIP-429).
        self._is_cooperative = all(
            RebalanceProtocol.COOPERATIVE in assignor.protocols
            for assignor in self._assignors.values()
        )
        self.needs_join = True
        self.is_alive = True
        self.leaves_soon = False
        self.dawdles = False
        self._paused_until = 0.0
        self._assigned_counts: dict[str, int] | None = None  # what it assigned, if it leads
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
        if not self._is_cooperative:
            self.assignment = []
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self.setup.session_timeout_ms,
            rebalance_timeout_ms=self.setup.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self.setup.instance_id,
            protocol_type=CONSUMER,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=self._subscription(name))
                for name in self.setup.protocols
            ],
        )
        timeout_seconds = self.setup.rebalance_timeout_ms / 1000 + JOIN_SLACK_SECONDS
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
        self._assigned_counts = None
        if answer.leader != answer.member_id and self.rng.random() < USURPS:
            return [self._everything()]
        if answer.leader != answer.member_id or answer.skip_assignment:
            return []
        subscriptions = {
            member.member_id: decode_subscription(member.metadata, member.group_instance_id)
            for member in answer.members
        }
        self.world.check(
            answer.member_id in subscriptions, "{} leads a group without itself", self.name
        )
        self._assigned_counts = dict(self.world.partition_counts)
        cluster = {
            topic: [PartitionInfo(partition) for partition in range(count)]
            for topic, count in self.world.partition_counts.items()
        }
        assigned = self._assignors[answer.protocol_name].assign(cluster, subscriptions)
        return [
            SyncGroupRequestAssignment(
                member_id=member_id, assignment=encode_assignment(share, self._metadata_version)
            )
            for member_id, share in assigned.items()
        ]

    def _everything(self) -> SyncGroupRequestAssignment:
        """What a member that takes itself for the leader may ask for, and must not get."""
        counts = self.world.partition_counts
        share = tuple(
            TopicPartition(topic, number) for topic in counts for number in range(counts[topic])
        )
        data = encode_assignment(Assignment(share))
        return SyncGroupRequestAssignment(member_id=self.member_id, assignment=data)

    def _subscription(self, name: str) -> bytes:
        subscription = Subscription(
            tuple(self.topics),
            self._assignors[name].subscription_user_data(self.topics),
            tuple(self.assignment),
            self.generation if self.assignment else NO_GENERATION,
        )
        return encode_subscription(subscription, self._metadata_version)

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
            self._take(answer.assignment)
            self.needs_join = self.needs_join or topics != self.topics
            if self.assignment and self.rng.random() < 0.5:
                await self._fetch_offsets()

    def _take(self, data: bytes | memoryview) -> None:
        """Takes its share; a member that the leader did not know gets no bytes at all."""
        share = decode_assignment(data) if data else Assignment(())
        given = list(share.partitions)
        # As the Java client does: what was assigned must be what is subscribed to now, and who has to give something
        # up joins again, so that somebody else can get it (KIP-429).
        is_wanted = all(topic in self.topics for topic, _ in given)
        is_reduced = any(partition not in given for partition in self.assignment)
        self.needs_join = not is_wanted or is_reduced
        self.assignment = given
        self._assignors[self.protocol or ""].on_assignment(share, self.generation)

    # Being in the group.

    async def _stay(self) -> None:
        await asyncio.sleep(self._heartbeat_seconds * self.rng.uniform(0.8, 1.0))
        await self._breathe()
        if self.leaves_soon:
            await self._leave()
            return
        if self._assigned_counts not in (None, self.world.partition_counts):
            self.needs_join = True  # a leader looks at the metadata of the topics
            return
        drawn = self.rng.random()
        if self.has_partitions and drawn < 0.4:
            await self._commit()
        elif self.has_partitions and drawn < 0.5:
            await self._fetch_offsets()
        if self.has_coordinator and not self.needs_join:
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
        offsets: dict[tuple[str, int], int] = {
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
                elif error not in self.harmless:
                    self._fail(error)

    async def _fetch_offsets(self) -> None:
        answer = await self._ask(self.fetch_request(self.assignment))
        if answer is None:
            return
        error = self.fetch_error(answer)
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


def partitions_of(data: bytes | memoryview) -> list[TopicPartition]:
    """What an assignment gives."""
    return list(decode_assignment(data).partitions) if data else []
