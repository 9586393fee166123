"""The tests of tests/broker/test_list_offsets.py over an engine whose reads are late."""

from __future__ import annotations

from tests.broker.test_list_offsets import *  # noqa: F403
