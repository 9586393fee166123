"""FindCoordinator: there is none yet, and it says so in the form of every version."""

from __future__ import annotations

import pytest
from tests.broker.requests import every_version_of

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

BATCHED_SINCE = 4
GROUP, TRANSACTION = 0, 1


def ask(
    connection: RawConnection, version: int, key_type: int, *keys: str
) -> list[tuple[str, int, int]]:
    """Key, node id and error of each answer."""
    request = (
        FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))
        if version >= BATCHED_SINCE
        else FindCoordinatorRequest(key_type=key_type, key=keys[0])
    )
    answer = connection.call(request, FindCoordinatorResponse, version)
    if version < BATCHED_SINCE:
        assert (answer.error_message is not None) == (version >= 1)
        return [(keys[0], answer.node_id, answer.error_code)]
    assert all(found.error_message for found in answer.coordinators)
    return [(found.key, found.node_id, found.error_code) for found in answer.coordinators]


@pytest.mark.parametrize("version", every_version_of(FindCoordinatorRequest))
def test_no_coordinator_is_available(connection: RawConnection, version: int) -> None:
    error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    for key_type in (GROUP, TRANSACTION) if version >= 1 else (GROUP,):
        assert ask(connection, version, key_type, "g") == [("g", -1, error)]


@pytest.mark.parametrize("version", [4, 6])
def test_many_keys_each_get_an_answer(connection: RawConnection, version: int) -> None:
    error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    found = ask(connection, version, GROUP, "a", "b", "")
    assert found == [("a", -1, error), ("b", -1, error), ("", -1, error)]
    assert ask(connection, version, GROUP) == []


@pytest.mark.parametrize("version", [1, 3, 4, 6])
@pytest.mark.parametrize("key_type", [-1, 7])
def test_kinds_of_keys_that_do_not_exist(
    connection: RawConnection, version: int, key_type: int
) -> None:
    assert ask(connection, version, key_type, "g") == [("g", -1, ErrorCode.INVALID_REQUEST)]
