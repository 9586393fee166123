"""A minute of everything at once, at random: what holds after one fault holds after many."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable

import pytest
from tests.faults.processes import fault_rng
from tests.groups.brokers import Running
from tests.groups.checker import problems
from tests.groups.conftest import MakeGroup, Topics
from tests.groups.feed import Feed
from tests.groups.members import CLIENTS, Client, Group, Member
from tests.groups.moves import move, move_coordinator

from ottla import Broker

SECONDS = 45.0
PARTITIONS = 8
MOST_MEMBERS = 5
SESSION_TIMEOUT_MS = 6_000


class Chaos:
    """Does something to a group or to its brokers, again and again."""

    def __init__(self, group: Group, clients: list[Client], topic: str, rng: random.Random) -> None:
        self.group = group
        self.clients = clients
        self.topic = topic
        self.rng = rng
        self.members: list[Member] = []
        self.done: list[str] = []

    def step(self, disturbances: list[Callable[[], None]]) -> None:
        own = [self.join, self.join, self.leave, self.kill, self.doze, self.sleep]
        chosen = self.rng.choice([*own, *disturbances])
        if chosen == self.join or len(self.members) < 2:
            chosen = self.join if len(self.members) < MOST_MEMBERS else self.leave
        self.done.append(chosen.__name__)
        chosen()

    def join(self) -> None:
        client = self.rng.choice(self.clients)
        self.members.append(
            self.group.start([self.topic], client=client, session_timeout_ms=SESSION_TIMEOUT_MS)
        )

    def _any(self) -> Member:
        return self.members.pop(self.rng.randrange(len(self.members)))

    def leave(self) -> None:
        self._any().leave()

    def kill(self) -> None:
        self._any().kill()

    def doze(self) -> None:
        self.rng.choice(self.members).doze(0.5)

    def sleep(self) -> None:
        """For longer than its session."""
        member = self.rng.choice(self.members)
        member.pause()
        time.sleep(1.5 * SESSION_TIMEOUT_MS / 1000)
        member.resume()


class NodeChaos:
    """Moves and kills nodes; at most one is down."""

    def __init__(self, broker: Broker, group_id: str, topic: str, rng: random.Random) -> None:
        self.broker = broker
        self.group_id = group_id
        self.topic = topic
        self.rng = rng
        self.down: int | None = None

    def move_coordinator(self) -> None:
        move_coordinator(self.broker, self.group_id)

    def move_leader(self) -> None:
        move(self.broker, self.topic, self.rng.randrange(PARTITIONS))

    def kill_or_start_a_node(self) -> None:
        if self.down is None:
            self.down = self.rng.choice(self.broker.node_ids)
            self.broker.kill_node(self.down)
        else:
            self.start_all()

    def start_all(self) -> None:
        if self.down is not None:
            self.broker.start_node(self.down)
            self.down = None


@pytest.fixture(params=["eager", "cooperative", "new-protocol", "changing-protocol"])
def clients(request: pytest.FixtureRequest) -> list[Client]:
    """Such as can be in one group."""
    eager: list[Client] = request.getfixturevalue("mixed_clients")
    new: list[Client] = request.getfixturevalue("mixed_new_clients")
    match request.param:
        case "eager":
            return eager
        case "new-protocol":
            return new
        case "changing-protocol":
            return [*new, *eager]
    names = ["ottla-cooperative", "ottla-aio-cooperative", "confluent-cooperative"]
    return [CLIENTS[name] for name in names]


@pytest.mark.campaign
@pytest.mark.timeout(300)
@pytest.mark.parametrize("which", ["single", "triple"])
def test_a_group_survives_everything_at_once(
    request: pytest.FixtureRequest, which: str, clients: list[Client], make_group: MakeGroup
) -> None:
    running: Running = request.getfixturevalue(which)
    rng = fault_rng()
    topic = f"chaos-{uuid.uuid4().hex[:12]}"
    partitions = Topics(running.bootstrap_servers).create(topic, PARTITIONS)
    group = make_group(running.bootstrap_servers, clients[0])
    chaos = Chaos(group, clients, topic, rng)
    disturbances: list[Callable[[], None]] = []
    nodes: NodeChaos | None = None
    if which == "triple" and running.ottla is not None:
        nodes = NodeChaos(running.ottla, group.group_id, topic, rng)
        disturbances = [nodes.move_coordinator, nodes.move_leader, nodes.kill_or_start_a_node]
    with Feed(running.bootstrap_servers, partitions) as feed:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            chaos.step(disturbances)
            time.sleep(rng.uniform(0.1, 2.0))
        if nodes is not None:
            nodes.start_all()
        print(" ".join(chaos.done))
        group.settle(partitions, *chaos.members)
        feed.drain(group.history)
    group.leave(*chaos.members)
    group.check(problems(group.history, feed.produced))
