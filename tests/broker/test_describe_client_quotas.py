"""DescribeClientQuotas: finds quotas by exact names, by the default and by type, strictly or not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.broker.quota_requests import (
    DEFAULT,
    EXACT,
    SPECIFIED,
    Names,
    describe,
    described,
    set_quotas,
)
from tests.broker.requests import session_with
from tests.lasting import LASTING

import ottla
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode

ANN: Names = {"user": "ann"}
ANY_USER: Names = {"user": None}
PAIR: Names = {"client-id": "app", "user": "ann"}
ANY_PAIR: Names = {"client-id": None, "user": None}
APP: Names = {"client-id": "app"}
HOST: Names = {"ip": "10.0.0.1"}
ANY_HOST: Names = {"ip": None}
ALL = [ANN, ANY_USER, PAIR, ANY_PAIR, APP, HOST, ANY_HOST]


@pytest.fixture(scope="module")
def connection() -> Iterator[RawConnection]:
    with ottla.Broker(LASTING) as broker, session_with(broker) as connected:
        for names in ALL:
            if "ip" in names:
                set_quotas(connected, names, connection_creation_rate=1000)
            else:
                set_quotas(connected, names, producer_byte_rate=1e9)
        yield connected


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("components", "found", "strictly_found"),
    [
        ([], ALL, []),
        ([("user", SPECIFIED, None)], [ANN, ANY_USER, PAIR, ANY_PAIR], [ANN, ANY_USER]),
        ([("user", EXACT, "ann")], [ANN, PAIR], [ANN]),
        ([("user", DEFAULT, None)], [ANY_USER, ANY_PAIR], [ANY_USER]),
        ([("user", EXACT, "ben")], [], []),
        ([("user", EXACT, "ann"), ("client-id", EXACT, "app")], [PAIR], [PAIR]),
        ([("client-id", SPECIFIED, None)], [PAIR, ANY_PAIR, APP], [APP]),
        ([("client-id", DEFAULT, None), ("user", DEFAULT, None)], [ANY_PAIR], [ANY_PAIR]),
        ([("ip", SPECIFIED, None)], [HOST, ANY_HOST], [HOST, ANY_HOST]),
        ([("ip", EXACT, "10.0.0.1")], [HOST], [HOST]),
        ([("ip", DEFAULT, None)], [ANY_HOST], [ANY_HOST]),
    ],
)
def test_a_filter_finds(
    connection: RawConnection,
    components: list[tuple[str, int, str | None]],
    found: list[Names],
    strictly_found: list[Names],
    version: int,
) -> None:
    assert [names for names, _ in describe(connection, *components, version=version)] == found
    strictly = describe(connection, *components, strict=True, version=version)
    assert [names for names, _ in strictly] == strictly_found


@pytest.mark.parametrize(
    ("components", "error", "text"),
    [
        ([("", EXACT, "x")], ErrorCode.INVALID_REQUEST, "Invalid empty entity type."),
        (
            [("machine", EXACT, "x")],
            ErrorCode.UNSUPPORTED_VERSION,
            "Unsupported entity type machine",
        ),
        (
            [("user", DEFAULT, None), ("user", EXACT, "x")],
            ErrorCode.INVALID_REQUEST,
            "Entity type user cannot appear more than once in the filter.",
        ),
        (
            [("ip", DEFAULT, None), ("user", EXACT, "x")],
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component.",
        ),
        ([("user", 7, None)], ErrorCode.INVALID_REQUEST, "Unknown match type 7"),
        (
            [("user", EXACT, None)],
            ErrorCode.INVALID_REQUEST,
            "Request specified MATCH_TYPE_EXACT, but set match string to null.",
        ),
        (
            [("user", SPECIFIED, "x")],
            ErrorCode.INVALID_REQUEST,
            "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
        ),
    ],
)
def test_a_filter_without_sense_is_refused(
    connection: RawConnection,
    components: list[tuple[str, int, str | None]],
    error: ErrorCode,
    text: str,
) -> None:
    response = described(connection, *components)
    assert (response.error_code, response.error_message) == (error, text)
    assert response.entries is None
