"""Transactions as the broker tells of them, seen without any client library; on one node or on several."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tests.waiting import in_time

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.model import TopicPartition, coordinator_partition
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

OFFSETS_TOPIC, TRANSACTIONS_TOPIC = "__consumer_offsets", "__transaction_state"
INTERNAL_PARTITIONS = 50
FETCH_VERSION, METADATA_VERSION = 12, 12
READ_COMMITTED = 1
WAIT_SECONDS = 20.0
AT_REST = ("Empty", "CompleteCommit", "CompleteAbort")


class Described(NamedTuple):
    """What DescribeTransactions says of an id."""

    state: str
    producer_id: int
    producer_epoch: int
    partitions: list[TopicPartition]


class Ends(NamedTuple):
    last_stable_offset: int
    high_watermark: int


def wait_for(what: str, condition: Callable[[], bool], seconds: float = WAIT_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        in_time(deadline, f"it did not come true in {seconds} s: {what}")
        time.sleep(0.01)


def offsets_partition(group_id: str) -> TopicPartition:
    return TopicPartition(OFFSETS_TOPIC, coordinator_partition(group_id, INTERNAL_PARTITIONS))


def transactions_partition(transactional_id: str) -> TopicPartition:
    partition = coordinator_partition(transactional_id, INTERNAL_PARTITIONS)
    return TopicPartition(TRANSACTIONS_TOPIC, partition)


def leader_address(bootstrap_servers: str, wanted: TopicPartition) -> str:
    with RawConnection(bootstrap_servers.split(",")[0]) as connection:
        answer = connection.call(MetadataRequest(topics=None), MetadataResponse, METADATA_VERSION)
    addresses = {broker.node_id: f"{broker.host}:{broker.port}" for broker in answer.brokers}
    for topic in answer.topics:
        if topic.name == wanted.topic:
            for partition in topic.partitions:
                if partition.partition_index == wanted.partition:
                    return addresses[partition.leader_id]
    raise AssertionError(f"{wanted} is not there")


def describe(bootstrap_servers: str, transactional_id: str) -> Described:
    address = leader_address(bootstrap_servers, transactions_partition(transactional_id))
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    with RawConnection(address) as connection:
        answer = connection.call(request, DescribeTransactionsResponse, 0)
    (found,) = answer.transaction_states
    assert found.error_code == ErrorCode.NONE, ErrorCode(found.error_code).name
    return Described(
        found.transaction_state,
        found.producer_id,
        found.producer_epoch,
        [
            TopicPartition(topic.topic, partition)
            for topic in found.topics
            for partition in topic.partitions
        ],
    )


def wait_until_at_rest(bootstrap_servers: str, transactional_id: str) -> None:
    """EndTxn is answered before the markers are written, so that what it ended is seen a little later."""
    wait_for(
        f"{transactional_id} is at rest",
        lambda: describe(bootstrap_servers, transactional_id).state in AT_REST,
    )


def open_transactions(addresses: Iterable[str]) -> dict[str, str]:
    """The ids that have a transaction which is not over, and its state."""
    found: dict[str, str] = {}
    request = ListTransactionsRequest(state_filters=[], producer_id_filters=[], duration_filter=-1)
    for address in addresses:
        with RawConnection(address) as connection:
            answer = connection.call(request, ListTransactionsResponse, 1)
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code).name
        found |= {one.transactional_id: one.transaction_state for one in answer.transaction_states}
    return {name: state for name, state in found.items() if state not in AT_REST}


def ends(bootstrap_servers: str, wanted: TopicPartition) -> Ends:
    """Up to where the two kinds of readers read."""
    asked = FetchPartition(partition=wanted.partition, fetch_offset=0, partition_max_bytes=1)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1,
        isolation_level=READ_COMMITTED,
        topics=[FetchTopic(topic=wanted.topic, partitions=[asked])],
    )
    with RawConnection(leader_address(bootstrap_servers, wanted)) as connection:
        answer = connection.call(request, FetchResponse, FETCH_VERSION)
    data = answer.responses[0].partitions[0]
    assert data.error_code == ErrorCode.NONE, ErrorCode(data.error_code).name
    return Ends(data.last_stable_offset, data.high_watermark)


def wait_until_stable(bootstrap_servers: str, *partitions: TopicPartition) -> None:
    """Everything that is there can be read by those who read what is committed."""
    for partition in partitions:

        def is_stable(partition: TopicPartition = partition) -> bool:
            stable, high = ends(bootstrap_servers, partition)
            return stable == high

        wait_for(f"{partition} is stable", is_stable)
