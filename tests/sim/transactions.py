"""Transactions through everything: producers, zombies and readers while nodes crash at every named place."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from tests.sim.clients import Client
from tests.sim.crashes import Crashes, listening
from tests.sim.deletions import PARTITIONS as DOOMED_PARTITIONS
from tests.sim.deletions import TOPIC as DOOMED
from tests.sim.deletions import Admin
from tests.sim.disk import FINE, DiskWeather
from tests.sim.groups import check_answers, check_leftovers, coordinators_work_in_slices
from tests.sim.nodes import trouble
from tests.sim.peers import can_be_told_apart
from tests.sim.txn_clients import PlainProducer, TxnClient, TxnReader
from tests.sim.txn_history import Place, TxnHistory
from tests.sim.txn_invariants import Views, check_open, check_replays, unfinished
from tests.sim.txn_producers import (
    INPUT,
    GroupObserver,
    Setup,
    TxnProducer,
    fetch_offset,
)
from tests.sim.weather import CALM, Weather
from tests.sim.world import World, every

from ottla.broker.crashpoints import CrashPoint
from ottla.core.catalog import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from ottla.core.partition import READ_COMMITTED, READ_UNCOMMITTED
from ottla.core.txn import end_checks, machine
from ottla.core.txn.events import LAST_EPOCH, VERSION_1, VERSION_2
from ottla.errors import ErrorCode
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest

OUTPUT = "output"
BAD_NETWORKS = (
    CALM,
    Weather(slow=0.03, lost=0.01, broken=0.01, doubled=0.1, late=0.15, between_nodes=2.0),
    Weather(
        slow=0.03,
        slow_seconds=(0.05, 3.0),
        lost=0.005,
        broken=0.005,
        doubled=0.25,
        late=0.1,
        between_nodes=3.0,
    ),
)
SLOW_NODES = Weather(slow=0.02, slow_seconds=(0.5, 3.0), doubled=0.02, between_nodes=12.0)
BAD_DISK = DiskWeather(
    refused=0.01,
    full=0.01,
    written=0.02,
    late=0.3,
    late_seconds=(0.001, 0.2),
    late_failed=0.05,
    claim_failed=0.02,
    catalog_failed=0.05,
)
BAD_DISKS = (FINE, BAD_DISK, replace(BAD_DISK, late=0.6, late_seconds=(0.01, 1.0)))
# Epochs are used up soon in some worlds; 32766 is Kafka's last one.
LAST_EPOCHS = (32766, 32766, 2, 6)
# Markers whose coordinator is gone when they arrive; answers about transactions that are over by then.
SLOW_POINTS = (CrashPoint.AFTER_MARKERS_SENT, CrashPoint.BEFORE_VERIFICATION)
GROUP_POINTS = (CrashPoint.BEFORE_GROUP_APPEND, CrashPoint.AFTER_GROUP_APPEND)
CLOCK_SKEW_MS = 1000
# The longest timeout of a transaction, the longest sweep, what was on its way, and a replay or two.
SETTLES_WITHIN_SECONDS = 15 + 10 + 8 + 12


def txn_options(rng: random.Random) -> dict[str, object]:
    options: dict[str, object] = {
        "offsets.topic.num.partitions": rng.choice([1, 2]),
        "transaction.state.log.num.partitions": rng.choice([1, 2]),
        "transaction.state.log.min.isr": rng.choice([1, 2]),
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": rng.choice([1000, 10_000]),
        "transaction.partition.verification.enable": True,
        "auto.create.topics.enable": False,
        "log.segment.bytes": rng.choice([300, 1 << 20]),
        "log.cleaner.enable": rng.random() < 0.15,
    }
    if options["log.cleaner.enable"]:
        options |= {
            "offsets.topic.segment.bytes": 300,
            "transaction.state.log.segment.bytes": 300,
            "log.cleaner.backoff.ms": 500,
            "log.cleaner.min.cleanable.ratio": 0,
            "log.cleaner.delete.retention.ms": rng.choice([0, 3000]),
        }
    if rng.random() < 0.1:
        options |= {
            "transactional.id.expiration.ms": 2000,
            "transaction.remove.expired.transaction.cleanup.interval.ms": 500,
        }
    return options


@contextmanager
def epochs_end_at(last_epoch: int) -> Iterator[None]:
    _set_last_epoch(last_epoch)
    try:
        yield
    finally:
        _set_last_epoch(LAST_EPOCH)


def _set_last_epoch(last_epoch: int) -> None:
    for module in (machine, end_checks):
        vars(module)["LAST_EPOCH"] = last_epoch


class Producers:
    """Everybody who goes by one of the transactional ids, and what happens to them."""

    def __init__(self, world: World, rng: random.Random, history: TxnHistory) -> None:
        self.world = world
        self.rng = rng
        self.history = history
        self.all: list[TxnProducer] = []
        self.versions = rng.choice(((VERSION_1,), (VERSION_2,), (VERSION_1, VERSION_2, VERSION_2)))
        self.unrest = rng.choice([0.02, 0.1, 0.2])
        self._tasks: dict[TxnProducer, asyncio.Task[None]] = {}

    def start(self, setup: Setup) -> TxnProducer:
        version = self.rng.choice(self.versions)
        name = f"{setup.transactional_id}.{len(self.all)}"
        producer = TxnProducer(self.world, name, self.history, setup, version)
        self.world.trace.note("{} starts, with version {}", name, version)
        self.all.append(producer)
        self._tasks[producer] = self.world.start(producer.run())
        return producer

    def of(self, setup: Setup) -> list[TxnProducer]:
        return [one for one in self.all if one.setup is setup and not one.is_over]

    def kill(self, producer: TxnProducer) -> None:
        self.world.trace.note("{} dies", producer.name)
        producer.is_over = True
        self._tasks[producer].cancel()
        if self.rng.random() < 0.5:
            producer.close()
        else:
            producer.vanish()

    async def live(self, setups: list[Setup], seconds: float) -> None:
        """Has producers die and others take their places, before or after that."""
        end = self.world.loop.time() + seconds
        for setup in setups:
            self.start(setup)
        while self.world.loop.time() < end:
            await asyncio.sleep(self.rng.uniform(0.2, 3))
            for setup in setups:
                alive = self.of(setup)
                if alive and self.rng.random() < self.unrest:
                    self.kill(self.rng.choice(alive))
                if not self.of(setup) or self.rng.random() < self.unrest:
                    self.start(setup)

    def end(self) -> None:
        for producer in self.all:
            if not producer.is_over:
                self.kill(producer)


async def transacting(world: World) -> None:
    """The scenario: bad times, then good ones in which every transaction ends."""
    rng = world.random("scenario")
    crashes = Crashes(world)
    with (
        coordinators_work_in_slices(rng.choice([1, 5, 500]), rng.choice([1, 1 << 19])),
        epochs_end_at(rng.choice(LAST_EPOCHS)),
        listening(crashes),
    ):
        await _play(world, rng, crashes)


async def _play(world: World, rng: random.Random, crashes: Crashes) -> None:
    world.nodes.max_skew_ms = CLOCK_SKEW_MS
    inits_come_again = rng.random() < 0.2
    world.network.may_come_again = lambda request, version: (
        can_be_told_apart(request, version)
        # A late one puts its own sender out, who then does nothing for a while.
        and (inits_come_again or not isinstance(request, InitProducerIdRequest))
    )
    world.nodes.start_all()
    places: list[Place] = [(OUTPUT, number) for number in range(rng.choice([1, 1, 2, 3]))]
    await create_topics(world, {OUTPUT: len(places), INPUT: 1})
    history = TxnHistory(world)
    producers = Producers(world, rng, history)
    background = [
        world.start(every(rng.uniform(3, 9), lambda: check_replays(world))),
        world.start(every(10.0, lambda: check_answers(world))),
        world.start(every(0.3, lambda: check_open(world))),
    ]
    doomed: list[Place] = []
    admin = Admin(world, "admin")
    needs_groups = crashes.favourite in GROUP_POINTS
    if rng.random() < 0.2 and not needs_groups:
        await admin.make()
        doomed = [(DOOMED, number) for number in range(DOOMED_PARTITIONS)]
        background.append(world.start(admin.run()))
    setups = []
    for number in range(rng.choice([1, 1, 2])):
        copies = needs_groups or (rng.random() < 0.6 and not doomed)
        setups.append(Setup(f"t{number}", places + doomed, f"g{number}" if copies else None))
    readers = [TxnReader(world, f"reader {at[1]}", at, READ_COMMITTED) for at in places]
    readers.append(TxnReader(world, "reader of all", places[0], READ_UNCOMMITTED))
    background += [world.start(reader.run()) for reader in readers]
    for setup in setups:
        if setup.group_id is not None and rng.random() < 0.5:
            observer = GroupObserver(world, f"observer of {setup.group_id}", setup.group_id)
            background.append(world.start(observer.run()))
    if rng.random() < 0.5:
        plain = PlainProducer(world, "plain", history, places)
        background.append(world.start(plain.run()))
    world.network.weather = rng.choice(BAD_NETWORKS)
    if crashes.favourite in SLOW_POINTS:
        world.network.weather = SLOW_NODES
    # Where everything is bad at the same time, little is done at all.
    world.nodes.store.weather = rng.choice((FINE, *BAD_DISKS))
    crashes.is_active = True
    seconds = rng.uniform(4, 12)
    topics = [OUTPUT, GROUPS_TOPIC, TRANSACTIONS_TOPIC]
    lives = world.start(producers.live(setups, seconds))
    await trouble(
        world.nodes, world.random("trouble"), seconds, topics, rng.choice([2.0, 6.0, 12.0])
    )
    await lives
    crashes.is_active = False
    world.calm_down()
    producers.end()
    for task in background[3:]:
        task.cancel()
    for setup in setups:
        setup.places = places  # a deletion may still be on its way
    if rng.random() < 0.5:
        await settle(world)
    await come_back(world, producers, setups)
    await settle(world)
    check_replays(world)
    check_answers(world)
    check_leftovers(world)
    await check_views(world, history, setups, places, readers)
    for task in background:
        task.cancel()


async def settle(world: World) -> None:
    """Waits until no transaction is open; that must not take long."""
    deadline = world.loop.time() + SETTLES_WITHIN_SECONDS
    while True:
        await asyncio.sleep(1.0)
        problem = unfinished(world)
        if not problem:
            return
        world.check(world.loop.time() < deadline, "{}", problem)


async def come_back(world: World, producers: Producers, setups: list[Setup]) -> None:
    """Every transactional id can be used again, whatever became of it."""
    deadline = world.loop.time() + SETTLES_WITHIN_SECONDS
    for setup in setups:
        producer = producers.start(setup)
        producer.pauses, producer.is_impatient = 0, False
        while not producer.committed:
            world.check(world.loop.time() < deadline, "{} commits nothing", producer.name)
            if producer.is_over:
                # A call that was on its way since before has put it out.
                producer = producers.start(setup)
                producer.pauses, producer.is_impatient = 0, False
            await asyncio.sleep(0.5)
        producers.kill(producer)


async def check_views(
    world: World,
    history: TxnHistory,
    setups: list[Setup],
    places: list[Place],
    readers: list[TxnReader],
) -> None:
    committed = [TxnReader(world, f"last {at[1]}", at, READ_COMMITTED) for at in places]
    everything = [TxnReader(world, f"all {at[1]}", at, READ_UNCOMMITTED) for at in places]
    cluster = world.nodes.cluster
    for reader in (*committed, *everything):
        reader.leaders[reader.place] = cluster.leader_of(
            cluster.catalog.topics[OUTPUT], reader.place[1]
        )
        await reader.read_all()
    views = Views(world, committed, everything)
    views.check(history)
    for reader in readers:
        views.check_reader(reader)
    client = TxnClient(world, "last look")
    for setup in setups:
        if setup.group_id is not None:
            offset = await fetch_offset(client, setup.group_id)
            views.check_copies(setup.transactional_id, offset, history)
    outcomes = [transaction.outcome() for transaction in history.transactions]
    world.trace.note("outcomes: {}", {name: outcomes.count(name) for name in sorted(set(outcomes))})


async def create_topics(world: World, counts: dict[str, int]) -> None:
    client = Client(world, "creator")
    topics = [
        CreatableTopic(
            name=name, num_partitions=count, replication_factor=-1, assignments=[], configs=[]
        )
        for name, count in counts.items()
    ]
    answer = await client.ask_any(CreateTopicsRequest(topics=topics))
    assert all(topic.error_code == ErrorCode.NONE for topic in answer.topics), answer
