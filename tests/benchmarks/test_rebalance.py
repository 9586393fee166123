"""The benchmark of rebalances measures groups of both protocols that are stable, and heartbeats that were answered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from benchmarks.comparison import Row
from benchmarks.frames import RefusedError
from benchmarks.peers import Peer
from tests.benchmarks.test_groups import SECONDS, Embedded

import ottla
from benchmarks import bench_rebalance
from ottla.client.raw import RawConnection
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

OPTIONS = {
    "group.consumer.min.heartbeat.interval.ms": bench_rebalance.SHORTEST_INTERVAL_MS,
    "group.consumer.assignment.interval.ms": 0,
}


@pytest.fixture
def peer() -> Iterator[Peer]:
    with ottla.Broker(OPTIONS) as broker:
        yield Embedded(broker)


def described(peer: Peer, group_id: str) -> DescribedGroup:
    request = ConsumerGroupDescribeRequest(group_ids=[group_id])
    with RawConnection(peer.bootstrap_server) as connection:
        (group,) = connection.call(request, ConsumerGroupDescribeResponse, 1).groups
    assert isinstance(group, DescribedGroup)
    return group


def test_a_group_of_the_new_protocol_is_stable_when_it_is_said_to_be(peer: Peer) -> None:
    group = bench_rebalance.consumer(peer, 5)
    assert group.form() > 0
    assert (described(peer, group.group_id).group_state, len(group.members)) == ("Stable", 5)
    epoch = group.members[0].epoch
    assert group.newcomer()() > 0
    found = described(peer, group.group_id)
    assert (found.group_state, len(found.members)) == ("Stable", 6)
    assert group.shrink() > 0
    found = described(peer, group.group_id)
    assert (found.group_state, found.group_epoch) == ("Stable", epoch + 2)
    group.close()
    assert described(peer, group.group_id).group_state == "Empty"


def test_members_beat_at_the_interval_that_they_are_told(peer: Peer) -> None:
    group = bench_rebalance.consumer(peer, 2)
    group.form()
    assert {member.interval_seconds for member in group.members} == {
        bench_rebalance.SHORTEST_INTERVAL_MS / 1000
    }
    assert 0 < group.beat(0.2) <= 2 * 5
    group.close()


def test_a_heartbeat_that_is_refused_is_noticed(peer: Peer) -> None:
    group = bench_rebalance.consumer(peer, 1)
    group.form()
    (member,) = group.members
    member.epoch += 1
    member.heartbeat()
    with pytest.raises(RefusedError, match="greater member epoch"):
        member.receive_all()
    member.epoch -= 1
    group.close()


def test_a_partition_that_two_members_have_is_noticed(peer: Peer) -> None:
    group = bench_rebalance.consumer(peer, 2)
    group.form()
    owned = group.members[0].owned
    group.members[0].owned = owned | group.members[1].owned
    with pytest.raises(RefusedError, match="assigned twice"):
        group.is_stable_since(0)
    group.members[0].owned = owned
    assert group.is_stable_since(0)
    group.close()


@pytest.mark.parametrize("row", bench_rebalance.rows_of(2), ids=lambda row: row.name)
def test_rows_measure_something(peer: Peer, row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_rebalance, "STEADY_SECONDS", SECONDS)
    monkeypatch.setattr(bench_rebalance, "ASSIGNMENT_INTERVAL_MS", 0)
    measurement = row.run(peer, SECONDS)
    assert (measurement.duration_ms or measurement.throughput) > 0
