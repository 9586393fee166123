"""A partition that another node leads from now on: epochs, data, producers, and everybody who waited."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from tests.broker.conftest import Starter
from tests.broker.nodes import Nodes, nodes_of
from tests.broker.requests import (
    batch_of,
    create,
    delete_records,
    fetch,
    fetch_request,
    fill,
    new_producer_id,
    on_loop,
    produce,
    produce_request,
    read_values,
    records_in,
    sequenced,
    set_options,
    values_in,
)
from tests.broker.test_elect_leaders import PREFERRED, UNCLEAN
from tests.broker.test_elect_leaders import ask as elect
from tests.broker.test_flush import EVERY, Disk, disk
from tests.broker.test_offset_for_leader_epoch import where

import ottla
from ottla.broker.runtime import RunningBroker
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.fetch import FetchResponse
from ottla.wire.messages.produce import ProduceResponse

__all__ = ["disk"]

LONG_MS = 20_000
SOON_SECONDS = 5.0
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.fixture
def three(start: Starter) -> Iterator[Nodes]:
    with nodes_of(start(nodes=3)) as nodes:
        yield nodes


def test_a_move_raises_the_epoch_that_clients_see(three: Nodes, topic: str) -> None:
    create(three.any, topic)
    fill(three.leader(topic), topic, b"a")
    for _ in range(4):
        before = three.epoch(topic)
        old = three.move(topic)
        found = three.partition(topic)
        assert found.leader_id == three.broker.leader_of(topic, 0) != old
        assert found.leader_epoch > before
        assert found.replica_nodes == found.isr_nodes == [found.leader_id]


def test_a_move_raises_the_epoch_of_a_partition_that_nobody_has_used(
    three: Nodes, topic: str
) -> None:
    create(three.any, topic, 3)
    before = three.epoch(topic)
    three.move(topic)
    assert three.epoch(topic) > before
    assert not any(name == topic for led in three.open_partitions().values() for name, _ in led)
    fill(three.leader(topic), topic, b"a")
    (record,) = records_in(
        fetch(three.leader(topic), topic, 0, current_leader_epoch=three.epoch(topic))
    )
    assert record.value == b"a"


def test_the_old_and_the_next_epoch_are_refused_by_the_new_leader(three: Nodes, topic: str) -> None:
    topic_id = create(three.any, topic)
    fill(three.leader(topic), topic, b"a")
    old_epoch = three.epoch(topic)
    three.move(topic)
    epoch = three.epoch(topic)
    for asked, error in (
        (old_epoch, ErrorCode.FENCED_LEADER_EPOCH),
        (epoch, ErrorCode.NONE),
        (epoch + 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ):
        found = fetch(three.leader(topic), topic, 0, current_leader_epoch=asked)
        assert found.error_code == error
    fenced = fetch(three.leader(topic), topic_id, 0, current_leader_epoch=old_epoch, version=16)
    hint = fenced.current_leader
    assert (hint.leader_id, hint.leader_epoch) == (three.broker.leader_of(topic, 0), epoch)


def test_a_reader_of_the_old_epoch_learns_where_it_ended(three: Nodes, topic: str) -> None:
    create(three.any, topic)
    fill(three.leader(topic), topic, b"a", b"b")
    old_epoch = three.epoch(topic)
    three.move(topic)
    fill(three.leader(topic), topic, b"c")
    assert where(three.leader(topic), topic, old_epoch) == (old_epoch, 2)
    assert where(three.leader(topic), topic, three.epoch(topic)) == (three.epoch(topic), 3)


def test_what_was_written_before_is_read_after_and_offsets_go_on(three: Nodes, topic: str) -> None:
    create(three.any, topic)
    expected = []
    for number in range(12):
        value = b"%d" % number
        assert fill(three.leader(topic), topic, value) == [number]
        expected.append(value)
        three.move(topic)
        assert read_values(three.leader(topic), topic) == expected


def test_the_new_leader_knows_the_sequences_of_producers(three: Nodes, topic: str) -> None:
    create(three.any, topic)
    producer_id = new_producer_id(three.any)
    first = produce(three.leader(topic), topic, sequenced(producer_id, 0, 3))
    three.move(topic)
    again = produce(three.leader(topic), topic, sequenced(producer_id, 0, 3))
    assert (again.error_code, again.base_offset) == (ErrorCode.NONE, first.base_offset)
    gap = produce(three.leader(topic), topic, sequenced(producer_id, 4))
    assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    after = produce(three.leader(topic), topic, sequenced(producer_id, 3))
    assert (after.error_code, after.base_offset) == (ErrorCode.NONE, 3)
    assert len(read_values(three.leader(topic), topic)) == 4


def test_deleted_records_stay_deleted(three: Nodes, topic: str) -> None:
    create(three.any, topic)
    fill(three.leader(topic), topic, b"a", b"b", b"c")
    delete_records(three.leader(topic), topic, 2)
    three.move(topic)
    assert fetch(three.leader(topic), topic, 1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert values_in(fetch(three.leader(topic), topic, 2)) == [b"c"]


def test_a_parked_fetch_is_answered_when_its_partition_goes(three: Nodes, topic: str) -> None:
    create(three.any, topic, 3)
    old = three.leader(topic)
    began = time.monotonic()
    old.send(fetch_request(topic, 0, max_wait_ms=LONG_MS), 12)
    assert three.waits()
    three.move(topic)
    (partition,) = old.receive(FetchResponse, 12).responses[0].partitions
    assert time.monotonic() - began < SOON_SECONDS
    assert partition.error_code == NOT_LEADER
    assert three.waits(0)


def test_a_parked_fetch_of_other_partitions_goes_on_waiting(three: Nodes, topic: str) -> None:
    create(three.any, topic, 6)
    leader = three.broker.leader_of(topic, 0)
    (moved,) = [n for n in range(1, 6) if three.broker.leader_of(topic, n) == leader]
    connection = three.at(leader)
    connection.send(fetch_request(topic, 0, max_wait_ms=LONG_MS), 12)
    assert three.waits()
    three.move(topic, moved)
    with RawConnection(three.broker.address_of(leader)) as other:
        fill(other, topic, b"at last")
    (partition,) = connection.receive(FetchResponse, 12).responses[0].partitions
    assert values_in(partition) == [b"at last"]


def test_a_fetch_session_survives_the_move_away_and_back(three: Nodes, topic: str) -> None:
    create(three.any, topic)
    old_id = three.broker.leader_of(topic, 0)
    old = three.at(old_id)
    opened = old.call(fetch_request(topic, 0, session_epoch=0), FetchResponse, 12)
    three.move(topic)
    request = fetch_request(topic, 0, session_id=opened.session_id, session_epoch=1)
    request.topics = []
    answer = old.call(request, FetchResponse, 12)
    assert answer.responses[0].partitions[0].error_code == NOT_LEADER
    three.broker.move_leader(topic, 0, old_id)
    with RawConnection(three.broker.address_of(old_id)) as other:
        fill(other, topic, b"v")
    request.session_epoch = 2
    answer = old.call(request, FetchResponse, 12)
    assert values_in(answer.responses[0].partitions[0]) == [b"v"]


def test_a_move_to_where_it_is_changes_nothing(three: Nodes, topic: str) -> None:
    create(three.any, topic)
    fill(three.leader(topic), topic, b"a")
    before = three.partition(topic)
    three.broker.move_leader(topic, 0, three.broker.leader_of(topic, 0))
    assert three.partition(topic) == before


def test_moves_that_make_no_sense_are_refused(three: Nodes, topic: str) -> None:
    create(three.any, topic, 2)
    for name, partition, node_id, said in (
        ("no-such-topic", 0, 1, "there is no topic 'no-such-topic'"),
        (topic, 2, 1, "has no partition 2: it has 2"),
        (topic, -1, 1, "has no partition -1"),
        (topic, 0, 4, "node 4 is not running; there are 1, 2, 3"),
    ):
        with pytest.raises(ottla.OttlaError, match=said):
            three.broker.move_leader(name, partition, node_id)
    with pytest.raises(ottla.OttlaError, match="there is no topic"):
        three.broker.leader_of("no-such-topic", 0)


def test_options_reach_a_partition_that_was_moved(three: Nodes, topic: str) -> None:
    create(three.any, topic)
    fill(three.leader(topic), topic, b"a")
    three.move(topic)
    assert set_options(three.any, topic, {"max.message.bytes": "100"}) == ErrorCode.NONE
    too_large = produce(three.leader(topic), topic, batch_of(bytes(500)))
    assert too_large.error_code == ErrorCode.MESSAGE_TOO_LARGE
    three.move(topic)
    too_large = produce(three.leader(topic), topic, batch_of(bytes(500)))
    assert too_large.error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_an_append_that_waits_for_the_disk_is_not_acknowledged_by_the_old_leader(
    three: Nodes, topic: str, disk: Disk
) -> None:
    """Two appends: one is being synced, the other waits for the next sync when the leader moves."""
    create(three.any, topic, config=EVERY)
    producer_id = new_producer_id(three.any)
    assert produce(three.leader(topic), topic, sequenced(producer_id, 0)).base_offset == 0
    old = three.leader(topic)
    disk.is_free.clear()
    begun = disk.begun
    old.send(produce_request(topic, sequenced(producer_id, 1)), 12)
    while disk.begun == begun:
        time.sleep(0.001)
    old.send(produce_request(topic, sequenced(producer_id, 2)), 12)
    while on_loop(three.broker, lambda running: _end_offset(running, topic)) < 3:
        time.sleep(0.001)
    # The claim of the new leader has to wait for the disk, too.
    threading.Timer(4.0, disk.is_free.set).start()
    three.move(topic)
    results = [
        old.receive(ProduceResponse, 12).responses[0].partition_responses[0] for _ in range(2)
    ]
    # What was synced is there; of the other the client has to ask the new leader.
    assert (results[0].error_code, results[0].base_offset) in (
        (ErrorCode.NONE, 1),
        (NOT_LEADER, -1),
    )
    assert (results[1].error_code, results[1].base_offset) == (NOT_LEADER, -1)
    assert results[1].current_leader.leader_id == three.broker.leader_of(topic, 0)
    for sequence in (1, 2):
        again = produce(three.leader(topic), topic, sequenced(producer_id, sequence))
        assert (again.error_code, again.base_offset) == (ErrorCode.NONE, sequence)
    assert len(read_values(three.leader(topic), topic)) == 3


def _end_offset(running: RunningBroker, topic: str) -> int:
    (shard,) = [
        shard
        for server in running.servers.values()
        for shard in server.node.partitions.open_shards()
        if shard.log.ref.topic == topic
    ]
    return shard.partition.end_offset


def results_of(connection: RawConnection, wanted: dict[str, list[int]] | None, kind: int) -> object:
    answer = elect(connection, 2, wanted, kind)
    assert answer.error_code == ErrorCode.NONE
    return [
        (about.topic, each.partition_id, each.error_code)
        for about in answer.replica_election_results
        for each in about.partition_result
    ]


def test_an_election_brings_the_preferred_leader_back(three: Nodes, topic: str) -> None:
    create(three.any, topic, 3)
    preferred = [three.broker.leader_of(topic, number) for number in range(3)]
    fill(three.leader(topic), topic, b"a")
    three.move(topic)
    three.move(topic, 2)
    epoch = three.epoch(topic)
    assert results_of(three.any, {topic: [0, 1]}, PREFERRED) == [
        (topic, 0, ErrorCode.NONE),
        (topic, 1, ErrorCode.ELECTION_NOT_NEEDED),
    ]
    assert three.broker.leader_of(topic, 0) == preferred[0]
    assert three.epoch(topic) > epoch
    assert results_of(three.any, None, PREFERRED) == [(topic, 2, ErrorCode.NONE)]
    assert [three.broker.leader_of(topic, number) for number in range(3)] == preferred
    assert results_of(three.any, None, PREFERRED) == []
    assert read_values(three.leader(topic), topic) == [b"a"]


def test_an_unclean_election_is_never_needed_while_there_is_a_leader(
    three: Nodes, topic: str
) -> None:
    create(three.any, topic)
    three.move(topic)
    leader = three.broker.leader_of(topic, 0)
    assert results_of(three.any, {topic: [0]}, UNCLEAN) == [
        (topic, 0, ErrorCode.ELECTION_NOT_NEEDED)
    ]
    assert three.broker.leader_of(topic, 0) == leader


def test_no_election_makes_a_dead_node_lead(three: Nodes, topic: str) -> None:
    create(three.any, topic)
    three.kill(three.broker.leader_of(topic, 0))
    assert results_of(three.any, {topic: [0]}, PREFERRED) == [
        (topic, 0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
    ]
