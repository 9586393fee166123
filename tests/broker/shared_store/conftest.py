"""Every broker of this room is on shared storage."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.broker import (
    test_delete_records,
    test_fetch,
    test_produce,
    test_transactions,
)
from tests.broker.shared_store.fake_storage_broker import FakeStorageBroker, create_opened
from tests.lasting import LASTING

import ottla

BODIES = (
    test_delete_records,
    test_fetch,
    test_produce,
    test_transactions,
)


@pytest.fixture(scope="module", autouse=True)
def storage_brokers() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ottla, "Broker", FakeStorageBroker)
        for module in BODIES:
            patch.setattr(module, "create", create_opened)
        yield


@pytest.fixture(scope="module")
def broker(storage_brokers: None) -> Iterator[ottla.Broker]:
    with FakeStorageBroker(LASTING) as running:
        yield running
