"""The tests of tests/broker/test_retention.py over an engine whose reads are late."""

from __future__ import annotations

from tests.broker.test_retention import *  # noqa: F403
