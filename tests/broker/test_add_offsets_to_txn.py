"""AddOffsetsToTxn: the group's partition of `__consumer_offsets` becomes part of a transaction."""

from __future__ import annotations

import pytest
from tests.broker import txn_requests as ask
from tests.broker.requests import every_version_of

from ottla.client.raw import RawConnection
from ottla.core.catalog import GROUPS_TOPIC
from ottla.errors import ErrorCode
from ottla.model import coordinator_partition
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest

EVERY_VERSION = pytest.mark.parametrize("version", every_version_of(AddOffsetsToTxnRequest))


@EVERY_VERSION
def test_the_partition_of_the_group_is_part_of_the_transaction(
    connection: RawConnection, version: int
) -> None:
    transactional_id = ask.new_id()
    ask.await_coordinator(connection, transactional_id)
    who = ask.become(connection, transactional_id)
    for _ in range(2):
        assert (
            ask.add_offsets(connection, transactional_id, who, "group", version=version)
            is ErrorCode.NONE
        )
    (found,) = ask.describe(connection, transactional_id).topics
    assert found.topic == GROUPS_TOPIC
    assert found.partitions == [coordinator_partition("group", 50)]


@EVERY_VERSION
def test_a_fenced_producer_is_told_in_the_words_of_its_version(
    connection: RawConnection, version: int
) -> None:
    transactional_id = ask.new_id()
    ask.await_coordinator(connection, transactional_id)
    ask.become(connection, transactional_id)
    who = ask.become(connection, transactional_id)
    error = ask.add_offsets(connection, transactional_id, who.older(), "group", version=version)
    expected = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert error is expected
    assert ask.state_of(connection, transactional_id) == "Empty"
