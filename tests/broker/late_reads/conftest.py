"""Every broker of this room has an engine whose reads are late."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.broker.late_reads.late_broker import (
    LateBroker,
    must_wait_for_engine,
    park_for_engine,
)
from tests.lasting import LASTING

import ottla
from ottla.broker.handlers import fetch
from ottla.broker.partitions import fetch_read


@pytest.fixture(scope="module", autouse=True)
def late_brokers() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ottla, "Broker", LateBroker)
        patch.setattr(fetch, "must_wait", must_wait_for_engine)
        patch.setattr(fetch_read, "park", park_for_engine)
        yield


@pytest.fixture(scope="module")
def broker(late_brokers: None) -> Iterator[ottla.Broker]:
    with LateBroker(LASTING) as running:
        yield running
