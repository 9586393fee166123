"""Members of the new consumer protocol (KIP-848) that follow its rules, as the Java client's classes do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tests.sim.group_clients import GroupClient
from tests.sim.members import COMMITS_AFTER_LEAVING, LOST, FatalError
from tests.sim.offset_invariants import commit_errors
from tests.sim.ownership import Ownership, Partition
from tests.sim.world import World

from ottla.core.group.requests import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from ottla.errors import ErrorCode
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from ottla.wire.messages.offset_commit import OffsetCommitRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequest

NO_TIMEOUT = -1
# The first versions in which members of the new protocol commit and fetch, and of heartbeats with patterns.
FIRST_COMMIT_VERSION = 9
FIRST_FETCH_VERSION = 9
FIRST_PATTERN_VERSION = 1
REVOKES_SECONDS = (0.0, 0.0, 0.5, 2.0)
# One that does not come to an end: the coordinator has to lose patience.
HANGS = 0.15
HANGS_SECONDS = 1000.0
RETRIES_INSTANCE_SECONDS = 2.0

# The member abandons its partitions and joins again.
FENCED = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)


@dataclass(frozen=True)
class ConsumerSetup:
    """How a member is configured."""

    group_id: str
    instance_id: str | None
    session_timeout_ms: int  # of the broker
    rebalance_timeout_ms: int
    assignor: str | None
    # Whether the group may become a classic one, of which a member that comes back late knows nothing.
    may_downgrade: bool


@dataclass
class Subscription:
    """The names and the pattern that a member subscribes to."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None


