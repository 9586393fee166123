"""ApiVersions: exactly what is served, and a way to learn it for clients of any age."""

from __future__ import annotations

import socket
import struct

import pytest
from tests.broker.requests import every_version_of

import ottla
from ottla.broker.requests.apis import SERVED
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.compile import decode_message
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

PRODUCE, FETCH, FIND_COORDINATOR, API_VERSIONS = 0, 1, 10, 18
GROUP_APIS = (8, 9, 11, 12, 13, 14, 15, 16, 42, 47)
# A broker without a metrics page asks no client for metrics.
ADVERTISED = {key for key, api in SERVED.items() if not api.needs_metrics_page}
TRANSACTION_APIS = (24, 25, 26, 28)


def ask(
    connection: RawConnection, version: int, name: str = "librdkafka", software: str = "2.6.0"
) -> ApiVersionsResponse:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=software)
    answer: ApiVersionsResponse = connection.call(request, ApiVersionsResponse, version)
    return answer


def ranges(answer: ApiVersionsResponse) -> dict[int, tuple[int, int]]:
    return {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}


@pytest.mark.parametrize("version", every_version_of(ApiVersionsRequest))
def test_every_served_api_and_no_other_is_advertised(
    connection: RawConnection, version: int
) -> None:
    answer = ask(connection, version)
    assert answer.error_code == ErrorCode.NONE
    found = ranges(answer)
    assert set(found) == ADVERTISED
    for key, (first, last) in found.items():
        assert last == SERVED[key].last_version
        assert first == (0 if key == PRODUCE else SERVED[key].first_version)
    assert answer.finalized_features_epoch == (0 if version >= 3 else -1)


def test_what_clients_need_to_see(connection: RawConnection) -> None:
    found = ranges(ask(connection, 3))
    # KAFKA-18659: librdkafka takes a broker without Produce v0 for one without Produce.
    assert found[PRODUCE][0] == 0
    # Without it librdkafka silently stops compressing with lz4.
    assert FIND_COORDINATOR in found
    assert {*GROUP_APIS, *TRANSACTION_APIS} <= set(found)


def test_every_transaction_has_an_epoch_of_its_own(connection: RawConnection) -> None:
    """Without the feature a client goes on with transaction version 1 (KIP-890)."""
    answer = ask(connection, 4)
    (supported,) = answer.supported_features
    (finalized,) = answer.finalized_features
    assert (supported.name, supported.min_version, supported.max_version) == (
        "transaction.version",
        0,
        2,
    )
    assert (finalized.name, finalized.max_version_level) == ("transaction.version", 2)
    assert answer.finalized_features_epoch >= 0


@pytest.mark.parametrize("version", [5, 6, 99, 32767, -1])
def test_a_version_from_the_future_is_answered_at_version_0(
    broker: ottla.Broker, version: int
) -> None:
    with RawConnection(broker.bootstrap_servers) as connection:
        body = struct.pack(">hhih", API_VERSIONS, version, 77, 4) + b"test" + b"\x00unreadable"
        connection.socket.sendall(struct.pack(">i", len(body)) + body)
        frame = connection.receive_frame()
        assert struct.unpack_from(">i", frame) == (77,)
        answer = decode_message(ApiVersionsResponse, 0, frame, 4)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert ranges(answer)[API_VERSIONS] == (0, 4)
        # The same connection goes on with what it has learned.
        assert ask(connection, 4).error_code == ErrorCode.NONE


@pytest.mark.parametrize(("name", "software"), [("", "1"), ("a b", "1"), ("ok", ""), ("-a", "1")])
def test_the_names_of_client_software_are_checked(
    connection: RawConnection, name: str, software: str
) -> None:
    for version in (3, 4):
        assert ask(connection, version, name, software).error_code == ErrorCode.INVALID_REQUEST
    # Older versions do not carry them.
    assert ask(connection, 2, name, software).error_code == ErrorCode.NONE


@pytest.mark.parametrize("client_id", [None, "", "a client", "ü" * 50])
def test_any_client_id_is_fine(broker: ottla.Broker, client_id: str | None) -> None:
    with RawConnection(broker.bootstrap_servers) as connection:
        request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        for version in (0, 4):
            connection.send(request, version, client_id)
            assert connection.receive(ApiVersionsResponse, version).error_code == ErrorCode.NONE


@pytest.mark.parametrize("key", sorted(SERVED))
def test_just_outside_of_the_advertised_versions_the_connection_is_closed(
    broker: ottla.Broker, key: int
) -> None:
    if key == API_VERSIONS:
        pytest.skip("answers whatever the version")
    for version in (SERVED[key].first_version - 1, SERVED[key].last_version + 1):
        with RawConnection(broker.bootstrap_servers) as connection:
            body = struct.pack(">hhih", key, version, 1, -1) + bytes(64)
            connection.socket.sendall(struct.pack(">i", len(body)) + body)
            connection.socket.shutdown(socket.SHUT_WR)
            with pytest.raises(ConnectionError):
                connection.receive_frame()
