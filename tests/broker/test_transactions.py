"""Whole transactions through sockets, with both transaction versions, on one node and on three."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.broker import txn_requests as ask
from tests.broker.nodes import Nodes, nodes_of
from tests.broker.requests import create, delete, eventually, fetch, fill, new_producer_id, on_loop
from tests.broker.txn_producer import Cluster, Producer, insist

import ottla
from ottla.broker.coordination.peers import UnreachableError
from ottla.broker.runtime import RunningBroker
from ottla.core.catalog import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from ottla.core.partition import READ_COMMITTED
from ottla.errors import ErrorCode
from ottla.model import coordinator_partition
from ottla.testing import Broker
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.write_txn_markers import WriteTxnMarkersRequest

FAST = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "20"}
PARTITIONS = 3


@pytest.fixture(scope="module", params=[1, 3], ids=["one node", "three nodes"])
def shared(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with Broker(FAST, nodes=request.param) as broker:
        yield broker


@pytest.fixture
def cluster(shared: Broker) -> Iterator[Cluster]:
    with nodes_of(shared) as nodes:
        yield Cluster(nodes)


@pytest.fixture
def three() -> Iterator[Cluster]:
    """Three nodes that a test may kill."""
    with ottla.Broker(FAST, nodes=3) as broker, nodes_of(broker) as nodes:
        yield Cluster(nodes)


@pytest.fixture
def topic(cluster: Cluster) -> str:
    return new_topic(cluster)


def new_topic(cluster: Cluster) -> str:
    name = f"t-{uuid.uuid4().hex[:12]}"
    create(cluster.nodes.any, name, PARTITIONS)
    return name


def new_group() -> str:
    return f"g-{uuid.uuid4().hex[:12]}"


VERSIONS = pytest.mark.parametrize("version", [1, 2])


@VERSIONS
def test_a_committed_transaction_is_seen_whole_and_an_aborted_one_not_at_all(
    cluster: Cluster, topic: str, version: int
) -> None:
    producer = Producer(cluster, version=version).init()
    for number in range(PARTITIONS):
        producer.send(topic, b"a", b"b", partition=number)
    assert all(cluster.values(topic, number) == [] for number in range(PARTITIONS))
    producer.commit()
    for number in range(PARTITIONS):
        producer.send(topic, b"bad", partition=number)
    producer.abort()
    for number in range(PARTITIONS):
        producer.send(topic, b"c", partition=number)
    producer.commit()
    for number in range(PARTITIONS):
        assert cluster.is_healed(topic, number)
        assert cluster.values(topic, number) == [b"a", b"b", b"c"]


@VERSIONS
def test_every_transaction_of_version_2_has_an_epoch_of_its_own(
    cluster: Cluster, topic: str, version: int
) -> None:
    producer = Producer(cluster, version=version).init()
    epochs = []
    for _ in range(4):
        epochs.append(producer.who.epoch)
        producer.send(topic).commit()
    first = epochs[0]
    expected = [first] * 4 if version == 1 else [first, first + 1, first + 2, first + 3]
    assert epochs == expected


@VERSIONS
def test_interleaved_transactions_end_on_their_own(
    cluster: Cluster, topic: str, version: int
) -> None:
    one, two = (Producer(cluster, version=version).init() for _ in range(2))
    one.send(topic, b"1a")
    two.send(topic, b"2a")
    one.send(topic, b"1b")
    two.abort()
    assert eventually(lambda: cluster.is_in(two.id, "CompleteAbort"))
    two.send(topic, b"2b")
    one.commit()
    assert cluster.is_in(one.id, "CompleteCommit")
    # The second transaction of the other is open: what it wrote first is decided.
    assert cluster.values(topic) == [b"1a", b"1b"]
    found = fetch(cluster.leader(topic), topic, 0, isolation_level=READ_COMMITTED)
    aborted = [(each.producer_id, each.first_offset) for each in found.aborted_transactions or ()]
    assert aborted == [(two.who.producer_id, 1)]
    two.commit()
    assert cluster.is_healed(topic)
    assert cluster.values(topic) == [b"1a", b"1b", b"2b"]


@VERSIONS
def test_a_second_instance_fences_the_first_and_ends_what_it_left(
    cluster: Cluster, topic: str, version: int
) -> None:
    first = Producer(cluster, version=version).init()
    first.send(topic, b"left", partition=1)
    second = Producer(cluster, first.id, version).init()
    assert cluster.is_healed(topic, 1)
    assert first.try_end(commits=True) is ErrorCode.PRODUCER_FENCED
    wanted = ErrorCode.PRODUCER_FENCED if version == 1 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert first.try_send(topic, b"zombie", partition=1) is wanted
    assert first.try_send(topic, b"zombie", partition=2) is wanted
    second.send(topic, b"new", partition=1).commit()
    assert cluster.is_healed(topic, 1)
    assert cluster.values(topic, 1) == [b"new"]
    assert ask.high_watermark(cluster.leader(topic, 2), topic, 2) == 0


@VERSIONS
def test_a_transaction_that_takes_too_long_is_aborted_and_cannot_be_committed(
    cluster: Cluster, shared: Broker, topic: str, version: int
) -> None:
    """With version 2 its producer goes on after an abort, with version 1 it has to become the producer again."""
    group = new_group()
    producer = Producer(cluster, version=version).init(timeout_ms=60_000)
    producer.send(topic, b"slow").send_offsets(group, {(topic, 0): 5})
    shared.clock.advance("30s")
    assert cluster.is_in(producer.id, "Ongoing")
    shared.clock.advance("31s")
    assert cluster.is_in(producer.id, "CompleteAbort")
    assert cluster.is_healed(topic)
    assert cluster.values(topic) == []
    assert cluster.offset_becomes(-1, group, topic)
    assert producer.try_end(commits=True) is ErrorCode.PRODUCER_FENCED
    if version == 1:
        assert producer.try_end(commits=False) is ErrorCode.PRODUCER_FENCED
        producer.init()
    else:
        producer.abort()
    producer.send(topic, b"again").commit()
    assert cluster.is_healed(topic)
    assert cluster.values(topic) == [b"again"]


# Offsets.


@VERSIONS
@pytest.mark.parametrize("commits", [True, False])
def test_offsets_are_unstable_until_the_marker_and_then_what_it_says(
    cluster: Cluster, topic: str, version: int, commits: bool
) -> None:
    """Traps 4, 5 and 7: here the transaction has offsets only."""
    group = new_group()
    producer = Producer(cluster, version=version).init()
    producer.send_offsets(group, {(topic, 0): 5}).commit()
    assert cluster.offset_becomes(5, group, topic)
    producer.send_offsets(group, {(topic, 0): 9, (topic, 1): 1})
    for partition in (0, 1):
        assert cluster.offset(group, topic, partition) is ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert cluster.offset(group, topic, 2) == -1
    if commits:
        producer.commit()
    else:
        producer.abort()
    assert cluster.offset_becomes(9 if commits else 5, group, topic)
    assert cluster.offset_becomes(1 if commits else -1, group, topic, 1)


@VERSIONS
def test_offsets_of_several_groups_and_data_move_together(
    cluster: Cluster, topic: str, version: int
) -> None:
    groups = [new_group() for _ in range(5)]
    producer = Producer(cluster, version=version).init()
    for number, group in enumerate(groups):
        producer.send(topic, b"%d" % number).send_offsets(group, {(topic, 0): number})
    producer.commit()
    for number, group in enumerate(groups):
        assert cluster.offset_becomes(number, group, topic)
    assert cluster.is_healed(topic)
    assert len(cluster.values(topic)) == 5


@VERSIONS
def test_offsets_survive_a_move_of_the_groups_coordinator(three: Cluster, version: int) -> None:
    topic, group = new_topic(three), new_group()
    producer = Producer(three, version=version).init()
    producer.send_offsets(group, {(topic, 0): 5})
    partition = coordinator_partition(group, 50)
    three.nodes.move(GROUPS_TOPIC, partition)
    assert insist_on_unstable(three, group, topic)
    producer.commit()
    assert three.offset_becomes(5, group, topic)
    producer.send_offsets(group, {(topic, 0): 6}).abort()
    three.nodes.move(GROUPS_TOPIC, partition)
    assert three.offset_becomes(5, group, topic)


def insist_on_unstable(cluster: Cluster, group: str, topic: str) -> bool:
    found: list[int | ErrorCode] = []

    def is_settled() -> bool:
        found.append(cluster.offset(group, topic))
        return found[-1] not in (
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
        )

    assert eventually(is_settled)
    return found[-1] is ErrorCode.UNSTABLE_OFFSET_COMMIT


# Trouble.


@VERSIONS
@pytest.mark.parametrize("commits", [True, False])
def test_a_leader_that_moves_before_the_end_gets_the_marker(
    three: Cluster, version: int, commits: bool
) -> None:
    topic = new_topic(three)
    producer = Producer(three, version=version).init()
    for number in range(PARTITIONS):
        producer.send(topic, b"v", partition=number)
    three.nodes.move(topic, 0)
    producer.send(topic, b"w", partition=0)
    three.nodes.move(topic, 1)
    if commits:
        producer.commit()
    else:
        producer.abort()
    for number in range(PARTITIONS):
        assert three.is_healed(topic, number)
    assert three.values(topic, 0) == ([b"v", b"w"] if commits else [])
    assert three.values(topic, 1) == ([b"v"] if commits else [])


@VERSIONS
def test_a_coordinator_that_moves_in_the_middle_forgets_nothing(
    three: Cluster, version: int
) -> None:
    """Trap 2."""
    topic = new_topic(three)
    producer = Producer(three, version=version).init()
    partition = coordinator_partition(producer.id, 50)
    for number in range(PARTITIONS):
        producer.send(topic, b"%d" % number, partition=number)
        three.nodes.move(TRANSACTIONS_TOPIC, partition)
    producer.commit()
    three.nodes.move(TRANSACTIONS_TOPIC, partition)
    for number in range(PARTITIONS):
        assert three.is_healed(topic, number)
        assert three.values(topic, number) == [b"%d" % number]
    producer.send(topic, b"next").commit()
    assert three.is_healed(topic)


class Deaf:
    """Peers of whom some do not hear of markers."""

    def __init__(self, broker: ottla.Broker, *node_ids: int) -> None:
        self.real = on_loop(broker, lambda running: running.cluster.peers)
        self.node_ids = set(node_ids)
        self.broker = broker
        on_loop(broker, self._take_the_place)

    def _take_the_place(self, running: RunningBroker) -> None:
        running.cluster.peers = self

    def call(self, sender_id: int, node_id: int, request: Any, version: int) -> Any:
        if node_id in self.node_ids and isinstance(request, WriteTxnMarkersRequest):
            return UnreachableError("a test")
        return self.real.call(sender_id, node_id, request, version)


@VERSIONS
@pytest.mark.parametrize("commits", [True, False])
def test_a_partition_that_is_away_gets_its_marker_when_it_is_back(
    three: Cluster, version: int, commits: bool
) -> None:
    """The others do not wait for it, and neither does the answer."""
    nodes, topic = three.nodes, f"t-{uuid.uuid4().hex[:12]}"
    create_on_each(nodes, topic)
    deaf = Deaf(nodes.broker, nodes.broker.leader_of(topic, 1))
    producer = Producer(three, version=version).init()
    before = producer.who
    for number in range(3):
        producer.send(topic, b"v", partition=number)
    if commits:
        producer.commit()
    else:
        producer.abort()
    for number in (0, 2):
        assert three.is_healed(topic, number)
        assert three.values(topic, number) == ([b"v"] if commits else [])
    assert three.state(producer.id) == ("PrepareCommit" if commits else "PrepareAbort")
    coordinator = three.of_transaction(producer.id)
    concurrent = ErrorCode.CONCURRENT_TRANSACTIONS
    end_version = ask.END_V1 if version == 1 else ask.END_V2
    for who, asked in ((producer.who, ErrorCode.NOT_ENOUGH_REPLICAS), (before, None)):
        assert ask.init_error(coordinator, producer.id) is concurrent
        assert ask.add_partitions(coordinator, producer.id, who, {topic: [0]}) == [concurrent]
        if asked is not None and version == 2:
            assert ask.send(three.leader(topic), producer.id, who, topic) is asked
    # While the markers are under way, the coordinator says that to whatever is asked (KAFKA-18464).
    for wanted in (commits, not commits):
        error = ask.end_error(coordinator, producer.id, before, commits=wanted, version=end_version)
        assert error is concurrent
    assert ask.last_stable_offset(three.leader(topic, 1), topic, 1) == 0
    deaf.node_ids.clear()
    assert three.is_healed(topic, 1)
    assert three.values(topic, 1) == ([b"v"] if commits else [])
    assert three.is_in(producer.id, "CompleteCommit" if commits else "CompleteAbort")
    producer.send(topic, b"w", partition=1).commit()


def test_the_node_that_has_to_write_a_marker_may_die_first(three: Cluster) -> None:
    """Another one leads its partitions then, and writes it."""
    nodes, topic = three.nodes, f"t-{uuid.uuid4().hex[:12]}"
    create_on_each(nodes, topic)
    victim = nodes.broker.leader_of(topic, 1)
    deaf = Deaf(nodes.broker, victim)
    producer = Producer(three).init()
    if nodes.broker.leader_of(TRANSACTIONS_TOPIC, coordinator_partition(producer.id, 50)) == victim:
        nodes.move(TRANSACTIONS_TOPIC, coordinator_partition(producer.id, 50))
    producer.send(topic, b"v", partition=1).commit()
    assert three.state(producer.id) == "PrepareCommit"
    nodes.kill(victim)
    assert deaf.node_ids
    assert three.is_healed(topic, 1)
    assert three.is_in(producer.id, "CompleteCommit")


@VERSIONS
def test_the_coordinator_may_die_when_the_end_is_prepared(three: Cluster, version: int) -> None:
    nodes, topic = three.nodes, new_topic(three)
    deaf = Deaf(nodes.broker, *nodes.broker.node_ids)
    producer = Producer(three, version=version).init()
    producer.send(topic, b"v").commit()
    assert three.state(producer.id) == "PrepareCommit"
    coordinator = nodes.broker.leader_of(TRANSACTIONS_TOPIC, coordinator_partition(producer.id, 50))
    nodes.kill(coordinator)
    deaf.node_ids.clear()
    assert three.is_healed(topic)
    assert three.values(topic) == [b"v"]
    assert three.is_in(producer.id, "CompleteCommit")


def create_on_each(nodes: Nodes, topic: str) -> None:
    """Three partitions with one replica each, so that nobody else can lead them."""
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=topic,
                num_partitions=-1,
                replication_factor=-1,
                assignments=[
                    CreatableReplicaAssignment(partition_index=number, broker_ids=[node_id])
                    for number, node_id in enumerate(nodes.broker.node_ids)
                ],
                configs=[],
            )
        ]
    )
    (result,) = nodes.any.call(request, CreateTopicsResponse, 7).topics
    assert result.error_code == ErrorCode.NONE, result


@VERSIONS
def test_a_topic_that_is_deleted_in_the_middle_does_not_hold_the_transaction_up(
    cluster: Cluster, topic: str, version: int
) -> None:
    doomed = new_topic(cluster)
    group = new_group()
    producer = Producer(cluster, version=version).init()
    producer.send(topic, b"v").send(doomed, b"v").send_offsets(group, {(doomed, 0): 3})
    assert delete(cluster.nodes.any, doomed).error_code == ErrorCode.NONE
    producer.commit()
    assert cluster.is_in(producer.id, "CompleteCommit")
    assert cluster.is_healed(topic)
    assert cluster.values(topic) == [b"v"]
    producer.send(topic, b"w").commit()


@VERSIONS
@pytest.mark.parametrize("commits", [True, False])
def test_what_was_prepared_is_completed_after_a_restart(
    tmp_path: Path, version: int, commits: bool
) -> None:
    """Nobody could be told of the end; then the whole cluster stops."""
    with ottla.Broker(FAST, nodes=3, data_dir=tmp_path) as broker, nodes_of(broker) as nodes:
        cluster = Cluster(nodes)
        create(nodes.any, "orders", PARTITIONS)
        Deaf(broker, *broker.node_ids)
        producer = Producer(cluster, "pipeline", version).init()
        for number in range(PARTITIONS):
            producer.send("orders", b"v", partition=number)
        producer.send_offsets("group", {("orders", 0): 7})
        if commits:
            producer.commit()
        else:
            producer.abort()
        assert cluster.state("pipeline") == ("PrepareCommit" if commits else "PrepareAbort")
    with ottla.Broker(FAST, nodes=3, data_dir=tmp_path) as broker, nodes_of(broker) as nodes:
        cluster = Cluster(nodes)
        # Nobody asks for the id: the coordinator goes on by itself.
        for number in range(PARTITIONS):
            assert cluster.is_healed("orders", number)
            assert cluster.values("orders", number) == ([b"v"] if commits else [])
        assert cluster.offset_becomes(7 if commits else -1, "group", "orders")
        assert cluster.is_in("pipeline", "CompleteCommit" if commits else "CompleteAbort")
        assert insist(lambda: producer_again(cluster, producer, commits)) is ErrorCode.NONE


def producer_again(cluster: Cluster, before: Producer, commits: bool) -> ErrorCode:
    """The end is asked for again, by a client that has not heard of it."""
    who = before.who if before.version == 1 else before.who.older()
    version = ask.END_V1 if before.version == 1 else ask.END_V2
    return ask.end_error(
        cluster.of_transaction(before.id), before.id, who, commits=commits, version=version
    )


def test_an_unfinished_transaction_of_before_a_restart_times_out(tmp_path: Path) -> None:
    with ottla.Broker(FAST, data_dir=tmp_path) as broker, nodes_of(broker) as nodes:
        cluster = Cluster(nodes)
        create(nodes.any, "orders")
        Producer(cluster, "pipeline").init(timeout_ms=60_000).send("orders", b"v")
    with Broker(FAST, data_dir=tmp_path) as broker, nodes_of(broker) as nodes:
        cluster = Cluster(nodes)
        assert cluster.is_in("pipeline", "Ongoing")
        broker.clock.advance("61s")
        assert cluster.is_healed("orders")
        assert cluster.values("orders") == []


def test_producer_ids_are_not_given_out_twice(tmp_path: Path) -> None:
    """Trap 11: neither to transactional nor to idempotent producers, over restarts and epochs."""
    seen: list[int] = []
    for _ in range(3):
        with ottla.Broker(data_dir=tmp_path) as broker, nodes_of(broker) as nodes:
            cluster = Cluster(nodes)
            seen += [Producer(cluster).init().who.producer_id for _ in range(3)]
            seen += [new_producer_id(nodes.any) for _ in range(3)]
    assert len(set(seen)) == len(seen)


def test_plain_records_between_those_of_a_transaction_wait_with_them(
    cluster: Cluster, topic: str
) -> None:
    """Trap 6."""
    leader = cluster.leader(topic)
    fill(leader, topic, b"before")
    producer = Producer(cluster).init().send(topic, b"inside")
    fill(leader, topic, b"after")
    assert cluster.values(topic) == [b"before"]
    assert (ask.last_stable_offset(leader, topic), ask.high_watermark(leader, topic)) == (1, 3)
    producer.abort()
    assert cluster.is_healed(topic)
    assert cluster.values(topic) == [b"before", b"after"]
