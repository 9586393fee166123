"""An admin client of the session's broker, and a cluster of three."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.client.admin.stage import Stage

import ottla
from ottla.client.blocking.admin import Admin
from ottla.client.raw import RawConnection


@pytest.fixture(scope="module")
def admin(ottla_broker: ottla.Broker) -> Iterator[Admin]:
    with Admin(bootstrap_servers=ottla_broker.bootstrap_servers) as admin:
        yield admin


@pytest.fixture(scope="module")
def connection(ottla_broker: ottla.Broker) -> Iterator[RawConnection]:
    with RawConnection(ottla_broker.bootstrap_servers) as connection:
        yield connection


@pytest.fixture
def stage(admin: Admin, connection: RawConnection, ottla_topic: str) -> Stage:
    return Stage(admin, connection, ottla_topic)


@pytest.fixture(scope="module")
def three() -> Iterator[ottla.Broker]:
    with ottla.Broker(nodes=3) as broker:
        yield broker


@pytest.fixture
def admin_of_three(three: ottla.Broker) -> Iterator[Admin]:
    with Admin(bootstrap_servers=three.bootstrap_servers) as admin:
        yield admin
