"""The requests of groups, transactions and producers, and the rights that each needs: one row for each API."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from tests.broker.security.rights import Right

from ottla.access import CLUSTER, Operation, group, topic, transactional_id
from ottla.errors import ErrorCode
from ottla.wire.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    describe_producers,
    describe_transactions,
    end_txn,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
    txn_offset_commit,
    write_txn_markers,
)
from ottla.wire.messages import consumer_group_describe as described

GROUP, OTHER_GROUP = "rights-g", "rights-g2"
TOPIC, OTHER_TOPIC = "rights-t", "rights-t2"
TRANSACTION, OTHER_TRANSACTION = "rights-x", "rights-x2"

NONE = ErrorCode.NONE
NO_GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
NO_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NO_TRANSACTION = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
NO_CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
DENIALS: Final = (NO_GROUP, NO_TOPIC, NO_TRANSACTION, NO_CLUSTER)

READ_GROUP = Right(Operation.READ, group(GROUP))
DESCRIBE_GROUP = Right(Operation.DESCRIBE, group(GROUP))
DESCRIBE_OTHER_GROUP = Right(Operation.DESCRIBE, group(OTHER_GROUP))
READ_TOPIC, READ_OTHER = (Right(Operation.READ, topic(name)) for name in (TOPIC, OTHER_TOPIC))
WRITE_TOPIC, WRITE_OTHER = (Right(Operation.WRITE, topic(name)) for name in (TOPIC, OTHER_TOPIC))
DESCRIBE_TOPIC, DESCRIBE_OTHER = (
    Right(Operation.DESCRIBE, topic(name)) for name in (TOPIC, OTHER_TOPIC)
)
WRITE_TRANSACTION = Right(Operation.WRITE, transactional_id(TRANSACTION))
DESCRIBE_TRANSACTION = Right(Operation.DESCRIBE, transactional_id(TRANSACTION))
DESCRIBE_OTHER_TRANSACTION = Right(Operation.DESCRIBE, transactional_id(OTHER_TRANSACTION))
CLUSTER_ACTION = Right(Operation.CLUSTER_ACTION, CLUSTER)


class Ids(NamedTuple):
    """The ids of the two topics."""

    one: uuid.UUID
    other: uuid.UUID


class Row(NamedTuple):
    """An API: its request in some version, and the denials in the answer where one right is missing."""

    name: str
    request: Callable[[int, Ids], Any]
    response: type[Any]
    versions: tuple[int, ...]
    without: Mapping[Right, list[ErrorCode]]


def _by_name_or_id(kind: type[Any], version: int, ids: Ids, since: int, **fields: Any) -> list[Any]:
    """Both topics of a request, by their names or by their ids."""
    if version >= since:
        return [kind(topic_id=each, **fields) for each in ids]
    return [kind(name=each, **fields) for each in (TOPIC, OTHER_TOPIC)]


def _commit(version: int, ids: Ids) -> Any:
    partition = offset_commit.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata=None
    )
    return offset_commit.OffsetCommitRequest(
        group_id=GROUP,
        member_id="",
        topics=_by_name_or_id(
            offset_commit.OffsetCommitRequestTopic, version, ids, 10, partitions=[partition]
        ),
    )


def _txn_commit(version: int, ids: Ids) -> Any:
    partition = txn_offset_commit.TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata=None
    )
    return txn_offset_commit.TxnOffsetCommitRequest(
        transactional_id=TRANSACTION,
        group_id=GROUP,
        producer_id=1,
        producer_epoch=0,
        topics=_by_name_or_id(
            txn_offset_commit.TxnOffsetCommitRequestTopic, version, ids, 6, partitions=[partition]
        ),
    )


def _fetch_offsets(version: int, ids: Ids) -> Any:
    if version < 8:
        return offset_fetch.OffsetFetchRequest(
            group_id=GROUP,
            topics=[
                offset_fetch.OffsetFetchRequestTopic(name=name, partition_indexes=[0])
                for name in (TOPIC, OTHER_TOPIC)
            ],
        )
    topics = _by_name_or_id(
        offset_fetch.OffsetFetchRequestTopics, version, ids, 10, partition_indexes=[0]
    )
    return offset_fetch.OffsetFetchRequest(
        groups=[offset_fetch.OffsetFetchRequestGroup(group_id=GROUP, topics=topics)]
    )


def _add_partitions(version: int, ids: Ids) -> Any:
    topics = [
        add_partitions_to_txn.AddPartitionsToTxnTopic(name=name, partitions=[0])
        for name in (TOPIC, OTHER_TOPIC)
    ]
    if version < 4:
        return add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TRANSACTION, v3_and_below_topics=topics
        )
    transaction = add_partitions_to_txn.AddPartitionsToTxnTransaction(
        transactional_id=TRANSACTION, producer_id=1, producer_epoch=0, topics=topics
    )
    return add_partitions_to_txn.AddPartitionsToTxnRequest(transactions=[transaction])


def _find(key_type: int, key: str) -> Callable[[int, Ids], Any]:
    def make(version: int, ids: Ids) -> Any:
        keys = {"coordinator_keys": [key]} if version >= 4 else {"key": key}
        return find_coordinator.FindCoordinatorRequest(key_type=key_type, **keys)

    return make


_MARKER = write_txn_markers.WritableTxnMarker(
    producer_id=1,
    producer_epoch=0,
    transaction_result=False,
    topics=[
        write_txn_markers.WritableTxnMarkerTopic(name="rights-missing", partition_indexes=[0, 1])
    ],
    coordinator_epoch=0,
)

ROWS: Final = (
    Row(
        "FindCoordinator of a group",
        _find(0, GROUP),
        find_coordinator.FindCoordinatorResponse,
        (0, 3, 4, 6),
        {DESCRIBE_GROUP: [NO_GROUP]},
    ),
    Row(
        "FindCoordinator of a transaction",
        _find(1, TRANSACTION),
        find_coordinator.FindCoordinatorResponse,
        (1, 3, 4, 6),
        {DESCRIBE_TRANSACTION: [NO_TRANSACTION]},
    ),
    Row(
        "FindCoordinator of a share group",
        _find(2, f"{GROUP}:{uuid.UUID(int=1)}:0"),
        find_coordinator.FindCoordinatorResponse,
        (6,),
        {CLUSTER_ACTION: [NO_CLUSTER]},
    ),
    Row(
        "JoinGroup",
        lambda version, ids: join_group.JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=30_000,
            member_id="unknown",
            protocol_type="consumer",
            protocols=[],
        ),
        join_group.JoinGroupResponse,
        (0, 9),
        {READ_GROUP: [NO_GROUP]},
    ),
    Row(
        "SyncGroup",
        lambda version, ids: sync_group.SyncGroupRequest(
            group_id=GROUP,
            generation_id=1,
            member_id="unknown",
            protocol_type="consumer",
            protocol_name="range",
            assignments=[],
        ),
        sync_group.SyncGroupResponse,
        (0, 5),
        {READ_GROUP: [NO_GROUP]},
    ),
    Row(
        "Heartbeat",
        lambda version, ids: heartbeat.HeartbeatRequest(
            group_id=GROUP, generation_id=1, member_id="unknown"
        ),
        heartbeat.HeartbeatResponse,
        (0, 4),
        {READ_GROUP: [NO_GROUP]},
    ),
    Row(
        "LeaveGroup",
        lambda version, ids: leave_group.LeaveGroupRequest(
            group_id=GROUP,
            member_id="unknown",
            members=[]
            if version < 3
            else [leave_group.MemberIdentity(member_id="unknown", group_instance_id="i")],
        ),
        leave_group.LeaveGroupResponse,
        (0, 5),
        {READ_GROUP: [NO_GROUP]},
    ),
    Row(
        "ConsumerGroupHeartbeat",
        lambda version, ids: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id="unknown",
            member_epoch=7,
            subscribed_topic_names=[TOPIC, OTHER_TOPIC, TOPIC],
        ),
        consumer_group_heartbeat.ConsumerGroupHeartbeatResponse,
        (0, 1),
        {READ_GROUP: [NO_GROUP], DESCRIBE_TOPIC: [NO_TOPIC], DESCRIBE_OTHER: [NO_TOPIC]},
    ),
    Row(
        "ConsumerGroupDescribe",
        lambda version, ids: described.ConsumerGroupDescribeRequest(group_ids=[GROUP, OTHER_GROUP]),
        described.ConsumerGroupDescribeResponse,
        (0, 1),
        {DESCRIBE_GROUP: [NO_GROUP, NONE], DESCRIBE_OTHER_GROUP: [NONE, NO_GROUP]},
    ),
    Row(
        "DescribeGroups",
        lambda version, ids: describe_groups.DescribeGroupsRequest(groups=[GROUP, OTHER_GROUP]),
        describe_groups.DescribeGroupsResponse,
        (0, 6),
        {DESCRIBE_GROUP: [NO_GROUP, NONE], DESCRIBE_OTHER_GROUP: [NONE, NO_GROUP]},
    ),
    Row(
        "DeleteGroups",
        lambda version, ids: delete_groups.DeleteGroupsRequest(groups_names=[GROUP, OTHER_GROUP]),
        delete_groups.DeleteGroupsResponse,
        (0, 3),
        {
            Right(Operation.DELETE, group(GROUP)): [NO_GROUP, NONE],
            Right(Operation.DELETE, group(OTHER_GROUP)): [NONE, NO_GROUP],
        },
    ),
    Row(
        "OffsetCommit",
        _commit,
        offset_commit.OffsetCommitResponse,
        (2, 9, 10),
        {
            READ_GROUP: [NO_GROUP, NO_GROUP],
            READ_TOPIC: [NO_TOPIC, NONE],
            READ_OTHER: [NONE, NO_TOPIC],
        },
    ),
    Row(
        "OffsetFetch, the error of a group with each partition",
        _fetch_offsets,
        offset_fetch.OffsetFetchResponse,
        (1,),
        {
            DESCRIBE_GROUP: [NO_GROUP, NO_GROUP],
            DESCRIBE_TOPIC: [NO_TOPIC, NONE],
            DESCRIBE_OTHER: [NONE, NO_TOPIC],
        },
    ),
    Row(
        "OffsetFetch of one group",
        _fetch_offsets,
        offset_fetch.OffsetFetchResponse,
        (2, 7),
        {
            DESCRIBE_GROUP: [NO_GROUP],
            DESCRIBE_TOPIC: [NO_TOPIC, NONE],
            DESCRIBE_OTHER: [NONE, NO_TOPIC],
        },
    ),
    Row(
        "OffsetFetch of groups",
        _fetch_offsets,
        offset_fetch.OffsetFetchResponse,
        (8, 9, 10),
        {
            DESCRIBE_GROUP: [NO_GROUP],
            DESCRIBE_TOPIC: [NO_TOPIC, NONE],
            DESCRIBE_OTHER: [NONE, NO_TOPIC],
        },
    ),
    Row(
        "OffsetDelete",
        lambda version, ids: offset_delete.OffsetDeleteRequest(
            group_id=GROUP,
            topics=[
                offset_delete.OffsetDeleteRequestTopic(
                    name=name,
                    partitions=[offset_delete.OffsetDeleteRequestPartition(partition_index=0)],
                )
                for name in (TOPIC, OTHER_TOPIC)
            ],
        ),
        offset_delete.OffsetDeleteResponse,
        (0,),
        {
            Right(Operation.DELETE, group(GROUP)): [NO_GROUP],
            READ_TOPIC: [NO_TOPIC, NONE],
            READ_OTHER: [NONE, NO_TOPIC],
        },
    ),
    Row(
        "TxnOffsetCommit",
        _txn_commit,
        txn_offset_commit.TxnOffsetCommitResponse,
        (0, 5, 6),
        {
            WRITE_TRANSACTION: [NO_TRANSACTION, NO_TRANSACTION],
            READ_GROUP: [NO_GROUP, NO_GROUP],
            READ_TOPIC: [NO_TOPIC, NONE],
            READ_OTHER: [NONE, NO_TOPIC],
        },
    ),
    Row(
        "InitProducerId with a transactional id",
        lambda version, ids: init_producer_id.InitProducerIdRequest(
            transactional_id=TRANSACTION, transaction_timeout_ms=60_000
        ),
        init_producer_id.InitProducerIdResponse,
        (0, 5),
        {WRITE_TRANSACTION: [NO_TRANSACTION]},
    ),
    Row(
        "InitProducerId without a transactional id",
        lambda version, ids: init_producer_id.InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=60_000
        ),
        init_producer_id.InitProducerIdResponse,
        (0, 5),
        {Right(Operation.IDEMPOTENT_WRITE, CLUSTER): [NO_CLUSTER]},
    ),
    Row(
        "InitProducerId of a writer of some topic",
        lambda version, ids: init_producer_id.InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=60_000
        ),
        init_producer_id.InitProducerIdResponse,
        (0, 5),
        {WRITE_TOPIC: [NO_CLUSTER]},
    ),
    Row(
        "AddPartitionsToTxn of clients",
        _add_partitions,
        add_partitions_to_txn.AddPartitionsToTxnResponse,
        (0, 3),
        {
            WRITE_TRANSACTION: [NO_TRANSACTION, NO_TRANSACTION],
            WRITE_TOPIC: [NO_TOPIC, NONE],
            WRITE_OTHER: [NONE, NO_TOPIC],
        },
    ),
    Row(
        "AddPartitionsToTxn of nodes",
        _add_partitions,
        add_partitions_to_txn.AddPartitionsToTxnResponse,
        (4, 5),
        {CLUSTER_ACTION: [NO_CLUSTER]},
    ),
    Row(
        "AddOffsetsToTxn",
        lambda version, ids: add_offsets_to_txn.AddOffsetsToTxnRequest(
            transactional_id=TRANSACTION, producer_id=1, producer_epoch=0, group_id=GROUP
        ),
        add_offsets_to_txn.AddOffsetsToTxnResponse,
        (0, 4),
        {WRITE_TRANSACTION: [NO_TRANSACTION], READ_GROUP: [NO_GROUP]},
    ),
    Row(
        "EndTxn",
        lambda version, ids: end_txn.EndTxnRequest(
            transactional_id=TRANSACTION, producer_id=1, producer_epoch=0, committed=False
        ),
        end_txn.EndTxnResponse,
        (0, 5),
        {WRITE_TRANSACTION: [NO_TRANSACTION]},
    ),
    Row(
        "WriteTxnMarkers of nodes",
        lambda version, ids: write_txn_markers.WriteTxnMarkersRequest(markers=[_MARKER]),
        write_txn_markers.WriteTxnMarkersResponse,
        (1, 2),
        {CLUSTER_ACTION: [NO_CLUSTER, NO_CLUSTER]},
    ),
    Row(
        "WriteTxnMarkers of administrators",
        lambda version, ids: write_txn_markers.WriteTxnMarkersRequest(markers=[_MARKER]),
        write_txn_markers.WriteTxnMarkersResponse,
        (1, 2),
        {Right(Operation.ALTER, CLUSTER): [NO_CLUSTER, NO_CLUSTER]},
    ),
    Row(
        "DescribeProducers",
        lambda version, ids: describe_producers.DescribeProducersRequest(
            topics=[
                describe_producers.TopicRequest(name=name, partition_indexes=[0])
                for name in (TOPIC, OTHER_TOPIC)
            ]
        ),
        describe_producers.DescribeProducersResponse,
        (0,),
        {READ_TOPIC: [NO_TOPIC, NONE], READ_OTHER: [NONE, NO_TOPIC]},
    ),
    Row(
        "DescribeTransactions",
        lambda version, ids: describe_transactions.DescribeTransactionsRequest(
            transactional_ids=[TRANSACTION, OTHER_TRANSACTION]
        ),
        describe_transactions.DescribeTransactionsResponse,
        (0,),
        {
            DESCRIBE_TRANSACTION: [NO_TRANSACTION, NONE],
            DESCRIBE_OTHER_TRANSACTION: [NONE, NO_TRANSACTION],
        },
    ),
)
