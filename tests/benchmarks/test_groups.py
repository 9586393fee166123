"""The benchmarks of groups measure groups that are stable, offsets that are kept, and brokers that were restarted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.comparison import DURATION, Results, Row
from benchmarks.frames import RefusedError, append_one, create_wide_topic
from benchmarks.measure import Measurement, Memory
from benchmarks.members import Group, await_coordinator
from benchmarks.offsets import commit_frame, commit_once, committed
from benchmarks.peers import Ottla, Peer
from benchmarks.report import Report

import ottla
from benchmarks import bench_group_load, bench_groups, bench_offset_commit
from ottla.client.raw import RawConnection
from ottla.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse

SECONDS = 0.05


class Embedded(Peer):
    """A broker in this process."""

    name = "ottla"
    version = "1"

    def __init__(self, broker: ottla.Broker) -> None:
        self.bootstrap_server = broker.bootstrap_servers.split(",")[0]
        self.folder = Path(broker.data_dir)

    @property
    def pid(self) -> int:
        return os.getpid()

    def command(self) -> list[str]:
        return []


@pytest.fixture
def peer() -> Iterator[Peer]:
    with ottla.Broker(num_partitions=4) as broker:
        yield Embedded(broker)


def described(peer: Peer, group_id: str) -> tuple[str, int]:
    """The state of a group and how many members it has, as the broker says."""
    with RawConnection(peer.bootstrap_server) as connection:
        request = DescribeGroupsRequest(groups=[group_id])
        answer = connection.call(request, DescribeGroupsResponse, 5)
    return answer.groups[0].group_state, len(answer.groups[0].members)


def test_a_group_is_stable_when_it_is_said_to_be(peer: Peer) -> None:
    group = Group(peer.bootstrap_server, "g", 5)
    assert group.form() > 0
    assert described(peer, "g") == ("Stable", 5)
    generation = group.members[0].generation
    assert group.grow(group.connect_one()) > 0
    assert described(peer, "g") == ("Stable", 6)
    assert group.shrink() > 0
    assert described(peer, "g") == ("Stable", 5)
    assert group.members[0].generation == generation + 2
    group.close()
    assert described(peer, "g") == ("Empty", 0)


def test_a_topic_is_deleted_when_its_data_are(peer: Peer) -> None:
    for topic in ("gone", "kept"):
        peer.create_topic(topic)
        assert append_one(peer.bootstrap_server, topic)
    peer.delete_topic("gone")
    assert not list(peer.folder.rglob("gone-*"))
    assert list(peer.folder.rglob("kept-*"))


def test_a_partition_that_two_members_have_is_noticed(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.members.assigned", lambda number: b"the same for everybody")
    group = Group(peer.bootstrap_server, "g", 2)
    with pytest.raises(RefusedError, match="assigned twice"):
        group.form()
    group.close()


@pytest.mark.parametrize("row", bench_groups.rows_of(3), ids=lambda row: row.name)
def test_rows_of_groups_measure_time(peer: Peer, row: Row) -> None:
    measurement = row.run(peer, SECONDS)
    assert measurement.duration_ms is not None
    assert measurement.duration_ms > 0


def test_consumers_of_librdkafka_share_a_topic(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_groups, "CLIENT_COUNT", 2)
    measurement = bench_groups.librdkafka(peer, SECONDS)
    assert measurement.duration_ms is not None
    assert measurement.duration_ms > 0


@pytest.mark.parametrize("row", bench_offset_commit.ROWS, ids=lambda row: row.name)
def test_every_commit_that_is_counted_was_written(peer: Peer, row: Row) -> None:
    assert row.run(peer, SECONDS).throughput > 0


def test_a_commit_that_is_refused_is_noticed(peer: Peer) -> None:
    create_wide_topic(peer.bootstrap_server, "t", 2)
    await_coordinator(peer.bootstrap_server, "g")
    with RawConnection(peer.bootstrap_server) as connection:
        commit_once(connection, commit_frame("g", "t", [7, 8]))
        assert committed(peer.bootstrap_server, ["g", "other"]) == {"g": [7, 8], "other": []}
        with pytest.raises(RefusedError, match="error 3"):
            commit_once(connection, commit_frame("g", "t", [7, 8, 9]))


def test_coordinators_have_their_offsets_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_group_load, "GROUPS", [f"g-{number}" for number in range(5)])
    peer = Ottla()
    peer.start()
    try:
        first_pid = peer.pid
        measurement = bench_group_load.restart(2, peer, SECONDS)
        assert peer.pid != first_pid
    finally:
        peer.stop()
    assert measurement.duration_ms is not None
    assert measurement.duration_ms > 0
    assert not peer.folder.exists()


def test_durations_have_a_table_of_their_own_in_which_less_is_better() -> None:
    row = Row("group", "raw", "10 members", DURATION, bench_groups.librdkafka)
    results = Results()
    for ours, theirs in ((10.0, 20.0), (30.0, 30.0), (10.0, 40.0)):
        results.add(row, "ottla", Measurement(duration_ms=ours, cpu_ms=5.0))
        results.add(row, "kafka", Measurement(duration_ms=theirs, cpu_ms=7.0))
    versions = {"ottla": "1", "kafka": "4"}
    memory = dict.fromkeys(versions, Memory(30.0, 20.0))
    starts = {key: [0.25] for key in versions}
    report = Report(3, 1.0, 0.0, versions, {}, results, starts, memory, memory)
    assert "| group, 10 members | raw | 10 | 30 | 2.00 | 5 | 7 |" in report.markdown()
    assert report.as_json()["rows"][0]["ratio"] == {"kafka": 2.0}
