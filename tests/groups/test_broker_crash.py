"""kill -9 of `ottla serve`: the group goes on, and what it committed is there."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.faults.processes import BrokerProcess
from tests.groups.brokers import OPTIONS, WHICH
from tests.groups.checker import problems
from tests.groups.conftest import MakeGroup, Topics
from tests.groups.feed import Feed
from tests.groups.history import ASSIGNED, COMMITTED
from tests.groups.members import Client

PARTITIONS = 4
KILLS = 3


@pytest.mark.skipif(WHICH != "ottla", reason="it kills `ottla serve`")
def test_committed_offsets_survive_kills_of_the_broker_and_the_group_goes_on(
    tmp_path: Path, client: Client, make_group: MakeGroup, ottla_topic: str
) -> None:
    options = {name.replace(".", "_"): value for name, value in OPTIONS.items()}
    with BrokerProcess(tmp_path, **options) as broker:
        topics = Topics(broker.address)
        partitions = topics.create(ottla_topic, PARTITIONS)
        group = make_group(broker.address, client)
        with Feed(broker.address, partitions) as feed:
            members = [group.start([ottla_topic]) for _ in range(2)]
            group.settle(partitions, *members)
            generation = max(event.generation for event in group.history)
            for _ in range(KILLS):
                feed.flow()
                broker.kill()
                broker.start()
            feed.flow()
            feed.drain(group.history)
            # Nobody had to join again: the new process knows the members of the old one.
            assert {event.generation for event in group.history if event.kind == ASSIGNED}
            group.settle(partitions, *members)
            print(generation, max(event.generation for event in group.history))
        group.leave(*members)
        promised = {
            partition: offset
            for event in group.history
            if event.kind == COMMITTED
            for partition, offset in zip(event.partitions, event.offsets, strict=True)
        }
        broker.kill()
        broker.start()
        assert topics.committed(group.group_id) == promised
        assert promised == {partition: len(values) for partition, values in feed.produced.items()}
    group.check(problems(group.history, feed.produced))
