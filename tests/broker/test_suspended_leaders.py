"""A node whose lease has passed: it answers Fetch, and nothing else that only a leader or coordinator may."""

from __future__ import annotations

import select
import socket
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest
from tests.broker import group_requests
from tests.broker.requests import (
    FETCH_VERSION,
    batch_of,
    create,
    delete_records,
    eventually,
    fetch,
    fetch_request,
    fill,
    on_loop,
    produce,
    session_with,
    values_in,
)
from tests.broker.test_list_offsets import LATEST
from tests.broker.test_list_offsets import ask as ask_offset

import ottla
from ottla.broker import runtime
from ottla.broker.cluster import Housekeeping
from ottla.broker.runtime import BrokerSettings, RunningBroker
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.compile import decode_message
from ottla.wire.framing import frame_request
from ottla.wire.messages.fetch import FetchResponse
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.sync_group import SyncGroupResponse
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

TOPIC = "orders"


class Lease:
    def __init__(self) -> None:
        self.lasts = True


class LeasedBroker(ottla.Broker):
    """A broker that may lead as long as the test says so."""

    def _start_broker(self, settings: BrokerSettings) -> Coroutine[Any, Any, RunningBroker]:
        self.lease = Lease()
        return self._start_leased(settings)

    async def _start_leased(self, settings: BrokerSettings) -> RunningBroker:
        lease = self.lease

        class Leased(RunningBroker):
            def __init__(self, *arguments: Any, **options: Any) -> None:
                super().__init__(*arguments, **options)
                self.may_lead = lambda: lease.lasts

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(runtime, "RunningBroker", Leased)
            return await super()._start_broker(settings)


@pytest.fixture
def leased() -> Iterator[LeasedBroker]:
    with LeasedBroker() as broker:
        yield broker


@pytest.fixture
def connection(leased: LeasedBroker) -> Iterator[RawConnection]:
    with session_with(leased) as connected:
        yield connected


def test_only_a_fetch_is_answered_after_the_lease(
    leased: LeasedBroker, connection: RawConnection
) -> None:
    create(connection, TOPIC)
    fill(connection, TOPIC, b"v")
    group_requests.await_coordinator(connection)
    assert group_requests.commit(connection, "group", {(TOPIC, 0): 1}) == [ErrorCode.NONE]
    shards = on_loop(leased, lambda running: running.node.partitions.open_shards())

    leased.lease.lasts = False
    moved = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert produce(connection, TOPIC, batch_of(b"w")).error_code == moved
    assert ask_offset(connection, TOPIC, LATEST).error_code == moved
    assert delete_records(connection, TOPIC, 1).error_code == moved
    commit = group_requests.commit(connection, "group", {(TOPIC, 0): 1})
    assert commit == [ErrorCode.NOT_COORDINATOR]
    assert values_in(fetch(connection, TOPIC, 0)) == [b"v"]

    leased.lease.lasts = True
    assert ask_offset(connection, TOPIC, LATEST).offset == 1, "nothing was appended"
    assert group_requests.commit(connection, "group", {(TOPIC, 0): 1}) == [ErrorCode.NONE]
    assert fill(connection, TOPIC, b"w") == [1]
    assert on_loop(leased, lambda running: running.node.partitions.open_shards()) == shards


def test_a_partition_that_is_not_open_is_not_claimed_after_the_lease(
    leased: LeasedBroker, connection: RawConnection
) -> None:
    create(connection, TOPIC)
    leased.lease.lasts = False
    found = fetch(connection, TOPIC, 0)
    assert found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert on_loop(leased, lambda running: running.node.partitions.open_shards()) == []


def test_a_fetch_that_waits_goes_on_after_the_lease(
    leased: LeasedBroker, connection: RawConnection
) -> None:
    create(connection, TOPIC)
    fill(connection, TOPIC, b"v")
    with session_with(leased) as reader:
        reader.send(fetch_request(TOPIC, 1, max_wait_ms=300), FETCH_VERSION)
        leased.lease.lasts = False
        assert produce(connection, TOPIC, batch_of(b"w")).error_code != ErrorCode.NONE
        (found,) = reader.receive(FetchResponse, FETCH_VERSION).responses[0].partitions
        assert (found.error_code, values_in(found)) == (ErrorCode.NONE, [])


def test_the_housekeeper_may_be_another_process(leased: LeasedBroker) -> None:
    asked: list[Housekeeping] = []

    def is_housekeeper(task: Housekeeping) -> bool:
        asked.append(task)
        return False

    def begin(running: RunningBroker) -> None:
        running.cluster.is_housekeeper = is_housekeeper

    on_loop(leased, begin)
    assert eventually(lambda: Housekeeping.DELETIONS in asked)


