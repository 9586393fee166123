"""AddPartitionsToTxn: one transaction up to version 3, many and questions since; errors are in `txn_errors`."""

from __future__ import annotations

import pytest
from tests.broker import txn_requests as ask
from tests.broker.requests import create, every_version_of

from ottla.client.raw import RawConnection
from ottla.core.catalog import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from ottla.errors import ErrorCode
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NOT_ATTEMPTED = ErrorCode.OPERATION_NOT_ATTEMPTED
EVERY_VERSION = pytest.mark.parametrize("version", every_version_of(AddPartitionsToTxnRequest))


@pytest.fixture
def transactional_id(connection: RawConnection) -> str:
    made = ask.new_id()
    ask.await_coordinator(connection, made)
    return made


def parts_of(connection: RawConnection, transactional_id: str) -> dict[str, list[int]]:
    found = ask.describe(connection, transactional_id)
    return {topic.topic: sorted(topic.partitions) for topic in found.topics}


@EVERY_VERSION
def test_partitions_become_part_of_the_transaction(
    connection: RawConnection, topic: str, transactional_id: str, version: int
) -> None:
    create(connection, topic, 3)
    who = ask.become(connection, transactional_id)
    for wanted in ([0], [2], [2, 0]):
        errors = ask.add_partitions(
            connection, transactional_id, who, {topic: wanted}, version=version
        )
        assert errors == [NONE] * len(wanted)
    assert parts_of(connection, transactional_id) == {topic: [0, 2]}
    assert ask.state_of(connection, transactional_id) == "Ongoing"


@EVERY_VERSION
def test_all_or_nothing_where_a_partition_does_not_exist(
    connection: RawConnection, topic: str, transactional_id: str, version: int
) -> None:
    create(connection, topic, 1)
    who = ask.become(connection, transactional_id)
    errors = ask.add_partitions(
        connection, transactional_id, who, {topic: [0, 1], "zz-missing": [0]}, version=version
    )
    assert errors == [NOT_ATTEMPTED, UNKNOWN, UNKNOWN]
    assert ask.add_partitions(
        connection, transactional_id, who, {topic: [-1]}, version=version
    ) == [UNKNOWN]
    assert ask.state_of(connection, transactional_id) == "Empty"


@pytest.mark.parametrize("version", [0, 3])
@pytest.mark.parametrize("internal", [GROUPS_TOPIC, TRANSACTIONS_TOPIC])
def test_clients_cannot_have_internal_topics_in_a_transaction(
    connection: RawConnection, topic: str, transactional_id: str, version: int, internal: str
) -> None:
    create(connection, topic, 1)
    who = ask.become(connection, transactional_id)
    errors = ask.add_partitions(
        connection, transactional_id, who, {internal: [0], topic: [0]}, version=version
    )
    assert errors == [ErrorCode.TOPIC_AUTHORIZATION_FAILED, NOT_ATTEMPTED]
    assert ask.state_of(connection, transactional_id) == "Empty"


@pytest.mark.parametrize("version", [4, 5])
def test_many_transactions_are_answered_each_on_its_own(
    connection: RawConnection, topic: str, version: int
) -> None:
    create(connection, topic, 2)
    ids = [ask.new_id() for _ in range(4)]
    ask.await_coordinator(connection, ids[0])
    whose = {name: ask.become(connection, name) for name in ids[:3]}
    assert ask.add_partitions(connection, ids[1], whose[ids[1]], {topic: [0]}) == [NONE]

    def part(
        name: str, *, epoch: int = 0, verify_only: bool = False
    ) -> AddPartitionsToTxnTransaction:
        return AddPartitionsToTxnTransaction(
            transactional_id=name,
            producer_id=whose[name].producer_id if name in whose else 1,
            producer_epoch=epoch,
            verify_only=verify_only,
            topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0, 1])],
        )

    request = AddPartitionsToTxnRequest(
        transactions=[
            part(ids[0]),
            part(ids[1], verify_only=True),
            part(ids[2], epoch=5),
            part(ids[3]),
        ]
    )
    answer = connection.call(request, AddPartitionsToTxnResponse, version)
    assert answer.error_code == NONE
    found = {
        result.transactional_id: [
            ErrorCode(one.partition_error_code)
            for one in result.topic_results[0].results_by_partition
        ]
        for result in answer.results_by_transaction
    }
    assert found == {
        ids[0]: [NONE, NONE],
        ids[1]: [NONE, ErrorCode.TRANSACTION_ABORTABLE],
        ids[2]: [ErrorCode.PRODUCER_FENCED] * 2,
        ids[3]: [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2,
    }
    assert parts_of(connection, ids[0]) == {topic: [0, 1]}
    assert parts_of(connection, ids[1]) == {topic: [0]}


@EVERY_VERSION
def test_an_empty_id_is_no_id(connection: RawConnection, topic: str, version: int) -> None:
    create(connection, topic, 1)
    errors = ask.add_partitions(connection, "", ask.Identity(1, 0), {topic: [0]}, version=version)
    assert errors == [ErrorCode.INVALID_REQUEST]
