"""The tests of messages of other clients, with nodes that are processes."""

from __future__ import annotations

import pytest
from tests.clients.conftest import MakeDriver
from tests.clients.driver import Driver
from tests.clients.test_messages import (
    test_a_message_comes_back_as_it_was_sent,
    test_every_kind_of_acknowledgement_stores_the_messages,
)

import ottla

__all__ = [
    "test_a_message_comes_back_as_it_was_sent",
    "test_every_kind_of_acknowledgement_stores_the_messages",
]


@pytest.fixture
def client(make_client: MakeDriver, two_workers: ottla.Broker) -> Driver:
    """Each client in turn, which is told the common address of the workers."""
    return make_client(two_workers.bootstrap_servers)
