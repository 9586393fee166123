"""A cluster, and a console that looks at it: ours with its internals, and in a campaign Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.apache_kafka.conftest import kafka_jars
from tests.apache_kafka.programs import running_kafka
from tests.console.api_client import ApiClient, looking
from tests.console.quick_polls import quick_polls
from tests.console.serving import serving
from tests.lasting import LASTING

import ottla

__all__ = ["kafka_jars"]


class Looked(NamedTuple):
    """A cluster as a console sees it."""

    servers: str
    api: ApiClient


@contextmanager
def looked_at_ottla() -> Iterator[Looked]:
    """A broker that tells its internals."""
    with (
        ottla.Broker(LASTING, metrics="127.0.0.1:0") as broker,
        serving(
            broker.bootstrap_servers, internals_url=broker.metrics_url.removesuffix("/metrics")
        ) as console,
        looking(console.url) as api,
    ):
        yield Looked(broker.bootstrap_servers, api)


@pytest.fixture(scope="module", params=["ottla", pytest.param("kafka", marks=pytest.mark.campaign)])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Looked]:
    with quick_polls():
        if request.param == "ottla":
            with looked_at_ottla() as looked:
                yield looked
            return
        jars: Path = request.getfixturevalue("kafka_jars")
        with (
            running_kafka(jars, tmp_path_factory.mktemp("kafka"), {}) as address,
            serving(address) as console,
            looking(console.url) as api,
        ):
            yield Looked(address, api)


@pytest.fixture
def api(cluster: Looked) -> ApiClient:
    return cluster.api
