"""The tests of tests/broker/test_compaction_running.py over an engine whose reads are late."""

from __future__ import annotations

from tests.broker.test_compaction_running import *  # noqa: F403
