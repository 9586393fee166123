"""EndTxn at every version; who may and who may not is in `txn_errors`."""

from __future__ import annotations

import pytest
from tests.broker import txn_requests as ask
from tests.broker.requests import create, every_version_of

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.end_txn import EndTxnRequest

EVERY_VERSION = pytest.mark.parametrize("version", every_version_of(EndTxnRequest))


@EVERY_VERSION
@pytest.mark.parametrize("commits", [True, False])
def test_the_end_is_answered_at_once_and_complete_soon(
    connection: RawConnection, topic: str, version: int, commits: bool
) -> None:
    create(connection, topic, 2)
    transactional_id = ask.new_id()
    ask.await_coordinator(connection, transactional_id)
    who = ask.become(connection, transactional_id)
    assert ask.add_partitions(connection, transactional_id, who, {topic: [0, 1]}) == [
        ErrorCode.NONE,
        ErrorCode.NONE,
    ]
    assert ask.send(connection, transactional_id, who, topic, 0, b"v") is ErrorCode.NONE
    answer = ask.end(connection, transactional_id, who, commits=commits, version=version)
    assert answer.error_code == ErrorCode.NONE
    told = (answer.producer_id, answer.producer_epoch)
    assert told == ((who.producer_id, who.epoch + 1) if version >= 5 else (-1, -1))
    ask.await_state(connection, transactional_id, "CompleteCommit" if commits else "CompleteAbort")
    assert ask.committed_values(connection, topic) == ([b"v"] if commits else [])
    # A partition without data has the marker all the same: the coordinator does not know better.
    for partition, records in ((0, 1), (1, 0)):
        assert ask.high_watermark(connection, topic, partition) == records + 1
        assert ask.is_healed(connection, topic, partition)
        marked = ask.producers_of(connection, topic, partition)[who.producer_id]
        assert marked.current_txn_start_offset == -1
        assert marked.producer_epoch == who.epoch + (1 if version >= 5 else 0)


@EVERY_VERSION
def test_an_error_comes_without_an_identity(connection: RawConnection, version: int) -> None:
    transactional_id = ask.new_id()
    ask.await_coordinator(connection, transactional_id)
    who = ask.become(connection, transactional_id)
    answer = ask.end(connection, transactional_id, who, version=version)
    assert answer.error_code == ErrorCode.INVALID_TXN_STATE
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)
    nobody = ask.end(connection, "", who, version=version)
    assert nobody.error_code == ErrorCode.INVALID_REQUEST
