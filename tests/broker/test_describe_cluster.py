"""DescribeCluster: the brokers, the controller and the cluster's id."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.conftest import Starter
from tests.broker.requests import every_version_of, running
from tests.broker.test_metadata import ask as ask_metadata

import ottla
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.model import Endpoint
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.types import OPERATIONS_OMITTED

BROKERS, CONTROLLERS = 1, 2


def ask(connection: RawConnection, version: int, **fields: Any) -> DescribeClusterResponse:
    request = DescribeClusterRequest(include_cluster_authorized_operations=False, **fields)
    answer: DescribeClusterResponse = connection.call(request, DescribeClusterResponse, version)
    return answer


@pytest.mark.parametrize("version", every_version_of(DescribeClusterRequest))
def test_it_agrees_with_metadata(
    broker: ottla.Broker, connection: RawConnection, version: int
) -> None:
    answer = ask(connection, version)
    assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, None)
    assert answer.cluster_id == ask_metadata(connection).cluster_id
    assert (answer.controller_id, answer.endpoint_type) == (1, BROKERS)
    (node,) = answer.brokers
    assert (node.broker_id, node.host, node.port) == (
        1,
        *Endpoint.parse(broker.bootstrap_servers),
    )
    assert (node.rack, node.is_fenced) == (None, False)
    assert answer.cluster_authorized_operations == OPERATIONS_OMITTED


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("endpoint_type", "error"),
    [
        (CONTROLLERS, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        (9, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_a_broker_is_no_controller(
    connection: RawConnection, version: int, endpoint_type: int, error: ErrorCode
) -> None:
    answer = ask(connection, version, endpoint_type=endpoint_type)
    assert (answer.error_code, answer.brokers) == (error, [])
    assert answer.error_message


def test_the_advertised_address_is_told(start: Starter) -> None:
    broker = start(advertise="[2001:db8::1]:1234")
    with RawConnection(str(running(broker).endpoint)) as connection:
        (node,) = ask(connection, 2).brokers
        assert (node.host, node.port) == ("2001:db8::1", 1234)
