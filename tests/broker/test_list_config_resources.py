"""ListConfigResources: resources of every type (KIP-1142)."""

from __future__ import annotations

import pytest
from tests.broker.requests import create

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


def ask(connection: RawConnection, *types: int, version: int = 1) -> set[tuple[int, str]]:
    request = ListConfigResourcesRequest(resource_types=list(types))
    answer = connection.call(request, ListConfigResourcesResponse, version)
    assert answer.error_code == ErrorCode.NONE
    return {(one.resource_type, one.resource_name) for one in answer.config_resources}


@pytest.fixture
def named(connection: RawConnection, topic: str) -> str:
    """The name of a topic, a subscription and a group with configs."""
    create(connection, topic)
    for resource_type, option, value in (
        (CLIENT_METRICS, "interval.ms", "10000"),
        (GROUP, "consumer.session.timeout.ms", "50000"),
    ):
        altered = AlterConfigsResource(
            resource_type=resource_type,
            resource_name=topic,
            configs=[AlterableConfig(name=option, config_operation=0, value=value)],
        )
        request = IncrementalAlterConfigsRequest(resources=[altered], validate_only=False)
        answer = connection.call(request, IncrementalAlterConfigsResponse, 1)
        assert [one.error_code for one in answer.responses] == [ErrorCode.NONE]
    return topic


def test_resources_of_every_type_are_listed(connection: RawConnection, named: str) -> None:
    expected = {
        (TOPIC, named),
        (BROKER, "1"),
        (LOGGER, "1"),
        (CLIENT_METRICS, named),
        (GROUP, named),
    }
    assert expected <= ask(connection)
    for resource_type, name in expected:
        found = ask(connection, resource_type)
        assert (resource_type, name) in found
        assert {one for one, _ in found} == {resource_type}


def test_the_first_version_lists_client_metrics_only(connection: RawConnection, named: str) -> None:
    found = ask(connection, version=0)
    assert (CLIENT_METRICS, named) in found
    assert {one for one, _ in found} == {CLIENT_METRICS}
