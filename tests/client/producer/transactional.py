"""Fixtures for tests of transactions: both versions, and producers of one transactional id."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.client.producer.meddler import Meddler

import ottla
import ottla.aio

QUICK: dict[str, Any] = {"retry_backoff_ms": 10, "retry_backoff_max_ms": 20, "linger_ms": 0}
PARTITIONS = 2


def without_features(answer: Any) -> Any:
    answer.finalized_features = []
    return answer


@contextmanager
def max_block_ms(producer: ottla.Producer | ottla.aio.Producer, limit_ms: int) -> Iterator[None]:
    """A short limit for a call that has to time out; the others have time, however slow the machine is."""
    config = producer._config
    before = config.max_block_ms
    object.__setattr__(config, "max_block_ms", limit_ms)  # frozen, and shared by both faces
    try:
        yield
    finally:
        object.__setattr__(config, "max_block_ms", before)


@pytest.fixture(params=[1, 2], ids=["version-1", "version-2"])
def version(request: pytest.FixtureRequest, meddler: Meddler) -> int:
    """The transaction version; a cluster that has not finalized it speaks version 1."""
    number: int = request.param
    if number == 1:
        meddler.on("ApiVersions", edit=without_features, times=1000)
    return number


@pytest.fixture
def make(
    servers: str, ottla_topic_name: Callable[[], str]
) -> Iterator[Callable[..., ottla.Producer]]:
    """Makes producers that are closed at the end; all have one transactional id."""
    producers: list[ottla.Producer] = []
    transactional_id = ottla_topic_name()

    def made(**options: Any) -> ottla.Producer:
        given: dict[str, Any] = {"transactional_id": transactional_id, **QUICK, **options}
        producers.append(ottla.Producer(bootstrap_servers=servers, **given))
        return producers[-1]

    yield made
    for producer in producers:
        producer.close(5)
