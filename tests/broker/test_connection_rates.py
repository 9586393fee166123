"""Addresses over their quota of connections are turned away slowly; others wait until the broker accepts them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.broker.quota_requests import set_quotas
from tests.broker.requests import BROKER, eventually, on_loop, session_with, set_options
from tests.lasting import LASTING

from ottla.broker.network import server
from ottla.broker.security import connection_rates
from ottla.client.raw import RawConnection
from ottla.core.security.quotas.entities import QuotaKind
from ottla.errors import ErrorCode
from ottla.testing import Broker
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

HERE = {"ip": "127.0.0.1"}
API_VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(LASTING) as running:
        running.clock.freeze()
        yield running


def is_served(connection: RawConnection) -> bool:
    """Whether the broker answers; a connection that it has closed raises."""
    connection.send(API_VERSIONS, 3)
    return bool(connection.receive(ApiVersionsResponse, 3).error_code == ErrorCode.NONE)


def refused(broker: Broker) -> int:
    return on_loop(broker, lambda found: found.server.traffic.refused)


def held(broker: Broker) -> int:
    return on_loop(broker, lambda found: len(found.server._held))


@pytest.mark.parametrize("names", [HERE, {"ip": None}, {"ip": "localhost"}])
def test_an_address_over_its_quota_is_held_and_then_closed(
    broker: Broker, names: dict[str, str | None]
) -> None:
    with session_with(broker) as admin, ExitStack() as opened:
        set_quotas(admin, names, connection_creation_rate=1)
        # Ten whole seconds count for the first burst.
        for _ in range(10):
            assert is_served(opened.enter_context(session_with(broker)))
        over = opened.enter_context(session_with(broker))
        over.send(API_VERSIONS, 3)
        assert eventually(lambda: held(broker) == 1)
        assert is_served(admin)
        broker.clock.advance("1s")
        with pytest.raises(ConnectionError):
            over.receive(ApiVersionsResponse, 3)
        assert refused(broker) == 1
        assert eventually(lambda: held(broker) == 0)
        # What was refused did not count.
        broker.clock.advance("10s")
        assert is_served(opened.enter_context(session_with(broker)))


def test_another_address_is_not_held_up(broker: Broker) -> None:
    with session_with(broker) as admin, ExitStack() as opened:
        set_quotas(admin, {"ip": "127.0.0.2"}, connection_creation_rate=1)
        for _ in range(20):
            assert is_served(opened.enter_context(session_with(broker)))


def test_a_flood_is_not_held(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_HELD", 3)
    with session_with(broker) as admin, ExitStack() as opened:
        set_quotas(admin, HERE, connection_creation_rate=1)
        for _ in range(30):
            opened.enter_context(session_with(broker))
        assert eventually(lambda: refused(broker) == 20)
        assert held(broker) == 3
        assert is_served(admin)


def test_connections_beyond_the_rate_of_the_broker_wait_in_their_order(broker: Broker) -> None:
    with session_with(broker) as admin, ExitStack() as opened:
        assert set_options(admin, "", {"max.connection.creation.rate": "1"}, BROKER) == 0
        for _ in range(10):
            assert is_served(opened.enter_context(session_with(broker)))
        first, second = (opened.enter_context(session_with(broker)) for _ in range(2))
        waiting = QuotaKind.CONNECTION_CREATION_RATE
        assert eventually(
            lambda: (
                on_loop(broker, lambda found: found.node.quotas.throttles.requests[waiting]) == 2
            )
        )
        first.send(API_VERSIONS, 3)
        second.send(API_VERSIONS, 3)
        assert is_served(admin)
        broker.clock.advance("1s")
        assert first.receive(ApiVersionsResponse, 3)
        broker.clock.advance("1s")
        assert second.receive(ApiVersionsResponse, 3)


def test_not_too_many_connections_wait(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_rates, "MAX_WAITING", 2)
    with session_with(broker) as admin, ExitStack() as opened:
        assert set_options(admin, "", {"max.connection.creation.rate": "1"}, BROKER) == 0
        for _ in range(12):
            opened.enter_context(session_with(broker))
        thirteenth = opened.enter_context(session_with(broker))
        with pytest.raises(ConnectionError):
            is_served(thirteenth)
        assert is_served(admin)


def test_a_listener_has_a_rate_of_its_own() -> None:
    options = {
        **LASTING,
        "listeners": "CLIENTS://127.0.0.1:0,OTHERS://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENTS:PLAINTEXT,OTHERS:PLAINTEXT",
        "listener.name.clients.max.connection.creation.rate": "1",
    }
    with Broker(options) as running:
        running.clock.freeze()
        clients, others = on_loop(
            running, lambda found: [str(one) for one in found.node.endpoints.values()]
        )
        with ExitStack() as opened:
            for address in [clients] * 10 + [others] * 20:
                assert is_served(opened.enter_context(RawConnection(address)))
            late = opened.enter_context(RawConnection(clients))
            late.send(API_VERSIONS, 3)
            assert is_served(opened.enter_context(RawConnection(others)))
            running.clock.advance("1s")
            assert late.receive(ApiVersionsResponse, 3)


def test_a_broker_that_holds_connections_stops_at_once(broker: Broker) -> None:
    with session_with(broker) as admin, ExitStack() as opened:
        set_quotas(admin, HERE, connection_creation_rate=1)
        for _ in range(12):
            opened.enter_context(session_with(broker))
        assert eventually(lambda: held(broker) == 2)
        broker.stop()
