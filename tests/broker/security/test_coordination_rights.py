"""Groups, transactions and producers: who may do what, in which order checks come, and what lists leave out."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from tests.broker import consumer_group_requests as consumers
from tests.broker import group_requests as ask
from tests.broker import txn_requests as transactions
from tests.broker.requests import create, eventually
from tests.broker.security import coordination_rows as rows
from tests.broker.security.coordination_rows import (
    GROUP,
    NO_CLUSTER,
    NO_GROUP,
    NO_TOPIC,
    NO_TRANSACTION,
    NONE,
    OTHER_TOPIC,
    READ_GROUP,
    ROWS,
    TOPIC,
    TRANSACTION,
    Ids,
    Row,
)
from tests.broker.security.rights import Right, only
from tests.broker.security.row_checks import (
    check_all_rights,
    check_missing_right,
    each_missing_right,
    each_version,
)

import ottla
from ottla.access import CLUSTER, Operation, group, topic, transactional_id
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.testing import Broker
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from ottla.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)


@pytest.fixture(scope="module")
def secured() -> Iterator[ottla.Broker]:
    """A broker of its own: what a test forbids would be forbidden to others, too."""
    with Broker() as broker:
        yield broker


@pytest.fixture(scope="module")
def wire(secured: ottla.Broker) -> Iterator[RawConnection]:
    with RawConnection(secured.bootstrap_servers) as connected:
        yield connected


@pytest.fixture(scope="module")
def ids(wire: RawConnection) -> Ids:
    ask.await_coordinator(wire, GROUP)
    transactions.await_coordinator(wire, TRANSACTION)
    found = Ids(create(wire, TOPIC), create(wire, OTHER_TOPIC))
    ask.commit(wire, GROUP, {(TOPIC, 0): 1})  # some requests need a group that exists
    return found


@pytest.mark.parametrize(("row", "version", "missing"), each_missing_right(ROWS))
def test_a_missing_right_is_refused_where_kafka_refuses_it(
    secured: ottla.Broker, wire: RawConnection, ids: Ids, row: Row, version: int, missing: int
) -> None:
    check_missing_right(secured, wire, ids, row, version, missing)


@pytest.mark.parametrize(("row", "version"), each_version(ROWS))
def test_all_rights_suffice(
    secured: ottla.Broker, wire: RawConnection, ids: Ids, row: Row, version: int
) -> None:
    check_all_rights(secured, wire, ids, row, version)


# The order of checks.


def test_the_group_is_checked_before_its_name_and_its_members(
    secured: ottla.Broker, wire: RawConnection, ids: Ids
) -> None:
    with only(secured):
        for name in ("", "nobody-knows-it"):
            answer = wire.call(ask.join_request(name, "m"), JoinGroupResponse, 9)
            assert (answer.error_code, answer.member_id) == (NO_GROUP, "")
        answer = wire.call(
            SyncGroupRequest(group_id="g", generation_id=1, member_id="m", assignments=[]),
            SyncGroupResponse,
            5,
        )
        # What is missing in the request comes first.
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_consumer_group_heartbeat_is_checked_after_its_rights(
    secured: ottla.Broker, wire: RawConnection, ids: Ids
) -> None:
    with only(secured):
        assert consumers.heartbeat(wire, "", "", 0).error_code == NO_GROUP
    with only(secured, READ_GROUP):
        answer = consumers.heartbeat(wire, GROUP, "", 0, subscribed_topic_names=["missing"])
        assert answer.error_code == NO_TOPIC
        answer = consumers.heartbeat(wire, GROUP, "", 0)
        assert answer.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [9, 10])
def test_an_unknown_topic_id_is_told_to_all_and_an_unknown_name_to_those_who_may_read_it(
    secured: ottla.Broker, wire: RawConnection, ids: Ids, version: int
) -> None:
    partition = OffsetCommitRequestPartition(
        partition_index=7, committed_offset=1, committed_metadata=None
    )
    named = {"topic_id": uuid.UUID(int=99)} if version == 10 else {"name": "rights-missing"}
    request = OffsetCommitRequest(
        group_id=GROUP,
        member_id="",
        topics=[OffsetCommitRequestTopic(partitions=[partition], **named)],
    )

    def commit() -> int:
        answer = wire.call(request, OffsetCommitResponse, version)
        return int(answer.topics[0].partitions[0].error_code)

    with only(secured, READ_GROUP):
        assert commit() == (ErrorCode.UNKNOWN_TOPIC_ID if version == 10 else NO_TOPIC)
    with only(secured, READ_GROUP, Right(Operation.READ, topic("rights-missing"))):
        unknown = (
            ErrorCode.UNKNOWN_TOPIC_ID if version == 10 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        assert commit() == unknown


def test_a_transactional_commit_without_topics_that_may_be_read_asks_no_coordinator(
    secured: ottla.Broker, wire: RawConnection, ids: Ids
) -> None:
    """Else it would be told that the producer is unknown."""
    partition = TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata=None
    )
    request = TxnOffsetCommitRequest(
        transactional_id=TRANSACTION,
        group_id=GROUP,
        producer_id=1,
        producer_epoch=0,
        topics=[
            TxnOffsetCommitRequestTopic(name=name, partitions=[partition])
            for name in (TOPIC, "rights-missing")
        ],
    )
    readable = Right(Operation.READ, topic("rights-missing"))
    with only(secured, rows.WRITE_TRANSACTION, READ_GROUP, readable):
        answer = wire.call(request, TxnOffsetCommitResponse, 5)
    codes = [each.partitions[0].error_code for each in answer.topics]
    assert codes == [NO_TOPIC, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_partitions_of_a_transaction_are_told_what_is_wrong_with_each(
    secured: ottla.Broker, wire: RawConnection, ids: Ids
) -> None:
    names = ("__consumer_offsets", TOPIC, OTHER_TOPIC, "rights-missing")
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=TRANSACTION,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in names],
    )
    rights = [Right(Operation.WRITE, topic(name)) for name in names if name != OTHER_TOPIC]
    with only(secured, rows.WRITE_TRANSACTION, *rights):
        answer = wire.call(request, AddPartitionsToTxnResponse, 3)
    codes = [
        each.results_by_partition[0].partition_error_code
        for each in answer.results_by_topic_v3_and_below
    ]
    not_attempted = ErrorCode.OPERATION_NOT_ATTEMPTED
    assert codes == [NO_TOPIC, not_attempted, NO_TOPIC, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_batch_of_transactions_is_refused_as_a_whole(
    secured: ottla.Broker, wire: RawConnection, ids: Ids
) -> None:
    with only(secured, rows.WRITE_TRANSACTION, rows.WRITE_TOPIC):
        answer = wire.call(AddPartitionsToTxnRequest(), AddPartitionsToTxnResponse, 5)
    assert (answer.error_code, answer.results_by_transaction) == (NO_CLUSTER, [])


def test_a_producer_is_refused_before_its_request_is_looked_at(
    secured: ottla.Broker, wire: RawConnection, ids: Ids
) -> None:
    with only(secured):
        for name, expected in (
            (TRANSACTION, NO_TRANSACTION),
            ("", NO_TRANSACTION),
            (None, NO_CLUSTER),
        ):
            answer = transactions.init(wire, name, expected=transactions.Identity(5, -1))
            assert answer.error_code == expected


def test_producers_of_an_invalid_topic_are_refused_with_its_problem(
    secured: ottla.Broker, wire: RawConnection, ids: Ids
) -> None:
    request = DescribeProducersRequest(
        topics=[
            TopicRequest(name=name, partition_indexes=[0]) for name in ("a topic", "rights-missing")
        ]
    )
    with only(secured):
        answer = wire.call(request, DescribeProducersResponse, 0)
    codes = [each.partitions[0].error_code for each in answer.topics]
    assert codes == [ErrorCode.INVALID_TOPIC_EXCEPTION, NO_TOPIC]


# What lists leave out.


def test_lists_have_what_the_caller_may_describe(
    secured: ottla.Broker, wire: RawConnection, ids: Ids
) -> None:
    for name in ("listed-1", "listed-2"):
        ask.commit(wire, name, {(TOPIC, 0): 1})
        transactions.become(wire, name)

    def groups() -> set[str]:
        answer = wire.call(ListGroupsRequest(), ListGroupsResponse, 5)
        assert answer.error_code == NONE
        return {each.group_id for each in answer.groups if each.group_id.startswith("listed")}

    def transactional_ids() -> set[str]:
        request = ListTransactionsRequest(state_filters=[], producer_id_filters=[])
        answer = wire.call(request, ListTransactionsResponse, 2)
        assert answer.error_code == NONE
        return {each.transactional_id for each in answer.transaction_states} & both

    both = {"listed-1", "listed-2"}
    describe = Operation.DESCRIBE
    with only(secured) as nothing:
        assert groups() == transactional_ids() == set()
    assert nothing.denied == []  # nobody asked for these
    with only(
        secured, Right(describe, group("listed-1")), Right(describe, transactional_id("listed-2"))
    ):
        assert groups() == {"listed-1"}
        assert transactional_ids() == {"listed-2"}
    with only(secured, Right(describe, CLUSTER)):
        assert groups() == both
        assert transactional_ids() == set()


@pytest.mark.parametrize("version", [2, 7, 8, 10])
def test_all_offsets_of_a_group_are_those_of_topics_that_may_be_described(
    secured: ottla.Broker, wire: RawConnection, ids: Ids, version: int
) -> None:
    ask.commit(wire, "all-offsets", {(TOPIC, 0): 1, (OTHER_TOPIC, 0): 2})
    request = (
        OffsetFetchRequest(group_id="all-offsets", topics=None)
        if version < 8
        else OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id="all-offsets", topics=None)]
        )
    )
    with only(secured, Right(Operation.DESCRIBE, group("all-offsets")), rows.DESCRIBE_OTHER):
        answer = wire.call(request, OffsetFetchResponse, version)
    topics = answer.topics if version < 8 else answer.groups[0].topics
    assert [each.partitions[0].committed_offset for each in topics] == [2]


def test_a_transaction_shows_the_topics_that_may_be_described(
    secured: ottla.Broker, wire: RawConnection, ids: Ids
) -> None:
    who = transactions.become(wire, "shown")
    assert transactions.add_partitions(
        wire, "shown", who, {TOPIC: [0], OTHER_TOPIC: [0]}, version=3
    ) == [NONE, NONE]
    request = DescribeTransactionsRequest(transactional_ids=["shown"])
    with only(secured, Right(Operation.DESCRIBE, transactional_id("shown")), rows.DESCRIBE_TOPIC):
        answer = wire.call(request, DescribeTransactionsResponse, 0)
    assert [each.topic for each in answer.transaction_states[0].topics] == [TOPIC]


def test_authorized_operations_are_those_of_the_caller(
    secured: ottla.Broker, wire: RawConnection, ids: Ids
) -> None:
    ask.commit(wire, "operations", {(TOPIC, 0): 1})
    member = consumers.ConsumerMember(wire, "new-operations", TOPIC)
    member.join()

    def classic(*, asks: bool) -> int:
        request = DescribeGroupsRequest(groups=["operations"], include_authorized_operations=asks)
        answer = wire.call(request, DescribeGroupsResponse, 6)
        return int(answer.groups[0].authorized_operations)

    def new() -> int:
        request = ConsumerGroupDescribeRequest(
            group_ids=["new-operations"], include_authorized_operations=True
        )
        answer = wire.call(request, ConsumerGroupDescribeResponse, 1)
        return int(answer.groups[0].authorized_operations)

    def bits(*operations: Operation) -> int:
        return sum(1 << operation for operation in operations)

    everything = bits(
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    )
    assert classic(asks=True) == new() == everything
    assert classic(asks=False) == -(1 << 31)
    names = ("operations", "new-operations")
    with only(
        secured, rows.DESCRIBE_TOPIC, *(Right(Operation.DELETE, group(name)) for name in names)
    ):
        assert classic(asks=True) == new() == bits(Operation.DELETE, Operation.DESCRIBE)


def test_a_group_with_hidden_topics_is_refused(
    secured: ottla.Broker, wire: RawConnection, ids: Ids
) -> None:
    member = consumers.ConsumerMember(wire, "hidden-topics", OTHER_TOPIC)
    member.join()
    request = ConsumerGroupDescribeRequest(
        group_ids=["hidden-topics"], include_authorized_operations=True
    )
    may_describe = Right(Operation.DESCRIBE, group("hidden-topics"))
    with only(secured, may_describe, rows.DESCRIBE_TOPIC):
        (answer,) = wire.call(request, ConsumerGroupDescribeResponse, 1).groups
    assert (answer.error_code, answer.members) == (NO_TOPIC, [])
    assert answer.error_message == (
        "The group has described topic(s) that the client is not authorized to describe."
    )
    with only(secured, may_describe, rows.DESCRIBE_OTHER):
        (answer,) = wire.call(request, ConsumerGroupDescribeResponse, 1).groups
    assert (answer.error_code, len(answer.members)) == (NONE, 1)


def test_a_pattern_finds_what_the_member_may_describe(
    secured: ottla.Broker, wire: RawConnection, ids: Ids
) -> None:
    right = Right(Operation.READ, group("by-pattern"))
    with only(secured, right, rows.READ_OTHER):
        member = consumers.ConsumerMember(wire, "by-pattern", subscribed_topic_regex="rights-t.*")
        member.join()

        def owns_one() -> bool:
            member.beat()
            return set(member.owned) == {ids.other}

        assert eventually(owns_one)


# Nodes, and requests that are divided.


def test_nodes_may_do_what_their_clients_need(
    secured: ottla.Broker, wire: RawConnection, ids: Ids
) -> None:
    """Verification and markers are requests of nodes."""
    rights = (
        Right(Operation.WRITE, transactional_id("through-nodes")),
        Right(Operation.WRITE, topic(TOPIC)),
    )
    with only(secured, *rights):
        who = transactions.become(wire, "through-nodes")
        assert transactions.send(wire, "through-nodes", who, TOPIC, 0, b"v") is NONE
        assert transactions.end(wire, "through-nodes", who, commits=True).error_code == NONE
    assert eventually(lambda: transactions.state_of(wire, "through-nodes") == "CompleteCommit")


def test_each_piece_of_a_large_request_is_checked(
    secured: ottla.Broker, wire: RawConnection, ids: Ids
) -> None:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata=None
    )
    names = [TOPIC, *(f"missing-{number}" for number in range(3000)), OTHER_TOPIC]
    request = OffsetCommitRequest(
        group_id=GROUP,
        member_id="",
        topics=[OffsetCommitRequestTopic(name=name, partitions=[partition]) for name in names],
    )
    with only(secured, READ_GROUP, rows.READ_TOPIC):
        answer = wire.call(request, OffsetCommitResponse, 9)
    codes = [each.partitions[0].error_code for each in answer.topics]
    assert codes == [NONE, *[NO_TOPIC] * 3001]
    with only(secured):
        answer = wire.call(request, OffsetCommitResponse, 9)
    assert {each.partitions[0].error_code for each in answer.topics} == {NO_GROUP}
    assert [each.name for each in answer.topics] == names
