"""The tests of tests/broker/test_read_committed.py over an engine whose reads are late."""

from __future__ import annotations

from tests.broker.test_read_committed import *  # noqa: F403

# It fetches once from a partition that is replayed at that moment.
del test_the_list_survives_restarts_of_both_kinds  # noqa: F821
