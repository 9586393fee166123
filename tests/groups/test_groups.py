"""Groups of strangers' consumers: whatever happens to members, no record is lost and none has two owners."""

from __future__ import annotations

import re
import time

import pytest
from tests.groups.brokers import Running
from tests.groups.checker import problems, problems_without_faults, repeated_records
from tests.groups.conftest import CLIENTS_OF_BOTH_PROTOCOLS, MakeGroup, Topics, in_turn
from tests.groups.feed import Feed
from tests.groups.history import (
    ASSIGNED,
    COMMIT_FAILED,
    COMMITTED,
    RECORD,
    REPORTED,
    RESUMED,
    Event,
)
from tests.groups.members import IMPATIENT_MS, Client, Group, Member

PARTITIONS = 4
COMMIT_DELAY_MS = 500


@pytest.mark.parametrize("client", CLIENTS_OF_BOTH_PROTOCOLS, indirect=True)
def test_members_join_and_leave_and_every_record_is_processed_once(
    bootstrap: str, topics: Topics, client: Client, make_group: MakeGroup, ottla_topic: str
) -> None:
    partitions = topics.create(ottla_topic, PARTITIONS)
    group = make_group(bootstrap, client)
    with Feed(bootstrap, partitions) as feed:
        first = group.start([ottla_topic])
        group.settle(partitions, first)
        second, third = group.start([ottla_topic]), group.start([ottla_topic])
        group.settle(partitions, first, second, third)
        feed.flow()
        first.leave()
        group.settle(partitions, second, third)
        feed.drain(group.history)
    group.leave(second, third)
    group.check(problems_without_faults(group.history, feed.produced))


def test_a_killed_member_is_replaced_after_its_session(
    running: Running, topics: Topics, client: Client, make_group: MakeGroup, ottla_topic: str
) -> None:
    bootstrap = running.bootstrap_servers
    partitions = topics.create(ottla_topic, PARTITIONS)
    group = make_group(bootstrap, client)
    with Feed(bootstrap, partitions) as feed:
        first = group.start([ottla_topic])
        victim = group.start([ottla_topic], session_timeout_ms=IMPATIENT_MS)
        group.settle(partitions, first, victim)
        feed.flow()
        victim.kill()
        running.let_session_pass(client, IMPATIENT_MS)
        group.settle(partitions, first)
        feed.drain(group.history)
    first.leave()
    group.check(problems(group.history, feed.produced))


def test_a_member_that_slept_past_its_session_cannot_commit_and_joins_again(
    running: Running, topics: Topics, client: Client, make_group: MakeGroup, ottla_topic: str
) -> None:
    bootstrap = running.bootstrap_servers
    partitions = topics.create(ottla_topic, PARTITIONS)
    group = make_group(bootstrap, client)
    with Feed(bootstrap, partitions) as feed:
        first = group.start([ottla_topic])
        sleeper = group.start(
            [ottla_topic], session_timeout_ms=IMPATIENT_MS, commit_delay_ms=COMMIT_DELAY_MS
        )
        group.settle(partitions, first, sleeper)
        # It falls asleep between a record and its commit.
        group.history.wait("about to commit", lambda: _is_about_to_commit(group, sleeper), 10.0)
        sleeper.pause()
        running.let_session_pass(client, IMPATIENT_MS)
        group.settle(partitions, first)
        feed.flow()
        sleeper.resume()
        group.settle(partitions, first, sleeper)
        feed.drain(group.history)
    group.leave(first, sleeper)
    group.check(problems(group.history, feed.produced))
    after = _after_resuming(group.history.events)
    outcomes = [event.kind for event in after if event.kind in (COMMITTED, COMMIT_FAILED)]
    assert outcomes[0] == COMMIT_FAILED
    again = next(number for number, event in enumerate(after) if event.kind == ASSIGNED)
    before = [event.generation for event in after[:again]]
    assert after[again].generation > max(before, default=-1)


