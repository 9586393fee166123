"""The tests of what nodes answer that are not asked for their own, with nodes that reach each other over sockets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.broker.nodes import nodes_of
from tests.broker.peer_links.linked_nodes import LinkedBroker
from tests.broker.requests import create
from tests.broker.test_transactions_at_the_wrong_node import *  # noqa: F403
from tests.broker.test_transactions_at_the_wrong_node import GROUP, TOPIC
from tests.broker.txn_producer import Cluster


@pytest.fixture  # type: ignore[no-redef]
def cluster() -> Iterator[Cluster]:
    with LinkedBroker(nodes=3) as broker, nodes_of(broker) as nodes:
        create(nodes.any, TOPIC, 3)
        made = Cluster(nodes)
        made.of_group(GROUP)
        yield made
