"""The tests of tests/broker/test_fetch.py on shared storage."""

from __future__ import annotations

from tests.broker.test_fetch import *  # noqa: F403

# They restart a broker on its data folder.
del test_a_restart_fences_the_epoch_before_it  # noqa: F821
del test_a_reader_that_followed_another_history_is_told_where_it_diverges  # noqa: F821
