"""A broker behind a proxy that sees every request, and certificates."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.client.producer.meddler import Meddler, meddled_broker
from tests.client.security.conftest import certificates

from ottla import Broker

__all__ = ["certificates"]


@pytest.fixture(scope="session")
def _meddled() -> Iterator[tuple[Broker, Meddler]]:
    options = {
        "num.partitions": 2,
        "group.min.session.timeout.ms": 100,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.num.partitions": 1,
    }
    with meddled_broker(**options) as pair:
        yield pair


@pytest.fixture
def meddler(_meddled: tuple[Broker, Meddler]) -> Iterator[Meddler]:
    """The proxy, which does nothing unless it is told."""
    meddler = _meddled[1]
    meddler.calm()
    yield meddler
    meddler.calm()


@pytest.fixture
def servers(meddler: Meddler) -> str:
    """Where clients reach the broker through the proxy."""
    return f"127.0.0.1:{meddler.port}"


@pytest.fixture
def topic(ottla_topic_name: Callable[[], str]) -> str:
    """A topic with a name of its own, which is created when it is first used."""
    return ottla_topic_name()
