"""The tests of tests/broker/test_node_loss.py over an engine whose reads are late."""

from __future__ import annotations

from tests.broker.test_node_loss import *  # noqa: F403
