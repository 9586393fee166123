"""Groups over three nodes that are processes: coordinators and leaders do not move, but die and come back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.groups.brokers import three_workers
from tests.groups.checker import problems
from tests.groups.conftest import LIBRARIES_IN_TURN, MakeGroup, Topics, client_called, in_turn
from tests.groups.feed import Feed
from tests.groups.members import IMPATIENT_MS, LONG_SESSION_MS, Client
from tests.groups.moves import OFFSETS_PARTITIONS, OFFSETS_TOPIC

from ottla import Broker
from ottla.model import coordinator_partition

PARTITIONS = 6
FIRST = "confluent-range"
OTHERS = [str(one.values[0]) for one in LIBRARIES_IN_TURN if one.values[0] != FIRST]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with three_workers(tmp_path) as running:
        yield running


@pytest.fixture(params=in_turn([FIRST], OTHERS))
def library(request: pytest.FixtureRequest) -> Client:
    """One library in `make test`, and others in campaigns."""
    return client_called(request.param, request)


@pytest.mark.long
@pytest.mark.timeout(180)
def test_a_group_survives_the_death_of_its_coordinators_process_and_of_a_member(
    broker: Broker, library: Client, make_group: MakeGroup, ottla_topic: str
) -> None:
    partitions = Topics(broker.bootstrap_servers).create(ottla_topic, PARTITIONS)
    group = make_group(broker.bootstrap_servers, library)
    with Feed(broker.bootstrap_servers, partitions) as feed:
        first, second = (
            group.start([ottla_topic], session_timeout_ms=LONG_SESSION_MS) for _ in range(2)
        )
        victim = group.start([ottla_topic], session_timeout_ms=IMPATIENT_MS)
        group.settle(partitions, first, second, victim)
        number = coordinator_partition(group.group_id, OFFSETS_PARTITIONS)
        dying = broker.leader_of(OFFSETS_TOPIC, number)
        broker.kill_node(dying)
        victim.kill()
        broker.start_node(dying)
        assert broker.leader_of(OFFSETS_TOPIC, number) == dying
        # Its session begins anew with the next process.
        time.sleep(IMPATIENT_MS / 1000)
        group.settle(partitions, first, second)
        feed.flow()
        third = group.start([ottla_topic], session_timeout_ms=LONG_SESSION_MS)
        group.settle(partitions, first, second, third)
        feed.drain(group.history)
    group.leave(first, second, third)
    group.check(problems(group.history, feed.produced))


@pytest.mark.campaign
@pytest.mark.timeout(180)
def test_a_group_goes_on_while_each_process_dies_in_turn(
    broker: Broker, library: Client, make_group: MakeGroup, ottla_topic: str
) -> None:
    partitions = Topics(broker.bootstrap_servers).create(ottla_topic, PARTITIONS)
    group = make_group(broker.bootstrap_servers, library)
    with Feed(broker.bootstrap_servers, partitions) as feed:
        members = [group.start([ottla_topic], session_timeout_ms=LONG_SESSION_MS) for _ in range(2)]
        group.settle(partitions, *members)
        for node_id in broker.node_ids:
            feed.flow()
            broker.kill_node(node_id)
            broker.start_node(node_id)
        members.append(group.start([ottla_topic], session_timeout_ms=LONG_SESSION_MS))
        group.settle(partitions, *members)
        feed.flow()
        feed.drain(group.history)
    group.leave(*members)
    group.check(problems(group.history, feed.produced))
