"""The pytest plugin: a real broker for the test session, and topic names that nobody else uses.

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
_SAY_HOW_LONG = {"log.retention.ms", "log.retention.minutes", "log.retention.hours"}


@pytest.fixture(scope="session")
def ottla_broker_options() -> dict[str, object]:
    """Options of the session's broker, by Kafka's names; override it in your conftest.py.

    Unless `log.retention.ms`, `minutes` or `hours` is among them, records are kept whatever their timestamps are, in
    topics that say nothing else. By Kafka's defaults, those of a test with dates of last year would be gone five
    minutes after the start.
    """
    return {}


@pytest.fixture(scope="session")
def ottla_broker(ottla_broker_options: dict[str, object]) -> Iterator[Broker]:
    """A broker that runs as long as the test session, on a free port, with its data in a temporary folder."""
    from ottla.broker.embedded import Broker

    options = ottla_broker_options
    if _SAY_HOW_LONG.isdisjoint(options):
        options = {**options, "log.retention.ms": -1}
    with Broker(options) as broker:
        yield broker


@pytest.fixture
def ottla_topic_name(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Makes topic names that are new each time and say which test they are of."""
    test = re.sub(r"[^a-zA-Z0-9-]+", "-", request.node.name).strip("-")[:_NAME_CHARACTERS]
    return lambda: f"{test}-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def ottla_topic(ottla_topic_name: Callable[[], str]) -> str:
    """One such name; the topic is created on first use."""
    return ottla_topic_name()
