"""Groups of the new protocol through everything, alone and together with classic members that change their protocol."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

from tests.sim.clients import Client
from tests.sim.consumer_members import ConsumerMember, ConsumerSetup, Subscription
from tests.sim.group_clients import Observer
from tests.sim.groups import (
    BAD_DISKS,
    BAD_NETWORK,
    check_answers,
    check_leftovers,
    check_replays,
    coordinators_work_in_slices,
    create_topics,
    group_options,
)
from tests.sim.members import STATIC, FatalError, Member, Setup
from tests.sim.nodes import trouble
from tests.sim.offset_invariants import OffsetChecks
from tests.sim.ownership import Ownership, Partition
from tests.sim.world import World, every

from ottla.core.catalog import GROUPS_TOPIC
from ottla.core.group.consumer.events import MemberState
from ottla.core.group.requests import STATIC_LEAVE_EPOCH
from ottla.errors import ErrorCode
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

MAX_MEMBERS = 6
MAX_TOPICS = 4
METADATA_SECONDS = 1.0
SETTLES_WITHIN_SECONDS = 180.0
STAYS_SECONDS = 12.0
NUDGE_SECONDS = 20.0
CANNOT_BE_DESCRIBED = "cannot be described"
INCOMPLETE = "owns only"
ASSIGNORS = (None, None, "uniform", "range")
# RE2's; "u" is a name that no topic has at first.
PATTERNS = ("t.*", "t[02]", "(?:t1|u.*)", "u.*")
# In a group with members of both protocols; the coordinator believes what they say that they own.
CLASSIC_PROTOCOLS = (("range",), ("cooperative-sticky",), ("cooperative-sticky", "range"))
FIRST_DELETE_VERSION_WITH_IDS = 6


def consumer_options(rng: random.Random) -> dict[str, object]:
    session_timeout_ms = rng.choice([6000, 8000, 10_000])
    return group_options(rng) | {
        "group.consumer.min.session.timeout.ms": 1000,
        "group.consumer.session.timeout.ms": session_timeout_ms,
        "group.consumer.min.heartbeat.interval.ms": 100,
        "group.consumer.heartbeat.interval.ms": rng.choice([500, 1500, session_timeout_ms // 3]),
        "group.consumer.assignment.interval.ms": rng.choice([0, 0, 1000, 3000]),
        "group.consumer.regex.refresh.interval.ms": 10_000,
        "group.consumer.migration.policy": rng.choice(["bidirectional"] * 3 + ["upgrade"]),
    }


def may_come_again(request: object, version: int) -> bool:
    """Whether a request that comes a second time does no harm.

    A heartbeat, and the JoinGroup of a classic member, carries nothing that tells it from a later one: a coordinator
    believes what it says of the member, and takes its answer for told, as Kafka's does. A topic that is created a
    second time, after it was deleted, is another one of the same name.
    """
    return not isinstance(
        request, JoinGroupRequest | ConsumerGroupHeartbeatRequest | CreateTopicsRequest
    )


class ClassicMember(Member):
    """A member of the classic protocol in a group in which others speak the new one."""

    speaks_classic = True
    harmless: tuple[ErrorCode, ...] = (
        *Member.harmless,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    )

    def __init__(
        self,
        world: World,
        name: str,
        setup: Setup,
        topics: Sequence[str],
        ownership: Ownership,
    ) -> None:
        super().__init__(world, name, setup, topics)
        self.instance_id = setup.instance_id
        # A coordinator that assigns has to be told what a member owns, which version 0 does not tell.
        self._metadata_version = max(self._metadata_version, 1)
        self._ownership = ownership
        self._last_ok_at = world.loop.time()
        self._awaits_leader = False
        # It was late when it joined again: others may have what it gives up with its SyncGroup only.
        self._joined_late = False
        ownership.add(self)

    def owned(self) -> dict[Partition, int]:
        topics = self.world.nodes.cluster.catalog.topics
        return {
            (topics[topic].topic_id, number): self.generation
            for topic, number in self.assignment
            if topic in topics
        }

    def epoch(self) -> int:
        return self.generation

    def has_released(self, partition: Partition) -> bool:
        return partition not in self.owned()

    def may_be_removed(self) -> bool:
        # In a classic group the leader's assignment counts, also while it is on its way to a member that it takes
        # something from; a member of the new protocol that joins just then gets it too early, in Kafka too.
        timeout_ms = min(self.setup.session_timeout_ms, self.setup.rebalance_timeout_ms)
        is_late = self.world.loop.time() >= self._last_ok_at + timeout_ms / 1000
        return is_late or self._awaits_leader or self._joined_late

    def end(self) -> None:
        self.is_alive = False
        self.assignment = []
        self._ownership.remove(self)

    def _fail(self, error: ErrorCode) -> None:
        # The coordinator of a mixed group knows a member's first protocol only. A group that becomes a classic one has
        # another protocol if its members like that better, and a SyncGroup on its way fails, in Kafka too.
        if error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            raise FatalError(error)
        super()._fail(error)

    async def _leave(self) -> None:
        self._ownership.remove(self)
        await super()._leave()

    def _assignments(self, answer: Any) -> list[SyncGroupRequestAssignment]:
        self._awaits_leader = bool(answer.leader)
        return super()._assignments(answer)

    async def _ask(self, request: object, timeout_seconds: float = 5.0) -> object | None:
        sent_at, first = self.world.loop.time(), len(self.network.exchanges)
        answer = await super()._ask(request, timeout_seconds)
        if answer is None and isinstance(request, JoinGroupRequest):
            await self.network.until_over(request, first)
        tells = isinstance(request, JoinGroupRequest | SyncGroupRequest) or (
            # A coordinator that is still loading answers the heartbeats of those, too, who are gone.
            isinstance(request, HeartbeatRequest) and not self.may_be_removed()
        )
        if tells and getattr(answer, "error_code", None) == ErrorCode.NONE:
            if isinstance(request, JoinGroupRequest):
                self._joined_late = self.may_be_removed()
            self._last_ok_at = sent_at
        return answer

    def _take(self, data: bytes | memoryview) -> None:
        before = self.owned()
        super()._take(data)
        self._awaits_leader = self._joined_late = False
        self._ownership.take(self, [each for each in self.owned() if each not in before])


AnyMember = ConsumerMember | ClassicMember


class MixedCrowd:
    """The members of all groups and the topics that they read, and what happens to them."""

    def __init__(self, world: World, rng: random.Random, mixed: dict[str, bool]) -> None:
        self.world = world
        self.rng = rng
        self.mixed = mixed  # by group: whether some of its members speak the classic protocol
        self.ownership = Ownership(world)
        self.members: list[AnyMember] = []
        self.tasks: dict[AnyMember, asyncio.Task[None]] = {}
        self._config = world.nodes.configs[1]
        self._protocols = {group_id: rng.choice(CLASSIC_PROTOCOLS) for group_id in mixed}
        self._made = 0

    @property
    def alive(self) -> list[AnyMember]:
        return [member for member in self.members if member.is_alive]

    def of_group(self, group_id: str) -> list[AnyMember]:
        return [member for member in self.alive if member.group_id == group_id]

    # Members.

    def start_new(self, group_id: str) -> None:
        instance_id = None
        if self.rng.random() < 0.3:
            self._made += 1
            instance_id = f"{STATIC}{self._made}"
        self._start(group_id, instance_id)

    def _start(self, group_id: str, instance_id: str | None) -> None:
        rng, name = self.rng, f"m{len(self.members)}"
        member: AnyMember
        if self.mixed[group_id] and rng.random() < 0.5:
            protocols = list(self._protocols[group_id])
            rng.shuffle(protocols)
            classic = Setup(
                group_id,
                instance_id,
                rng.choice([6000, 8000, 10_000]),
                rng.choice([4000, 8000, 15_000]),
                tuple(protocols),
            )
            member = ClassicMember(self.world, name, classic, self._some_topics(), self.ownership)
        else:
            setup = ConsumerSetup(
                group_id,
                instance_id,
                self._config.group_consumer_session_timeout_ms,
                rng.choice([4000, 8000, 15_000]),
                rng.choice(ASSIGNORS),
                self.mixed[group_id],
            )
            member = ConsumerMember(
                self.world, name, setup, self._some_subscription(), self.ownership
            )
            member.hangs = rng.random() < 0.3
        self.members.append(member)
        self.world.trace.note("{} starts in {} as {}", name, group_id, repr(instance_id))
        self.tasks[member] = self.world.start(member.run())

    def _some_topics(self) -> list[str]:
        topics = sorted(self.world.partition_counts)
        if not topics or self.rng.random() < 0.1:
            return ["u0"]
        return topics if self.rng.random() < 0.6 else [self.rng.choice(topics)]

    def _some_subscription(self) -> Subscription:
        drawn = self.rng.random()
        pattern = self.rng.choice(PATTERNS) if drawn < 0.3 else None
        topics = () if drawn < 0.25 else tuple(self._some_topics())
        return Subscription(topics, pattern)

    def kill(self, member: AnyMember) -> None:
        self.world.trace.note("{} dies", member.name)
        self.tasks[member].cancel()
        member.end()
        if self.rng.random() < 0.5:
            member.close()
        else:
            member.vanish()

    def nudge(self, group_id: str) -> None:
        """Has the classic members of a group join again, see `groups.Crowd`."""
        for member in self.of_group(group_id):
            if isinstance(member, ClassicMember):
                self.world.trace.note("{} is nudged", member.name)
                member.needs_join = True

    # What happens.

    async def live(self, seconds: float) -> None:
        end = self.world.loop.time() + seconds
        while self.world.loop.time() < end:
            await asyncio.sleep(self.rng.uniform(0.2, 4.0))
            self._happen()
            if self.rng.random() < 0.12:
                await self._change_topics()

    def _happen(self) -> None:
        rng, alive = self.rng, self.alive
        if not alive or (len(alive) < MAX_MEMBERS and rng.random() < 0.35):
            self.start_new(rng.choice(list(self.mixed)))
            return
        member = rng.choice(alive)
        drawn = rng.random()
        if drawn < 0.2:
            member.leaves_soon = True
        elif drawn < 0.4:
            self.kill(member)
        elif drawn < 0.5:
            self.world.trace.note("{} pauses", member.name)
            member.pause(member.setup.session_timeout_ms / 1000 * rng.uniform(0.3, 2))
        elif drawn < 0.75 and isinstance(member, ConsumerMember):
            member.subscribe(self._some_subscription())
            self.world.trace.note("{} subscribes to {}", member.name, repr(member.subscription))
        elif drawn < 0.75 and isinstance(member, ClassicMember) and member.instance_id is None:
            member.subscribe(self._some_topics())
        elif member.instance_id is not None:
            # It is restarted, perhaps with the other protocol; at times the old process is still there.
            drawn = rng.random()
            if drawn < 0.5:
                self.kill(member)
            elif drawn < 0.8:
                member.leaves_soon = True
            self._start(member.group_id, member.instance_id)

    async def _change_topics(self) -> None:
        """Makes, grows or deletes a topic; what came of it is in the catalog."""
        counts = self.world.partition_counts
        drawn = self.rng.random()
        self._made += 1
        if drawn < 0.4 and len(counts) < MAX_TOPICS:
            # No name is used twice: committed offsets are remembered by name.
            name = f"{self.rng.choice('tu')}{10 + self._made}"
            topic = CreatableTopic(
                name=name,
                num_partitions=self.rng.randint(1, 4),
                replication_factor=-1,
                assignments=[],
                configs=[],
            )
            request: object = CreateTopicsRequest(topics=[topic])
        elif drawn < 0.75 and counts:
            name = self.rng.choice(sorted(counts))
            grown = CreatePartitionsTopic(name=name, count=counts[name] + 1, assignments=None)
            request = CreatePartitionsRequest(topics=[grown], timeout_ms=1000, validate_only=False)
        elif counts:
            name = self.rng.choice(sorted(counts))
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=1000)
        else:
            return
        admin = Client(self.world, f"admin {self._made}")
        admin.first_versions = {DeleteTopicsRequest: FIRST_DELETE_VERSION_WITH_IDS}
        self.world.trace.note("{} of {}", type(request).__name__, name)
        await admin.ask(self.rng.choice(list(self.world.nodes.configs)), request)


def refresh_metadata(world: World) -> None:
    """Clients see the topics that there are."""
    world.partition_counts = {
        topic.name: topic.partition_count
        for topic in world.nodes.cluster.catalog.topics.values()
        if topic.name[0] in "tu"
    }


async def consuming(world: World) -> None:
    """The scenario: bad times, then good ones in which every group finds its balance."""
    rng = world.random("scenario")
    with coordinators_work_in_slices(rng.choice([1, 5, 500]), rng.choice([1, 200, 1 << 19])):
        await _play(world, rng)


async def _play(world: World, rng: random.Random) -> None:
    world.network.may_come_again = may_come_again
    world.nodes.start_all()
    world.partition_counts = {"t0": rng.randint(1, 5), "t1": rng.randint(1, 4)}
    await create_topics(world)
    checks = OffsetChecks(world)
    names = ["g0", "g1"][: rng.randint(1, 2)]
    crowd = MixedCrowd(world, rng, {name: rng.random() < 0.5 for name in names})
    for _ in range(rng.randint(1, 4)):
        crowd.start_new(rng.choice(names))
    observers = [Observer(world, f"observer of {name}", name) for name in names]
    background = [
        world.start(every(METADATA_SECONDS, lambda: refresh_metadata(world))),
        world.start(every(rng.uniform(3, 9), lambda: check_replays(world))),
        world.start(every(10.0, lambda: check_answers(world))),
        world.start(every(2.0, lambda: check_consumer_deadlines(world))),
        *(world.start(observer.run()) for observer in observers),
    ]
    if rng.random() < 0.8:
        world.network.weather = BAD_NETWORK
    if rng.random() < 0.8:
        world.nodes.store.weather = rng.choice(BAD_DISKS)
    bad_seconds = rng.uniform(10, 60)
    troubles = [world.start(crowd.live(bad_seconds))]
    if rng.random() < 0.8:
        troubles.append(
            world.start(trouble(world.nodes, world.random("trouble"), bad_seconds, [GROUPS_TOPIC]))
        )
    for task in troubles:
        await task
    world.calm_down()
    for member in crowd.members:
        if isinstance(member, ConsumerMember):
            member.hangs = member.is_persistent = False
    for observer in observers:
        await _settle(world, crowd, observer)
    check_replays(world)
    check_answers(world)
    check_leftovers(world)
    for task in [*background, *crowd.tasks.values()]:
        task.cancel()
    world.trace.note(
        "{} commits acknowledged, {} rejected", checks.acknowledged_commits, checks.rejected_commits
    )


async def _settle(world: World, crowd: MixedCrowd, observer: Observer) -> None:
    """Waits until a group is in balance and stays so for longer than a session lasts; that must not take long."""
    group_id = observer.group_id
    deadline = world.loop.time() + SETTLES_WITHIN_SECONDS
    since, state, problem = world.loop.time(), "", "was not looked at"
    nudged_at = since
    while world.loop.time() - since < STAYS_SECONDS:
        world.check(world.loop.time() < deadline, "{}: {}", group_id, problem)
        await asyncio.sleep(3.0)
        problem = await _imbalance(world, crowd, observer)
        owned = sorted((member.name, sorted(member.owned())) for member in crowd.of_group(group_id))
        if problem or repr(owned) != state:
            since, state = world.loop.time(), repr(owned)
            problem = problem or "does not come to rest"
        if problem.startswith(INCOMPLETE) and world.loop.time() - nudged_at > NUDGE_SECONDS:
            nudged_at = world.loop.time()
            crowd.nudge(group_id)
    await observer.fetch_offsets()


async def _imbalance(world: World, crowd: MixedCrowd, observer: Observer) -> str:
    """Why a group is not in balance; nothing if it is."""
    members = crowd.of_group(observer.group_id)
    problem = await _describe(world, members, observer)
    if problem:
        return problem
    catalog = world.nodes.cluster.catalog
    wanted: dict[Partition, None] = {}
    owned: list[Partition] = []
    for member in members:
        for name in sorted(_topics_of(world, member)):
            topic = catalog.topics[name]
            wanted |= dict.fromkeys((topic.topic_id, each) for each in range(topic.partition_count))
        for partition in member.owned():
            topic_or_none = catalog.topics_by_id.get(partition[0])
            if topic_or_none is None or topic_or_none.name not in _topics_of(world, member):
                return f"{member.name} has {partition}, to which it does not subscribe"
        owned += member.owned()
    return "" if sorted(owned) == sorted(wanted) else f"{INCOMPLETE} {sorted(owned)}"


def _topics_of(world: World, member: AnyMember) -> frozenset[str]:
    """The topics that exist to which a member subscribes."""
    topics = world.nodes.cluster.catalog.topics
    if isinstance(member, ClassicMember):
        return frozenset(member.topics).intersection(topics)
    found = frozenset(member.subscription.topics).intersection(topics)
    pattern = member.subscription.pattern
    if pattern is None:
        return found
    return found | {name for name in topics if name[0] in "tu" and MATCHES[pattern](name)}


MATCHES: dict[str, Callable[[str], bool]] = {
    "t.*": lambda name: name.startswith("t"),
    "t[02]": lambda name: name in ("t0", "t2"),
    "(?:t1|u.*)": lambda name: name == "t1" or name.startswith("u"),
    "u.*": lambda name: name.startswith("u"),
}


async def _describe(world: World, members: list[AnyMember], observer: Observer) -> str:
    """Why a group is not as its members see it."""
    if not members:
        return await _describe_empty(observer)
    may_be_classic = all(isinstance(member, ClassicMember) for member in members)
    if may_be_classic and world.nodes.configs[1].group_consumer_migration_policy == "bidirectional":
        return await _describe_classic(members, observer)
    if observer.coordinator is None:
        await observer.find_coordinator()
    if observer.coordinator is None:
        return CANNOT_BE_DESCRIBED
    answer = await observer.ask_coordinator(
        ConsumerGroupDescribeRequest(group_ids=[observer.group_id])
    )
    if answer is None:
        return CANNOT_BE_DESCRIBED
    group = answer.groups[0]
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND and may_be_classic:
        return await _describe_classic(members, observer)
    if group.error_code != ErrorCode.NONE:
        observer.coordinator = None
        return f"{CANNOT_BE_DESCRIBED}: {ErrorCode(group.error_code).name}"
    if group.group_state != "Stable":
        return f"is {group.group_state}"
    described = {member.member_id: member for member in group.members}
    if sorted(described) != sorted(member.member_id for member in members):
        return f"has the members {sorted(described)}"
    for member in members:
        found = described[member.member_id]
        epochs = {group.group_epoch, group.assignment_epoch, found.member_epoch, member.epoch()}
        if len(epochs) > 1:
            return f"{member.name} is in epoch {member.epoch()} of {sorted(epochs)}"
        has, target = _flat(found.assignment), _flat(found.target_assignment)
        if not has == target == sorted(member.owned()):
            return f"{member.name} has {sorted(member.owned())}, not {has} or {target}"
        if isinstance(member, ConsumerMember) and not member.is_settled:
            return f"{member.name} has something to tell"
    return ""


def _flat(assignment: object) -> list[Partition]:
    topics = assignment.topic_partitions  # type: ignore[attr-defined]
    return sorted((topic.topic_id, number) for topic in topics for number in topic.partitions)


async def _describe_classic(members: list[AnyMember], observer: Observer) -> str:
    group = await observer.describe()
    if group is None or group.error_code != ErrorCode.NONE:
        await observer.back_off()
        return CANNOT_BE_DESCRIBED
    if group.group_state != "Stable":
        return f"is {group.group_state}"
    described = sorted(member.member_id for member in group.members)
    if described != sorted(member.member_id for member in members):
        return f"has the members {described}"
    for member in members:
        assert isinstance(member, ClassicMember)
        if member.needs_join:
            return f"{member.name} is to join again"
    return ""


async def _describe_empty(observer: Observer) -> str:
    """A group of either protocol without members is empty."""
    if observer.coordinator is None:
        await observer.find_coordinator()
    if observer.coordinator is None:
        return CANNOT_BE_DESCRIBED
    request = ConsumerGroupDescribeRequest(group_ids=[observer.group_id])
    answer = await observer.ask_coordinator(request)
    if answer is None:
        return CANNOT_BE_DESCRIBED
    group = answer.groups[0]
    if group.error_code == ErrorCode.NONE:
        return "" if group.group_state == "Empty" else f"is {group.group_state}"
    classic = await observer.describe()
    if classic is None or classic.error_code not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
        return CANNOT_BE_DESCRIBED
    return "" if classic.group_state in ("Empty", "Dead") else f"is {classic.group_state}"


def check_consumer_deadlines(world: World) -> None:
    """Nobody is waited for for ever: sessions end, and the time to give up partitions."""
    for node_id, node in world.nodes.running.items():
        if world.nodes.is_frozen(node_id):
            continue
        for found in node.groups._loaded.values():
            consumers = found.machine.consumers
            for group in consumers.groups.values() if found.is_loaded else ():
                name = group.group_id
                for member in group.members.values():
                    is_watched = ("session", name, member.member_id) in consumers.deadlines
                    world.check(is_watched, "nobody watches {}", member.member_id)
                    has_time = member.current.state is not MemberState.UNREVOKED_PARTITIONS or (
                        member.speaks_classic
                        or member.current.epoch == STATIC_LEAVE_EPOCH
                        or ("revocation", name, member.member_id) in consumers.deadlines
                    )
                    world.check(has_time, "{} may keep its partitions for ever", member.member_id)
