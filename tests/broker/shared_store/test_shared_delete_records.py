"""The tests of tests/broker/test_delete_records.py on shared storage."""

from __future__ import annotations

from tests.broker.test_delete_records import *  # noqa: F403

# It restarts a broker on its data folder.
del test_the_start_survives_a_restart  # noqa: F821
