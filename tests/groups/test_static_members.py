"""Members with a group.instance.id (KIP-345) that come back in time cause no rebalance."""

from __future__ import annotations

import time

from tests.groups.brokers import Running
from tests.groups.checker import problems
from tests.groups.conftest import MakeGroup, Topics
from tests.groups.feed import Feed
from tests.groups.history import ASSIGNED, COMMIT_FAILED, COMMITTED, LOST, REVOKED
from tests.groups.members import IMPATIENT_MS, LONG_SESSION_MS, Client, Member

PARTITIONS = 4


def test_static_members_that_restart_in_time_cause_no_rebalance(
    bootstrap: str, topics: Topics, static_client: Client, make_group: MakeGroup, ottla_topic: str
) -> None:
    partitions = topics.create(ottla_topic, PARTITIONS)
    group = make_group(bootstrap, static_client)

    def start(instance: str) -> Member:
        return group.start(
            [ottla_topic], group_instance_id=instance, session_timeout_ms=LONG_SESSION_MS
        )

    with Feed(bootstrap, partitions) as feed:
        one = start("one")
        group.settle(partitions, one)
        two = start("two")
        group.settle(partitions, one, two)
        owned = group.history.owners
        generation = group.history.of(two.name, ASSIGNED)[-1].generation
        began = time.monotonic()

        # The leader stops as it should, which does not make a static member leave.
        one.leave()
        one_again = start("one")
        group.settle(partitions, one_again, two)
        # The other one is killed. The new protocol would not let its successor in until its session is over.
        if static_client.has_new_protocol:
            two.leave()
        else:
            two.kill()
        two_again = start("two")
        group.settle(partitions, one_again, two_again)

        assert group.history.owners == {
            one_again.name: owned[one.name],
            two_again.name: owned[two.name],
        }
        changes = group.history.since(began, ASSIGNED, REVOKED, LOST)
        told = [event.worker for event in changes if event.kind == ASSIGNED]
        assert told == [one_again.name, two_again.name]
        # What is revoked is what a member that stops gives up itself.
        stopped = {one.name, two.name} if static_client.has_new_protocol else {one.name}
        assert {event.worker for event in changes if event.kind != ASSIGNED} == stopped
        assert {event.generation for event in changes if event.kind == ASSIGNED} == {generation}
        described = topics.describe(group.group_id)
        assert described.state == "STABLE"
        assert len(described.assignment) == 2
        feed.drain(group.history)
    group.check(problems(group.history, feed.produced))


def test_a_static_member_that_stays_away_is_replaced_after_its_session(
    running: Running, topics: Topics, library: Client, make_group: MakeGroup, ottla_topic: str
) -> None:
    bootstrap = running.bootstrap_servers
    partitions = topics.create(ottla_topic, PARTITIONS)
    group = make_group(bootstrap, library)
    with Feed(bootstrap, partitions) as feed:
        one = group.start([ottla_topic], group_instance_id="one")
        two = group.start([ottla_topic], group_instance_id="two", session_timeout_ms=IMPATIENT_MS)
        group.settle(partitions, one, two)
        gone = time.monotonic()
        with running.frozen():
            two.leave()
            running.let_session_pass(library, IMPATIENT_MS / 2)
            assert len(topics.describe(group.group_id).assignment) == 2
            assert group.history.since(gone, ASSIGNED) == []
            running.let_session_pass(library, IMPATIENT_MS / 2)
        group.settle(partitions, one)
        (_,) = [event for event in group.history.since(gone, ASSIGNED) if event.partitions]
        feed.drain(group.history)
    group.check(problems(group.history, feed.produced))


def test_a_second_process_with_the_same_instance_id_fences_the_first(
    bootstrap: str, topics: Topics, fenced_client: Client, make_group: MakeGroup, ottla_topic: str
) -> None:
    partitions = topics.create(ottla_topic, PARTITIONS)
    group = make_group(bootstrap, fenced_client)
    with Feed(bootstrap, partitions) as feed:
        old = group.start([ottla_topic], group_instance_id="it")
        group.settle(partitions, old)
        old.expect_end()
        new = group.start([ottla_topic], group_instance_id="it")
        assert old.wait_ended() != 0
        group.settle(partitions, new)
        feed.drain(group.history)
    new.leave()
    assert len(topics.describe(group.group_id).assignment) == 1
    # For a moment both had the partitions; the old one was told when it spoke next.
    began = group.history.of(new.name, ASSIGNED)[0].time
    late = [event for event in group.history.of(old.name, COMMITTED) if event.began > began]
    assert late == []


def test_with_the_new_protocol_a_second_process_with_the_same_instance_id_is_refused(
    running: Running, topics: Topics, new_client: Client, make_group: MakeGroup, ottla_topic: str
) -> None:
    bootstrap = running.bootstrap_servers
    partitions = topics.create(ottla_topic, PARTITIONS)
    group = make_group(bootstrap, new_client)

    def start() -> Member:
        return group.start([ottla_topic], group_instance_id="it", session_timeout_ms=IMPATIENT_MS)

    with Feed(bootstrap, partitions) as feed:
        first = start()
        group.settle(partitions, first)
        # UNRELEASED_INSTANCE_ID ends it, and the first does not even notice.
        second = start()
        second.expect_end()
        assert second.wait_ended() != 0
        feed.flow()
        assert group.history.of(second.name, ASSIGNED) == []
        assert group.history.of(first.name, REVOKED, LOST, COMMIT_FAILED) == []
        # Killed, it has not released the id; after its session it is free.
        first.kill()
        third = start()
        third.expect_end()
        assert third.wait_ended() != 0
        running.let_session_pass(new_client, IMPATIENT_MS)
        fourth = start()
        group.settle(partitions, fourth)
        feed.drain(group.history)
    fourth.leave()
    group.check(problems(group.history, feed.produced))
