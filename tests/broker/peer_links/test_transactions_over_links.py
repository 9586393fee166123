"""The tests of transactions, with three nodes that reach each other over sockets instead of by calls."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.broker.nodes import nodes_of
from tests.broker.peer_links.linked_nodes import LinkedBroker
from tests.broker.test_transactions import *  # noqa: F403
from tests.broker.test_transactions import FAST
from tests.broker.txn_producer import Cluster


@pytest.fixture(scope="module")  # type: ignore[no-redef]
def shared() -> Iterator[LinkedBroker]:
    with LinkedBroker(FAST, nodes=3) as broker:
        yield broker
        assert broker.peers.connections, "the nodes have not used their links"


@pytest.fixture  # type: ignore[no-redef]
def three() -> Iterator[Cluster]:
    with LinkedBroker(FAST, nodes=3) as broker, nodes_of(broker) as nodes:
        yield Cluster(nodes)
