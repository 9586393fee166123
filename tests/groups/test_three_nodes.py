"""Groups over three nodes: coordinators and leaders move and die under them."""

from __future__ import annotations

import time

import pytest
from tests.groups.brokers import Running
from tests.groups.checker import faults, problems, problems_without_faults, repeated_records
from tests.groups.conftest import MakeGroup, Topics
from tests.groups.feed import Feed
from tests.groups.history import LOST
from tests.groups.members import IMPATIENT_MS, Client
from tests.groups.moves import OFFSETS_PARTITIONS, OFFSETS_TOPIC, move, move_coordinator

from ottla.model import coordinator_partition
from ottla.testing import Broker

PARTITIONS = 6


@pytest.fixture
def broker(triple: Running) -> Broker:
    assert triple.ottla is not None
    return triple.ottla


@pytest.mark.timeout(180)
def test_a_group_goes_on_while_its_coordinator_and_its_leaders_move(
    broker: Broker, client: Client, make_group: MakeGroup, ottla_topic: str
) -> None:
    partitions = Topics(broker.bootstrap_servers).create(ottla_topic, PARTITIONS)
    group = make_group(broker.bootstrap_servers, client)
    with Feed(broker.bootstrap_servers, partitions) as feed:
        first, second = group.start([ottla_topic]), group.start([ottla_topic])
        group.settle(partitions, first, second)
        move_coordinator(broker, group.group_id)
        feed.flow()
        # In the middle of a rebalance, as likely as not. A generation that no leader has handed out is lost with its
        # coordinator, as in Kafka, and with it what cooperative members have in hand.
        began = time.monotonic()
        third = group.start([ottla_topic])
        feed.flow()
        move_coordinator(broker, group.group_id)
        group.settle(partitions, first, second, third)
        settled = time.monotonic()
        for _, partition in partitions:
            move(broker, ottla_topic, partition)
        feed.flow()
        # Not while the coordinator moves: a leave that only the old one heard is forgotten, as in
        # Kafka, and the member is missed after its session.
        first.leave()
        group.settle(partitions, second, third)
        move_coordinator(broker, group.group_id)
        feed.flow()
        feed.drain(group.history)
    group.leave(second, third)
    lost = group.history.since(began, LOST)
    has_lost_in_time = client.is_cooperative and any(one.time < settled for one in lost)
    if has_lost_in_time:
        group.check(problems(group.history, feed.produced))
        others = [one for one in group.history if not began <= one.time < settled]
        group.check(repeated_records(others) + faults(others))
    else:
        group.check(problems_without_faults(group.history, feed.produced))


@pytest.mark.timeout(180)
def test_a_group_survives_the_death_of_its_coordinator_and_of_a_member(
    broker: Broker, library: Client, make_group: MakeGroup, ottla_topic: str
) -> None:
    topics = Topics(broker.bootstrap_servers)
    partitions = topics.create(ottla_topic, PARTITIONS)
    group = make_group(broker.bootstrap_servers, library)
    with Feed(broker.bootstrap_servers, partitions) as feed:
        first, second = group.start([ottla_topic]), group.start([ottla_topic])
        victim = group.start([ottla_topic], session_timeout_ms=IMPATIENT_MS)
        group.settle(partitions, first, second, victim)
        number = coordinator_partition(group.group_id, OFFSETS_PARTITIONS)
        dying = broker.leader_of(OFFSETS_TOPIC, number)
        broker.kill_node(dying)
        try:
            victim.kill()
            # Sessions begin anew with the next coordinator.
            topics.describe(group.group_id)
            broker.clock.advance(IMPATIENT_MS / 1000)
            group.settle(partitions, first, second)
            feed.flow()
        finally:
            broker.start_node(dying)
        third = group.start([ottla_topic])
        broker.move_leader(OFFSETS_TOPIC, number, dying)
        group.settle(partitions, first, second, third)
        feed.drain(group.history)
    group.leave(first, second, third)
    group.check(problems(group.history, feed.produced))
