"""Offsets go with the topic that they are of."""

from __future__ import annotations

import uuid
from functools import partial
from pathlib import Path

import pytest
from tests.broker import txn_requests as ask
from tests.broker.held_verification import held_verification
from tests.broker.requests import create, delete, eventually, on_loop

import ottla
from ottla.broker.clock import SystemClock, SystemIds
from ottla.broker.cluster import Cluster
from ottla.broker.runtime import RunningBroker
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.storage.local import open_local_store
from ottla.wire.framing import frame_request
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitResponse

NONE = -1


def find_coordinator(connection: RawConnection) -> None:
    """What every client asks first: it makes `__consumer_offsets`."""
    connection.call(
        FindCoordinatorRequest(key_type=0, coordinator_keys=["group"]), FindCoordinatorResponse, 4
    )


def commit(connection: RawConnection, topic: str, offset: int, group: str = "group") -> None:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    request = OffsetCommitRequest(
        group_id=group,
        member_id="",
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])],
    )
    answer = connection.call(request, OffsetCommitResponse, 8)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


def committed(connection: RawConnection, topic: str, group: str = "group") -> int:
    wanted = OffsetFetchRequestTopics(name=topic, partition_indexes=[0])
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=[wanted])], require_stable=True
    )
    (found,) = connection.call(request, OffsetFetchResponse, 8).groups
    assert found.error_code == ErrorCode.NONE
    return int(found.topics[0].partitions[0].committed_offset)


def being_deleted(broker: ottla.Broker) -> bool:
    return on_loop(broker, lambda running: bool(running.cluster.catalog.deleting))


def test_a_topic_of_the_same_name_begins_without_offsets() -> None:
    with ottla.Broker() as broker, RawConnection(broker.bootstrap_servers) as connection:
        find_coordinator(connection)
        for topic in ("orders", "other"):
            create(connection, topic)
            commit(connection, topic, 7)
            commit(connection, topic, 8, "another group")
        assert delete(connection, "orders").error_code == ErrorCode.NONE
        create(connection, "orders")
        assert committed(connection, "orders") == NONE
        assert committed(connection, "orders", "another group") == NONE
        assert committed(connection, "other") == 7
        commit(connection, "orders", 3)
        assert committed(connection, "orders") == 3


@pytest.mark.parametrize("made_again", [False, True])
def test_a_crash_between_the_deletion_and_the_offsets_is_made_good(
    tmp_path: Path, made_again: bool
) -> None:
    with (
        ottla.Broker(data_dir=tmp_path) as broker,
        RawConnection(broker.bootstrap_servers) as connection,
    ):
        find_coordinator(connection)
        create(connection, "orders")
        commit(connection, "orders", 7)
    clock = SystemClock()
    store = open_local_store(str(tmp_path), clock=clock)
    cluster = Cluster(store, clock, SystemIds())
    cluster.commit(cluster.catalog.delete(cluster.catalog.topics["orders"], clock.now_ms()))
    store.close()
    with (
        ottla.Broker(data_dir=tmp_path, log_flush_scheduler_interval_ms=20) as broker,
        RawConnection(broker.bootstrap_servers) as connection,
    ):
        create(connection, "orders")
        if made_again:
            commit(connection, "orders", 3)
        assert eventually(lambda: not being_deleted(broker))
        assert committed(connection, "orders") == (3 if made_again else NONE)


def test_a_deletion_without_groups_leaves_nothing_to_do() -> None:
    with ottla.Broker() as broker, RawConnection(broker.bootstrap_servers) as connection:
        create(connection, "orders")
        assert delete(connection, "orders").error_code == ErrorCode.NONE
        assert not being_deleted(broker)


def test_every_node_forgets_a_deleted_topic() -> None:
    with ottla.Broker(nodes=3) as broker:
        servers = broker.bootstrap_servers.split(",")
        groups = [str(uuid.UUID(int=number)) for number in range(20)]
        with RawConnection(servers[0]) as connection:
            find_coordinator(connection)
            create(connection, "orders")
            request = FindCoordinatorRequest(key_type=0, coordinator_keys=groups)
            homes = {
                found.key: f"{found.host}:{found.port}"
                for found in connection.call(request, FindCoordinatorResponse, 4).coordinators
            }
        assert len(set(homes.values())) == 3
        for group, home in homes.items():
            with RawConnection(home) as connection:
                commit(connection, "orders", 7, group)
        with RawConnection(servers[1]) as connection:
            assert delete(connection, "orders").error_code == ErrorCode.NONE
            create(connection, "orders")
        for group, home in homes.items():
            with RawConnection(home) as connection:
                assert committed(connection, "orders", group) == NONE


