"""The tests of tests/broker/test_transactions.py on shared storage."""

from __future__ import annotations

from tests.broker.test_transactions import *  # noqa: F403

# They restart a broker on its data folder.
del test_an_unfinished_transaction_of_before_a_restart_times_out  # noqa: F821
del test_producer_ids_are_not_given_out_twice  # noqa: F821
