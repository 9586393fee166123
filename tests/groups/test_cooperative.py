"""Cooperative rebalances (KIP-429) revoke only what moves."""

from __future__ import annotations

import time

from tests.groups.checker import problems_without_faults
from tests.groups.conftest import MakeGroup, Topics
from tests.groups.feed import Feed
from tests.groups.history import LOST, REVOKED
from tests.groups.members import Client

PARTITIONS = 6


def test_a_cooperative_rebalance_revokes_only_what_moves(
    bootstrap: str,
    topics: Topics,
    cooperative_client: Client,
    make_group: MakeGroup,
    ottla_topic: str,
) -> None:
    partitions = topics.create(ottla_topic, PARTITIONS)
    group = make_group(bootstrap, cooperative_client)
    with Feed(bootstrap, partitions) as feed:
        first, second = group.start([ottla_topic]), group.start([ottla_topic])
        group.settle(partitions, first, second)
        before, began = group.history.owners, time.monotonic()
        third = group.start([ottla_topic])
        group.settle(partitions, first, second, third)
        after = group.history.owners
        taken = [
            partition
            for event in group.history.since(began, REVOKED, LOST)
            for partition in event.partitions
        ]
        assert sorted(taken) == sorted(after[third.name])
        assert len(taken) == PARTITIONS // 3
        for member in (first, second):
            assert after[member.name] == before[member.name] - after[third.name]

        # Who leaves takes nothing from those who stay.
        third.leave()
        began = time.monotonic()
        group.settle(partitions, first, second)
        assert group.history.since(began, REVOKED, LOST) == []
        feed.drain(group.history)
    group.leave(first, second)
    group.check(problems_without_faults(group.history, feed.produced))
