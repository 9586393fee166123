"""The tests of tests/broker/test_produce.py on shared storage."""

from __future__ import annotations

from tests.broker.test_produce import *  # noqa: F403

# It restarts a broker on its data folder.
del test_batches_bear_the_epoch_of_their_leader_and_their_offsets  # noqa: F821
