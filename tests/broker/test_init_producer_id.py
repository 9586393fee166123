"""InitProducerId: no id is given twice, whatever happens to the broker."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.conftest import Starter
from tests.broker.processes import ServeProcess
from tests.broker.requests import every_version_of, new_producer_id, session_with
from tests.broker.txn_requests import await_coordinator, new_id

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def ask(connection: RawConnection, version: int, **fields: Any) -> InitProducerIdResponse:
    options: dict[str, Any] = {"transactional_id": None, "transaction_timeout_ms": 1000, **fields}
    answer: InitProducerIdResponse = connection.call(
        InitProducerIdRequest(**options), InitProducerIdResponse, version
    )
    return answer


@pytest.mark.parametrize("version", every_version_of(InitProducerIdRequest))
def test_every_producer_gets_an_id_of_its_own_and_epoch_0(
    connection: RawConnection, version: int
) -> None:
    first, second = ask(connection, version), ask(connection, version)
    assert (first.error_code, first.producer_epoch) == (ErrorCode.NONE, 0)
    assert 0 <= first.producer_id < second.producer_id
    assert first.ongoing_txn_producer_id == -1


def test_ids_go_on_over_the_end_of_a_block(connection: RawConnection) -> None:
    ids = [new_producer_id(connection) for _ in range(2500)]
    assert len(set(ids)) == 2500


def test_an_epoch_without_an_id_or_the_reverse_is_invalid(connection: RawConnection) -> None:
    for producer_id, epoch in ((5, -1), (-1, 0)):
        answer = ask(connection, 3, producer_id=producer_id, producer_epoch=epoch)
        assert (answer.error_code, answer.producer_id) == (ErrorCode.INVALID_REQUEST, -1)


def test_a_producer_that_names_its_id_gets_a_new_one(connection: RawConnection) -> None:
    old = new_producer_id(connection)
    answer = ask(connection, 4, producer_id=old, producer_epoch=3)
    assert (answer.error_code, answer.producer_epoch) == (ErrorCode.NONE, 0)
    assert answer.producer_id > old


def test_ids_are_unique_over_restarts(start: Starter) -> None:
    ids = []
    for _ in range(3):
        broker = start()
        with session_with(broker) as connection:
            ids += [new_producer_id(connection) for _ in range(5)]
        broker.stop()
    assert len(set(ids)) == 15


def test_ids_are_unique_over_kills(serve_process: ServeProcess) -> None:
    ids = []
    for _ in range(2):
        serve_process.start()
        with RawConnection(serve_process.address) as connection:
            ids += [new_producer_id(connection) for _ in range(1005)]
        serve_process.kill()
    assert len(set(ids)) == 2010


# Transactional ids; who may and who may not is in `txn_errors`.


@pytest.mark.parametrize("version", every_version_of(InitProducerIdRequest))
def test_a_transactional_producer_keeps_its_id_and_gets_a_new_epoch(
    connection: RawConnection, version: int
) -> None:
    name = new_id()
    await_coordinator(connection, name)
    first = ask(connection, version, transactional_id=name)
    assert (first.error_code, first.producer_epoch) == (ErrorCode.NONE, 0)
    second = ask(connection, version, transactional_id=name)
    assert (second.producer_id, second.producer_epoch) == (first.producer_id, 1)
    assert ask(connection, version, transactional_id=new_id()).producer_id != first.producer_id


@pytest.mark.parametrize("version", every_version_of(InitProducerIdRequest))
def test_bad_transactional_ids_and_timeouts(connection: RawConnection, version: int) -> None:
    name = new_id()
    await_coordinator(connection, name)
    empty = ask(connection, version, transactional_id="")
    assert empty.error_code == ErrorCode.INVALID_REQUEST
    for timeout_ms in (-1, 0, 900_001, 2**31 - 1):
        answer = ask(connection, version, transactional_id=name, transaction_timeout_ms=timeout_ms)
        assert answer.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
        assert (answer.producer_id, answer.producer_epoch) == (-1, -1)
    longest = ask(connection, version, transactional_id=name, transaction_timeout_ms=900_000)
    assert longest.error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", [3, 4, 5, 6])
def test_half_an_identity_is_none(connection: RawConnection, version: int) -> None:
    name = new_id()
    await_coordinator(connection, name)
    for fields in ({"producer_id": 5}, {"producer_epoch": 5}):
        answer = ask(connection, version, transactional_id=name, **fields)
        assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_nobody_may_hold_transactions_open_for_ever(connection: RawConnection) -> None:
    """Two-phase commit (KIP-939) is not there, and not ignored either."""
    name = new_id()
    await_coordinator(connection, name)
    refused = ask(connection, 6, transactional_id=name, enable_2pc=True)
    assert refused.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    kept = ask(connection, 6, transactional_id=name, keep_prepared_txn=True)
    assert kept.error_code == ErrorCode.UNSUPPORTED_VERSION
