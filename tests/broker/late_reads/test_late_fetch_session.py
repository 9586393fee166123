"""The tests of tests/broker/test_fetch_session.py over an engine whose reads are late."""

from __future__ import annotations

from tests.broker.test_fetch_session import *  # noqa: F403
