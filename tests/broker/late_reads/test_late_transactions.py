"""The tests of tests/broker/test_transactions.py over an engine whose reads are late."""

from __future__ import annotations

from tests.broker.test_transactions import *  # noqa: F403

# It fetches once from a partition that may be replayed at that moment.
del test_the_coordinator_may_die_when_the_end_is_prepared  # noqa: F821
