"""AlterConfigs: all that was set for a resource is replaced."""

from __future__ import annotations

import pytest
from tests.broker.conftest import Starter
from tests.broker.requests import (
    BROKER,
    TOPIC,
    batch_of,
    create,
    every_version_of,
    fill,
    produce,
    session_with,
)
from tests.broker.test_describe_configs import DEFAULT, NODE, OF_BROKER, OF_TOPIC, options_of

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def resource(resource_type: int, name: str, **options: str | None) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=resource_type,
        resource_name=name,
        configs=[
            AlterableConfig(name=option.replace("_", "."), value=value)
            for option, value in options.items()
        ],
    )


def ask(
    connection: RawConnection,
    *resources: AlterConfigsResource,
    validate_only: bool = False,
    version: int = 2,
) -> list[AlterConfigsResourceResponse]:
    request = AlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    results: list[AlterConfigsResourceResponse] = connection.call(
        request, AlterConfigsResponse, version
    ).responses
    return results


@pytest.mark.parametrize("version", every_version_of(AlterConfigsRequest))
def test_what_is_not_named_goes_back_to_its_default(
    connection: RawConnection, topic: str, version: int
) -> None:
    create(connection, topic, config={"segment.bytes": "5000", "retention.ms": "9"})
    (result,) = ask(connection, resource(TOPIC, topic, retention_ms="1234"), version=version)
    assert (result.error_code, result.error_message) == (ErrorCode.NONE, None)
    assert (result.resource_type, result.resource_name) == (TOPIC, topic)
    options = options_of(connection, TOPIC, topic)
    assert (options["retention.ms"].value, options["retention.ms"].config_source) == (
        "1234",
        OF_TOPIC,
    )
    assert options["segment.bytes"].config_source == DEFAULT


def test_nothing_named_resets_everything(connection: RawConnection, topic: str) -> None:
    create(connection, topic, config={"max.message.bytes": "500"})
    large = batch_of(b"x" * 1000)
    assert produce(connection, topic, large).error_code == ErrorCode.MESSAGE_TOO_LARGE
    (result,) = ask(connection, resource(TOPIC, topic))
    assert result.error_code == ErrorCode.NONE
    assert produce(connection, topic, large).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"retention_ms": "soon"}, ErrorCode.INVALID_CONFIG),
        ({"no_such_option": "1"}, ErrorCode.INVALID_CONFIG),
        ({"retention_ms": None}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_changes(
    connection: RawConnection, topic: str, options: dict[str, str | None], error: ErrorCode
) -> None:
    create(connection, topic, config={"segment.bytes": "5000"})
    (result,) = ask(connection, resource(TOPIC, topic, **options))
    assert result.error_code == error
    assert result.error_message
    assert options_of(connection, TOPIC, topic)["segment.bytes"].value == "5000"


def test_validate_only_changes_nothing(connection: RawConnection, topic: str) -> None:
    create(connection, topic, config={"segment.bytes": "5000"})
    for value, error in (("1", ErrorCode.NONE), ("soon", ErrorCode.INVALID_CONFIG)):
        (result,) = ask(connection, resource(TOPIC, topic, retention_ms=value), validate_only=True)
        assert result.error_code == error
    assert options_of(connection, TOPIC, topic)["segment.bytes"].value == "5000"


@pytest.mark.parametrize(
    ("resource_type", "name", "error"),
    [
        (TOPIC, "no-such-topic", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER, "99", ErrorCode.INVALID_REQUEST),
        (7, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_resources_that_do_not_exist(
    connection: RawConnection, resource_type: int, name: str, error: ErrorCode
) -> None:
    (result,) = ask(connection, resource(resource_type, name))
    assert result.error_code == error
    assert result.error_message


def test_a_resource_named_twice_is_invalid(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    results = ask(
        connection,
        resource(TOPIC, topic, retention_ms="1"),
        resource(TOPIC, topic, retention_ms="2"),
    )
    assert [result.error_code for result in results] == [ErrorCode.INVALID_REQUEST] * 2
    assert options_of(connection, TOPIC, topic)["retention.ms"].config_source == DEFAULT


def test_a_broker_is_altered_and_reset(start: Starter, topic: str) -> None:
    with session_with(start()) as connection:
        create(connection, topic)
        fill(connection, topic, b"v")
        (result,) = ask(connection, resource(BROKER, NODE, message_max_bytes="500"))
        assert result.error_code == ErrorCode.NONE
        found = options_of(connection, BROKER, NODE)["message.max.bytes"]
        assert (found.value, found.config_source) == ("500", OF_BROKER)
        large = batch_of(b"x" * 1000)
        assert produce(connection, topic, large).error_code == ErrorCode.MESSAGE_TOO_LARGE
        (result,) = ask(connection, resource(BROKER, NODE, num_partitions="4"))
        assert result.error_code == ErrorCode.INVALID_CONFIG
        ask(connection, resource(BROKER, NODE))
        assert produce(connection, topic, large).error_code == ErrorCode.NONE
