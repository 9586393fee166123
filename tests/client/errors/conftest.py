"""A broker without topics of its own making, behind a proxy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.client.options.conftest import meddler, servers
from tests.client.producer.meddler import Meddler, meddled_broker

import ottla
from ottla import Broker

__all__ = ["meddler", "servers"]


@pytest.fixture(scope="session")
def _meddled() -> Iterator[tuple[Broker, Meddler]]:
    options = {"auto.create.topics.enable": False, "offsets.topic.num.partitions": 1}
    with meddled_broker(**options) as (broker, meddler):
        with ottla.Admin(bootstrap_servers=f"127.0.0.1:{meddler.port}") as admin:
            small = {"max.message.bytes": "1000"}
            admin.create_topics(
                [ottla.admin.NewTopic("t", 1), ottla.admin.NewTopic("small", 1, configs=small)]
            )
        yield broker, meddler
