"""The tests of tests/broker/test_group_restart.py over an engine whose reads are late."""

from __future__ import annotations

from tests.broker.test_group_restart import *  # noqa: F403
