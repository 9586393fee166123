"""Subscriptions to metrics of clients as config resources: described, altered, removed, and there after a restart."""

from __future__ import annotations

import pytest
from tests.broker.conftest import Starter
from tests.broker.requests import session_with
from tests.broker.telemetry.clients import CLIENT_METRICS, PushingClient, alter, subscribe
from tests.broker.test_describe_configs import ask, options_of

import ottla
from ottla.broker.config_resources import client_metrics_resources
from ottla.broker.telemetry import subscription
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)

OF_CLIENT_METRICS, DEFAULT = 7, 5
INT, LIST = 3, 7


def test_a_subscription_is_described_with_the_sources_of_its_values(
    broker: ottla.Broker, connection: RawConnection
) -> None:
    subscribe(broker.bootstrap_servers, "described", metrics="a., b.", match="client_id=x")
    found = options_of(connection, CLIENT_METRICS, "described", include_synonyms=True)
    assert {name: (option.value, option.config_source) for name, option in found.items()} == {
        "interval.ms": ("300000", DEFAULT),
        "match": ("client_id=x", OF_CLIENT_METRICS),
        "metrics": ("a.,b.", OF_CLIENT_METRICS),
    }
    assert [each.config_type for each in found.values()] == [INT, LIST, LIST]
    assert not any(option.read_only or option.is_sensitive for option in found.values())
    (synonym,) = found["match"].synonyms
    assert (synonym.name, synonym.source) == ("match", OF_CLIENT_METRICS)
    assert found["interval.ms"].synonyms == []


def test_what_does_not_exist_has_defaults(connection: RawConnection) -> None:
    found = options_of(connection, CLIENT_METRICS, "nowhere")
    assert {option.config_source for option in found.values()} == {DEFAULT}


def test_a_name_is_needed(connection: RawConnection) -> None:
    assert ask(connection, CLIENT_METRICS, "").error_code == ErrorCode.INVALID_REQUEST
    error, message = alter(connection, "", {"metrics": "*"})
    assert (error, message) == (ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    assert alter(connection, "n" * 250, {"metrics": "*"})[0] is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("option", "value", "error", "reason"),
    [
        ("interval.ms", "99", ErrorCode.INVALID_REQUEST, "between 100 and 3600000"),
        ("interval.ms", "3600001", ErrorCode.INVALID_REQUEST, "between 100 and 3600000"),
        ("interval.ms", "soon", ErrorCode.INVALID_CONFIG, "a whole number"),
        ("metrics", "a,a", ErrorCode.INVALID_CONFIG, "without repetitions"),
        ("metrics", "m" * 8193, ErrorCode.INVALID_REQUEST, "more than 8192 characters"),
        ("match", "client_id", ErrorCode.INVALID_CONFIG, "write attribute=pattern"),
        ("match", "client_id=a=b", ErrorCode.INVALID_CONFIG, "write attribute=pattern"),
        ("match", "client_id=", ErrorCode.INVALID_CONFIG, "write attribute=pattern"),
        ("match", "colour=red", ErrorCode.INVALID_CONFIG, "the attributes of a client are"),
        ("match", "client_id=(", ErrorCode.INVALID_CONFIG, "missing )"),
        ("match", "client_id=" + "a" * 257, ErrorCode.INVALID_CONFIG, "at most 256 characters"),
        ("match", "client_id=(a{99}){99}", ErrorCode.INVALID_CONFIG, "not a pattern of RE2"),
        (
            "colour",
            "red",
            ErrorCode.INVALID_REQUEST,
            "Unknown client metrics configuration: colour",
        ),
    ],
)
def test_bad_options_are_refused(
    connection: RawConnection, option: str, value: str, error: ErrorCode, reason: str
) -> None:
    refused, message = alter(connection, "refused", {option: value})
    assert refused is error
    assert message is not None
    assert reason in message
    found = options_of(connection, CLIENT_METRICS, "refused")
    assert {each.config_source for each in found.values()} == {DEFAULT}


def test_a_dry_run_changes_nothing(connection: RawConnection) -> None:
    assert alter(connection, "dry", {"metrics": "*"}, validate_only=True)[0] is ErrorCode.NONE
    assert options_of(connection, CLIENT_METRICS, "dry")["metrics"].value == ""


def test_alter_configs_replaces_all_options(connection: RawConnection) -> None:
    alter(connection, "replaced", {"metrics": "*", "interval.ms": "1000"})
    request = AlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=CLIENT_METRICS,
                resource_name="replaced",
                configs=[AlterableConfig(name="metrics", value="a.")],
            )
        ],
        validate_only=False,
    )
    (answer,) = connection.call(request, AlterConfigsResponse, 2).responses
    assert answer.error_code == ErrorCode.NONE
    found = options_of(connection, CLIENT_METRICS, "replaced")
    assert (found["metrics"].value, found["interval.ms"].value) == ("a.", "300000")


def test_there_is_a_limit_on_subscriptions(start: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    assert subscription.MAX_SUBSCRIPTIONS == 1000
    monkeypatch.setattr(client_metrics_resources, "MAX_SUBSCRIPTIONS", 1)
    with session_with(start()) as connection:
        assert alter(connection, "one", {"metrics": "*"})[0] is ErrorCode.NONE
        assert alter(connection, "two", {"metrics": "*"})[0] is ErrorCode.INVALID_REQUEST
        assert alter(connection, "one", {"metrics": "a."})[0] is ErrorCode.NONE
        assert alter(connection, "one", {"metrics": None})[0] is ErrorCode.NONE
        assert alter(connection, "two", {"metrics": "*"})[0] is ErrorCode.NONE


def test_subscriptions_survive_a_restart_and_removed_ones_do_not_come_back(start: Starter) -> None:
    broker = start()
    subscribe(broker.bootstrap_servers, "kept", metrics="a.")
    subscribe(broker.bootstrap_servers, "removed", metrics="b.")
    with session_with(broker) as connection:
        assert alter(connection, "removed", {"metrics": None})[0] is ErrorCode.NONE
    broker.stop()
    with PushingClient(start().bootstrap_servers) as client:
        assert client.get().requested_metrics == ["a."]
