"""The tests of tests/broker/test_delete_records.py over an engine whose reads are late."""

from __future__ import annotations

from tests.broker.test_delete_records import *  # noqa: F403
