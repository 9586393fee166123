"""FindCoordinator: who coordinates, in the form of every version."""

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
        return [(keys[0], answer.node_id, answer.error_code)]
    return [(found.key, found.node_id, found.error_code) for found in answer.coordinators]


@pytest.mark.parametrize("version", every_version_of(FindCoordinatorRequest))
def test_the_only_node_coordinates_everything(connection: RawConnection, version: int) -> None:
    for key_type in (GROUP, TRANSACTION) if version >= 1 else (GROUP,):
        ((key, node_id, error),) = ask(connection, version, key_type, "g")
        assert (key, error) == ("g", ErrorCode.NONE)
        assert node_id >= 0


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("key_type", [GROUP, TRANSACTION])
def test_many_keys_each_get_an_answer(
    connection: RawConnection, version: int, key_type: int
) -> None:
    found = ask(connection, version, key_type, "a", "b", "")
    assert [(key, error) for key, _, error in found] == [
        ("a", ErrorCode.NONE),
        ("b", ErrorCode.NONE),
        ("", ErrorCode.NONE),
    ]
    assert ask(connection, version, key_type) == []


@pytest.mark.parametrize("version", [1, 3, 4, 6])
@pytest.mark.parametrize("key_type", [-1, 7])
def test_kinds_of_keys_that_do_not_exist(
    connection: RawConnection, version: int, key_type: int
) -> None:
    assert ask(connection, version, key_type, "g") == [("g", -1, ErrorCode.INVALID_REQUEST)]
