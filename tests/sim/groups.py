"""Consumer groups through everything: members come, go, pause and die while coordinators move, crash and replay."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from tests.core.group.topics import EveryTopic
from tests.sim.clients import Client
from tests.sim.disk import DiskWeather
from tests.sim.group_clients import Observer, SimpleConsumer
from tests.sim.invariants import GroupChecks
from tests.sim.members import STATIC, Member, Setup, partitions_of
from tests.sim.nodes import trouble
from tests.sim.weather import Weather
from tests.sim.world import World, every

from ottla.broker.coordination import coordinator, machine_log
from ottla.broker.partitions import replay as shard_replay
from ottla.core.catalog import GROUPS_TOPIC
from ottla.core.group import records
from ottla.core.group.classic.group import ClassicState
from ottla.core.group.machine import GroupMachine
from ottla.core.group.requests import GroupConfig
from ottla.errors import ErrorCode
from ottla.records.batch import read_batch
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

BAD_NETWORK = Weather(slow=0.03, lost=0.01, broken=0.01, doubled=0.04)
BAD_DISK = DiskWeather(
    refused=0.02,
    full=0.02,
    written=0.03,
    late=0.3,
    late_failed=0.05,
    claim_failed=0.03,
    catalog_failed=0.1,
)
# The slowest disks take longer than offsets.commit.timeout.ms.
BAD_DISKS = (
    BAD_DISK,
    replace(BAD_DISK, late_seconds=(0.5, 8.0)),
    replace(BAD_DISK, late=0.7, late_seconds=(0.1, 4.0), late_failed=0.3, full=0.2),
    replace(BAD_DISK, late=1.0, late_seconds=(0.001, 0.1), refused=0.0, full=0.0),
)
# What the members of a group can do; each of them likes these in an order of its own.
PROTOCOLS = (
    ("range",),
    ("range", "roundrobin"),
    ("sticky",),
    ("cooperative-sticky",),
    ("cooperative-sticky",),
    ("range", "cooperative-sticky"),
)
MAX_MEMBERS = 6
SETTLES_WITHIN_SECONDS = 90.0
STAYS_SECONDS = 12.0
INCOMPLETE = "owns only"
CANNOT_BE_DESCRIBED = "cannot be described"
NUDGE_SECONDS = 20.0
# What no request may take longer than: the longest rebalance timeout, twice, and what disks and messages take.
ANSWERED_WITHIN_SECONDS = 45.0


def group_options(rng: random.Random) -> dict[str, object]:
    options: dict[str, object] = {
        "offsets.topic.num.partitions": rng.choice([1, 2, 3]),
        "group.initial.rebalance.delay.ms": rng.choice([0, 0, 500, 3000]),
        "log.cleaner.enable": rng.random() < 0.3,
    }
    if options["log.cleaner.enable"]:
        options |= {
            "offsets.topic.segment.bytes": rng.choice([500, 2000]),
            "log.cleaner.backoff.ms": rng.choice([500, 3000]),
            "log.cleaner.min.cleanable.ratio": 0,
            "log.cleaner.delete.retention.ms": rng.choice([0, 5000]),
        }
    return options


class Crowd:
    """The members of all groups, and what happens to them."""

    def __init__(self, world: World, rng: random.Random, group_ids: list[str]) -> None:
        self.world = world
        self.rng = rng
        self.group_ids = group_ids
        self.members: list[Member] = []
        self.tasks: dict[Member, asyncio.Task[None]] = {}
        self.needs_nudges = False
        self._instances = 0
        self._protocols = {group_id: rng.choice(PROTOCOLS) for group_id in group_ids}

    @property
    def alive(self) -> list[Member]:
        return [member for member in self.members if member.is_alive]

    def start(self, setup: Setup, topics: list[str]) -> None:
        member = Member(self.world, f"m{len(self.members)}", setup, topics)
        self.members.append(member)
        self.world.trace.note(
            "{} starts in {} as {}", member.name, setup.group_id, repr(setup.instance_id)
        )
        member.dawdles = self.rng.random() < 0.3
        self.tasks[member] = self.world.start(member.run())

    def start_new(self, group_id: str) -> None:
        rng = self.rng
        instance_id = None
        if rng.random() < 0.35:
            self._instances += 1
            instance_id = f"{STATIC}{self._instances}"
        session_timeout_ms = rng.choice([6000, 8000, 10_000])
        protocols = list(self._protocols[group_id])
        rng.shuffle(protocols)
        setup = Setup(
            group_id,
            instance_id,
            session_timeout_ms,
            rng.choice([4000, 8000, 15_000]),
            tuple(protocols),
        )
        topics = list(self.world.partition_counts)
        self.start(setup, topics if rng.random() < 0.7 else [rng.choice(topics)])

    def kill(self, member: Member) -> None:
        self.world.trace.note("{} dies", member.name)
        member.is_alive = False
        self.tasks[member].cancel()
        if self.rng.random() < 0.5:
            member.close()
        else:
            member.vanish()

    async def _grow(self, topic: str) -> None:
        """Gives a topic another partition, which clients see when that is done."""
        count = self.world.partition_counts[topic] + 1
        wanted = CreatePartitionsTopic(name=topic, count=count, assignments=None)
        request = CreatePartitionsRequest(topics=[wanted], timeout_ms=1000, validate_only=False)
        admin = Client(self.world, f"admin {count} {topic}")
        answer = await admin.ask(self.rng.choice(list(self.world.nodes.configs)), request)
        if answer is not None and answer.results[0].error_code == ErrorCode.NONE:
            self.world.trace.note("{} has {} partitions", topic, count)
            self.world.partition_counts[topic] = count
            self.needs_nudges = True

    def nudge(self, group_id: str) -> None:
        """Has the members of a group join again.

        A static member that came back does not know what it knew: that it leads and watches whether topics grow
        (KIP-814), or that it gave something up that somebody else is to have (KIP-429). In Kafka, too, such a group
        is not complete until something else has it rebalance.
        """
        for member in self.alive:
            if member.group_id == group_id and self.needs_nudges:
                self.world.trace.note("{} is nudged", member.name)
                member.needs_join = True

    async def live(self, seconds: float) -> None:
        """Has things happen to members for a while."""
        end = self.world.loop.time() + seconds
        while self.world.loop.time() < end:
            await asyncio.sleep(self.rng.uniform(0.2, 5.0))
            self._happen()
            if self.rng.random() < 0.05:
                await self._grow(self.rng.choice(list(self.world.partition_counts)))

    def _happen(self) -> None:
        rng, alive = self.rng, self.alive
        if not alive or (len(alive) < MAX_MEMBERS and rng.random() < 0.35):
            self.start_new(rng.choice(self.group_ids))
            return
        member = rng.choice(alive)
        drawn = rng.random()
        if drawn < 0.2:
            member.leaves_soon = True
        elif drawn < 0.4:
            self.kill(member)
        elif drawn < 0.55:
            seconds = member.setup.session_timeout_ms / 1000 * rng.uniform(0.5, 2)
            self.world.trace.note("{} pauses", member.name)
            member.pause(seconds)
        elif drawn < 0.7 and member.setup.instance_id is None:
            # A static member that comes back with other topics keeps its assignment, in Kafka too (KIP-345).
            topics = list(self.world.partition_counts)
            member.subscribe(rng.sample(topics, rng.randint(1, len(topics))))
        elif member.setup.instance_id is not None:
            # It is restarted; at times the old process is still there.
            if rng.random() < 0.7:
                self.kill(member)
            self.start(member.setup, member.topics)
            self.needs_nudges = True


@contextmanager
def coordinators_work_in_slices(slice_records: int, batch_bytes: int) -> Iterator[None]:
    """Has replays take several turns of the loop, and decisions several batches, as large ones do."""
    usual = coordinator.SLICE_RECORDS, machine_log.BATCH_BYTES, shard_replay.SLICE_BATCHES
    coordinator.SLICE_RECORDS, machine_log.BATCH_BYTES = slice_records, batch_bytes  # type: ignore[misc]
    shard_replay.SLICE_BATCHES = slice_records  # type: ignore[misc]
    try:
        yield
    finally:
        coordinator.SLICE_RECORDS, machine_log.BATCH_BYTES, shard_replay.SLICE_BATCHES = usual  # type: ignore[misc]


async def grouping(world: World) -> None:
    """The scenario: bad times, then good ones in which every group finds its balance."""
    rng = world.random("scenario")
    with coordinators_work_in_slices(rng.choice([1, 5, 500]), rng.choice([1, 200, 1 << 19])):
        await _play(world, rng)


async def _play(world: World, rng: random.Random) -> None:
    world.nodes.start_all()
    world.partition_counts = {"t0": rng.randint(1, 5), "t1": rng.randint(1, 4)}
    await create_topics(world)
    checks = GroupChecks(world)
    crowd = Crowd(world, rng, ["g0", "g1"][: rng.randint(1, 2)])
    for _ in range(rng.randint(1, 4)):
        crowd.start_new(rng.choice(crowd.group_ids))
    simple = SimpleConsumer(world, "simple consumer", "simple")
    observers = [Observer(world, f"observer of {name}", name) for name in crowd.group_ids]
    background = [
        world.start(every(rng.uniform(3, 9), lambda: check_replays(world))),
        world.start(every(10.0, lambda: check_answers(world))),
        world.start(every(2.0, lambda: check_deadlines(world))),
        world.start(simple.run()),
        *(world.start(observer.run()) for observer in observers),
    ]
    if rng.random() < 0.8:
        world.network.weather = BAD_NETWORK
    if rng.random() < 0.8:
        world.nodes.store.weather = rng.choice(BAD_DISKS)
    bad_seconds = rng.uniform(10, 40)
    troubles = [world.start(crowd.live(bad_seconds))]
    if rng.random() < 0.8:
        troubles.append(
            world.start(trouble(world.nodes, world.random("trouble"), bad_seconds, [GROUPS_TOPIC]))
        )
    for task in troubles:
        await task
    world.calm_down()
    for member in crowd.members:
        member.dawdles = False
    for observer in observers:
        await settle(world, crowd, observer)
    check_replays(world)
    check_answers(world)
    check_leftovers(world)
    if rng.random() < 0.3:
        await empty_and_restart(world, crowd, observers)
    for task in [*background, *crowd.tasks.values()]:
        task.cancel()
    world.trace.note(
        "{} commits acknowledged, {} rejected",
        checks.offsets.acknowledged_commits,
        checks.offsets.rejected_commits,
    )


async def settle(world: World, crowd: Crowd, observer: Observer) -> None:
    """Waits until a group is in balance and stays so for longer than a session lasts; that must not take long."""
    deadline = world.loop.time() + SETTLES_WITHIN_SECONDS
    since, state, problem = world.loop.time(), -1, "was not looked at"
    nudged_at = since
    while world.loop.time() - since < STAYS_SECONDS:
        world.check(world.loop.time() < deadline, "{}: {}", observer.group_id, problem)
        await asyncio.sleep(3.0)
        problem = await _imbalance(world, crowd, observer)
        members = [member for member in crowd.alive if member.group_id == observer.group_id]
        generation = members[0].generation if members else 0
        if problem or generation != state:
            since, state = world.loop.time(), generation
            problem = problem or "does not come to rest"
        if problem.startswith(INCOMPLETE) and world.loop.time() - nudged_at > NUDGE_SECONDS:
            nudged_at = world.loop.time()
            crowd.nudge(observer.group_id)
    await observer.fetch_offsets()


async def empty_and_restart(world: World, crowd: Crowd, observers: list[Observer]) -> None:
    """Everybody goes, which groups notice; then all nodes are restarted, and everything is as it was."""
    for member in crowd.alive:
        if crowd.rng.random() < 0.5:
            member.leaves_soon = True
        else:
            crowd.kill(member)
    for observer in observers:
        await settle(world, crowd, observer)
    for node_id in list(world.nodes.running):
        world.nodes.crash(node_id)
    for node_id in world.nodes.configs:
        world.nodes.start(node_id)
    for observer in observers:
        problem = "was not looked at"
        while problem:
            problem = await _imbalance(world, crowd, observer)
            world.check(problem in ("", CANNOT_BE_DESCRIBED, "was not looked at"), "{}", problem)
        await observer.fetch_offsets()


async def _imbalance(world: World, crowd: Crowd, observer: Observer) -> str:
    """Why a group is not in balance; nothing if it is."""
    group = await observer.describe()
    members = [member for member in crowd.alive if member.group_id == observer.group_id]
    if group is None or group.error_code not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
        await observer.back_off()
        return CANNOT_BE_DESCRIBED
    if not members:
        return "" if group.group_state in ("Empty", "Dead") else f"is {group.group_state}"
    if group.group_state != "Stable":
        return f"is {group.group_state}"
    described = {member.member_id: member for member in group.members}
    if sorted(described) != sorted(member.member_id for member in members):
        return f"has the members {sorted(described)}"
    owned: list[tuple[str, int]] = []
    for member in members:
        stored = partitions_of(described[member.member_id].member_assignment)
        if member.needs_join or stored != member.assignment:
            return f"{member.name} is not told of {stored}"
        owned += member.assignment
    topics = {topic for member in members for topic in member.topics}
    wanted = [
        (topic, number)
        for topic, count in world.partition_counts.items()
        for number in range(count)
        if topic in topics
    ]
    return "" if sorted(owned) == sorted(wanted) else f"{INCOMPLETE} {sorted(owned)}"


def check_replays(world: World) -> None:
    """Every coordinator knows what a new one would read from the log, no more and no less."""
    for node_id, node in world.nodes.running.items():
        if world.nodes.is_frozen(node_id):
            continue  # it has not heard of an append that failed
        for partition, found in node.groups._loaded.items():
            if found.is_loaded:
                kept = world.nodes.store.batches(GROUPS_TOPIC, partition)
                replayed = replay(found.machine.config, kept).durable_state()
                known = found.machine.durable_state()
                if known != replayed:
                    world.trace.note("known: {}", known)
                    world.trace.note("in the log: {}", replayed)
                world.check(
                    known == replayed,
                    "{} of node {} knows something else than its log",
                    str(found),
                    node_id,
                )


def replay(config: GroupConfig, batches: list[bytes]) -> GroupMachine:
    """A machine that knows what is in a log."""
    machine = GroupMachine(config, EveryTopic())
    for batch in batches:
        for record in read_batch(batch, 0):
            event = records.decode(record.key, record.value)
            if event is not None:
                machine.apply(event)
    return machine


def check_answers(world: World) -> None:
    hanging = world.network.unanswered(ANSWERED_WITHIN_SECONDS)
    world.check(not hanging, "never answered: {}", [f"#{exchange.number}" for exchange in hanging])


def check_deadlines(world: World) -> None:
    """No group waits for ever: somebody looks when members are gone, or take longer than they may."""
    for node_id, node in world.nodes.running.items():
        if world.nodes.is_frozen(node_id):
            continue
        for found in node.groups._loaded.values():
            membership = found.machine.membership
            for group in membership.groups.values() if found.is_loaded else ():
                timers = membership.deadlines
                name = group.group_id
                for member in group.members.values():
                    is_watched = ("session", name, member.member_id) in timers
                    waits = member.join_ticket is not None or member.sync_ticket is not None
                    world.check(is_watched or waits, "nobody watches {}", member.member_id)
                is_limited = group.state in (ClassicState.EMPTY, ClassicState.STABLE) or (
                    ("join" if group.state is ClassicState.PREPARING_REBALANCE else "sync", name)
                    in timers
                )
                world.check(is_limited, "{} may stay {} for ever", name, group.state.name)


def check_leftovers(world: World) -> None:
    """Nothing is left of requests that are over."""
    for node in world.nodes.running.values():
        for found in node.groups._loaded.values():
            world.check(not found._waiting, "{} keeps {} requests", str(found), len(found._waiting))
            world.check(not found._unsettled, "{} keeps answers", str(found))


async def create_topics(world: World) -> None:
    client = Client(world, "creator")
    topics = [
        CreatableTopic(
            name=name, num_partitions=count, replication_factor=-1, assignments=[], configs=[]
        )
        for name, count in world.partition_counts.items()
    ]
    answer = await client.ask_any(CreateTopicsRequest(topics=topics))
    assert all(topic.error_code == ErrorCode.NONE for topic in answer.topics), answer