def test_a_commit_that_meets_the_deletion_of_its_topic_does_not_outlive_it() -> None:
    """Both are read in one go: the commit is decided after the topic has gone from the catalog."""
    with ottla.Broker() as broker, RawConnection(broker.bootstrap_servers) as connection:
        find_coordinator(connection)
        for _ in range(10):
            create(connection, "orders")
            partition = OffsetCommitRequestPartition(
                partition_index=0, committed_offset=7, committed_metadata=""
            )
            committing = OffsetCommitRequest(
                group_id="group",
                member_id="",
                topics=[OffsetCommitRequestTopic(name="orders", partitions=[partition])],
            )
            deleting = DeleteTopicsRequest(
                topics=[DeleteTopicState(name="orders")], timeout_ms=1000
            )
            frames = [frame_request(committing, 8, 1, "raw"), frame_request(deleting, 6, 2, "raw")]
            connection.socket.sendall(b"".join(frames))
            connection.receive_frame()
            connection.receive_frame()
            create(connection, "orders")
            assert committed(connection, "orders") == NONE
            assert delete(connection, "orders").error_code == ErrorCode.NONE


def test_after_a_crash_nobody_is_shown_offsets_of_a_deleted_topic(tmp_path: Path) -> None:
    with (
        ottla.Broker(data_dir=tmp_path) as broker,
        RawConnection(broker.bootstrap_servers) as connection,
    ):
        find_coordinator(connection)
        create(connection, "orders")
        commit(connection, "orders", 7)
    clock = SystemClock()
    store = open_local_store(str(tmp_path), clock=clock)
    cluster = Cluster(store, clock, SystemIds())
    cluster.commit(cluster.catalog.delete(cluster.catalog.topics["orders"], clock.now_ms()))
    store.close()
    with (
        ottla.Broker(data_dir=tmp_path) as broker,
        RawConnection(broker.bootstrap_servers) as connection,
    ):
        create(connection, "orders")
        assert committed(connection, "orders") == NONE


@pytest.mark.parametrize("made_again", [True, False])
def test_a_transactional_commit_that_waited_is_of_the_topic_that_it_was_sent_for(
    made_again: bool,
) -> None:
    """The topic is deleted and made again while the coordinator is asked: its new records are not read already."""
    with (
        ottla.Broker() as broker,
        RawConnection(broker.bootstrap_servers) as connection,
        RawConnection(broker.bootstrap_servers) as other,
    ):
        find_coordinator(connection)
        create(connection, "orders")
        name = ask.new_id()
        ask.await_coordinator(connection, name)
        who = ask.become(connection, name)
        request = ask.commit_offsets_request(name, who, "group", {("orders", 0): 4711})
        with held_verification(broker) as held:
            connection.send(request, ask.OFFSETS_V2)
            held.await_one()
            assert delete(other, "orders").error_code == ErrorCode.NONE
            if made_again:
                create(other, "orders")
            assert eventually(lambda: not being_deleted(broker))
        answer = connection.receive(TxnOffsetCommitResponse, ask.OFFSETS_V2)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert ask.end_error(connection, name, who, commits=True, version=ask.END_V2) is (
            ErrorCode.NONE
        )
        ask.await_state(connection, name, "CompleteCommit")
        if not made_again:
            create(other, "orders")
        assert committed(connection, "orders") == NONE


def test_offsets_are_of_their_topic_whatever_the_clock_says() -> None:
    """Forgetting is tried again until every coordinator has done it; by then there are offsets of the new topic."""
    with ottla.Broker() as broker, RawConnection(broker.bootstrap_servers) as connection:
        find_coordinator(connection)
        create(connection, "orders")
        commit(connection, "orders", 7)
        assert delete(connection, "orders").error_code == ErrorCode.NONE
        create(connection, "orders")
        commit(connection, "orders", 3)
        for deleted_at_ms in (0, 1 << 62):
            on_loop(broker, partial(_forget, topic="orders", deleted_at_ms=deleted_at_ms))
            assert committed(connection, "orders") == 3


def _forget(running: RunningBroker, topic: str, deleted_at_ms: int) -> None:
    """What is tried again until every coordinator has been asked."""
    running.node.groups.ask_all(
        lambda groups, turn: groups.forget_topic(turn, topic, deleted_at_ms)
    )
