"""A member that joins never breaks another: fifty that come and go end in a stable, complete assignment."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from functools import partial

import pytest
from tests.faults.processes import fault_rng
from tests.groups.brokers import Running
from tests.groups.checker import incomplete_assignment, overlapping_stints
from tests.groups.conftest import MakeGroup, Topics, client_called, in_turn
from tests.groups.history import ASSIGNED
from tests.groups.members import QUIET_SECONDS, SETTLE_SECONDS, Client, Group, Member
from tests.groups.moves import move_coordinator
from tests.groups.raw_consumer_member import RawConsumerMember
from tests.groups.raw_member import RawMember
from tests.groups.swarm import NewMember, Swarm

MEMBERS = 50
STRANGERS = 4
PARTITIONS = 64
# Those who left just before and were heard by the old coordinator only are missed after their session.
DISTURB_SECONDS = 10.0


@pytest.fixture(params=in_turn(["confluent-range"], ["confluent-consumer"]))
def protocol(request: pytest.FixtureRequest) -> Client:
    """A client of each protocol."""
    return client_called(request.param, request)


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "seconds",
    [pytest.param(10, id="short"), pytest.param(60, id="a-minute", marks=pytest.mark.campaign)],
)
def test_fifty_members_that_come_and_go_end_in_a_stable_complete_assignment(
    bootstrap: str, topics: Topics, protocol: Client, make_group: MakeGroup, seconds: int
) -> None:
    group = make_group(bootstrap, protocol)
    come_and_go(group, topics, seconds, lambda: None)


@pytest.mark.campaign
@pytest.mark.timeout(240)
def test_fifty_members_come_and_go_while_their_coordinator_moves(
    triple: Running, protocol: Client, make_group: MakeGroup
) -> None:
    broker = triple.ottla
    assert broker is not None
    group = make_group(triple.bootstrap_servers, protocol)
    come_and_go(
        group,
        Topics(triple.bootstrap_servers),
        60,
        lambda: move_coordinator(broker, group.group_id),
    )


def raw_members(group: Group, topic: str) -> NewMember:
    """Members of a group, with its protocol."""
    server = group.bootstrap_servers.split(",")[0]
    if group.client.has_new_protocol:
        return partial(RawConsumerMember, server, group.group_id, topic)
    return partial(RawMember, server, group.group_id, topic, PARTITIONS)


def come_and_go(group: Group, topics: Topics, seconds: float, disturb: Callable[[], None]) -> None:
    """Members come and go for a while; then all stay, and all must be well."""
    rng = fault_rng()
    topic = f"swarm-{uuid.uuid4().hex[:12]}"
    partitions = topics.create(topic, PARTITIONS)
    with Swarm(raw_members(group, topic), MEMBERS - STRANGERS, group.history, rng) as swarm:
        end = time.monotonic() + seconds
        strangers: list[Member] = []
        disturbed = time.monotonic()
        while time.monotonic() < end:
            if time.monotonic() - disturbed > DISTURB_SECONDS:
                disturbed = time.monotonic()
                disturb()
            if len(strangers) >= STRANGERS:
                strangers.pop(rng.randrange(STRANGERS)).leave()
            strangers.append(group.start([topic]))
            time.sleep(rng.uniform(0.2, 0.8))
        strangers += [group.start([topic]) for _ in range(STRANGERS - len(strangers))]
        swarm.settle()
        names = {*swarm.names, *(member.name for member in strangers)}

        def is_stable() -> bool:
            assert swarm.broken == []
            owners = group.history.owners
            if owners.keys() != names:
                return False
            if group.client.has_new_protocol:
                # Who has what it should have may not hear of later epochs.
                return not incomplete_assignment(owners, partitions)
            last = {event.worker: event for event in group.history.events if event.kind == ASSIGNED}
            return len({last[name].generation for name in names}) == 1

        group.history.wait("stable", is_stable, SETTLE_SECONDS)
        assert incomplete_assignment(group.history.owners, partitions) == []
        if group.client.has_new_protocol:
            # Everybody has everything; the coordinator is told so with the next heartbeats.
            group.history.wait(
                "all told", lambda: topics.describe(group.group_id).state == "STABLE", 10.0
            )
        described = topics.describe(group.group_id)
        assert described.state == "STABLE"
        assert len(described.assignment) == MEMBERS
        quiet_from = time.monotonic()
        time.sleep(QUIET_SECONDS)
        assert group.history.since(quiet_from, ASSIGNED) == []
        assert swarm.broken == []
        group.leave(*strangers)
    assert swarm.broken == []
    assert overlapping_stints(group.history) == []
    generations = {event.generation for event in group.history if event.kind == ASSIGNED}
    print(f"{len(generations)} generations")
