"""The tests of tests/broker/test_txn_offset_commit.py over an engine whose reads are late."""

from __future__ import annotations

from tests.broker.test_txn_offset_commit import *  # noqa: F403
