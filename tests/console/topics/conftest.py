"""The clusters of the tests of transactions, because topics show what holds them up; a console that looks often."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.console.api_client import ApiClient, looking
from tests.console.serving import serving
from tests.console.transactions.conftest import Cluster, cluster, kafka_jars

from ottla.console.cluster import poller
from ottla.console.transactions import watch

__all__ = ["api", "cluster", "kafka_jars"]


@pytest.fixture(scope="module")
def api(cluster: Cluster) -> Iterator[ApiClient]:
    """The API of a console; tests wait for its next look at the cluster, and there is no reason to wait for long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(poller, "WATCHED_SECONDS", 0.3)
        patch.setattr(watch, "SEARCH_SECONDS", 0.3)
        patch.setattr(watch, "STANDING_MS", 500)
        with serving(cluster.servers) as console, looking(console.url) as client:
            yield client
