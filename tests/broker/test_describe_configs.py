"""DescribeConfigs: values, where they come from, and what else could have given them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.conftest import Starter
from tests.broker.requests import (
    BROKER,
    TOPIC,
    create,
    every_version_of,
    session_with,
    set_options,
)

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)

OF_TOPIC, OF_BROKER, OF_ALL_BROKERS, STATIC, DEFAULT = 1, 2, 3, 4, 5
NODE = "1"
LONG, LIST = 5, 7


def ask(
    connection: RawConnection,
    resource_type: int,
    name: str,
    keys: list[str] | None = None,
    version: int = 4,
    **fields: Any,
) -> DescribeConfigsResult:
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=resource_type, resource_name=name, configuration_keys=keys
            )
        ],
        **fields,
    )
    result: DescribeConfigsResult = connection.call(
        request, DescribeConfigsResponse, version
    ).results[0]
    return result


def options_of(
    connection: RawConnection, resource_type: int, name: str, **fields: Any
) -> dict[str, DescribeConfigsResourceResult]:
    result = ask(connection, resource_type, name, **fields)
    assert result.error_code == ErrorCode.NONE, result.error_message
    return {option.name: option for option in result.configs}


@pytest.mark.parametrize("version", every_version_of(DescribeConfigsRequest))
def test_a_topics_options_with_their_sources(
    connection: RawConnection, topic: str, version: int
) -> None:
    create(connection, topic, config={"retention.ms": "1000"})
    options = options_of(connection, TOPIC, topic, version=version)
    assert (options["retention.ms"].value, options["retention.ms"].config_source) == (
        "1000",
        OF_TOPIC,
    )
    assert (options["cleanup.policy"].value, options["cleanup.policy"].config_source) == (
        "delete",
        DEFAULT,
    )
    assert not options["retention.ms"].read_only
    assert not options["retention.ms"].is_sensitive
    assert options["retention.ms"].synonyms == []
    assert options["retention.ms"].documentation is None
    assert options["retention.ms"].config_type == (LONG if version >= 3 else 0)
    assert options["cleanup.policy"].config_type == (LIST if version >= 3 else 0)


def test_only_the_options_that_were_asked_for(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    keys = ["segment.bytes", "retention.ms", "no.such.option"]
    assert set(options_of(connection, TOPIC, topic, keys=keys)) == set(keys[:2])
    assert options_of(connection, TOPIC, topic, keys=[]) == {}
    assert len(options_of(connection, TOPIC, topic, keys=None)) > 20


def test_synonyms_are_listed_from_the_strongest_on(start: Starter, topic: str) -> None:
    with session_with(start(log_retention_ms=5000)) as connection:
        create(connection, topic, config={"retention.ms": "1000"})
        assert set_options(connection, "", {"log.retention.ms": "4000"}, BROKER) == 0
        assert set_options(connection, NODE, {"log.retention.ms": "3000"}, BROKER) == 0
        options = options_of(connection, TOPIC, topic, include_synonyms=True)
        found = [
            (synonym.name, synonym.value, synonym.source)
            for synonym in options["retention.ms"].synonyms
        ]
        assert found == [
            ("retention.ms", "1000", OF_TOPIC),
            ("log.retention.ms", "3000", OF_BROKER),
            ("log.retention.ms", "4000", OF_ALL_BROKERS),
            ("log.retention.ms", "5000", STATIC),
            ("log.retention.hours", "168", DEFAULT),
        ]


def test_documentation_comes_on_request(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    for resource_type, name in ((TOPIC, topic), (BROKER, NODE)):
        options = options_of(connection, resource_type, name, include_documentation=True)
        assert all(option.documentation for option in options.values())


def test_a_brokers_options(start: Starter) -> None:
    with session_with(start(num_partitions=7)) as connection:
        options = options_of(connection, BROKER, NODE, include_synonyms=True)
        partitions = options["num.partitions"]
        assert (partitions.value, partitions.config_source) == ("7", STATIC)
        assert partitions.read_only
        assert [(each.value, each.source) for each in partitions.synonyms] == [
            ("7", STATIC),
            ("1", DEFAULT),
        ]
        assert options["message.max.bytes"].value == "1048588"
        assert not options["message.max.bytes"].read_only


def test_the_options_of_all_brokers_are_those_that_were_altered(start: Starter) -> None:
    with session_with(start()) as connection:
        assert options_of(connection, BROKER, "") == {}
        assert set_options(connection, "", {"message.max.bytes": "2000000"}, BROKER) == 0
        options = options_of(connection, BROKER, "")
        assert list(options) == ["message.max.bytes"]
        assert options["message.max.bytes"].config_source == OF_ALL_BROKERS
        of_node = options_of(connection, BROKER, NODE)["message.max.bytes"]
        assert (of_node.value, of_node.config_source) == ("2000000", OF_ALL_BROKERS)


@pytest.mark.parametrize(
    ("resource_type", "name", "error"),
    [
        (TOPIC, "no-such-topic", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "not a name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "99", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (3, "x", ErrorCode.INVALID_REQUEST),
        (0, "", ErrorCode.INVALID_REQUEST),
    ],
)
def test_resources_that_do_not_exist(
    connection: RawConnection, resource_type: int, name: str, error: ErrorCode
) -> None:
    result = ask(connection, resource_type, name)
    assert (result.error_code, result.resource_type, result.resource_name) == (
        error,
        resource_type,
        name,
    )
    assert result.error_message
    assert result.configs == []


def test_a_topic_is_not_created_by_being_described(connection: RawConnection, topic: str) -> None:
    for _ in range(2):
        result = ask(connection, TOPIC, topic)
        assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
