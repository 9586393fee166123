"""The audit log: what it says, and that it is never a flood."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from ottla.access import Operation, Principal, group, topic
from ottla.broker.security.audit import (
    INTERVAL_SECONDS,
    LOGGER_NAME,
    MAX_DENIALS,
    MAX_NAME_CHARS,
    AuditLog,
    shown,
)
from ottla.broker.security.caller import Caller
from ottla.model import Endpoint


@pytest.fixture
def caller() -> Caller:
    caller = Caller(
        Endpoint("10.0.0.7", 50_000), Endpoint("10.0.0.1", 9092), "CLIENTS", Principal.user("alice")
    )
    caller.api_name = "Fetch"
    return caller


@pytest.fixture(autouse=True)
def _level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER_NAME)


def is_shown(audit: AuditLog) -> bool:
    return audit.shows_allowed


def fields(record: logging.LogRecord) -> dict[str, Any]:
    assert isinstance(record.args, dict)
    return record.args


def test_a_denial_says_who_from_where_and_what(
    caller: Caller, caplog: pytest.LogCaptureFixture
) -> None:
    lines = caplog.records
    AuditLog(1, 0.0).denied(caller, Operation.READ, topic("orders"))
    (line,) = lines
    assert (line.levelname, line.event) == ("INFO", "access_denied")  # type: ignore[attr-defined]
    assert line.getMessage() == (
        "denied READ on TOPIC 'orders' for User:alice from 10.0.0.7 (listener CLIENTS), Fetch"
    )
    assert fields(line)["node"] == 1


def test_what_is_allowed_is_a_debug_line(caller: Caller, caplog: pytest.LogCaptureFixture) -> None:
    lines = caplog.records
    audit = AuditLog(1, 0.0)
    audit.allowed(caller, Operation.READ, topic("orders"))
    audit.logged_in(caller, "PLAIN")
    assert not lines
    assert not is_shown(audit)
    caplog.set_level(logging.DEBUG, LOGGER_NAME)
    audit.tick(1.0)
    assert is_shown(audit)
    audit.allowed(caller, Operation.READ, topic("orders"))
    audit.logged_in(caller, "PLAIN")
    assert [line.getMessage() for line in lines] == [
        "allowed READ on TOPIC 'orders' for User:alice from 10.0.0.7 (listener CLIENTS), Fetch",
        "User:alice logged in by PLAIN from 10.0.0.7 (listener CLIENTS)",
    ]


def test_a_client_that_retries_is_counted(caller: Caller, caplog: pytest.LogCaptureFixture) -> None:
    lines = caplog.records
    audit = AuditLog(1, 0.0)
    for _ in range(1000):
        audit.denied(caller, Operation.READ, topic("orders"))
    audit.denied(caller, Operation.WRITE, topic("orders"))
    audit.tick(INTERVAL_SECONDS - 1)
    assert len(lines) == 2
    audit.tick(INTERVAL_SECONDS)
    assert len(lines) == 3
    assert lines[2].getMessage().endswith("Fetch (999 more times in 60 s)")
    # It goes on: no new first line.
    audit.denied(caller, Operation.READ, topic("orders"))
    audit.tick(2 * INTERVAL_SECONDS)
    assert [fields(line).get("repetitions") for line in lines] == [None, None, 999, 1]
    # It had stopped: the next one is the first again.
    audit.tick(3 * INTERVAL_SECONDS)
    audit.denied(caller, Operation.READ, topic("orders"))
    assert [fields(line).get("repetitions") for line in lines[4:]] == [None]


def test_counts_are_not_lost_at_the_end(caller: Caller, caplog: pytest.LogCaptureFixture) -> None:
    lines = caplog.records
    audit = AuditLog(1, 0.0)
    for _ in range(3):
        audit.denied(caller, Operation.READ, topic("orders"))
    audit.close(5.0)
    assert lines[-1].getMessage().endswith("(2 more times in 5 s)")


def test_different_denials_are_limited(caller: Caller, caplog: pytest.LogCaptureFixture) -> None:
    lines = caplog.records
    audit = AuditLog(1, 0.0)
    for number in range(MAX_DENIALS + 7):
        audit.denied(caller, Operation.READ, group(str(number)))
    audit.tick(INTERVAL_SECONDS)
    assert len(lines) == MAX_DENIALS + 1
    assert lines[-1].getMessage().startswith("7 more denials in 60 s are not listed")


def test_failed_logins_are_logged_without_a_flood(
    caller: Caller, caplog: pytest.LogCaptureFixture
) -> None:
    lines = caplog.records
    audit = AuditLog(1, 0.0)
    for _ in range(5):
        audit.login_failed(caller, "SCRAM-SHA-256", "bob\n", "the password is wrong")
    audit.login_failed(caller, "OAUTHBEARER", None, "the token has expired")
    assert [line.getMessage() for line in lines] == [
        "login of bob\\n by SCRAM-SHA-256 failed from 10.0.0.7 (listener CLIENTS): the password is wrong",
        "login of (not given) by OAUTHBEARER failed from 10.0.0.7 (listener CLIENTS): the token has expired",
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders", "orders"),
        ("größe", "größe"),
        ("a\r\nfake line", "a\\r\\nfake line"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("abc\u202etxt", "abc\\u202etxt"),
        ("\udc80", "\\udc80"),
        ("x" * 500, "x" * MAX_NAME_CHARS + "…"),
    ],
)
def test_hostile_names_are_escaped_and_shortened(name: str, expected: str) -> None:
    assert shown(name) == expected