def _is_about_to_commit(group: Group, member: Member) -> bool:
    """Whether it processed what it had and waits; neither too early nor too late to be sure."""
    last = group.history.of(member.name, *REPORTED)[-1]
    waited_ms = (time.monotonic() - last.time) * 1000
    return last.kind == RECORD and COMMIT_DELAY_MS / 5 < waited_ms < COMMIT_DELAY_MS / 2


def _after_resuming(events: list[Event]) -> list[Event]:
    (resumed,) = [event for event in events if event.kind == RESUMED]
    own = [event for event in events if event.worker == resumed.worker]
    return own[own.index(resumed) + 1 :]


def test_new_partitions_are_consumed_by_a_running_group(
    bootstrap: str, topics: Topics, client: Client, make_group: MakeGroup, ottla_topic: str
) -> None:
    partitions = topics.create(ottla_topic, 2)
    group = make_group(bootstrap, client)
    with Feed(bootstrap, partitions) as feed:
        members = [group.start([ottla_topic]) for _ in range(2)]
        group.settle(partitions, *members)
        grown = topics.grow(ottla_topic, PARTITIONS)
        feed.add(grown[2:])
        group.settle(grown, *members)
        feed.flow()
        feed.drain(group.history)
    group.leave(*members)
    assert feed.produced.keys() == set(grown)
    group.check(problems_without_faults(group.history, feed.produced))


def test_a_pattern_picks_up_a_topic_that_is_created_later(
    bootstrap: str, topics: Topics, client: Client, make_group: MakeGroup, ottla_topic: str
) -> None:
    partitions = topics.create(f"{ottla_topic}-1", 2)
    topics.create(f"not-{ottla_topic}", 1)
    group = make_group(bootstrap, client)
    with Feed(bootstrap, partitions) as feed:
        members = [group.start(pattern=f"{re.escape(ottla_topic)}-.*") for _ in range(2)]
        group.settle(partitions, *members)
        partitions += topics.create(f"{ottla_topic}-2", 2)
        feed.add(partitions[2:])
        group.settle(partitions, *members)
        feed.flow()
        feed.drain(group.history)
    group.leave(*members)
    assert feed.produced.keys() == set(partitions)
    group.check(problems_without_faults(group.history, feed.produced))


def test_a_group_goes_on_when_one_of_its_topics_is_deleted(
    bootstrap: str, topics: Topics, library: Client, make_group: MakeGroup, ottla_topic: str
) -> None:
    kept = topics.create(f"{ottla_topic}-1", 2)
    deleted = topics.create(f"{ottla_topic}-2", 2)
    group = make_group(bootstrap, library)
    with Feed(bootstrap, kept) as feed:
        members = [group.start(pattern=f"{re.escape(ottla_topic)}-.*") for _ in range(2)]
        group.settle(kept + deleted, *members)
        topics.delete(f"{ottla_topic}-2")
        group.settle(kept, *members)
        feed.flow()
        feed.drain(group.history)
    group.leave(*members)
    # A cooperative member of librdkafka calls the partitions of the deleted topic lost.
    story = group.history.events
    group.check([*problems(story, feed.produced), *repeated_records(story)])


@pytest.mark.parametrize("clients", in_turn(["mixed_clients"], ["mixed_new_clients"]))
def test_members_with_different_clients_share_a_group(
    bootstrap: str,
    topics: Topics,
    clients: str,
    make_group: MakeGroup,
    ottla_topic: str,
    request: pytest.FixtureRequest,
) -> None:
    mixed: list[Client] = request.getfixturevalue(clients)
    partitions = topics.create(ottla_topic, 2 * len(mixed))
    group = make_group(bootstrap, mixed[0])
    with Feed(bootstrap, partitions) as feed:
        members = [group.start([ottla_topic], client=client) for client in mixed]
        group.settle(partitions, *members)
        feed.flow()
        # Each in turn is gone, so that each leads once.
        for number in range(len(members) - 1):
            members[number].leave()
            group.settle(partitions, *members[number + 1 :])
        feed.drain(group.history)
    members[-1].leave()
    group.check(problems_without_faults(group.history, feed.produced))
