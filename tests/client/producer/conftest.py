"""A broker for all tests of the producer, and one with a proxy in front of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.client.producer.meddler import Meddler, meddled_broker

from ottla import Broker


@pytest.fixture(scope="session")
def _meddled() -> Iterator[tuple[Broker, Meddler]]:
    with meddled_broker(**{"num.partitions": 2}) as pair:
        yield pair


@pytest.fixture
def meddler(_meddled: tuple[Broker, Meddler]) -> Iterator[Meddler]:
    """The proxy, which does nothing unless it is told."""
    meddler = _meddled[1]
    yield meddler
    # Requests of this test that come late are not for the next.
    meddler.cut_all()
    meddler.calm()


@pytest.fixture
def servers(meddler: Meddler) -> str:
    """Where producers reach the broker through the proxy."""
    return f"127.0.0.1:{meddler.port}"


@pytest.fixture
def topic(ottla_topic_name: Callable[[], str]) -> str:
    """A topic with a name of its own."""
    return ottla_topic_name()