class ConsumerMember(GroupClient):
    """A consumer with `group.protocol=consumer`, for as long as its process lives."""

    speaks_classic = False

    def __init__(
        self,
        world: World,
        name: str,
        setup: ConsumerSetup,
        subscription: Subscription,
        ownership: Ownership,
    ) -> None:
        super().__init__(world, name, setup.group_id)
        self.setup = setup
        self.subscription = subscription
        self.instance_id = setup.instance_id
        self.member_id = str(UUID(int=self.rng.getrandbits(128)))
        self.member_epoch = JOIN_EPOCH
        self.is_alive = True
        self.leaves_soon = False
        self.hangs = False
        self.is_persistent = True
        self.first_versions = {
            ConsumerGroupHeartbeatRequest: FIRST_PATTERN_VERSION,
            OffsetCommitRequest: FIRST_COMMIT_VERSION,
            OffsetFetchRequest: FIRST_FETCH_VERSION,
        }
        self._ownership = ownership
        # Its partitions with the epochs since which it has them, and those that it is to have.
        self._owned: dict[Partition, int] = {}
        self._target: dict[Partition, int] | None = None
        self._revoked_at: float | None = None
        # The last of each that the coordinator has been told; None if it has to be told again.
        self._told_subscription: Subscription | None = None
        self._told_owned: dict[Partition, None] | None = None
        self._last_ok_at = world.loop.time()
        self._revokes_by = float("inf")
        self._interval_seconds = 1.0
        self._paused_until = 0.0
        ownership.add(self)

    # What others see of it.

    def owned(self) -> dict[Partition, int]:
        return self._owned

    def epoch(self) -> int:
        return self.member_epoch

    def has_released(self, partition: Partition) -> bool:
        told = self._told_owned
        return partition not in self._owned and told is not None and partition not in told

    @property
    def is_settled(self) -> bool:
        """Whether it has what it is to have, and the coordinator knows that."""
        return (
            self.member_epoch > 0
            and self._target is None
            and self._told_owned == dict.fromkeys(self._owned)
            and self._told_subscription == self.subscription
        )

    def may_be_removed(self) -> bool:
        # The coordinator may have heard of it later than this, never earlier.
        timeout_ms = min(self.setup.session_timeout_ms, self.setup.rebalance_timeout_ms)
        now = self.world.loop.time()
        return now >= self._last_ok_at + timeout_ms / 1000 or now >= self._revokes_by

    @property
    def _may_be_gone(self) -> bool:
        return self.may_be_removed() or self._ownership.is_replaced(self)

    # What happens to it.

    def pause(self, seconds: float) -> None:
        self._paused_until = self.world.loop.time() + seconds

    def subscribe(self, subscription: Subscription) -> None:
        self.subscription = subscription

    def end(self) -> None:
        """Its process has ended."""
        self.is_alive = False
        self._owned = {}
        self._ownership.remove(self)

    # What it does.

    async def run(self) -> None:
        try:
            while self.is_alive:
                if self.coordinator is None:
                    await self.find_coordinator()
                elif self.leaves_soon:
                    await self._leave()
                else:
                    await self._heartbeat()
                    await self._use()
        except FatalError as error:
            self.world.trace.note("{} ends: {}", self.name, error.error.name)
            self.end()
            self.close()

    async def _ask(self, request: Any) -> Any | None:
        await self._breathe()
        answer = await self.ask_coordinator(request)
        await self._breathe()
        return answer

    async def _breathe(self) -> None:
        left = self._paused_until - self.world.loop.time()
        if left > 0:
            await asyncio.sleep(left)

    async def _use(self) -> None:
        """Uses its partitions until it is time for the next heartbeat."""
        if not self.is_alive or not self.has_coordinator:
            return
        drawn = self.rng.random()
        if self._owned and self.member_epoch > 0 and drawn < 0.3:
            await self._commit()
        elif self._owned and self.member_epoch > 0 and drawn < 0.4:
            await self._fetch_offsets()
        wait = self._interval_seconds * self.rng.uniform(0.8, 1.0)
        self._reconcile()
        if self._revoked_at is not None:
            wait = min(wait, max(self._revoked_at - self.world.loop.time(), 0.0))
        elif self._told_owned is None:
            wait = 0.0  # it tells at once what it has
        await asyncio.sleep(wait)
        self._reconcile()

    # Heartbeats.

    async def _heartbeat(self) -> None:
        subscription = Subscription(self.subscription.topics, self.subscription.pattern)
        owned = dict.fromkeys(self._owned)
        request = self._request(subscription, owned)
        sent_at = self.world.loop.time()
        first = len(self.network.exchanges)
        answer = await self._ask(request)
        if answer is None:
            self._told_subscription = self._told_owned = None
            # A report that came after a later one would tell what is not so any more; no coordinator can know that.
            await self.network.until_over(request, first)
            return
        error = ErrorCode(answer.error_code)
        if error is ErrorCode.NONE:
            self._told_subscription, self._told_owned = subscription, owned
            self._is_told(answer, sent_at)
        else:
            await self._handle(error)

    def _request(
        self, subscription: Subscription, owned: dict[Partition, None]
    ) -> ConsumerGroupHeartbeatRequest:
        """What has changed since the last one that was answered; everything if there is none."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.member_epoch,
            instance_id=self.instance_id,
        )
        told = self._told_subscription
        if told is None or self.member_epoch == JOIN_EPOCH:
            request.rebalance_timeout_ms = self.setup.rebalance_timeout_ms
            request.server_assignor = self.setup.assignor
            told = None
        if told is None or told.topics != subscription.topics:
            request.subscribed_topic_names = list(subscription.topics)
        # One that joins again may have had another pattern when the coordinator last heard of it. (The Java client
        # 4.3.1 does not tell then that it has none.)
        if told is None or told.pattern != subscription.pattern:
            request.subscribed_topic_regex = subscription.pattern or ""
        if told is None or self._told_owned != owned:
            request.topic_partitions = _by_topic(owned)
        return request

    def _is_told(self, answer: Any, sent_at: float) -> None:
        self.world.check(
            answer.member_epoch >= self.member_epoch,
            "{} goes back from epoch {} to {}",
            self.name,
            self.member_epoch,
            answer.member_epoch,
        )
        last_ok_at, self._last_ok_at = self._last_ok_at, sent_at
        self.member_epoch = answer.member_epoch
        self._interval_seconds = answer.heartbeat_interval_ms / 1000
        if self._told_owned is not None and self._target is None:
            self._revokes_by = float("inf")
        if answer.assignment is None:
            return
        known = {**(self._target or {}), **self._owned}
        self._target = {
            partition: known.get(partition, self.member_epoch)
            for partition in _partitions(answer.assignment.topic_partitions)
        }
        self._revoked_at = None
        if any(partition not in self._target for partition in self._owned):
            # It counts from when the coordinator decided that, whose answer may have been lost.
            self._revokes_by = min(self._revokes_by, last_ok_at + self._rebalance_seconds)
        self._reconcile()

    @property
    def _rebalance_seconds(self) -> float:
        return self.setup.rebalance_timeout_ms / 1000

    def _reconcile(self) -> None:
        """Gives up what it is to give up, which takes its time; then takes what it is to have."""
        target, now = self._target, self.world.loop.time()
        if target is None or not self.is_alive:
            return
        if self._revoked_at is None:
            seconds = self.rng.choice(REVOKES_SECONDS)
            if self.hangs and self.rng.random() < HANGS:
                seconds = HANGS_SECONDS
            revokes = any(partition not in target for partition in self._owned)
            self._revoked_at = now + seconds if revokes else now
        if now < self._revoked_at:
            return
        added = [partition for partition in target if partition not in self._owned]
        self._ownership.take(self, added)
        self._owned = target
        self._target = self._revoked_at = None
        # The coordinator is told once more even if nothing has changed, as the Java client does.
        self._told_owned = None

    async def _handle(self, error: ErrorCode) -> None:
        if error in LOST:
            self._told_subscription = self._told_owned = None
            self.coordinator = None
        elif error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self._told_subscription = self._told_owned = None
            await self.back_off()
        elif error in FENCED:
            self._check_fenced(error)
            self._lose_everything()
        elif error is ErrorCode.UNRELEASED_INSTANCE_ID and self.instance_id is not None:
            # The consumer ends, and somebody starts it again for as long as the old one may go away.
            self.world.check(
                self.member_epoch == JOIN_EPOCH,
                "{} is in the group and told {}",
                self.name,
                error.name,
            )
            if not self.is_persistent:
                raise FatalError(error)
            self._lose_everything()
            await asyncio.sleep(RETRIES_INSTANCE_SECONDS)
        elif error is ErrorCode.FENCED_INSTANCE_ID and self.instance_id is not None:
            self.world.check(self._may_be_gone, "{} is fenced without a reason", self.name)
            raise FatalError(error)
        elif error is ErrorCode.GROUP_ID_NOT_FOUND and self.setup.may_downgrade:
            # It was removed, and what is left of the group speaks the classic protocol.
            self.world.check(self._may_be_gone, "{} finds another group", self.name)
            raise FatalError(error)
        else:
            self.world.check(False, "{} is told {}", self.name, error.name)

    def _check_fenced(self, error: ErrorCode) -> None:
        """Everything that a coordinator told is durable: nobody is forgotten, and one lost answer does no harm."""
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.world.check(self._may_be_gone, "{} is forgotten", self.name)
        since = [
            exchange
            for exchange in self.network.exchanges
            if exchange.client == self.name
            and exchange.name == "ConsumerGroupHeartbeat"
            and exchange.sent_at > self._last_ok_at
        ]
        # Two may have brought the member into epochs of which it has not heard.
        if error is ErrorCode.FENCED_MEMBER_EPOCH:
            self.world.check(len(since) > 2, "{} is fenced without a reason", self.name)

    def _lose_everything(self) -> None:
        self.member_epoch = JOIN_EPOCH
        self._owned = {}
        self._target = self._revoked_at = None
        self._told_subscription = self._told_owned = None
        self._revokes_by = float("inf")

    async def _leave(self) -> None:
        """Says goodbye, and does not wait for an answer for long."""
        left, epoch, has_left = self._owned, self.member_epoch, False
        self.end()
        leaves_for_good = self.instance_id is None or self.rng.random() < 0.3
        if epoch > 0:
            request = ConsumerGroupHeartbeatRequest(
                group_id=self.group_id,
                member_id=self.member_id,
                member_epoch=LEAVE_EPOCH if leaves_for_good else STATIC_LEAVE_EPOCH,
                instance_id=self.instance_id,
            )
            answer = await self._ask(request)
            has_left = answer is not None and answer.error_code == ErrorCode.NONE
        if left and self.has_coordinator and self.rng.random() < COMMITS_AFTER_LEAVING:
            errors = await self._commit_for(list(left), epoch)
            accepted = has_left and ErrorCode.NONE in errors
            self.world.check(not accepted, "{} has left, and commits", self.name)
        self.close()

    # Offsets.

    def _names(self, partitions: Sequence[Partition]) -> list[tuple[str, int]]:
        """Without those of topics that are gone."""
        topics = self.world.nodes.cluster.catalog.topics_by_id
        return [(topics[topic].name, number) for topic, number in partitions if topic in topics]

    async def _commit(self) -> None:
        some = self.rng.sample(list(self._owned), self.rng.randint(1, len(self._owned)))
        await self._commit_for(some, self.member_epoch)

    async def _commit_for(self, partitions: Sequence[Partition], epoch: int) -> list[ErrorCode]:
        offsets = {key: self.world.next_number() for key in self._names(partitions)}
        if not offsets:
            return []
        request = self.commit_request(offsets)
        request.generation_id_or_member_epoch = epoch
        request.member_id = self.member_id
        request.group_instance_id = self.instance_id
        answer = await self._ask(request)
        errors = [] if answer is None else commit_errors(answer)
        for error in errors:
            self._committed(error)
        return errors

    def _committed(self, error: ErrorCode) -> None:
        if error in LOST:
            self.coordinator = None
        elif error is not ErrorCode.NONE:
            # A member that is out of date learns from its heartbeat what to do.
            self.expect(
                error,
                *FENCED,
                ErrorCode.STALE_MEMBER_EPOCH,
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode.UNKNOWN_TOPIC_ID,
                # A group that has become a classic one knows only generations.
                ErrorCode.ILLEGAL_GENERATION,
                ErrorCode.FENCED_INSTANCE_ID,
                # The group of a member that has left may be gone.
                *(() if self.is_alive else (ErrorCode.GROUP_ID_NOT_FOUND,)),
            )

    async def _fetch_offsets(self) -> None:
        partitions = self._names(list(self._owned))
        if not partitions:
            return
        request = self.fetch_request(partitions)
        request.groups[0].member_id = self.member_id
        request.groups[0].member_epoch = self.member_epoch
        answer = await self._ask(request)
        if answer is None:
            return
        error = self.fetch_error(answer)
        if error in LOST:
            self.coordinator = None
        elif error is not ErrorCode.NONE:
            self.expect(
                error,
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.STALE_MEMBER_EPOCH,
            )


def _partitions(topics: Sequence[TopicPartitions]) -> list[Partition]:
    return [(topic.topic_id, number) for topic in topics for number in topic.partitions]


def _by_topic(partitions: dict[Partition, None]) -> list[TopicPartitions]:
    found: dict[UUID, list[int]] = {}
    for topic_id, number in partitions:
        found.setdefault(topic_id, []).append(number)
    return [
        TopicPartitions(topic_id=topic_id, partitions=sorted(numbers))
        for topic_id, numbers in found.items()
    ]
