"""A broker of two processes, for the bodies of tests that other brokers have as well."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.clients.conftest import TRANSACTION_OPTIONS, MakeTransactional
from tests.clients.driver import TransactionalDriver

import ottla


@pytest.fixture(scope="session")
def two_workers() -> Iterator[ottla.Broker]:
    with ottla.Broker(TRANSACTION_OPTIONS, workers=2) as broker:
        yield broker


@pytest.fixture
def transactional_client(
    make_transactional: MakeTransactional, two_workers: ottla.Broker
) -> TransactionalDriver:
    """Each client that has transactions in turn."""
    addresses = (two_workers.address_of(node_id) for node_id in two_workers.node_ids)
    return make_transactional(",".join(addresses))
