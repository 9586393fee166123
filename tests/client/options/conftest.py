"""A broker behind a proxy that sees every request, and certificates."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.client.producer.conftest import meddler, servers, topic
from tests.client.producer.meddler import Meddler, meddled_broker
from tests.client.security.conftest import certificates

from ottla import Broker

__all__ = ["certificates", "meddler", "servers", "topic"]


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
