"""DescribeTransactions (KIP-664)."""

from __future__ import annotations

from tests.broker import txn_requests as ask
from tests.broker.requests import create, now_ms

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode


def test_a_transaction_is_described_in_each_of_its_states(
    connection: RawConnection, topic: str
) -> None:
    create(connection, topic, 2)
    name = ask.new_id()
    ask.await_coordinator(connection, name)
    who = ask.become(connection, name, timeout_ms=1234)
    found = ask.describe(connection, name)
    assert (found.error_code, found.transactional_id) == (ErrorCode.NONE, name)
    assert (found.transaction_state, found.transaction_timeout_ms) == ("Empty", 1234)
    assert ask.Identity(found.producer_id, found.producer_epoch) == who
    assert (found.transaction_start_time_ms, found.topics) == (-1, [])
    begun_ms = now_ms()
    for partition in (0, 1):
        assert ask.send(connection, name, who, topic, partition=partition) is ErrorCode.NONE
    found = ask.describe(connection, name)
    assert found.transaction_state == "Ongoing"
    assert begun_ms <= found.transaction_start_time_ms <= now_ms()
    assert [(one.topic, one.partitions) for one in found.topics] == [(topic, [0, 1])]
    ask.end(connection, name, who)
    ask.await_state(connection, name, "CompleteCommit")
    found = ask.describe(connection, name)
    assert (found.producer_epoch, found.topics) == (who.epoch + 1, [])


def test_ids_that_nobody_has_used(connection: RawConnection) -> None:
    ask.await_coordinator(connection, "nobody")
    unknown = ask.describe(connection, "nobody")
    assert unknown.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert unknown.transactional_id == "nobody"
    assert ask.describe(connection, "").error_code == ErrorCode.INVALID_REQUEST
