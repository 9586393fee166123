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
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse

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
    levels = {one.name: one.max_version_level for one in answer.finalized_features}
    assert levels["transaction.version"] == 2
    assert answer.finalized_features_epoch >= 0


def test_the_features_are_those_of_kafka(connection: RawConnection) -> None:
    answer = ask(connection, 5)
    assert {one.name: (one.min_version, one.max_version) for one in answer.supported_features} == {
        "group.version": (0, 1),
        "kraft.version": (0, 1),
        "metadata.version": (7, 30),
        "transaction.version": (0, 2),
    }
    # One at level 0 is left out.
    assert {
        one.name: (one.min_version_level, one.max_version_level)
        for one in answer.finalized_features
    } == {"group.version": (1, 1), "metadata.version": (30, 30), "transaction.version": (2, 2)}


def test_clients_that_fail_for_a_range_from_0_see_none(connection: RawConnection) -> None:
    """KAFKA-17011: before version 4 such features are left out, but not their levels."""
    answer = ask(connection, 3)
    assert [one.name for one in answer.supported_features] == ["metadata.version"]
    assert "transaction.version" in {one.name for one in answer.finalized_features}


class TestMisroutedConnections:
    """A client may say which broker of which cluster it means (KIP-1242)."""

    def ask(self, connection: RawConnection, cluster_id: str | None, node_id: int) -> ErrorCode:
        request = ApiVersionsRequest(
            client_software_name="a",
            client_software_version="1",
            cluster_id=cluster_id,
            node_id=node_id,
        )
        answer = connection.call(request, ApiVersionsResponse, 5)
        return ErrorCode(answer.error_code)

    def here(self, connection: RawConnection) -> str:
        answer = connection.call(
            DescribeClusterRequest(include_cluster_authorized_operations=False),
            DescribeClusterResponse,
            0,
        )
        return str(answer.cluster_id)

    def test_the_right_broker_answers(self, connection: RawConnection) -> None:
        assert self.ask(connection, self.here(connection), 1) is ErrorCode.NONE
        assert self.ask(connection, None, -1) is ErrorCode.NONE

    def test_another_one_sends_the_client_back_to_its_bootstrap_servers(
        self, connection: RawConnection
    ) -> None:
        assert self.ask(connection, self.here(connection), 2) is ErrorCode.REBOOTSTRAP_REQUIRED
        assert self.ask(connection, "another", 1) is ErrorCode.REBOOTSTRAP_REQUIRED

    def test_one_without_the_other_is_an_invalid_request(self, connection: RawConnection) -> None:
        assert self.ask(connection, self.here(connection), -1) is ErrorCode.INVALID_REQUEST
        assert self.ask(connection, None, 1) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [6, 7, 99, 32767, -1])
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
        assert ranges(answer)[API_VERSIONS] == (0, 5)
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
