"""GetTelemetrySubscriptions: each client learns what to push, by the subscriptions that match it."""

from __future__ import annotations

import uuid

import pytest
from tests.broker.telemetry.clients import PushingClient, alter, subscribe

import ottla
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.model import topic_id_text
from ottla.testing import Broker
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.types import ZERO_UUID

GET, PUSH = 71, 72


def advertised(address: str) -> set[int]:
    with RawConnection(address) as connection:
        request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        answer = connection.call(request, ApiVersionsResponse, 4)
        return {key.api_key for key in answer.api_keys}


def test_only_a_broker_with_a_metrics_page_asks_clients_for_metrics(
    measured: Broker, broker: ottla.Broker
) -> None:
    assert {GET, PUSH} <= advertised(measured.bootstrap_servers)
    assert not {GET, PUSH} & advertised(broker.bootstrap_servers)
    # The APIs are served nevertheless, as in Kafka.
    with PushingClient(broker.bootstrap_servers) as client:
        assert client.get().error_code == ErrorCode.NONE


def test_without_subscriptions_a_client_pushes_nothing(measured: Broker) -> None:
    with PushingClient(measured.bootstrap_servers) as client:
        answer = client.get()
    assert answer.requested_metrics == []
    assert answer.push_interval_ms == 300_000
    assert answer.telemetry_max_bytes == 1 << 20
    assert answer.accepted_compression_types == [4, 3, 1, 2]
    assert answer.delta_temporality is True


def test_a_client_gets_an_id_and_keeps_its_own(measured: Broker) -> None:
    with (
        PushingClient(measured.bootstrap_servers) as first,
        PushingClient(measured.bootstrap_servers) as second,
    ):
        assert first.get().client_instance_id not in (ZERO_UUID, second.get().client_instance_id)
        measured.clock.advance("300s")
        before = first.instance_id
        assert first.get().client_instance_id == before
        second.instance_id = uuid.UUID(int=77)
        assert second.get().client_instance_id == uuid.UUID(int=77)


def test_subscriptions_add_up(measured: Broker) -> None:
    subscribe(measured.bootstrap_servers, "one", metrics="a.,b.", interval_ms="5000")
    subscribe(measured.bootstrap_servers, "two", metrics="b.,c.", interval_ms="2000")
    subscribe(measured.bootstrap_servers, "slow", metrics="d.", interval_ms="3600000")
    with PushingClient(measured.bootstrap_servers) as client:
        answer = client.get()
    assert answer.requested_metrics == ["a.", "b.", "c.", "d."]
    assert answer.push_interval_ms == 2000


def test_a_star_stands_for_all(measured: Broker) -> None:
    subscribe(measured.bootstrap_servers, "one", metrics="a.")
    subscribe(measured.bootstrap_servers, "all", metrics="*,b.")
    with PushingClient(measured.bootstrap_servers) as client:
        assert client.get().requested_metrics == ["*"]


def test_an_interval_is_never_longer_than_the_default(measured: Broker) -> None:
    subscribe(measured.bootstrap_servers, interval_ms="3600000")
    with PushingClient(measured.bootstrap_servers) as client:
        assert client.get().push_interval_ms == 300_000


@pytest.mark.parametrize(
    ("match", "is_wanted"),
    [
        ("client_id=till", True),
        ("client_id=ti.*", True),
        ("client_id=ti", False),
        ("client_software_name=some-client", True),
        ("client_software_version = 1\\.2\\..*", True),
        ("client_software_version=1\\.3.*", False),
        ("client_source_address=127\\.0\\.0\\.1", True),
        ("client_source_port=[0-9]+", True),
        ("client_id=till,client_software_name=other", False),
        ("client_id=till,client_software_name=some-.*", True),
        (f"client_instance_id={topic_id_text(uuid.UUID(int=5))}", True),
        ("client_instance_id=another", False),
    ],
)
def test_a_subscription_matches_what_a_client_says_of_itself(
    measured: Broker, match: str, is_wanted: bool
) -> None:
    subscribe(measured.bootstrap_servers, match=match)
    with PushingClient(measured.bootstrap_servers) as client:
        client.introduce("some-client", "1.2.3")
        client.instance_id = uuid.UUID(int=5)
        assert client.get().requested_metrics == (["*"] if is_wanted else [])


def test_a_client_without_an_id_matches_no_pattern_of_ids(measured: Broker) -> None:
    subscribe(measured.bootstrap_servers, match="client_id=.*")
    with PushingClient(measured.bootstrap_servers, None) as client:
        assert client.get().requested_metrics == []
    with PushingClient(measured.bootstrap_servers, "") as client:
        assert client.get().requested_metrics == ["*"]


def test_a_client_that_does_not_introduce_itself_is_unknown(measured: Broker) -> None:
    subscribe(measured.bootstrap_servers, match="client_software_name=unknown")
    with PushingClient(measured.bootstrap_servers) as client:
        assert client.get().requested_metrics == ["*"]


def test_a_client_that_asks_too_often_is_put_off(measured: Broker) -> None:
    subscribe(measured.bootstrap_servers, interval_ms="1000")
    with PushingClient(measured.bootstrap_servers) as client:
        assert client.get().error_code == ErrorCode.NONE
        refused = client.get()
        assert refused.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert refused.client_instance_id == ZERO_UUID
        measured.clock.advance("999ms")
        assert client.get().error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        measured.clock.advance("1ms")
        assert client.get().error_code == ErrorCode.NONE


def test_a_changed_subscription_may_be_asked_for_at_once(measured: Broker) -> None:
    subscribe(measured.bootstrap_servers, metrics="a.")
    with PushingClient(measured.bootstrap_servers) as client:
        before = client.get().subscription_id
        subscribe(measured.bootstrap_servers, metrics="b.")
        answer = client.get()
    assert answer.requested_metrics == ["b."]
    assert answer.subscription_id != before


def test_a_removed_subscription_ends(measured: Broker) -> None:
    subscribe(measured.bootstrap_servers)
    with PushingClient(measured.bootstrap_servers) as client:
        assert client.get().requested_metrics == ["*"]
        removed: dict[str, str | None] = {"metrics": None}
        assert alter(client.connection, "all", removed)[0] is ErrorCode.NONE
        assert client.get().requested_metrics == []


def test_subscription_ids_are_the_same_on_every_node() -> None:
    with Broker(nodes=2, metrics="127.0.0.1:0") as broker:
        subscribe(broker.address_of(1), metrics="a.,b.")
        found = []
        for node_id in (1, 2):
            with PushingClient(broker.address_of(node_id)) as client:
                client.instance_id = uuid.UUID(int=9)
                found.append(client.get().subscription_id)
    assert len(set(found)) == 1


def test_a_reconnected_client_need_not_wait(measured: Broker) -> None:
    subscribe(measured.bootstrap_servers)
    with PushingClient(measured.bootstrap_servers) as client:
        client.get()
        known = client.instance_id
    with PushingClient(measured.bootstrap_servers) as client:
        client.instance_id = known
        # The broker has to have seen that the first connection is closed.
        measured.clock.advance("1s")
        while client.get().error_code != ErrorCode.NONE:
            pass
