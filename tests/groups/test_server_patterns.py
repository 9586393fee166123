"""Patterns that the coordinator resolves (KIP-848): by RE2, each member its own, and topics that come and go."""

from __future__ import annotations

import re

import pytest
from tests.groups.brokers import Running
from tests.groups.checker import problems, problems_without_faults, repeated_records
from tests.groups.conftest import MakeGroup, Topics
from tests.groups.feed import Feed
from tests.groups.history import ASSIGNED, Owners
from tests.groups.members import Client, Group

# Kafka looks for new topics no more often than every ten seconds.
PATTERN_SECONDS = 40.0


def wait_for(group: Group, owners: Owners) -> None:
    group.history.wait("assigned", lambda: group.history.owners == owners, PATTERN_SECONDS)


@pytest.mark.timeout(180)
def test_a_pattern_of_the_broker_follows_topics_that_come_and_go(
    bootstrap: str, topics: Topics, new_client: Client, make_group: MakeGroup, ottla_topic: str
) -> None:
    partitions = topics.create(f"{ottla_topic}-1", 2)
    topics.create(f"not-{ottla_topic}", 1)
    topics.create(f"{ottla_topic}-x", 1)
    group = make_group(bootstrap, new_client)
    # All of the name has to match, which a pattern of the client's need not.
    pattern = rf"{re.escape(ottla_topic)}-\d"
    with Feed(bootstrap, partitions) as feed:
        members = [group.start(broker_pattern=pattern) for _ in range(2)]
        group.settle(partitions, *members)
        later = topics.create(f"{ottla_topic}-2", 2)
        feed.add(later)
        group.settle(partitions + later, *members)
        feed.flow()
        doomed = topics.create(f"{ottla_topic}-3", 2)
        group.settle(partitions + later + doomed, *members)
        topics.delete(f"{ottla_topic}-3")
        group.settle(partitions + later, *members)
        feed.flow()
        feed.drain(group.history)
    group.leave(*members)
    story = group.history.events
    group.check([*problems(story, feed.produced), *repeated_records(story)])


@pytest.mark.timeout(180)
def test_each_member_gets_what_its_own_pattern_or_names_say(
    bootstrap: str, topics: Topics, new_client: Client, make_group: MakeGroup, ottla_topic: str
) -> None:
    partitions = {letter: topics.create(f"{ottla_topic}-{letter}", 2) for letter in ("a", "b", "c")}
    everything = [partition for some in partitions.values() for partition in some]
    group = make_group(bootstrap, new_client)
    escaped = re.escape(ottla_topic)
    with Feed(bootstrap, everything) as feed:
        left = group.start(broker_pattern=f"{escaped}-[ab]")
        right = group.start(broker_pattern=f"{escaped}-c")
        owners = {left.name: {*partitions["a"], *partitions["b"]}, right.name: {*partitions["c"]}}
        wait_for(group, owners)
        named = group.start([f"{ottla_topic}-a", f"{ottla_topic}-b"])
        group.settle(everything, left, right, named)
        found = group.history.owners
        assert found[right.name] == set(partitions["c"])
        assert len(found[left.name]) == len(found[named.name]) == 2
        feed.flow()
        left.leave()
        owners = {
            named.name: {*partitions["a"], *partitions["b"]},
            right.name: {*partitions["c"]},
        }
        wait_for(group, owners)
        feed.drain(group.history)
    group.leave(right, named)
    group.check(problems_without_faults(group.history, feed.produced))


def test_a_pattern_that_is_none_is_refused_and_the_group_goes_on(
    running: Running, topics: Topics, new_client: Client, make_group: MakeGroup, ottla_topic: str
) -> None:
    bootstrap = running.bootstrap_servers
    partitions = topics.create(ottla_topic, 2)
    group = make_group(bootstrap, new_client)
    with Feed(bootstrap, partitions) as feed:
        member = group.start(broker_pattern=re.escape(ottla_topic))
        group.settle(partitions, member)
        wrong = group.start(broker_pattern="(")
        wrong.expect_end()
        assert wrong.wait_ended() != 0
        assert group.history.of(wrong.name, ASSIGNED) == []
        feed.flow()
        feed.drain(group.history)
    member.leave()
    group.check(problems_without_faults(group.history, feed.produced))