def is_answered(connection: RawConnection, seconds: float) -> bool:
    """Whether an answer comes in this time."""
    return bool(select.select([connection.socket], [], [], seconds)[0])


GROUP = "group"
REBALANCE_TIMEOUT_MS = 700


def enter_hastily(connection: RawConnection, group: str = GROUP) -> group_requests.Joined:
    """The only member of a group, which others need not wait for long."""
    group_requests.await_coordinator(connection, group)
    return group_requests.enter(connection, group, rebalance_timeout_ms=REBALANCE_TIMEOUT_MS)


def join_soon(connection: RawConnection, group: str = GROUP) -> None:
    """Sends the JoinGroup of a second member, which waits for the first one."""
    member_id = group_requests.new_member_id(connection, group)
    connection.send(
        group_requests.join_request(group, member_id, rebalance_timeout_ms=REBALANCE_TIMEOUT_MS), 9
    )


def test_a_rebalance_is_not_completed_after_the_lease(
    leased: LeasedBroker, connection: RawConnection
) -> None:
    enter_hastily(connection)
    with session_with(leased) as joining:
        join_soon(joining)
        assert not is_answered(joining, 0.1)
        leased.lease.lasts = False
        # No request comes in which the node would have noticed.
        assert not is_answered(joining, 3 * REBALANCE_TIMEOUT_MS / 1000)
        leased.lease.lasts = True
        assert is_answered(joining, 30)
        answer = joining.receive(JoinGroupResponse, 9)
        assert (answer.error_code, answer.generation_id) == (ErrorCode.NONE, 2)


def test_requests_that_wait_learn_that_another_node_has_taken_over(
    leased: LeasedBroker, connection: RawConnection
) -> None:
    first = enter_hastily(connection)
    with session_with(leased) as joining, session_with(leased) as following:
        join_soon(following)
        again = group_requests.join(
            connection, GROUP, first.member_id, rebalance_timeout_ms=REBALANCE_TIMEOUT_MS
        )
        second = following.receive(JoinGroupResponse, 9)
        assert (again.leader, second.generation_id) == (first.member_id, 2)
        member = group_requests.Joined(GROUP, second.member_id, 2)
        following.send(group_requests.sync_request(member), 5)  # waits for the leader's
        enter_hastily(connection, "other")
        join_soon(joining, "other")
        assert not is_answered(following, 0.1)
        assert not is_answered(joining, 0.1)
        leased.lease.lasts = False

        def take_over(running: RunningBroker) -> None:
            partitions = running.node.partitions
            for shard in partitions.open_shards():
                if shard.log.ref.topic == running.node.groups.topic_name:
                    partitions.resign_lost(shard.log.ref)

        on_loop(leased, take_over)
        synced = following.receive(SyncGroupResponse, 5)
        joined = joining.receive(JoinGroupResponse, 9)
        assert joined.error_code == ErrorCode.NOT_COORDINATOR
        assert synced.error_code == ErrorCode.NOT_COORDINATOR


def test_other_nodes_write_no_markers_after_the_lease(
    leased: LeasedBroker, connection: RawConnection
) -> None:
    """A link is asked for the lease as the connection of a client is."""
    create(connection, TOPIC)
    fill(connection, TOPIC, b"v")
    ours, theirs = socket.socketpair()
    ours.settimeout(30)
    on_loop(leased, lambda running: running.server.links.accept(2, theirs))

    def write(number: int) -> ErrorCode:
        topics = [WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[0])]
        marker = WritableTxnMarker(
            producer_id=7,
            producer_epoch=0,
            transaction_result=True,
            topics=topics,
            coordinator_epoch=0,
        )
        request = WriteTxnMarkersRequest(markers=[marker])
        ours.sendall(frame_request(request, 1, number, None))
        size = int.from_bytes(_receive(ours, 4), "big")
        answer = decode_message(WriteTxnMarkersResponse, 1, _receive(ours, size), 5)
        return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)

    with ours:
        assert write(1) == ErrorCode.NONE
        leased.lease.lasts = False
        assert write(2) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        leased.lease.lasts = True
        assert ask_offset(connection, TOPIC, LATEST).offset == 2, "one marker was written"
        assert write(3) == ErrorCode.NONE


def _receive(connected: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        received += connected.recv(size - len(received))
    return received


def test_nothing_is_opened_by_periodic_work_after_the_lease(leased: LeasedBroker) -> None:
    def tick(running: RunningBroker) -> bool:
        leased.lease.lasts = False
        running.node.tick()
        shard = running.node.partitions.shard(TOPIC, 0)
        return shard is ErrorCode.NOT_LEADER_OR_FOLLOWER

    with session_with(leased) as connection:
        create(connection, TOPIC)
    assert on_loop(leased, tick)
