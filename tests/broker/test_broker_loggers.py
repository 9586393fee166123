"""The loggers of a broker as config resources (KIP-412)."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

LOGGER, NODE = 8, "1"
SET, DELETE = 0, 1
NAME = "ottla.broker.cluster"


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    """The levels belong to the process."""
    loggers = [logging.getLogger(NAME), logging.getLogger("ottla.broker")]
    before = [one.level for one in loggers]
    yield
    for one, level in zip(loggers, before, strict=True):
        one.setLevel(level)


def described(connection: RawConnection) -> dict[str, str | None]:
    wanted = DescribeConfigsResource(
        resource_type=LOGGER, resource_name=NODE, configuration_keys=None
    )
    request = DescribeConfigsRequest(resources=[wanted])
    (result,) = connection.call(request, DescribeConfigsResponse, 4).results
    assert result.error_code == ErrorCode.NONE
    return {one.name: one.value for one in result.configs}


def alter(
    connection: RawConnection,
    *changes: tuple[str, int, str | None],
    validate_only: bool = False,
) -> ErrorCode:
    altered = AlterConfigsResource(
        resource_type=LOGGER,
        resource_name=NODE,
        configs=[
            AlterableConfig(name=name, config_operation=operation, value=value)
            for name, operation, value in changes
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[altered], validate_only=validate_only)
    (result,) = connection.call(request, IncrementalAlterConfigsResponse, 1).responses
    return ErrorCode(result.error_code)


def test_a_level_that_is_set_holds_for_the_logger_and_its_children(
    connection: RawConnection,
) -> None:
    assert alter(connection, ("ottla.broker", SET, "DEBUG")) is ErrorCode.NONE
    assert logging.getLogger(NAME).getEffectiveLevel() == logging.DEBUG
    assert described(connection)[NAME] == "DEBUG"
    assert alter(connection, (NAME, SET, "FATAL")) is ErrorCode.NONE
    assert logging.getLogger(NAME).level == logging.CRITICAL
    found = described(connection)
    assert (found["ottla.broker"], found[NAME]) == ("DEBUG", "FATAL")


def test_a_logger_whose_level_is_removed_has_that_of_its_parent(connection: RawConnection) -> None:
    assert alter(connection, ("ottla.broker", SET, "ERROR"), (NAME, SET, "TRACE")) is ErrorCode.NONE
    assert described(connection)[NAME] == "TRACE"
    assert alter(connection, (NAME, DELETE, None)) is ErrorCode.NONE
    assert described(connection)[NAME] == "ERROR"
    assert logging.getLogger(NAME).level == logging.NOTSET


def test_one_that_is_refused_changes_nothing(connection: RawConnection) -> None:
    before = described(connection)
    refused = alter(connection, (NAME, SET, "FATAL"), ("ottla.broker", SET, "LOUD"))
    assert refused is ErrorCode.INVALID_CONFIG
    assert alter(connection, (NAME, SET, "INFO"), (NAME, SET, "WARN")) is ErrorCode.INVALID_REQUEST
    assert alter(connection, (NAME, SET, "FATAL"), validate_only=True) is ErrorCode.NONE
    assert described(connection) == before


def test_only_loggers_of_the_broker_and_the_root_are_shown(connection: RawConnection) -> None:
    logging.getLogger("somebody.elses")
    found = described(connection)
    assert "root" in found
    assert all(name == "root" or name.split(".")[0] == "ottla" for name in found)
    assert alter(connection, ("somebody.elses", SET, "INFO")) is ErrorCode.INVALID_CONFIG
