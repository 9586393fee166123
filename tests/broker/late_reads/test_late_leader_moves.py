"""The tests of tests/broker/test_leader_moves.py over an engine whose reads are late."""

from __future__ import annotations

from tests.broker.test_leader_moves import *  # noqa: F403
