"""Configs of groups: described, altered, durable, and refused as Kafka refuses them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.broker.conftest import Starter
from tests.broker.requests import session_with, set_options
from tests.broker.test_alter_configs import ask as replace
from tests.broker.test_alter_configs import resource as replaced
from tests.broker.test_describe_configs import DEFAULT, STATIC, options_of
from tests.broker.test_describe_configs import ask as describe
from tests.broker.test_incremental_alter_configs import APPEND, DELETE, SET, resource
from tests.broker.test_incremental_alter_configs import ask as alter

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode

GROUP = 32
OF_GROUP = 8
SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"


def value_of(connection: RawConnection, group: str, option: str) -> tuple[str | None, int]:
    found = options_of(connection, GROUP, group)[option]
    return found.value, found.config_source


def test_a_group_need_not_exist_to_have_options(connection: RawConnection, topic: str) -> None:
    group = f"{topic}-group"
    assert value_of(connection, group, SESSION) == ("45000", DEFAULT)
    assert set_options(connection, group, {SESSION: "50000"}, GROUP) == ErrorCode.NONE
    assert value_of(connection, group, SESSION) == ("50000", OF_GROUP)
    assert value_of(connection, group, HEARTBEAT) == ("500", STATIC)
    (result,) = alter(connection, resource(GROUP, group, (SESSION, DELETE, None)))
    assert result.error_code == ErrorCode.NONE
    assert value_of(connection, group, SESSION) == ("45000", DEFAULT)


def test_the_older_request_replaces_all_options(connection: RawConnection, topic: str) -> None:
    group = f"{topic}-group"
    assert set_options(connection, group, {SESSION: "50000"}, GROUP) == ErrorCode.NONE
    (result,) = replace(connection, replaced(GROUP, group, **{HEARTBEAT: "6000"}))
    assert result.error_code == ErrorCode.NONE
    assert value_of(connection, group, SESSION) == ("45000", DEFAULT)
    assert value_of(connection, group, HEARTBEAT) == ("6000", OF_GROUP)


def test_options_of_groups_survive_a_restart(start: Starter, tmp_path: Path) -> None:
    first = start(data_dir=str(tmp_path))
    with session_with(first) as connection:
        assert set_options(connection, "kept", {SESSION: "50000"}, GROUP) == ErrorCode.NONE
        assert set_options(connection, "gone", {SESSION: "50000"}, GROUP) == ErrorCode.NONE
        (result,) = alter(connection, resource(GROUP, "gone", (SESSION, DELETE, None)))
        assert result.error_code == ErrorCode.NONE
    first.stop()
    with session_with(start(data_dir=str(tmp_path))) as connection:
        assert value_of(connection, "kept", SESSION) == ("50000", OF_GROUP)
        assert value_of(connection, "gone", SESSION) == ("45000", DEFAULT)


@pytest.mark.parametrize(
    ("group", "change", "error", "message"),
    [
        ("", (SESSION, SET, "50000"), ErrorCode.INVALID_REQUEST,
         "Default group resources are not allowed."),
        ("g", (SESSION, SET, "1"), ErrorCode.INVALID_CONFIG,
         "consumer.session.timeout.ms (1) must be greater than or equal to "
         "group.consumer.min.session.timeout.ms (45000)"),
        ("g", ("no.such.option", SET, "1"), ErrorCode.INVALID_CONFIG,
         "'no.such.option' is not a group option: remove it or check its spelling"),
        ("g", (SESSION, APPEND, "1"), ErrorCode.INVALID_CONFIG,
         "consumer.session.timeout.ms is not a list: it can only be set or deleted"),
        ("g", ("share.session.timeout.ms", SET, "50000"), ErrorCode.INVALID_CONFIG,
         "share.session.timeout.ms=50000 is refused: there are no share groups"),
    ],
)  # fmt: skip
def test_what_is_refused(
    connection: RawConnection,
    group: str,
    change: tuple[str, int, str],
    error: ErrorCode,
    message: str,
) -> None:
    (result,) = alter(connection, resource(GROUP, group, change))
    assert (result.error_code, result.error_message) == (error, message)


def test_a_group_without_a_name_is_not_described(connection: RawConnection) -> None:
    result = describe(connection, GROUP, "")
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert result.error_message == "Group name must not be empty"


def test_an_error_that_quotes_the_longest_texts_can_be_read(connection: RawConnection) -> None:
    longest = "x" * 32_767
    for options in ({SESSION: longest}, {longest: "1"}):
        assert set_options(connection, "g", options, GROUP) == ErrorCode.INVALID_CONFIG
        (result,) = replace(connection, replaced(GROUP, "g", **options))
        assert result.error_code == ErrorCode.INVALID_CONFIG
