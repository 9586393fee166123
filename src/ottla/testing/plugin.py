"""The pytest plugin: a real broker for the test session, and unique topic names.

    def test_my_program(ottla_broker, ottla_topic):
        run(bootstrap_servers=ottla_broker.bootstrap_servers, topic=ottla_topic)

Under pytest-xdist every worker has a broker of its own.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ottla.broker.embedded import Broker

_NAME_CHARACTERS = 100
_RETENTION_OPTIONS = {"log.retention.ms", "log.retention.minutes", "log.retention.hours"}


@pytest.fixture(scope="session")
def ottla_broker_options() -> dict[str, object]:
    """Options of the session's broker, by Kafka's names; override it in your conftest.py.

    Unless they contain `log.retention.ms`, `minutes` or `hours`, the broker keeps records whatever their timestamps
    are: with Kafka's default, records of a test with dates of last year would be deleted five minutes after the
    start. Options of a topic still apply.
    """
    return {}


@pytest.fixture(scope="session")
def ottla_broker(ottla_broker_options: dict[str, object]) -> Iterator[Broker]:
    """A broker for the whole test session, on a free port, with its data in a temporary folder."""
    from ottla.broker.embedded import Broker

    options = ottla_broker_options
    if _RETENTION_OPTIONS.isdisjoint(options):
        options = {**options, "log.retention.ms": -1}
    with Broker(options) as broker:
        yield broker


@pytest.fixture
def ottla_topic_name(request: pytest.FixtureRequest) -> Callable[[], str]:
    """A function that returns new topic names, which contain the name of the test."""
    test = re.sub(r"[^a-zA-Z0-9-]+", "-", request.node.name).strip("-")[:_NAME_CHARACTERS]
    return lambda: f"{test}-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def ottla_topic(ottla_topic_name: Callable[[], str]) -> str:
    """A new topic name; the topic is created on first use."""
    return ottla_topic_name()
