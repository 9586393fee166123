"""kill -9 of the broker, or of all its workers: the group goes on, and what it committed is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from tests.apache_kafka.programs import Kafka
from tests.faults.processes import BrokerProcess
from tests.groups.brokers import KillableWorkers, killable_node, three_workers
from tests.groups.checker import problems
from tests.groups.conftest import MakeGroup, Topics, in_turn
from tests.groups.feed import Feed
from tests.groups.history import ASSIGNED, COMMITTED, RECORD
from tests.groups.members import LONG_SESSION_MS, Client

PARTITIONS = 4
KILLS = 2


@contextmanager
def killable_workers(folder: Path) -> Iterator[KillableWorkers]:
    with three_workers(folder) as broker:
        yield KillableWorkers(broker)


AnyBroker = BrokerProcess | Kafka | KillableWorkers
BROKERS: dict[str, Callable[[Path], AbstractContextManager[AnyBroker]]] = {
    "node": killable_node,
    "workers": killable_workers,
}


@pytest.fixture(params=in_turn(["node"], ["workers"]))
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnyBroker]:
    """One that is killed and started again."""
    with BROKERS[request.param](tmp_path) as running:
        yield running


def test_committed_offsets_survive_kills_of_the_broker_and_the_group_goes_on(
    broker: AnyBroker,
    library: Client,
    make_group: MakeGroup,
    ottla_topic: str,
) -> None:
    topics = Topics(broker.address)
    partitions = topics.create(ottla_topic, PARTITIONS)
    group = make_group(broker.address, library)
    with Feed(broker.address, partitions) as feed:
        members = [group.start([ottla_topic], session_timeout_ms=LONG_SESSION_MS) for _ in range(2)]
        group.settle(partitions, *members)
        for _ in range(KILLS):
            feed.flow()
            broker.kill()
            broker.start()
        feed.flow()
        feed.drain(group.history)
        group.settle(partitions, *members)
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
    # Nobody had to become a new member: the new process knows the members of the old one.
    for member in members:
        ids = {event.member_id for event in group.history.of(member.name, ASSIGNED, RECORD)}
        assert len(ids) == 1
    group.check(problems(group.history, feed.produced))
